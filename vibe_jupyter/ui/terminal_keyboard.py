"""Single-key input in terminals."""

import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from vibe_jupyter.ui.terminal_style import Ink, TerminalStyle


class TerminalKeyboard:
    """Single-key input with prompt_toolkit."""

    def __init__(self, paper: TerminalStyle) -> None:
        self._paper = paper

    def choose(self, question: str, words: Mapping[str, str]) -> str:
        """Wait for one of these keys and return it, leaving its label after the question. Main thread.

        Raises:
            KeyboardInterrupt: Ctrl+C; the process's signal handler runs as well.
            EOFError: Ctrl+D, or the terminal was closed.
        """
        binding = importlib.import_module("prompt_toolkit.key_binding").KeyBindings()

        def ignored(_event: Any) -> None:
            pass

        for key in ("<any>", "enter", "<bracketed-paste>", "up", "down", "c-r", "c-s", "tab"):
            binding.add(key)(ignored)
        for key, word in words.items():
            for each in {key, key.upper()}:
                binding.add(each, eager=True)(_key_answer(key, word))
        _forget_typed()
        # Discard again just before drawing, so that keys typed in between can't answer a question the user hasn't seen.
        return str(_ask_key(self._painted_text(question, "strong"), before_drawn=_forget_typed, key_bindings=binding))

    def edit(self, text: str) -> str:
        """Let the user edit the text and return the result. Main thread.

        Raises:
            KeyboardInterrupt: Ctrl+C, as for `choose`.
            EOFError: Ctrl+D on an empty text, or the terminal was closed.
        """
        return str(_ask_key("", default=text, multiline=True))

    def _painted_text(self, text: str, ink: Ink) -> Any:
        return importlib.import_module("prompt_toolkit.formatted_text").ANSI(self._paper.ink(ink, text))


def keyboard_of(paper: TerminalStyle) -> TerminalKeyboard | None:
    """Return the terminal's keyboard, or None if it can't deliver single keys. Main thread."""
    if paper.width is None or not sys.stdin.isatty():
        return None
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return None  # a cell with `await` runs inside a loop, and prompt_toolkit would start a second one
    return TerminalKeyboard(paper)


def _key_answer(key: str, word: str) -> Any:
    def chosen(event: Any) -> None:
        event.app.current_buffer.text = word
        event.app.exit(result=key)

    return chosen


def _ask_key(message: object, *, before_drawn: Callable[[], None] | None = None, **options: Any) -> Any:
    session = importlib.import_module("prompt_toolkit").PromptSession()

    def draw(_app: object) -> None:
        session.app.before_render -= draw
        if before_drawn is not None:
            before_drawn()

    session.app.before_render += draw
    try:
        return session.prompt(message, **options)
    except KeyboardInterrupt:
        # prompt_toolkit consumed Ctrl+C as a key or replaced the signal handler: raise the signal for that handler too.
        signal.raise_signal(signal.SIGINT)
        raise


def _forget_typed() -> None:
    """Discard keys typed before the question was displayed."""
    typed: Any = importlib.import_module("prompt_toolkit.input.typeahead")
    create: Any = importlib.import_module("prompt_toolkit.input.defaults").create_input
    typed.clear_typeahead(create())
    with contextlib.suppress(ImportError, OSError):
        termios: Any = importlib.import_module("termios")  # not on Windows
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
