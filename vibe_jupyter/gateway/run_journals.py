"""Journals of the gateway's runs, in the same format as those of a notebook's conversations.

Only runs that call tools are stored: an answer without calls has no effects.
"""

import asyncio
import contextlib
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.app.saved_sessions import gateway_store
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import AssistantMessage, DurableEvent, MessageAdded, RunStarted
from vibe_jupyter.session.conversation import title_of
from vibe_jupyter.session.journal import ID_BYTES, EventLog, Journal, JournalNote, Place, UnkeptJournal, new_folder

KEPT: Final = 30 * 24 * 3600.0  # seconds to keep a run
_PREFIX: Final = "run"
_SWEEP: Final = 3600.0  # seconds between deletions of expired runs


class RunJournal:
    """Journal of one run, created at its first call."""

    folder: Path | None = None

    def __init__(self, begin: Callable[[], Journal], session_id: str) -> None:
        """
        Args:
            begin: creates the journal.
            session_id: the client's session ID, or "" if it sent none.
        """
        self._begin = begin
        self._session_id = session_id
        self._journal: Journal | None = None
        self._waiting: list[DurableEvent | JournalNote] = []

    async def append(self, event: DurableEvent | JournalNote) -> None:
        """Write the event, or buffer it until the first call.

        Raises:
            JournalError: it could not be written; nothing that depends on it may be done.
        """
        if self._journal is None:
            if isinstance(event, RunStarted) and self._session_id:
                self._waiting.append(JournalNote(title=f"{self._session_id}: {title_of(event.prompt)}"))
            self._waiting.append(event)
            if not _has_calls(event):
                return
            self._journal = await asyncio.to_thread(self._begin)
        else:
            self._waiting.append(event)
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            await self._journal.append(one)

    def close(self) -> None:
        """Close the file if it was created."""
        if self._journal is not None:
            self._journal.close()


class RunJournals:
    """Journals of one gateway."""

    def __init__(self, environ: Mapping[str, str], workspace: Workspace) -> None:
        self._environ = environ
        self._place = Place(folder=str(workspace.root))
        self._swept = 0.0

    def of(self, settings: Settings, session_id: str) -> EventLog:
        """Return the journal for a new run. It stores nothing if the user has disabled session logging."""
        if not settings.session_logging.enabled:
            return UnkeptJournal()

        def begin() -> Journal:
            store = gateway_store(settings, self._environ)
            self._sweep(store.folder)
            name = secrets.token_hex(ID_BYTES)
            return Journal.create(new_folder(store.folder, _PREFIX, name), session_id=name, place=self._place)

        return RunJournal(begin, session_id)

    def _sweep(self, folder: Path) -> None:
        """Delete expired runs, at most once per `_SWEEP`."""
        if self._swept and time.monotonic() - self._swept < _SWEEP:
            return
        self._swept = time.monotonic()
        over = time.time() - KEPT
        for run in folder.glob(f"{_PREFIX}_*"):
            with contextlib.suppress(OSError):
                if run.stat().st_mtime < over:
                    shutil.rmtree(run, ignore_errors=True)


def _has_calls(event: DurableEvent | JournalNote) -> bool:
    match event:
        case MessageAdded(message=AssistantMessage(calls=calls)):
            return bool(calls)
        case _:
            return False
