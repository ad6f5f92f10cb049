"""Saved conversations: storage, look-up by text, and the conversations of this kernel's notebook."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_jupyter import config
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.config.settings import SessionLogging
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.shown_names import decodable_name
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import NO_PLACE, Journal, JournalContents, Place, UnkeptJournal, new_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess
    from vibe_jupyter.session.store import SavedSession, SessionStore


class SavedSessions:
    """Saved conversations as seen by one kernel. Main thread only."""

    def __init__(self, setup: KernelSettings, notebook: "NotebookAccess | None") -> None:
        self._setup = setup
        self._notebook = notebook

    @property
    def store(self) -> "SessionStore":
        """Store in the folder set in the current settings."""
        return session_store(self._setup.settings(), self._setup.environ)

    def ids(self) -> list[str]:
        """Return the ids of all conversations, shortened to unique prefixes."""
        from vibe_jupyter.session.store import unique_ids

        sessions = self.store.sessions()
        short = unique_ids(sessions)
        return [short[one.id] for one in sessions]

    def find(self, text: str, *, but: str = "") -> "SavedSession":
        """Find a conversation by part of its id or title, or else the latest of this notebook or folder.

        Args:
            text: The user's input; may be empty.
            but: Id of a conversation to skip if `text` is empty.

        Raises:
            ConfigError: No conversation matches, or several do.
        """
        sessions = self.store.sessions()
        if text:
            from vibe_jupyter.session.store import find_session

            return find_session(text, sessions)
        found = self.latest(sessions, but=but)
        if found is None:
            raise ConfigError("No other conversation of this notebook or folder is saved; see %vibe sessions all.")
        return found

    def latest(
        self, sessions: "Sequence[SavedSession]", *, but: str = "", of_folder: bool = True
    ) -> "SavedSession | None":
        """Return the conversation named in the notebook, else the latest of the notebook, else of the folder.

        Skips conversations of Mistral Vibe, which must be named explicitly.
        """
        others = [one for one in sessions if one.id != but and not one.is_foreign]
        named = self._notebook.saved_conversation() if self._notebook is not None else ""
        place = self.place()
        for fits in (
            [one for one in others if named and one.id == named],
            [one for one in others if place.notebook and one.notebook == decodable_name(place.notebook)],
            [one for one in others if of_folder and place.folder and one.folder == decodable_name(place.folder)],
        ):
            if fits:
                return fits[0]
        return None

    def fork(self, found: "SavedSession") -> tuple[Journal, JournalContents]:
        """Copy a conversation to this kernel.

        Raises:
            JournalError: The journal can't be read or written.
        """
        prefix = self._setup.settings().session_logging.session_prefix
        if found.is_foreign:
            return self.store.take_over(found, prefix, self.place(), self._setup.strike())
        return self.store.fork(found, prefix, self.place())

    def place(self) -> Place:
        """Return the place, that is folder and notebook, of a conversation started now."""
        path = self._notebook.path() if self._notebook is not None else None
        with contextlib.suppress(OSError):
            return Place(str(Path.cwd()), "" if path is None else str(path))
        return NO_PLACE


def new_conversation(
    settings: config.Settings, environ: Mapping[str, str], session_id: str, place: Place = NO_PLACE
) -> Conversation:
    """Create a conversation with a journal on disk, or in memory only if the settings disable logging.

    Raises:
        JournalError: The journal can't be created.
    """
    logging = settings.session_logging
    schema_only = settings.privacy.schema_only
    if logging.enabled:
        folder = new_folder(save_folder(logging, environ), logging.session_prefix, session_id)
        journal = Journal.create(folder, session_id=session_id, place=place, schema_only=schema_only)
        made = Conversation(journal, session_id)
    else:
        made = Conversation(UnkeptJournal(), session_id)
    made.schema_only = schema_only
    return made


def session_store(settings: config.Settings, environ: Mapping[str, str]) -> "SessionStore":
    """Return the store of saved conversations."""
    with without_working_folder():  # imported when conversations are first looked up
        from vibe_jupyter.session.store import SessionStore

    return SessionStore(save_folder(settings.session_logging, environ))


def gateway_store(settings: config.Settings, environ: Mapping[str, str]) -> "SessionStore":
    """Return the store of the gateway's runs, which is separate because they are not conversations to continue."""
    from vibe_jupyter.session.store import SessionStore

    return SessionStore(save_folder(settings.session_logging, environ) / "gateway")


def save_folder(logging: SessionLogging, environ: Mapping[str, str]) -> Path:
    """Return the folder in `save_dir`. Relative paths are resolved against the user's vibe folder."""
    home = config.vibe_home(environ)
    return home / Path(logging.save_dir).expanduser() if logging.save_dir else home / "logs" / "session"


def local_time(time: str) -> str:
    """Convert a journal timestamp to the user's local time."""
    try:
        return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return time
