"""Storage that requests share, also between the workers of one gateway.

Entries are bytes with a kind, a key and an expiry time. Keys begin with a hash of the token (`owner_mark`), so that no
token gives access to entries of another. The part of a key before its last colon is its group; the keys of a group can
be listed.
"""

import asyncio
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

from vibe_jupyter.errors import VibeError

T = TypeVar("T")

_BUSY: Final = 10.0  # seconds to wait while another worker writes
_MARK: Final = 16  # characters of a token's hash
_SWEEP: Final = 60.0  # seconds between deletions of expired entries
_PRIVATE: Final = 0o600
_TABLE: Final = """
create table if not exists entries (
    kind text not null, key text not null, value blob not null, made real not null, ends real not null,
    primary key (kind, key)
) without rowid;
create index if not exists entries_made on entries (kind, made);
"""


class StoreDown(VibeError):
    """Raised when the store can't be read or written."""


class Store(Protocol):
    """Interface of a store. Every method is atomic across workers, and may raise `StoreDown`."""

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return an entry, or None if it doesn't exist or has expired."""
        ...

    async def put(self, kind: str, key: str, value: bytes, *, seconds: float) -> None:
        """Write or replace an entry. All entries of a kind expire after the same number of seconds."""
        ...

    async def add(self, kind: str, key: str, value: bytes, *, seconds: float) -> bool:
        """Write an entry unless it exists. Returns whether it was written."""
        ...

    async def take(self, kind: str, key: str) -> bytes | None:
        """Return and delete an entry. Only one of several concurrent callers gets it."""
        ...

    async def keys(self, kind: str, group: str) -> list[str]:
        """Return the keys of a group, least recently written first."""
        ...

    async def close(self) -> None:
        """Release connections and files."""
        ...


def owner_mark(token: str) -> str:
    """Return the prefix of the keys of a token's entries."""
    return hashlib.sha256(token.encode()).hexdigest()[:_MARK]


def group_of(key: str) -> str:
    """Return the part of a key before its last colon."""
    return key.rpartition(":")[0]


class SqliteStore:
    """Store in an SQLite file, shared by the workers of one machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, _PRIVATE))
        self._lock = threading.Lock()
        self._base = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        self._base.execute("pragma journal_mode = wal")
        self._base.execute("pragma synchronous = normal")
        self._base.executescript(_TABLE)
        self._swept = 0.0

    async def get(self, kind: str, key: str) -> bytes | None:
        return await self._on_thread(lambda now: self._read(kind, key, now))

    async def put(self, kind: str, key: str, value: bytes, *, seconds: float) -> None:
        await self._on_thread(lambda now: self._write(kind, key, value, now, now + seconds))

    async def add(self, kind: str, key: str, value: bytes, *, seconds: float) -> bool:
        def add(now: float) -> bool:
            self._base.execute("delete from entries where kind = ? and key = ? and ends <= ?", (kind, key, now))
            words = "insert or ignore into entries values (?, ?, ?, ?, ?)"
            return self._base.execute(words, (kind, key, value, now, now + seconds)).rowcount == 1

        return await self._on_thread(add)

    async def take(self, kind: str, key: str) -> bytes | None:
        def take(now: float) -> bytes | None:
            words = "delete from entries where kind = ? and key = ? returning value, ends"
            row = self._base.execute(words, (kind, key)).fetchone()
            return row[0] if row is not None and row[1] > now else None

        return await self._on_thread(take)

    async def keys(self, kind: str, group: str) -> list[str]:
        def keys(now: float) -> list[str]:
            words = "select key from entries where kind = ? and key > ? and key < ? and ends > ? order by made, key"
            # `;` follows `:` in ASCII, so this is a range scan of keys with the prefix
            found = self._base.execute(words, (kind, f"{group}:", f"{group};", now))
            return [row[0] for row in found if group_of(row[0]) == group]

        return await self._on_thread(keys)

    async def close(self) -> None:
        with self._lock:
            self._base.close()

    async def _on_thread(self, work: Callable[[float], T]) -> T:
        try:
            return await asyncio.to_thread(self._locked, work)
        except sqlite3.Error as error:
            raise StoreDown(f"The gateway's store cannot be used: {error}") from error

    def _locked(self, work: Callable[[float], T]) -> T:
        now = time.time()  # comparable between workers, unlike a monotonic clock
        with self._lock:
            if now - self._swept > _SWEEP:
                self._base.execute("delete from entries where ends <= ?", (now,))
                self._swept = now
            self._base.execute("begin immediate")
            try:
                done = work(now)
            except BaseException:
                self._base.execute("rollback")
                raise
            self._base.execute("commit")
            return done

    def _read(self, kind: str, key: str, now: float) -> bytes | None:
        words = "select value from entries where kind = ? and key = ? and ends > ?"
        row = self._base.execute(words, (kind, key, now)).fetchone()
        return None if row is None else row[0]

    def _write(self, kind: str, key: str, value: bytes, now: float, ends: float) -> None:
        self._base.execute("insert or replace into entries values (?, ?, ?, ?, ?)", (kind, key, value, now, ends))
