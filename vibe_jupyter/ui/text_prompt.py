"""Approvals and questions on a text prompt, with the same content and answers as the cards.

Keys only count once the question is displayed, so that type-ahead can't decide anything.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import (
    ALLOW_ONCE,
    Answer,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Command,
    DecidedBy,
    Event,
    QuestionAnswered,
    QuestionAsked,
    Reject,
)
from vibe_jupyter.tools.confusables import without_lookalikes
from vibe_jupyter.ui.cards import ask_questions, card_hints, card_title, editable_argument, effect_lines, size_note
from vibe_jupyter.ui.front_end import CallOnMainThread, Send
from vibe_jupyter.ui.terminal_keyboard import TerminalKeyboard
from vibe_jupyter.ui.terminal_style import PLAIN, Ink, TerminalStyle
from vibe_jupyter.ui.text import one_line, readable_text

EDIT_HINT = "Edit it in place. Press Esc, then Enter, when you are done."

MAX_QUESTIONS = 20  # unclear answers before giving up and denying
MAX_EMPTY = 3  # empty answers in a row that count as no; VS Code sends one when its input box is closed with Esc
EDIT_END = "."  # a line that ends an edit

NOBODY_READS = "nobody can answer: the text prompt is closed"
NO_CLEAR_ANSWER = "no clear answer was given"

_ONCE = ("a", "allow", "once", "y", "yes")
_SESSION = ("s", "session")
_PROJECT = ("p", "project")
_EDIT = ("e", "edit")
_DENY = ("d", "deny", "n", "no")
# Keys that are always available, with the label each leaves on the screen.
_KEYS: Mapping[str, str] = MappingProxyType({"d": "deny", "n": "deny", "a": "allow once", "y": "allow once"})

NOBODY_CAN_ANSWER = "non-interactive session"


class TextPrompt:
    """Text prompt of the main thread, which blocks while waiting for the user."""

    def __init__(
        self,
        call_main: CallOnMainThread,
        read_line: Callable[[str], str],
        write: Callable[[str], None],
        *,
        is_typed: Callable[[], bool],
        keyboard: TerminalKeyboard | None = None,
        paper: TerminalStyle = PLAIN,
    ) -> None:
        """
        Args:
            call_main: Runs a function on the main thread.
            read_line: Asks for a line.
            write: Prints.
            is_typed: Whether `read_line` still reads typed text; code may have replaced `input`.
            keyboard: Reads single keys; None if answers are lines.
            paper: Colors and width.
        """
        self._call_main = call_main
        self._read_line = read_line
        self._write = write
        self._is_typed = is_typed
        self._keyboard = keyboard  # None if answers are lines
        self._paper = paper

    async def ask(self, request: ApprovalRequested | QuestionAsked) -> tuple[Command, DecidedBy]:
        """Ask, and return the resulting command with its origin. Rejects if no user can answer.

        Raises:
            NotebookError: The user interrupted, or the cell has finished.
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
        except (EOFError, NotImplementedError):  # the prompt is closed, or IPython reports a front end without stdin
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
        has_agent = request.allow == ALLOW_ONCE  # no agent waits for a reason for our own requests, such as trust
        words = message or (self._read_line("Tell the agent why (optional): ").strip() if has_agent else "")
        return Reject(approval_id=request.approval_id, message=words)

    def _edit_argument(self, request: ApprovalRequested, edited: str | None) -> str | None:
        """Return the edited content, or the previous one if it is empty or unchanged."""
        if self._keyboard is None:
            return self._read_lines() or edited
        before = edited if edited is not None else editable_argument(request) or ""
        self._write(f"{EDIT_HINT}\n")
        after = self._keyboard.edit(before)
        return edited if not after.strip() or after == before else after

    def _read_lines(self) -> str:
        """Read new content line by line. Returns "" if there is none."""
        self._write(f"Type the new text. A line with only '{EDIT_END}' ends it.\n")
        lines: list[str] = []
        while (line := self._read_line("| ")) != EDIT_END:
            lines.append(line)
        return "\n".join(lines)


def _shown_card(request: ApprovalRequested, paper: TerminalStyle) -> str:
    """Render the whole card as text."""
    note = " · ".join(filter(None, (one_line(request.headline.note), one_line(request.preview.note))))
    head = readable_text(card_title(request) + (f": {note}" if note else ""))
    reason = readable_text(one_line(request.reason))
    size = size_note(request.preview)
    about = f"({reason}{', ' if reason and size else ''}{size})" if reason or size else ""
    lines = [*_painted_lines("strong", head, paper), *_painted_lines("quiet", about, paper)]
    words = [line for hint in card_hints(request) for line in _painted_lines("warn", hint, paper)]
    shown = paper.numbered(without_lookalikes(request.preview))
    effects = [line for text in effect_lines(request) for line in _painted_lines("quiet", readable_text(text), paper)]
    return "\n" + "".join(lines) + shown + "".join(effects) + "".join(words)


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
    """Tasks that ask the open questions, one each."""

    def __init__(self, prompt: TextPrompt | None, *, before: Callable[[], Awaitable[None]] | None = None) -> None:
        self._prompt = prompt  # None if there is no text prompt; everything is rejected then
        # Shows what led to the question first, since the main thread can't display while it waits for a line.
        self._before = before
        self._open: dict[str, asyncio.Task[None]] = {}  # by id of the approval or question

    def take(self, event: Event, send: Send | None) -> None:
        """Start asking for an event's decision, or cancel the question it settles. On the loop."""
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
            task.cancel()  # a question not asked yet never will be; an answer being typed is ignored

    async def _ask_prompt(self, request: ApprovalRequested | QuestionAsked, send: Send) -> None:
        if self._prompt is None:
            send(rejection(request), by="nobody")
            return
        with contextlib.suppress(NotebookError):  # interrupted or finished; whoever did it informs the run
            if self._before is not None:
                await self._before()
            command, by = await self._prompt.ask(request)
            send(command, by=by)


def rejection(request: ApprovalRequested | QuestionAsked) -> Reject | Answer:
    """Return the reply used when no user can answer."""
    if isinstance(request, QuestionAsked):
        return Answer(question_id=request.question_id, answers=None)
    return Reject(approval_id=request.approval_id, message=NOBODY_CAN_ANSWER)
