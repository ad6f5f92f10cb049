"""Values that are secret wherever they stand: those of the environment, of variables, and what a text named.

An index of a hundred thousand values costs a text no more than one of a hundred: each place of a text is one look-up of
its next `SHORTEST` characters, and only the few places that hit are compared with values.
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
from vibe_jupyter.permissions.secret_shapes import Span, looks_random

SHORTEST: Final = 8
"""Characters; a shorter value is redacted only where its name stands beside it: elsewhere it would garble texts."""
LONGEST: Final = 20_000
"""Characters by which a longer value is known. Whatever follows them in a text is taken for the rest of it."""
_BEGIN: Final = 2
"""Characters of a value from which the end of a text may be the beginning of it."""
_FRAGMENT: Final = 12
"""Characters of the beginning of a known value that are redacted although its end is missing."""
_CUT_SIGNS: Final = ("…", "'…", '"…', "...", "\n[…", "[…")
_MARKS: Final = 8
"""Marks of what was left out that are looked at in one text."""
_FEW: Final = 100
"""Beginnings of values up to which a text is searched for each; with more, each place of it is looked up."""
_LONG: Final = 200
"""Characters of a text from which that is faster."""
_SPELLED_ONE_WAY: Final = lazy_pattern(r"[A-Za-z0-9_.~-]+")


class KnownSecrets:
    """Values in every spelling, and what they are called. Callable from any thread."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = {}
        """Value, as it may be spelled, to what it is called."""
        self._whole: dict[str, str] = {}
        """Value to what it is called, in the order in which they came."""
        self._lengths: dict[str, tuple[int, ...]] = {}
        """The first `SHORTEST` characters to the lengths of the values that begin so, the longest first."""
        self._longest = 0
        self._lock = threading.Lock()
        self._sorted: tuple[int, list[str], list[str]] = (0, [], [])
        """How many spellings were sorted, all of them, and those that look random. Replaced, never changed."""
        for value, name in (values or {}).items():
            self.add(value, name)

    def __len__(self) -> int:
        return len(self._whole)

    def __contains__(self, value: str) -> bool:
        return value in self._whole

    def add(self, value: str, name: str) -> None:
        """Take a value; one that is known keeps its first name."""
        from vibe_jupyter.permissions.ordinary_words import is_ordinary_word  # noqa: PLC0415 - many know no secret

        value = value[:LONGEST]
        if len(value) < SHORTEST or value in self._whole or is_ordinary_word(value):
            return
        with self._lock:
            self._whole[value] = name
            for spelling in _spellings(value):
                if spelling not in self._names:
                    self._names[spelling] = name
                    head, length = spelling[:SHORTEST], len(spelling)
                    lengths = self._lengths.get(head, ())
                    if length not in lengths:
                        self._lengths[head] = tuple(sorted((*lengths, length), reverse=True))
                    self._longest = max(self._longest, length)

    def newest(self, count: int) -> "KnownSecrets":
        """Return an index of the values that came last."""
        with self._lock:
            values = dict(islice(self._whole.items(), max(0, len(self._whole) - count), None))
        return KnownSecrets(values)

    def names(self) -> Mapping[str, str]:
        """Every spelling, and what it is called."""
        return self._names

    def may_stand_in(self, text: str) -> bool:
        """Whether a value stands in the text, or begins in it and may go on after it."""
        if not self._names:
            return False
        if any(self._reach(text, at) for at in self._places(text)):
            return True
        ends = range(max(0, len(text) - SHORTEST + 1), len(text) - _BEGIN + 1)
        return any(self._reach(text, at) for at in ends)

    def before(self, text: str, cut: int) -> int:
        """The last place up to `cut` at which no value is parted, nor one that may go on after the text."""
        if not self._names:
            return cut
        while (moved := self._parting(text, cut)) < cut:
            cut = moved
        return cut

    def _parting(self, text: str, cut: int) -> int:
        """Return where the first value begins that a cut would part, or the cut."""
        first, last = max(0, cut - self._longest), len(text) - SHORTEST
        places = [at for at in range(first, min(cut, last + 1)) if text[at : at + SHORTEST] in self._lengths]
        ends = range(max(first, last + 1), cut)
        return next((at for at in (*places, *ends) if self._reach(text, at) > cut), cut)

    def spans(self, text: str) -> Iterator[Span]:
        """Where they stand, whole or cut off."""
        if not self._names:
            return
        for at in self._places(text):
            length, value = self._whole_at(text, at)
            fragment, cut_off = self._fragment_at(text, at)
            if fragment > length:
                length, value = fragment, cut_off
            if length:
                end = at + length if length < LONGEST else len(text)
                yield Span(at, end, self._names[value], self._names[value])
        if "…" in text:
            yield from self._ends(text)

    def _places(self, text: str) -> Iterable[int]:
        """Where the first `SHORTEST` characters of a value stand."""
        heads = self._lengths
        if len(heads) > _FEW or len(text) < _LONG:
            return [at for at in range(len(text) - SHORTEST + 1) if text[at : at + SHORTEST] in heads]
        return (at for head in tuple(heads) for at in _occurrences(text, head))

    def _whole_at(self, text: str, at: int) -> tuple[int, str]:
        """The length of the longest value that stands there whole, and the value; 0 if there is none."""
        for length in self._lengths.get(text[at : at + SHORTEST], ()):
            piece = text[at : at + length]
            if len(piece) == length and piece in self._names:
                return length, piece
        return 0, ""

    def _fragment_at(self, text: str, at: int) -> tuple[int, str]:
        """How much of the beginning of a value that looks random stands there, if it counts, and the value."""
        random = self._in_order()[2]
        piece = text[at : at + self._longest]
        place = bisect_left(random, piece)
        best, found = 0, ""
        for value in random[max(0, place - 1) : place + 1]:  # no other value agrees with the text as far
            length = _agreement(text, at, value)
            if length > best and _is_fragment(text, at, length):
                best, found = length, value
        return best, found

    def _reach(self, text: str, at: int) -> int:
        """Where the longest value would end that begins at this place, as far as the text goes; 0 if there is none."""
        length, _ = self._whole_at(text, at)
        if _BEGIN <= len(text) - at <= self._longest:
            rest, values = text[at:], self._in_order()[1]
            place = bisect_left(values, rest)
            if place < len(values) and values[place].startswith(rest):
                length = max(length, len(values[place]), len(rest) + 1)
        return at + length if length else 0

    def _in_order(self) -> tuple[int, list[str], list[str]]:
        if self._sorted[0] != len(self._names):
            with self._lock:
                _, values, _ = self._sorted
                known = set(values)
                values = sorted([*values, *(name for name in self._names if name not in known)])
                self._sorted = (len(values), values, [value for value in values if looks_random(value)])
        return self._sorted

    def _ends(self, text: str) -> Iterator[Span]:
        """The ends of values whose beginning was left out in the middle of a text."""
        for mark in islice(re.finditer(r"left out …\]\n", text), _MARKS):
            begin = text[mark.end() : mark.end() + SHORTEST]
            for value, name in tuple(self._names.items()):
                at = value.find(begin)
                if at > 0 and len(begin) == SHORTEST and text.startswith(value[at:], mark.end()):
                    yield Span(mark.end(), mark.end() + len(value) - at, name, name)


def _occurrences(text: str, piece: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + 1)


def _agreement(text: str, at: int, value: str) -> int:
    """How many characters of the value stand at that place."""
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
    """As it is, and as Python, JSON and an address write it."""
    if _SPELLED_ONE_WAY.fullmatch(value):
        return {value}
    spelled = {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # half a surrogate pair
        spelled.add(quote(value, safe=""))
    return spelled
