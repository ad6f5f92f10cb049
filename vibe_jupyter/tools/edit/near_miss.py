"""Where a text that was not found nearly stands: shown to whoever sent it, never changed."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.tools.edit.diff import unified

_LINES: Final = 20_000
"""Lines of a file that are looked at."""
_WANTED: Final = 200
"""Lines of the text that are looked for."""
_LONG: Final = 400
"""Characters of a line that are compared."""
_CANDIDATES: Final = 10
"""Passages that are compared."""
_LETTERS: Final = 1_500
"""Characters up to which a passage is compared letter by letter, a longer one line by line."""
_ALIKE: Final = 0.8
"""How alike a line must be, from 0 to 1, for its passage to be compared."""
_NEARBY: Final = 3
"""Lines shown above and below."""
_SHOWN: Final = 3_000
"""Characters of a passage shown, and of its difference."""


@dataclass(frozen=True)
class _Passage:
    first: int
    """Line number, from 0."""
    likeness: float
    """From 0 to 1."""


def near_miss(text: str, search: str, threshold: float) -> str:
    """The closest passage with its line numbers, and how it differs, where it is as alike as `threshold`.

    Else where one of the lines stands; empty when none does.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")[:_LINES]
    wanted = search.replace("\r\n", "\n").split("\n")[:_WANTED]
    best: _Passage | None = None
    for first in _starts(lines, wanted):
        likeness = _likeness(lines[first : first + len(wanted)], wanted, best.likeness if best else 0)
        if best is None or likeness > best.likeness:
            best = _Passage(first, likeness)
    if best is None or best.likeness < threshold:
        return _one_line(lines, wanted)
    until = best.first + len(wanted)
    found = lines[best.first : until]
    change = unified("\n".join(wanted) + "\n", "\n".join(found) + "\n")
    how = f"{best.likeness:.0%} alike" if best.likeness < 1 else "only blanks or capitals differ"
    return (
        f"The closest passage ({how}) is on {_places(best.first, until)}:\n"
        f"{_numbered(lines, best.first - _NEARBY, until + _NEARBY)}\n"
        f"From the SEARCH text (-) to the file (+):\n{_short(change)}"
    )


def _one_line(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Where the longest line that is there stands."""
    there = {line.strip(): number for number, line in reversed(list(enumerate(lines)))}
    known = max((line.strip() for line in wanted if line.strip() in there), key=len, default="")
    if not known:
        return ""
    at = there[known]
    shown = _numbered(lines, at - _NEARBY, at + 1 + _NEARBY)
    return f"One of its lines stands on line {at + 1}; what is around it differs:\n{shown}"


def _places(first: int, until: int) -> str:
    return f"line {until}" if until - first == 1 else f"lines {first + 1} to {until}"


def _starts(lines: Sequence[str], wanted: Sequence[str]) -> Iterable[int]:
    """First lines of the passages worth comparing: those that share most lines, blanks aside, with what is wanted."""
    last = max(0, len(lines) - len(wanted))
    keys = [line.strip()[:_LONG] for line in lines]
    asked = {line.strip()[:_LONG] for line in wanted} - {""}
    shared = [key in asked for key in keys]
    score = sum(shared[: len(wanted)])
    scores = [score]
    for first in range(1, last + 1):
        score += shared[first + len(wanted) - 1] - shared[first - 1]
        scores.append(score)
    ranked = sorted(range(last + 1), key=lambda first: (-scores[first], first))[:_CANDIDATES]
    by_lines = [first for first in ranked if scores[first]]
    return [*by_lines, *_alike(keys, wanted, last)]


def _alike(keys: Sequence[str], wanted: Sequence[str], last: int) -> Iterable[int]:
    """Where the longest wanted line nearly stands."""
    at, longest = max(enumerate(line.strip()[:_LONG] for line in wanted), key=lambda line: len(line[1]))
    if not longest:
        return []
    alike = difflib.get_close_matches(longest, list(dict.fromkeys(keys)), n=3, cutoff=_ALIKE)
    places = {key: number for number, key in reversed(list(enumerate(keys)))}
    return [min(max(0, places[key] - at), last) for key in alike]


def _likeness(found: Sequence[str], wanted: Sequence[str], enough: float) -> float:
    """Alike as written, or but for blanks and capitals; from `enough` downwards it need not be exact."""
    one, other = [[" ".join(line[:_LONG].split()).casefold() for line in lines] for lines in (found, wanted)]
    if one == other:
        return 1.0
    if sum(map(len, other)) > _LETTERS:
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    matcher = difflib.SequenceMatcher(None, "\n".join(one), "\n".join(other), autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() > enough else 0


def _numbered(lines: Sequence[str], first: int, until: int) -> str:
    first = max(0, first)
    return _short("\n".join(f"{first + n + 1:>6}  {line[:_LONG]}" for n, line in enumerate(lines[first:until])))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n…"
