"""Memory of secrets found in the user's variables, with a limit per source.

Values currently bound to a variable are always known. If there are more values than the limit, the least recently
seen are dropped, and their name counts as partly known.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Final, Literal, NamedTuple

Source = Literal["variables", "containers", "objects", "columns"]
# Maximum number of values per source.
KEPT: Final[Mapping[Source, int]] = {
    "variables": 20_000,
    "containers": 50_000,
    "objects": 50_000,
    "columns": 100_000,
}
KEPT_CHARACTERS: Final = 32_000_000  # maximum characters per source
PARTLY_KNOWN: Final = 100  # maximum number of names with unknown values
SAMPLES: Final = 500  # known values stored per such name, as samples of its format
# Name for those beyond `PARTLY_KNOWN`. Any value may be a secret of this name.
OTHERS: Final = "password"
MANY: Final = 200  # values per name from which they are compared with the previous search as a whole
JUDGED: Final = 200_000  # values found harmless that are remembered, with their names
Judge = Callable[[str, str], bool]  # returns whether a value is a secret under a name


class FoundValues(NamedTuple):
    """Result of one search through the variables."""

    values: Mapping[tuple[Source, str], list[str]]  # by the name that may make them secret
    partly: frozenset[str]  # names of secrets that may have more values
    unseen: frozenset[str]  # secret names without any inspected value


class SecretMemory:
    """Secrets of each source, least recently seen dropped first. Thread-safe."""

    def __init__(self, holds_secret: Judge) -> None:
        self._holds_secret = holds_secret
        # Value to the name that makes it secret.
        self.names: dict[Source, dict[str, str]] = {source: {} for source in KEPT}
        self._seen: dict[tuple[Source, str], int] = {}  # last search that found values of a name
        self._last: dict[tuple[Source, str], list[str]] = {}  # result of the last search, for names with many values
        self._characters: dict[Source, int] = dict.fromkeys(KEPT, 0)
        self._harmless: set[tuple[str, str]] = set()
        self._search = 0
        self._all: dict[str, str] = {}
        self.partly: dict[str, list[str]] = {}  # names that may have more values than are known
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            renew = weakref.WeakMethod(self._renew_lock)
            os.register_at_fork(after_in_child=lambda: (renew() or _nothing)())

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()  # a thread that doesn't exist in the fork may hold it

    def values(self) -> Mapping[str, str]:
        """Return all secrets. The same object is returned until one is added or dropped."""
        return self._all

    def take(self, found: FoundValues) -> None:
        """Record the result of a search."""
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
        """Record values of one name and return whether any is new."""
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
        """Return the values that are secrets under this name."""
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
                    continue  # values bound to a variable are always remembered
            names[value] = name
            self._characters[source] += len(value)
            is_new = True
        return is_new

    def _has_room(self, source: Source, value: str) -> bool:
        characters = self._characters[source] + len(value)
        return len(self.names[source]) < KEPT[source] and characters <= KEPT_CHARACTERS

    def _make_room(self, source: Source, value: str, found: FoundValues) -> bool:
        """Drop a quarter of a source, least recently seen first, except values of this search.

        Returns whether there is room now.
        """
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
    """Do nothing: replaces a method whose object was garbage collected."""
