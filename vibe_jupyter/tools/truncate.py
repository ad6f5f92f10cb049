"""Long text cut to what a model can use: its beginning and its end, with a line between that says what is missing."""

from typing import Final

RESULT_LIMIT: Final = 8_000
"""Characters of one tool result (about 2,000 tokens)."""
LINE_LIMIT: Final = 1_000
"""Characters of one line shown whole; longer ones are minified files or data."""
_MARK_ROOM: Final = 80
"""Characters kept free for the line in the middle."""
_SNAP: Final = 4
"""A cut moves to a line border if that costs at most one part in this many of its side."""


def head_and_tail(text: str, limit: int = RESULT_LIMIT) -> str:
    """At most `limit` characters of `text`, cut in the middle and on line borders where they are near."""
    if len(text) <= limit:
        return text
    side = (limit - _MARK_ROOM) // 2
    if side <= 0:
        return text[: max(limit, 0)]
    head = _snap_back(text[:side])
    tail = _snap_forward(text[-side:], starts_line=text[-side - 1] == "\n")
    left_out = text[len(head) : len(text) - len(tail)]
    before = "" if head.endswith("\n") else "\n"
    return f"{head}{before}{_mark(left_out)}\n{tail}"


def cut_line(line: str, limit: int = LINE_LIMIT) -> str:
    """One line, its rest replaced by how long the rest is."""
    if len(line) <= limit:
        return line
    return f"{line[:limit]}… ({len(line) - limit:,} more characters)"


def _snap_back(head: str) -> str:
    border = head.rfind("\n") + 1
    return head[:border] if len(head) - border <= len(head) // _SNAP else head


def _snap_forward(tail: str, *, starts_line: bool) -> str:
    border = 0 if starts_line else tail.find("\n") + 1
    return tail[border:] if border <= len(tail) // _SNAP else tail


def _mark(left_out: str) -> str:
    lines = left_out.count("\n")
    extent = f" in {lines:,} lines" if lines > 1 else ""
    return f"[… {len(left_out):,} characters{extent} left out …]"
