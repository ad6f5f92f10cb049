"""The change of a text as a person reads it: a unified diff without file names."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

CONTEXT: Final = 3
"""Unchanged lines shown around a change."""
_COMPARED: Final = 10_000
"""Lines, old and new, between the first change and the last; a longer stretch is shown as replaced whole."""
_NO_END: Final = "\n\\ No newline at end of file"

_Step = tuple[str, int, int, int, int]
"""What `difflib` calls an opcode: equal, replace, delete or insert, and the lines on both sides."""


def unified(old: str, new: str, context: int = CONTEXT) -> str:
    """All changes, each under a line with its place; CR before LF is shown only where the text mixes line ends."""
    if _all_end_in_crlf(old) and _all_end_in_crlf(new):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = _lines(old), _lines(new)
    shorter = min(len(before), len(after))
    head = _common(before, after)
    tail = min(_common(reversed(before), reversed(after)), shorter - head)
    start = max(0, head - context)
    ends = len(before) - max(0, tail - context), len(after) - max(0, tail - context)
    middle = before[start : ends[0]], after[start : ends[1]]
    return "\n".join(line for group in _groups(*middle, context) for line in _hunk(group, *middle, start))


def size(change: str) -> str:
    """A change in two figures, such as ``+3 −1``."""
    lines = change.split("\n")
    return f"+{sum(line.startswith('+') for line in lines)} −{sum(line.startswith('-') for line in lines)}"


def _groups(before: Sequence[str], after: Sequence[str], context: int) -> Iterable[Sequence[_Step]]:
    if len(before) + len(after) > _COMPARED:
        return [[("replace", 0, len(before), 0, len(after))]]
    return difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(context)


def _hunk(group: Sequence[_Step], before: Sequence[str], after: Sequence[str], start: int) -> Iterator[str]:
    old_first, old_end, new_first, new_end = group[0][1], group[-1][2], group[0][3], group[-1][4]
    yield f"@@ -{_range(start + old_first, old_end - old_first)} +{_range(start + new_first, new_end - new_first)} @@"
    for kind, old_from, old_to, new_from, new_to in group:
        if kind == "equal":
            yield from (f" {line}" for line in before[old_from:old_to])
            continue
        yield from (f"-{line}" for line in before[old_from:old_to])
        yield from (f"+{line}" for line in after[new_from:new_to])


def _range(start: int, count: int) -> str:
    """As in all unified diffs: an empty range names the line before it, a range of one line no length."""
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last + _NO_END] if last else lines


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _all_end_in_crlf(text: str) -> bool:
    return text.count("\r\n") == text.count("\n")
