"""Index of known secret values from the environment, from variables and from texts, to find wherever they occur.

Searching for a hundred thousand values costs no more than for a hundred: each position of a text is one look-up of the
next `SHORTEST` characters, and only the few hits are compared with whole values.
"""

import contextlib
import json
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final
from urllib.parse import quote

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.secret_shapes import Span, Strength, fits, looks_random, shaped, strength

# Characters; shorter values are redacted only next to their name, since elsewhere that would garble texts
SHORTEST: Final = 8
# Characters by which a longer value is matched; the text that follows is taken for the rest of it
LONGEST: Final = 20_000
_BEGIN: Final = 2  # characters of a value at the end of a text that count as its possible beginning
_FRAGMENT: Final = 12  # characters of a known value's beginning that are redacted although the rest is missing
_CUT_SIGNS: Final = ("…", "'…", '"…', "...", "\n[…", "[…")
_MARKS: Final = 8  # omission marks examined in one text
# Number of prefixes up to which a text is searched for each one; with more, each position is looked up
_FEW: Final = 100
_LONG: Final = 200  # characters of a text above which that is faster
_SPELLED_ONE_WAY: Final = lazy_pattern(r"[A-Za-z0-9_.~-]+")


class KnownSecrets:
    """Secret values in all their spellings, with labels. Thread-safe."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.spellings: dict[str, str] = {}  # label by spelling; other modules must not change it
        self._whole: dict[str, str] = {}  # label by value, in insertion order
        # Lengths of the values that start with these `SHORTEST` characters, in descending order
        self._lengths: dict[str, tuple[int, ...]] = {}
        self._longest = 0
        self._lock = threading.Lock()
        # Number of spellings, all of them sorted, and those that look random. Replaced as a whole, so readers need no
        # lock.
        self._sorted: tuple[int, list[str], list[str]] = (0, [], [])
        for value, name in (values or {}).items():
            self.add(value, name)

    def __len__(self) -> int:
        return len(self._whole)

    def __contains__(self, value: str) -> bool:
        return value in self._whole

    def add(self, value: str, name: str) -> None:
        """Add a value. A known value keeps its label."""
        from vibe_jupyter.permissions.ordinary_words import is_ordinary_word  # noqa: PLC0415 - often no secret is known

        value = value[:LONGEST]
        if len(value) < SHORTEST or value in self._whole or is_ordinary_word(value):
            return
        with self._lock:
            self._whole[value] = name
            for spelling in _spellings(value):
                if spelling not in self.spellings:
                    self.spellings[spelling] = name
                    head, length = spelling[:SHORTEST], len(spelling)
                    lengths = self._lengths.get(head, ())
                    if length not in lengths:
                        self._lengths[head] = tuple(sorted((*lengths, length), reverse=True))
                    self._longest = max(self._longest, length)

    def newest(self, count: int) -> "KnownSecrets":
        """Return an index of the most recently added values."""
        with self._lock:
            values = dict(islice(self._whole.items(), max(0, len(self._whole) - count), None))
        return KnownSecrets(values)

    def may_stand_in(self, text: str) -> bool:
        """Return whether a text contains a value, or ends with the possible beginning of one."""
        if not self.spellings:
            return False
        if any(self._reach(text, at) for at in self._places(text)):
            return True
        ends = range(max(0, len(text) - SHORTEST + 1), len(text) - _BEGIN + 1)
        return any(self._reach(text, at) for at in ends)

    def before(self, text: str, cut: int) -> int:
        """Return the last position up to `cut` that doesn't split a value, including one that may continue after the
        text."""
        if not self.spellings:
            return cut
        while (moved := self._parting(text, cut)) < cut:
            cut = moved
        return cut

    def _parting(self, text: str, cut: int) -> int:
        """Return the start of the first value that a cut would split, or the cut itself."""
        first, last = max(0, cut - self._longest), len(text) - SHORTEST
        places = [at for at in range(first, min(cut, last + 1)) if text[at : at + SHORTEST] in self._lengths]
        ends = range(max(first, last + 1), cut)
        return next((at for at in (*places, *ends) if self._reach(text, at) > cut), cut)

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the occurrences of values, complete or truncated."""
        if not self.spellings:
            return
        for at in self._places(text):
            length, value = self._whole_at(text, at)
            fragment, cut_off = self._fragment_at(text, at)
            if fragment > length:
                length, value = fragment, cut_off
            if length:
                end = at + length if length < LONGEST else len(text)
                yield Span(at, end, self.spellings[value], self.spellings[value])
        if "…" in text:
            yield from self._ends(text)

    def _places(self, text: str) -> Iterable[int]:
        """Return positions of the first `SHORTEST` characters of any value."""
        heads = self._lengths
        if len(heads) > _FEW or len(text) < _LONG:
            return [at for at in range(len(text) - SHORTEST + 1) if text[at : at + SHORTEST] in heads]
        return (at for head in tuple(heads) for at in _occurrences(text, head))

    def _whole_at(self, text: str, at: int) -> tuple[int, str]:
        """Return length and text of the longest complete value at a position, or 0 and ""."""
        for length in self._lengths.get(text[at : at + SHORTEST], ()):
            piece = text[at : at + length]
            if len(piece) == length and piece in self.spellings:
                return length, piece
        return 0, ""

    def _fragment_at(self, text: str, at: int) -> tuple[int, str]:
        """Return how much of the beginning of a random-looking value is at a position, if enough to count, and the
        value."""
        random = self._in_order()[2]
        piece = text[at : at + self._longest]
        place = bisect_left(random, piece)
        best, found = 0, ""
        # In sorted order, the neighbors share the longest prefix with the text.
        for value in random[max(0, place - 1) : place + 1]:
            length = _agreement(text, at, value)
            if length > best and _is_fragment(text, at, length):
                best, found = length, value
        return best, found

    def _reach(self, text: str, at: int) -> int:
        """Return the end of the longest value that starts at a position, even beyond the end of the text; 0 if there is
        none."""
        length, _ = self._whole_at(text, at)
        if _BEGIN <= len(text) - at <= self._longest:
            rest, values = text[at:], self._in_order()[1]
            place = bisect_left(values, rest)
            if place < len(values) and values[place].startswith(rest):
                length = max(length, len(values[place]), len(rest) + 1)
        return at + length if length else 0

    def _in_order(self) -> tuple[int, list[str], list[str]]:
        if self._sorted[0] != len(self.spellings):
            with self._lock:
                _, values, _ = self._sorted
                known = set(values)
                values = sorted([*values, *(name for name in self.spellings if name not in known)])
                self._sorted = (len(values), values, [value for value in values if looks_random(value)])
        return self._sorted

    def _ends(self, text: str) -> Iterator[Span]:
        """Yield ends of values whose beginning was omitted from the middle of a text."""
        for mark in islice(re.finditer(r"left out …\]\n", text), _MARKS):
            begin = text[mark.end() : mark.end() + SHORTEST]
            for value, name in tuple(self.spellings.items()):
                at = value.find(begin)
                if at > 0 and len(begin) == SHORTEST and text.startswith(value[at:], mark.end()):
                    yield Span(mark.end(), mark.end() + len(value) - at, name, name)


def _occurrences(text: str, piece: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


def _agreement(text: str, at: int, value: str) -> int:
    """Return the length of the common prefix of a value and the text at a position."""
    if text.startswith(value, at):
        return len(value)
    low, high = 0, min(len(value), len(text) - at)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text.startswith(value[:middle], at) else (low, middle - 1)
    return low


def _is_fragment(text: str, at: int, length: int) -> bool:
    if length < SHORTEST:
        return False
    end = at + length
    return length >= _FRAGMENT or end == len(text) or text.startswith(_CUT_SIGNS, end)


def _spellings(value: str) -> set[str]:
    """Return a value verbatim and as written in Python, JSON and URLs."""
    if _SPELLED_ONE_WAY.fullmatch(value):
        return {value}
    spelled = {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate
        spelled.add(quote(value, safe=""))
    return spelled


def secrets_in(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a variable: its value, or a password inside it."""
    said = strength(name)
    if "://" in value:
        spans = [span for span in shaped(value) if span.kind in ("URL password", "key in a URL")]
        yield from (value[span.start : span.end] for span in spans if span.end - span.start >= SHORTEST)
        if not spans or said is Strength.NONE:
            return
    if len(value) >= SHORTEST and said is not Strength.NONE and fits(max(said, Strength.STRONG), value):
        yield value
