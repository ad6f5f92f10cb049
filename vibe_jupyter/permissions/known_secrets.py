"""Values that are secret wherever they stand: those of the environment, of variables, and what a text named."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final
from urllib.parse import quote

from vibe_jupyter.permissions.secret_shapes import Span, any_of, looks_random

SHORTEST: Final = 8
"""Characters; a shorter value is redacted only where its name stands beside it: elsewhere it would garble texts."""
_BEGIN: Final = 2
"""Characters of a value from which the end of a text may be the beginning of it."""
_FRAGMENT: Final = 12
"""Characters of the beginning of a known value that are redacted although its end is missing."""
_CUT_SIGNS: Final = ("…", "'…", '"…', "...", "\n[…", "[…")
_MARKS: Final = 8
"""Marks of what was left out that are looked at in one text."""
_WINDOWS: Final = 16
"""Times as many characters as values from which a text is searched for each value by itself."""


class KnownSecrets:
    """Values in every spelling, and what they are called. Callable from any thread."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        """Value, as it may be spelled, to what it is called."""
        self._whole: set[str] = set()
        self.heads: dict[str, tuple[str, ...]] = {}
        """The first `SHORTEST` characters to the values that begin so; empty where no value is known."""
        self._begins: dict[str, tuple[str, ...]] = {}
        """The first `_BEGIN` characters to the values that begin so."""
        self._longest = 0
        self._beginning = (0, re.compile(r"(?!)"))
        """Finds the keys of `_begins`, of which there were so many when it was made."""

    def __len__(self) -> int:
        return len(self._whole)

    def add(self, value: str, name: str) -> None:
        """Take a value; one that is known keeps its first name."""
        if value in self._whole or len(value) < SHORTEST:
            return
        self._whole.add(value)
        for spelling in _spellings(value):
            if self._names.setdefault(spelling, name) is name:
                for index, length in ((self.heads, SHORTEST), (self._begins, _BEGIN)):
                    index[spelling[:length]] = (*index.get(spelling[:length], ()), spelling)
                self._longest = max(self._longest, len(spelling))

    def names(self) -> Mapping[str, str]:
        """Every spelling, and what it is called."""
        return self._names

    def may_stand_in(self, text: str) -> bool:
        """Whether a value stands in the text, or begins in it and may go on after it."""
        if not self._begins:
            return False
        made_of, beginning = self._beginning
        if made_of != len(self._begins):
            begins = tuple(self._begins)
            self._beginning = (len(begins), beginning := re.compile(any_of(begins)))
        return beginning.search(text) is not None and any(self._reach(text, at) for at in range(len(text) - 1))

    def before(self, text: str, cut: int) -> int:
        """The last place up to `cut` at which no value is parted, nor one that may go on after the text."""
        at = max(0, cut - self._longest)
        while at < cut:
            if self._reach(text, at) > cut:
                cut, at = at, max(0, at - self._longest)
            else:
                at += 1
        return cut

    def spans(self, text: str) -> Iterator[Span]:
        """Where they stand, whole or cut off."""
        for head in self._heads_in(text):
            at = text.find(head)
            while at >= 0:
                longest = 0
                for value in self.heads[head]:
                    length = _agreement(text, at, value)
                    if length == len(value) or _is_fragment(text, at, value, length):
                        longest = max(longest, length)
                        yield Span(at, at + length, self._names[value], self._names[value])
                at = text.find(head, at + max(1, longest))
        if "…" in text:
            yield from self._ends(text)

    def _reach(self, text: str, at: int) -> int:
        """Where the longest value would end that begins at this place, as far as the text goes; 0 if there is none."""
        values = self._begins.get(text[at : at + _BEGIN], ())
        return max((at + len(value) for value in values if value.startswith(text[at : at + len(value)])), default=0)

    def _heads_in(self, text: str) -> list[str]:
        """The beginnings of values that stand in a text."""
        if len(text) < _WINDOWS * len(self.heads):
            return list(self.heads.keys() & {text[at : at + SHORTEST] for at in range(len(text) - SHORTEST + 1)})
        return [head for head in tuple(self.heads) if head in text]

    def _ends(self, text: str) -> Iterator[Span]:
        """The ends of values whose beginning was left out in the middle of a text."""
        for mark in islice(re.finditer(r"left out …\]\n", text), _MARKS):
            begin = text[mark.end() : mark.end() + SHORTEST]
            for value, name in tuple(self._names.items()):
                at = value.find(begin)
                if at > 0 and len(begin) == SHORTEST and text.startswith(value[at:], mark.end()):
                    yield Span(mark.end(), mark.end() + len(value) - at, name, name)


def _agreement(text: str, at: int, value: str) -> int:
    """How many characters of the value stand at that place."""
    if text.startswith(value, at):
        return len(value)
    low, high = 0, min(len(value), len(text) - at)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text.startswith(value[:middle], at) else (low, middle - 1)
    return low


def _is_fragment(text: str, at: int, value: str, length: int) -> bool:
    if length < SHORTEST or not looks_random(value):
        return False
    end = at + length
    return length >= _FRAGMENT or end == len(text) or text.startswith(_CUT_SIGNS, end)


def _spellings(value: str) -> set[str]:
    """As it is, and as Python, JSON and an address write it."""
    spelled = {value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    with contextlib.suppress(UnicodeEncodeError):  # half a surrogate pair
        spelled.add(quote(value, safe=""))
    return spelled
