"""Approvals and questions on a text prompt: the same content and the same answers as on the card.

Keys count only from the moment the question is on the screen: what was typed ahead decides nothing.
"""

import asyncio
import contextlib
import importlib
import os
import shutil
import signal
import sys
import textwrap
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol, TextIO

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import (
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Command,
    DecidedBy,
    Event,
    Preview,
    QuestionAnswered,
    QuestionAsked,
    Reject,
)
from vibe_jupyter.tools.confusables import without_lookalikes
from vibe_jupyter.ui.cards import ask_questions, card_hints, card_title, editable_argument, size_note
from vibe_jupyter.ui.code import Kind, code_tokens
from vibe_jupyter.ui.front_end import CallOnMainThread, Send
from vibe_jupyter.ui.text import escape_hidden, fold_blanks, one_line, readable_text

Ink = Literal["k", "s", "m", "c", "ok", "bad", "warn", "quiet", "strong"]
"""The kinds of code, and what colours mean elsewhere."""

NARROWEST = 20
"""Columns of the narrowest terminal that text is fitted to."""
_TAB = 8  # columns
_INKS: Mapping[Ink, str] = {
    # From the sixteen colours that the user's own theme defines, so both light and dark ones keep their contrast.
    "k": "35",
    "s": "32",
    "m": "36",
    "c": "2",
    "ok": "32",
    "bad": "31",
    "warn": "33",
    "quiet": "2",
    "strong": "1",
}
_DIFF: Mapping[str, Ink] = {"+": "ok", "-": "bad", "@": "quiet"}


@dataclass(frozen=True)
class TerminalStyle:
    """How text is put on a screen of lines."""

    colours: bool = False
    width: int | None = None
    """Columns; None where lines are as long as they are, such as in a notebook's text prompt."""

    def ink(self, kind: Ink | None, text: str) -> str:
        """The text in a colour. It must hold no line end."""
        return f"\x1b[{_INKS[kind]}m{text}\x1b[0m" if self.colours and kind and text else text

    def fit(self, text: str) -> str:
        """One line, cut at its end with ``…`` where it is longer than the screen is wide."""
        if self.width is None or text_columns(text) <= self.width:
            return text
        pieces = next(_cut_line([(None, text)], self.width - 1))
        return "".join(piece for _, piece in pieces).rstrip() + "…"

    def fill(self, text: str) -> str:
        """Words in lines that are no longer than the screen is wide."""
        return text if self.width is None else textwrap.fill(text, self.width)

    def numbered(self, preview: Preview) -> str:
        """All of it: each line with its number, and no line longer than the screen is wide."""
        lines = list(self._preview_lines(preview))
        gutter = len(str(len(lines))) + 4
        return "".join(self._numbered_line(number, line, gutter) for number, line in enumerate(lines, 1))

    def _numbered_line(self, number: int, line: list[tuple[Ink | None, str]], gutter: int) -> str:
        rows = [line] if self.width is None else _cut_line(line, max(self.width - gutter, NARROWEST))
        out: list[str] = []
        for at, row in enumerate(rows):
            head = f"  {number:>{gutter - 4}}  " if at == 0 else "↳ ".rjust(gutter)
            out.append(self.ink("quiet", head) + "".join(self.ink(kind, text) for kind, text in row) + "\n")
        return "".join(out)

    def _preview_lines(self, preview: Preview) -> Iterator[list[tuple[Ink | None, str]]]:
        text = fold_blanks(escape_hidden(preview.text))
        if self.width is not None:
            text = text.expandtabs(_TAB)
        if preview.kind == "diff" or not self.colours:
            for line in text.split("\n"):
                yield [(_DIFF.get(line[:1]) if preview.kind == "diff" else None, line)]
            return
        language = preview.language or ("bash" if preview.kind == "command" else "")
        yield from _by_line(code_tokens(text, language))


PLAIN = TerminalStyle()
"""A text prompt that knows nothing of its screen."""


def terminal_style(
    stream: TextIO, environment: Mapping[str, str] = os.environ, *, colours: bool = True
) -> TerminalStyle:
    """What this stream can show: a terminal's width; colours unless somebody said no (https://no-color.org)."""
    if not stream.isatty():
        return PLAIN
    width = max(shutil.get_terminal_size().columns, NARROWEST)
    wanted = colours and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    return TerminalStyle(colours=wanted, width=width)


def text_columns(text: str) -> int:
    """Columns that a text takes; wide characters take two."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(one: str) -> int:
    if unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in ("W", "F") else 1


def _by_line(pieces: Iterator[tuple[Kind | None, str]]) -> Iterator[list[tuple[Ink | None, str]]]:
    line: list[tuple[Ink | None, str]] = []
    for kind, text in pieces:
        first, *rest = text.split("\n")
        line.append((kind, first))
        for piece in rest:
            yield line
            line = [(kind, piece)]
    yield line


def _cut_line(line: list[tuple[Ink | None, str]], width: int) -> Iterator[list[tuple[Ink | None, str]]]:
    """The line as rows of at most `width` columns; at least one row, and nothing is lost."""
    row: list[tuple[Ink | None, str]] = []
    room = width
    for kind, text in line:
        start = 0
        for at, one in enumerate(text):
            needs = _character_width(one)
            if needs > room:
                yield [*row, (kind, text[start:at])]
                row, room, start = [], width, at
            room -= needs
        row.append((kind, text[start:]))
    yield row


EDIT_HINT = "Edit it in place. Press Esc, then Enter, when you are done."

MAX_QUESTIONS = 20
"""Answers that are none of the choices, until silence counts as no."""
MAX_EMPTY = 3
"""Empty answers in a row until they count as no: VS Code answers so when its box is closed with Esc."""
EDIT_END = "."
"""A line of its own that ends an edit."""

NOBODY_READS = "nobody can answer: the text prompt is closed"
NO_CLEAR_ANSWER = "no clear answer was given"

_ONCE = ("a", "allow", "once", "y", "yes")
_SESSION = ("s", "session")
_PROJECT = ("p", "project")
_EDIT = ("e", "edit")
_DENY = ("d", "deny", "n", "no")
_KEYS: Mapping[str, str] = MappingProxyType({"d": "deny", "n": "deny", "a": "allow once", "y": "allow once"})
"""Keys that are always there, and what they leave on the screen."""

NOBODY_CAN_ANSWER = "non-interactive session"


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
        return str(_ask_key(self._painted_text(question, "strong"), key_bindings=binding))

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


def _ask_key(message: object, **options: Any) -> Any:
    session = importlib.import_module("prompt_toolkit").PromptSession()
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


class TextPrompt:
    """Asks on the main thread, which waits as long as the user does."""

    def __init__(
        self,
        call_main: CallOnMainThread,
        read_line: Callable[[str], str],
        write: Callable[[str], None],
        *,
        is_typed: Callable[[], bool],
        keyboard: Keyboard | None = None,
        paper: TerminalStyle = PLAIN,
    ) -> None:
        """
        Args:
            call_main: runs a function on the main thread.
            read_line: asks for a line.
            write: prints.
            is_typed: whether `read_line` still reads what is typed; code may have put another `input` in its place.
            keyboard: reads single keys; None where answers are lines.
            paper: colours and width.
        """
        self._call_main = call_main
        self._read_line = read_line
        self._write = write
        self._is_typed = is_typed
        self._keyboard = keyboard
        """None where answers are lines."""
        self._paper = paper

    async def ask(self, request: ApprovalRequested | QuestionAsked) -> tuple[Command, DecidedBy]:
        """The decision or the answers, and where they came from; a rejection, or none, where nobody can give one.

        Raises:
            NotebookError: the user interrupted, or the cell is over.
        """
        if isinstance(request, QuestionAsked):
            return await self._call_main(lambda: self._ask_questions(request))
        return await self._call_main(lambda: self._ask_approval(request))

    def _ask_questions(self, asked: QuestionAsked) -> tuple[Command, DecidedBy]:
        try:
            return ask_questions(asked, self._read_line, self._write), self._by()
        except (EOFError, NotImplementedError):
            return Answer(question_id=asked.question_id, answers=None), "nobody"

    def _ask_approval(self, request: ApprovalRequested) -> tuple[Command, DecidedBy]:
        try:
            self._write(_shown_card(request, self._paper))
            return self._choose_answer(request), self._by()
        except (EOFError, NotImplementedError):  # a closed prompt, and IPython's word for a front end without one
            return Reject(approval_id=request.approval_id, message=NOBODY_READS), "nobody"

    def _by(self) -> DecidedBy:
        return "person" if self._is_typed() else "code"

    def _choose_answer(self, request: ApprovalRequested) -> Command:
        edited: str | None = None
        empty = 0
        for _ in range(MAX_QUESTIONS):
            answer = self._read_answer(request, edited)
            empty = 0 if answer else empty + 1
            if empty == MAX_EMPTY:
                break
            word = answer.split(" ", 1)[0].lower()
            if word in _ONCE:
                return Approve(approval_id=request.approval_id, edited=edited)
            if word in _SESSION and request.remember_as is not None:
                return Approve(approval_id=request.approval_id, remember="session", edited=edited)
            if word in _PROJECT and request.keepable:
                return Approve(approval_id=request.approval_id, remember="project", edited=edited)
            if word in _DENY:
                return self._read_denial(request, answer[len(word) :].strip())
            if word in _EDIT and request.preview.edits is not None:
                edited = self._edit_argument(request, edited)
                shown = request.preview if edited is None else request.preview.model_copy(update={"text": edited})
                self._write(self._paper.numbered(shown))
        return Reject(approval_id=request.approval_id, message=NO_CLEAR_ANSWER)

    def _read_answer(self, request: ApprovalRequested, edited: str | None) -> str:
        question = _question_line(request, edited, self._paper.width)
        if self._keyboard is None:
            return self._read_line(question).strip()
        keys = dict(_KEYS)
        keys |= {"s": "allow for this session"} if request.remember_as is not None else {}
        keys |= {"p": "allow in this project"} if request.keepable else {}
        keys |= {"e": "edit"} if request.preview.edits is not None else {}
        return self._keyboard.choose(question, keys)

    def _read_denial(self, request: ApprovalRequested, message: str) -> Command:
        words = message or self._read_line("Tell the agent why (optional): ").strip()
        return Reject(approval_id=request.approval_id, message=words)

    def _edit_argument(self, request: ApprovalRequested, edited: str | None) -> str | None:
        """New content; what there was where nothing new came."""
        if self._keyboard is None:
            return self._read_lines() or edited
        before = edited if edited is not None else editable_argument(request) or ""
        self._write(f"{EDIT_HINT}\n")
        after = self._keyboard.edit(before)
        return edited if not after.strip() or after == before else after

    def _read_lines(self) -> str:
        """New content, line by line; empty when there is none."""
        self._write(f"Type the new text. A line with only '{EDIT_END}' ends it.\n")
        lines: list[str] = []
        while (line := self._read_line("| ")) != EDIT_END:
            lines.append(line)
        return "\n".join(lines)


def _shown_card(request: ApprovalRequested, paper: TerminalStyle) -> str:
    """Everything the card shows."""
    note = " · ".join(filter(None, (one_line(request.headline.note), one_line(request.preview.note))))
    head = readable_text(card_title(request) + (f": {note}" if note else ""))
    reason = readable_text(one_line(request.reason))
    size = size_note(request.preview)
    about = f"({reason}{', ' if reason and size else ''}{size})" if reason or size else ""
    lines = [*_painted_lines("strong", head, paper), *_painted_lines("quiet", about, paper)]
    words = [line for hint in card_hints(request) for line in _painted_lines("warn", hint, paper)]
    return "\n" + "".join(lines) + paper.numbered(without_lookalikes(request.preview)) + "".join(words)


def _painted_lines(ink: Ink, text: str, paper: TerminalStyle) -> list[str]:
    return [f"{paper.ink(ink, line)}\n" for line in paper.fill(text).split("\n") if line]


def _question_line(request: ApprovalRequested, edited: str | None, width: int | None) -> str:
    choices = [f"[a] {request.allow[:1].lower()}{request.allow[1:]}" + ("" if edited is None else " (edited)")]
    choices += ["[s] allow for this session"] if request.remember_as is not None else []
    choices += ["[p] allow in this project"] if request.keepable else []
    choices += ["[e] edit"] if request.preview.edits is not None else []
    question = "  ".join([*choices, "[d] deny"]) + ": "
    return question if width is None or len(question) < width else question.replace("  ", "\n")


class PromptTasks:
    """One task for each open question."""

    def __init__(self, prompt: TextPrompt | None, *, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self._prompt = prompt
        """None where there is no text prompt: everything is rejected."""
        self._before = before
        """Shows what led to the question: the main thread shows nothing while it waits for a line."""
        self._open: dict[str, asyncio.Task[None]] = {}
        """By id of the approval or the question."""

    def take(self, event: Event, send: Send | None) -> None:
        """Put the question of this event, or take back the one it settles. On the loop."""
        match event:
            case ApprovalRequested() if send is not None:
                self._open[event.approval_id] = asyncio.create_task(self._ask_prompt(event, send))
            case QuestionAsked() if send is not None:
                self._open[event.question_id] = asyncio.create_task(self._ask_prompt(event, send))
            case ApprovalResolved():
                self._take_back(event.approval_id)
            case QuestionAnswered():
                self._take_back(event.question_id)
            case _:
                pass

    def _take_back(self, asked: str) -> None:
        task = self._open.pop(asked, None)
        if task is not None:
            task.cancel()  # not yet asked: it never will be; an answer that is being typed is ignored

    async def _ask_prompt(self, request: ApprovalRequested | QuestionAsked, send: Send) -> None:
        if self._prompt is None:
            send(rejection(request), by="nobody")
            return
        with contextlib.suppress(NotebookError):  # interrupted, or the cell is over: whoever did it informs the run
            if self._before is not None:
                await self._before()
            command, by = await self._prompt.ask(request)
            send(command, by=by)


def rejection(request: ApprovalRequested | QuestionAsked) -> Reject | Answer:
    """What a front end says for somebody who is not there."""
    if isinstance(request, QuestionAsked):
        return Answer(question_id=request.question_id, answers=None)
    return Reject(approval_id=request.approval_id, message=NOBODY_CAN_ANSWER)
