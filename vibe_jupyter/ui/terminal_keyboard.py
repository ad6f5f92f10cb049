"""Single keys of a terminal, where answers need no line."""

import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from vibe_jupyter.ui.terminal_style import Ink, TerminalStyle


class Keyboard(Protocol):
    """Answers without a line."""

    def choose(self, question: str, words: Mapping[str, str]) -> str:
        """The first of these keys that is pressed; its word is left behind the question. Main thread."""
        ...

    def edit(self, text: str) -> str:
        """The text as the user leaves it. Main thread."""
        ...


class TerminalKeyboard:
    """The keys of a real terminal."""

    def __init__(self, paper: TerminalStyle) -> None:
        self._paper = paper

    def choose(self, question: str, words: Mapping[str, str]) -> str:
        """The first of these keys that is pressed.

        Raises:
            KeyboardInterrupt: Ctrl+C, which also reaches whoever handles the signal.
            EOFError: Ctrl+D, or the terminal is gone.
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
        # Once more right before it is drawn: whoever types on meanwhile answers nothing that is not there.
        return str(_ask_key(self._painted_text(question, "strong"), before_drawn=_forget_typed, key_bindings=binding))

    def edit(self, text: str) -> str:
        """The text as the user leaves it.

        Raises:
            KeyboardInterrupt: Ctrl+C, as above.
            EOFError: Ctrl+D on an empty text, or the terminal is gone.
        """
        return str(_ask_key("", default=text, multiline=True))

    def _painted_text(self, text: str, ink: Ink) -> Any:
        return importlib.import_module("prompt_toolkit.formatted_text").ANSI(self._paper.ink(ink, text))


def keyboard_of(paper: TerminalStyle) -> TerminalKeyboard | None:
    """The keyboard of a terminal; None where it cannot give single keys. Main thread."""
    if paper.width is None or not sys.stdin.isatty():
        return None
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        return None  # a cell with `await` runs in a loop, and prompt_toolkit would start a second one
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
        # prompt_toolkit took it as a key, or in place of the handler that stood here before: tell that one too.
        signal.raise_signal(signal.SIGINT)
        raise


def _forget_typed() -> None:
    """Drop what was typed before the question was there."""
    typed: Any = importlib.import_module("prompt_toolkit.input.typeahead")
    create: Any = importlib.import_module("prompt_toolkit.input.defaults").create_input
    typed.clear_typeahead(create())
    with contextlib.suppress(ImportError, OSError):
        termios: Any = importlib.import_module("termios")  # not on Windows
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
