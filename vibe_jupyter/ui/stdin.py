"""An approval as a text prompt: the same content and the same answers as on the card."""

from collections.abc import Callable

from vibe_jupyter.protocol import ApprovalRequested, Approve, Command, Reject
from vibe_jupyter.ui.card import hints, size_note, title
from vibe_jupyter.ui.front_end import CallMain
from vibe_jupyter.ui.text import escape_hidden, fold_blanks, one_line, readable

MAX_QUESTIONS = 20
"""Answers that are none of the choices, until silence counts as no."""
EDIT_END = "."
"""A line of its own that ends an edit."""

NOBODY_READS = "nobody can answer: the text prompt is closed"
NO_CLEAR_ANSWER = "no clear answer was given"

_ONCE = ("a", "allow", "once", "y", "yes")
_SESSION = ("s", "session")
_EDIT = ("e", "edit")
_DENY = ("d", "deny", "n", "no")


class TextPrompt:
    """Asks on the main thread, which waits as long as the person does."""

    def __init__(self, call_main: CallMain, read_line: Callable[[str], str], write: Callable[[str], None]) -> None:
        self._call_main = call_main
        self._read_line = read_line
        self._write = write

    async def ask(self, request: ApprovalRequested) -> Command:
        """The person's decision; a rejection where nobody can give one.

        Raises:
            NotebookError: the person interrupted, or the cell is over.
        """
        return await self._call_main(lambda: self._converse(request))

    def _converse(self, request: ApprovalRequested) -> Command:
        try:
            self._write(_shown(request))
            return self._choose(request)
        except (EOFError, NotImplementedError):  # a closed prompt, and IPython's word for a front end without one
            return Reject(approval_id=request.approval_id, message=NOBODY_READS)

    def _choose(self, request: ApprovalRequested) -> Command:
        edited: str | None = None
        for _ in range(MAX_QUESTIONS):
            answer = self._read_line(_question(request, edited)).strip()
            word = answer.split(" ", 1)[0].lower()
            if word in _ONCE:
                return Approve(approval_id=request.approval_id, edited=edited)
            if word in _SESSION and request.remember_as is not None:
                return Approve(approval_id=request.approval_id, remember="session", edited=edited)
            if word in _DENY:
                return self._denial(request, answer[len(word) :].strip())
            if word in _EDIT and request.preview.edits is not None:
                edited = self._edit() or edited
                self._write(_numbered(edited or request.preview.text))
        return Reject(approval_id=request.approval_id, message=NO_CLEAR_ANSWER)

    def _denial(self, request: ApprovalRequested, message: str) -> Command:
        words = message or self._read_line("Tell the agent why (optional): ").strip()
        return Reject(approval_id=request.approval_id, message=words)

    def _edit(self) -> str:
        """New content, line by line; empty when there is none."""
        self._write(f"Type the new text. A line with only '{EDIT_END}' ends it.\n")
        lines: list[str] = []
        while (line := self._read_line("| ")) != EDIT_END:
            lines.append(line)
        return "\n".join(lines)


def _shown(request: ApprovalRequested) -> str:
    """Everything the card shows."""
    note = one_line(request.headline.note)
    head = readable(title(request) + (f": {note}" if note else ""))
    reason = readable(one_line(request.reason))
    size = size_note(request.preview)
    lines = [f"\n{head}", f"({reason}{', ' if reason and size else ''}{size})" if reason or size else ""]
    words = "\n".join(hints(request))
    return "\n".join(line for line in (*lines, _numbered(request.preview.text) + words) if line) + "\n"


def _numbered(text: str) -> str:
    lines = fold_blanks(escape_hidden(text)).split("\n")
    width = len(str(len(lines)))
    return "".join(f"  {number:>{width}}  {line}\n" for number, line in enumerate(lines, 1))


def _question(request: ApprovalRequested, edited: str | None) -> str:
    choices = ["[a] allow once" + ("" if edited is None else " (edited)")]
    choices += ["[s] allow for this session"] if request.remember_as is not None else []
    choices += ["[e] edit"] if request.preview.edits is not None else []
    return "  ".join([*choices, "[d] deny"]) + ": "
