"""Secrets that were found in the user's variables, within a budget for each source of them.

What is bound to a name now is always known. Of more values than there is room for, those seen least recently are
forgotten, and their name is partly known.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

Source = Literal["variables", "containers", "objects", "columns"]
KEPT: Final[Mapping[Source, int]] = {
    "variables": 20_000,
    "containers": 50_000,
    "objects": 50_000,
    "columns": 100_000,
}
"""Values remembered of each source."""
KEPT_CHARACTERS: Final = 32_000_000
"""Characters remembered of each source."""
PARTLY_KNOWN: Final = 100
"""Names remembered of which not all values are known."""
SAMPLES: Final = 500
"""Values remembered of each of those names, which show what its values look like."""
OTHERS: Final = "password"
"""Name under which those beyond `PARTLY_KNOWN` are counted: one of which any value may be a secret."""
MANY: Final = 200
"""Values of one name from which they are compared with those of the last search as a whole."""
JUDGED: Final = 200_000
"""Values and names remembered that were found to be no secrets."""
Judge = Callable[[str, str], bool]
"""Tells whether a value is a secret under a name."""


class FoundValues(NamedTuple):
    """What one look at the variables found."""

    values: Mapping[tuple[Source, str], list[str]]
    """By the name that may call them secret."""
    partly: frozenset[str]
    """Names of secrets of which more values may be there."""
    unseen: frozenset[str]
    """Secret names of which nothing could be looked at."""


class SecretMemory:
    """The values of each source, those seen least recently first to go. Callable from any thread."""

    def __init__(self, holds_secret: Judge) -> None:
        self._holds_secret = holds_secret
        self.names: dict[Source, dict[str, str]] = {source: {} for source in KEPT}
        """Value to the name that calls it secret."""
        self._seen: dict[tuple[Source, str], int] = {}
        """The last search that found values of a name."""
        self._last: dict[tuple[Source, str], list[str]] = {}
        """What the last search found, of names with many values."""
        self._characters: dict[Source, int] = dict.fromkeys(KEPT, 0)
        self._harmless: set[tuple[str, str]] = set()
        self._search = 0
        self._all: dict[str, str] = {}
        self.partly: dict[str, list[str]] = {}
        """Names of which more values may be there than are known."""
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            renew = weakref.WeakMethod(self._renew_lock)
            os.register_at_fork(after_in_child=lambda: (renew() or _nothing)())

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()  # a thread that is not in the copy may have held it

    def values(self) -> Mapping[str, str]:
        """All of them; the same object as long as nothing is added or forgotten."""
        return self._all

    def take(self, found: FoundValues) -> None:
        """Remember what a look found."""
        with self._lock:
            self._search += 1
            before = {source: len(names) for source, names in self.names.items()}
            self._seen.update(dict.fromkeys(found.values, self._search))
            is_new = [self._take_of(*key, values, found) for key, values in found.values.items()]
            for name in found.unseen:
                self._note_partly(name, ())
            if any(is_new) or before != {source: len(names) for source, names in self.names.items()}:
                self._all = {value: name for names in reversed(self.names.values()) for value, name in names.items()}

    def _take_of(self, source: Source, name: str, values: list[str], found: FoundValues) -> bool:
        """Remember values of one name; return whether any is new."""
        key = (source, name)
        if name not in found.partly and len(values) >= MANY and self._last.get(key) == values:
            return False
        secrets = self._secrets(source, name, values)
        if name in found.partly and secrets:
            self._note_partly(name, secrets)
        self._last.pop(key, None)
        if len(values) >= MANY:
            self._last[key] = values
        return self._remember(source, name, secrets, found)

    def _note_partly(self, name: str, samples: Iterable[str]) -> None:
        name = name if name in self.partly or len(self.partly) < PARTLY_KNOWN else OTHERS
        known = self.partly.setdefault(name, [])
        if len(known) < SAMPLES:
            known += islice((value for value in samples if value not in known), SAMPLES - len(known))

    def _secrets(self, source: Source, name: str, values: Iterable[str]) -> list[str]:
        """Those of the values that are secrets under this name."""
        known, harmless = self.names[source], self._harmless
        secrets: list[str] = []
        for value in dict.fromkeys(values):
            if value in known or ((name, value) not in harmless and self._holds_secret(name, value)):
                secrets.append(value)
            else:
                if len(harmless) >= JUDGED:
                    harmless.clear()
                harmless.add((name, value))
        return secrets

    def _remember(self, source: Source, name: str, values: list[str], found: FoundValues) -> bool:
        names, is_new = self.names[source], False
        for value in values:
            if value in names:
                continue
            if not self._has_room(source, value) and not self._make_room(source, value, found):
                if source != "objects":
                    self._note_partly(name, [value])
                if source != "variables":
                    continue  # what is bound to a name itself is always known
            names[value] = name
            self._characters[source] += len(value)
            is_new = True
        return is_new

    def _has_room(self, source: Source, value: str) -> bool:
        characters = self._characters[source] + len(value)
        return len(self.names[source]) < KEPT[source] and characters <= KEPT_CHARACTERS

    def _make_room(self, source: Source, value: str, found: FoundValues) -> bool:
        """Forget a quarter of a source, those seen least recently, but none of this look; False if there are none."""
        names = self.names[source]
        now = set(chain.from_iterable(values for (of, _), values in found.values.items() if of == source))
        old = sorted((one for one in names if one not in now), key=lambda one: self._seen.get((source, names[one]), 0))
        for one in old[: len(names) // 4 + 1]:
            name = names.pop(one)
            if source != "objects":
                self._note_partly(name, [one])
            self._characters[source] -= len(one)
        return self._has_room(source, value)


def _nothing() -> None:
    """Called in place of a method whose object is gone."""
