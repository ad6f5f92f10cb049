"""Working folders of the gateway's own tools: one per session, or per request without a session."""

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.files.file_stamps import FileStamp, stamp_file
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.gateway.store import Store

FOLDER_SECONDS: Final = 24 * 3600.0  # seconds to keep a session's folder after its latest request
MOST_LOOKED_AT: Final = 10_000  # files of a folder that are checked for changes by a call
_SWEEP: Final = 600.0  # seconds between deletions of expired folders
_PRIVATE: Final = 0o700
_LEFT_OUT: Final = "__pycache__"
_PLACED: Final = "placed-files"


class WorkFolder:
    """A working folder, created when the run starts."""

    def __init__(self, path: Path, store: Store, key: str) -> None:
        """
        Args:
            path: absolute path without symlinks. It need not exist yet.
            store: remembers which files were placed in the folder.
            key: the folder's key in the store, or "" if it is deleted after the run.
        """
        self.path = path
        self._store = store
        self._key = key

    @functools.cached_property
    def workspace(self) -> Workspace:
        """The folder as the tools' workspace."""
        return Workspace(self.path)

    async def open(self) -> None:
        """Create the folder, or renew its modification time."""
        await asyncio.to_thread(self._make)

    async def close(self) -> None:
        """Delete the folder at the end of the run, unless it belongs to a session."""
        if not self._key:
            await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    async def place(self, files: Collection[tuple[str, bytes]]) -> None:
        """Write a client's files into the folder, at validated relative paths.

        A file that was placed before keeps the changes made by tools: clients send the same files with each request.
        """
        kept = await self._store.get(_PLACED, self._key) if self._key else None
        known: dict[str, str] = json.loads(kept or b"{}")
        marks = {name: hashlib.sha256(body).hexdigest() for name, body in files}
        new = [
            (name, body) for name, body in files if known.get(name) != marks[name] or not (self.path / name).exists()
        ]
        await asyncio.to_thread(self._write, new)
        if self._key:  # also without new files: the record must live as long as the folder
            raw = json.dumps({**known, **marks}).encode()
            await self._store.put(_PLACED, self._key, raw, seconds=FOLDER_SECONDS)

    async def delete(self) -> None:
        """Delete the folder, and forget which files were placed in it."""
        await self._store.take(_PLACED, self._key)
        await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def stamps(self) -> Mapping[str, FileStamp]:
        """Return stamps of the files by their paths, without hidden files and symlinks."""
        found: dict[str, FileStamp] = {}
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != _LEFT_OUT)
            for name in sorted(names):
                if len(found) >= MOST_LOOKED_AT:
                    return found
                place = Path(folder, name)
                stamp = stamp_file(place, follow_links=False)
                if stat.S_ISREG(stamp.said[0]) and not name.startswith("."):
                    found[place.relative_to(self.path).as_posix()] = stamp
        return found

    def _write(self, files: Iterable[tuple[str, bytes]]) -> None:
        for name, body in files:
            place = self.path / name
            for above in reversed(Path(name).parents):
                if (self.path / above).is_symlink():  # created by a command; it may point outside
                    (self.path / above).unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            # Hidden, so that `stamps` skips it; renaming replaces a symlink instead of following it
            new = place.with_name(f".{secrets.token_hex(8)}")
            new.write_bytes(body)
            new.replace(place)

    def _make(self) -> None:
        self.path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        os.utime(self.path)


class WorkFolders:
    """Working folders of one token."""

    def __init__(self, root: Path, store: Store, owner: str) -> None:
        self._root = root.resolve() / owner
        self._store = store
        self._owner = owner
        self._swept = 0.0

    def of(self, session_id: str) -> WorkFolder:
        """Return the folder of a session, or a new one for this request if the ID is empty."""
        name = hashlib.sha256(session_id.encode()).hexdigest() if session_id else f"run-{secrets.token_hex(16)}"
        return WorkFolder(self._root / name, self._store, f"{self._owner}:{name}" if session_id else "")

    async def forget(self, session_id: str) -> None:
        """Delete the folder of a session."""
        await self.of(session_id).delete()

    async def sweep(self) -> None:
        """Delete expired folders, at most once per `_SWEEP`."""
        if time.monotonic() - self._swept < _SWEEP and self._swept:
            return
        self._swept = time.monotonic()
        await asyncio.to_thread(self._sweep)

    def _sweep(self) -> None:
        over = time.time() - FOLDER_SECONDS
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            with contextlib.suppress(OSError):
                if folder.stat().st_mtime < over:
                    shutil.rmtree(folder, ignore_errors=True)
