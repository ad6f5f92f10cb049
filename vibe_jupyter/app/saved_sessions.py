"""The saved conversations as this kernel sees them: where they are, which is meant, which belong to its notebook."""

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
    """One for a kernel. Main thread only."""

    def __init__(self, setup: KernelSettings, notebook: "NotebookAccess | None") -> None:
        self._setup = setup
        self._notebook = notebook

    @property
    def store(self) -> "SessionStore":
        """The folder that the settings name now."""
        return session_store(self._setup.settings(), self._setup.environ)

    def ids(self) -> list[str]:
        """Of all, as short as they can be told apart."""
        from vibe_jupyter.session.store import unique_ids

        sessions = self.store.sessions()
        short = unique_ids(sessions)
        return [short[one.id] for one in sessions]

    def find(self, text: str, *, but: str = "") -> "SavedSession":
        """The one with this part of its id or title; without text the latest of this notebook or folder.

        Args:
            text: what the user typed; may be empty.
            but: id of one that is not meant by an empty text.

        Raises:
            ConfigError: no conversation fits, or more than one.
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
        """The one that the notebook names, or else the latest that was held in it, or else in this folder.

        One that Mistral Vibe keeps is meant only where it is named.
        """
        others = [one for one in sessions if one.id != but and not one.is_foreign]
        named = self._notebook.saved_conversation() if self._notebook is not None else ""
        place = self.place()
        for fits in (
            [one for one in others if named and one.id == named],
            [one for one in others if place.notebook and one.notebook == place.notebook],
            [one for one in others if of_folder and place.folder and one.folder == decodable_name(place.folder)],
        ):
            if fits:
                return fits[0]
        return None

    def fork(self, found: "SavedSession") -> tuple[Journal, JournalContents]:
        """A copy that is held here.

        Raises:
            JournalError: it cannot be read or written.
        """
        prefix = self._setup.settings().session_logging.session_prefix
        if found.is_foreign:
            return self.store.take_over(found, prefix, self.place(), self._setup.strike())
        return self.store.fork(found, prefix, self.place())

    def place(self) -> Place:
        """Where a conversation would be held now."""
        path = self._notebook.path() if self._notebook is not None else None
        with contextlib.suppress(OSError):
            return Place(str(Path.cwd()), "" if path is None else str(path))
        return NO_PLACE


def new_conversation(
    settings: config.Settings, environ: Mapping[str, str], session_id: str, place: Place = NO_PLACE
) -> Conversation:
    """One that is kept in a journal of its own, or in memory alone where the user wants that.

    Raises:
        JournalError: it cannot be kept.
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
    """Where conversations are saved."""
    with without_working_folder():  # it comes with the first look at them
        from vibe_jupyter.session.store import SessionStore

    return SessionStore(save_folder(settings.session_logging, environ))


def gateway_store(settings: config.Settings, environ: Mapping[str, str]) -> "SessionStore":
    """Where the gateway's runs are saved: apart, since they are nobody's conversation to continue."""
    from vibe_jupyter.session.store import SessionStore

    return SessionStore(save_folder(settings.session_logging, environ) / "gateway")


def save_folder(logging: SessionLogging, environ: Mapping[str, str]) -> Path:
    """The folder of `save_dir`; a relative one counts from the user's own folder."""
    home = config.vibe_home(environ)
    return home / Path(logging.save_dir).expanduser() if logging.save_dir else home / "logs" / "session"


def local_time(time: str) -> str:
    """A time of the journal, as the user's clock says it."""
    try:
        return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"
    except ValueError:
        return time
