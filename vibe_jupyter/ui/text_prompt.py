"""Approvals and questions on a text prompt: the same content and the same answers as on the card.

Keys count only from the moment the question is on the screen: what was typed ahead decides nothing.
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
from vibe_jupyter.ui.terminal_keyboard import Keyboard
from vibe_jupyter.ui.terminal_style import PLAIN, Ink, TerminalStyle
from vibe_jupyter.ui.text import one_line, readable_text

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
        has_agent = request.allow == ALLOW_ONCE  # no agent waits for what we ask ourselves, such as trust
        words = message or (self._read_line("Tell the agent why (optional): ").strip() if has_agent else "")
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
