"""The open conversation of a kernel, and switching to a saved one.

A conversation is continued only on the user's request. Variables that the kernel no longer has are reported to the user
at once and to the model with the next prompt. Nothing is executed again automatically.
"""

import concurrent.futures
import contextlib
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter import config
from vibe_jupyter.app.background_cells import BackgroundCells
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.run_view import CLOSE_WAIT
from vibe_jupyter.app.saved_sessions import SavedSessions, local_time, new_conversation
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.errors import ConfigError, JournalError, NotebookError, ToolError
from vibe_jupyter.files.truncation import section
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.protocol import Cell
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import ID_BYTES, SHORT_ID, Journal, JournalContents, JournalInUse, JournalNote
from vibe_jupyter.tools.background import BackgroundCommands
from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from vibe_jupyter.app.lost_variables import Move
    from vibe_jupyter.llm.client import SentRequest
    from vibe_jupyter.session.store import SavedSession

NOTE_WAIT: Final = 5.0  # seconds allowed for writing a note
# The same at the end of a run, so that a slow disk doesn't delay it; the note is still written.
END_NOTE_WAIT: Final = 0.5
LISTING_WAIT: Final = 2.0  # seconds for the page to send its cells while nothing runs
_COPY: Final = " (copy)"
_RUNS: Final = "A run is active in this kernel. End it with Stop or ■ first."


class SessionParts(NamedTuple):
    """Dependencies of `KernelSessions`."""

    kernel: Kernel
    setup: KernelSettings
    is_busy: Callable[[], bool]  # returns whether a run is active or code of ours occupies the main thread
    cells: BackgroundCells  # cells that runs left in the background
    # Ends a leftover run and discards the conversation's state: session permissions, tool state, reported context.
    forget: Callable[[], None]


class KernelSessions:
    """The conversations of one kernel. Main thread only."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self.shell = parts.kernel.shell
        self.saved = SavedSessions(parts.setup, parts.kernel.notebook)
        self.conversation: Conversation | None = None  # None before the first prompt
        self.background = BackgroundCommands()  # commands that the conversation's tool calls left running
        self.cells = parts.cells
        self.cells.on_change = self.end_run
        self._client: LLMClient | None = None
        self._session_id = secrets.token_hex(ID_BYTES)  # id of the open conversation, or of the next one
        self._offered = False
        self._move: Move | None = None  # how the conversation moved to this process; reported with the next prompt
        # Variables known to the model that the kernel no longer has; reported with the next prompt.
        self._lost: Sequence[str] = ()
        # Background commands and cells at the time the conversation was closed; reported with the next prompt.
        self._ended: Sequence[str] = ()
        self._noted: JournalNote | None = None  # variables, commands and cells as last noted in the journal
        self._named_in_notebook = ""  # conversation id as last written to the notebook's metadata

    @property
    def sent(self) -> "SentRequest | None":
        """The latest model request of this conversation, if any."""
        return None if self._client is None else self._client.sent

    @property
    def folder(self) -> Path | None:
        """Folder of the open conversation's files."""
        return self.conversation.folder if self.conversation is not None else None

    def open_client(self) -> LLMClient:
        """Return the HTTP client of this conversation, created on first use."""
        if self._client is None:
            self._client = LLMClient(user_agent=f"vibe-jupyter/{__version__}", affinity=self._session_id)
        return self._client

    def open_conversation(self, settings: config.Settings) -> Conversation:
        """Return the open conversation, or create one.

        Raises:
            JournalError: The journal can't be created.
        """
        if self.conversation is None:
            place = self.saved.place()
            self.conversation = new_conversation(settings, self._parts.setup.environ, self._session_id, place)
        return self.conversation

    def offer(self, *, attended: bool) -> str:
        """Return a hint that an earlier conversation of this notebook can be continued, or "".

        Shown before the first prompt.

        Args:
            attended: Whether a user could continue it.
        """
        if self._offered or self.conversation is not None or not attended or self._parts.kernel.notebook is None:
            return ""
        self._offered = True
        with contextlib.suppress(JournalError):
            found = self.saved.latest(self.saved.store.sessions(), of_folder=False)
            if found is not None:
                return f"A conversation of this notebook from {local_time(found.ended)} can be continued: %vibe resume"
        return ""

    def report(self, *, schema_only: bool) -> str:
        """Return context for the next prompt, or "": losses since the conversation moved here, and background jobs.

        Args:
            schema_only: Whether to omit all values of the user's data.
        """
        (lost, ended, move), self._lost, self._ended, self._move = (self._lost, self._ended, self._move), (), (), None
        said = [move.report(lost)] if move is not None else []
        said += [f"No longer running in the background: {', '.join(ended)}."] if ended else []
        resumed = section("resumed", "\n".join(said)) if any(said) else ""
        commands = self.background.report(schema_only=schema_only) if self.background.commands else ""
        return resumed + commands + (self.cells.report(schema_only=schema_only) if self.cells.jobs else "")

    def begin_run(self) -> None:
        """Write the open conversation's id to the notebook at the start of a run."""
        notebook, conversation = self._parts.kernel.notebook, self.conversation
        if notebook is None or conversation is None or conversation.folder is None:
            return
        if self._named_in_notebook != conversation.id:
            self._named_in_notebook = conversation.id
            self._parts.kernel.engine.submit(notebook.remember_conversation(conversation.id))

    def end_run(self) -> None:
        """Note the present variables and background jobs in the journal, after a run or a background job has ended."""
        if self.cells.open_job is not None:
            self.cells.end_run()
        if self.conversation is None:
            return
        variables = self._parts.kernel.host.namespace()
        names = tuple(sorted(name for name, value in variables.items() if type(value) is not ModuleType))
        commands = self.background.running() if self.background.commands else ()
        cells = self.cells.running() if self.cells.jobs else ()
        note = JournalNote(variables=names, background=(*commands, *cells))
        if note != (self._noted or JournalNote(variables=(), background=())):
            self._noted = note
            writing = self._parts.kernel.engine.submit(_note_quietly(self.conversation, note))
            concurrent.futures.wait([writing], timeout=END_NOTE_WAIT)

    def resume(self, text: str = "") -> str:
        """Continue a saved conversation: the named one, or else the latest of this notebook or folder.

        Raises:
            NotebookError: A run is active.
            ConfigError: No conversation matches, or several do.
            JournalError: The journal can't be read or written.
        """
        self._check_free()
        found = self.saved.find(text, but=self._present_id())
        if found.id == self._present_id():
            return f"{found.title!r} is the open conversation."
        _check_mode(found, self._parts.setup.settings())
        cells, title = self.notebook_cells(), None
        try:
            if found.is_foreign:
                journal, contents = self.saved.fork(found)
                said = "Continuing in a copy of Mistral Vibe's"
            else:
                journal, contents = Journal.reopen(self.saved.store.journal_of(found))
                said = "Continuing"
        except JournalInUse as busy:
            (journal, contents), title = self.saved.fork(found), _title_of_copy(found)
            said = f"{busy.who[0].upper()}{busy.who[1:]} has this conversation open. Continuing in a copy of"
        return self._continue(journal, contents, cells, f"{said} {_described(found)}.", title)

    def fork(self, text: str = "") -> str:
        """Continue in a copy of the open or the named conversation; the original is unchanged.

        Raises:
            NotebookError: A run is active.
            ConfigError: No conversation matches, or several do.
            JournalError: The journal can't be read or written.
        """
        self._check_free()
        found = self.saved.find(text) if text else self.present()
        _check_mode(found, self._parts.setup.settings())
        cells = self.notebook_cells()
        journal, contents = self.saved.fork(found)
        copy = contents.header.session_id[:SHORT_ID] if contents.header is not None else ""
        said = f"Continuing in a copy, {copy}, of {_described(found)}. %vibe resume {found.short_id} goes back."
        return self._continue(journal, contents, cells, said, _title_of_copy(found))

    def rename(self, title: str) -> str:
        """Set the title of the open conversation.

        Raises:
            ConfigError: No conversation is open.
            JournalError: The journal can't be written.
        """
        if self.conversation is None:
            raise ConfigError("No conversation is open yet. %vibe resume continues a saved one.")
        title = " ".join(title.split())
        self._note(JournalNote(title=title))
        return f"This conversation is called {title!r} from now on."

    def delete(self, found: "SavedSession") -> None:
        """Delete a saved conversation with all its files.

        Raises:
            ConfigError: It is the open conversation.
            JournalError: It can't be deleted, or another kernel has it open.
        """
        if found.id == self._present_id():
            raise ConfigError("That is the open conversation. %vibe reset closes it; then it can be deleted.")
        self.saved.store.delete(found)

    def present(self) -> "SavedSession":
        """Return the open conversation as saved.

        Raises:
            ConfigError: No conversation is open, or it isn't saved.
        """
        if self.conversation is None:
            raise ConfigError("No conversation is open yet. Name one by its id; %vibe sessions lists them.")
        for one in self.saved.store.sessions():
            if one.id == self.conversation.id:
                return one
        raise ConfigError("The open conversation is not kept on disk ([session_logging] enabled = false).")

    def forget(self) -> None:
        """Close the conversation. The next prompt begins a new one."""
        self._session_id, self._noted = secrets.token_hex(ID_BYTES), None
        self._lost, self._ended, self._move = (), (), None
        self.cells.forget()
        ending = self._parts.kernel.engine.submit(self.background.end())
        concurrent.futures.wait([ending], timeout=CLOSE_WAIT)
        if self.conversation is not None:
            self.conversation.journal.close()
            self.conversation = None
        if self._client is not None:
            closing = self._parts.kernel.engine.submit(self._client.close())
            concurrent.futures.wait([closing], timeout=CLOSE_WAIT)
            self._client = None

    def notebook_cells(self) -> Sequence[Cell]:
        """Return the notebook's cells if the page responds in time, else ()."""
        notebook = self._parts.kernel.notebook
        if notebook is None:
            return ()
        notebook.cells.resume()
        with contextlib.suppress(NotebookError, ToolError, concurrent.futures.TimeoutError):
            listing = self._parts.kernel.engine.submit(notebook.cells.reads.glance()).result(LISTING_WAIT)
            return listing.cells if listing is not None else ()
        return ()

    def _present_id(self) -> str:
        return self.conversation.id if self.conversation is not None else ""

    def _check_free(self) -> None:
        if self._parts.is_busy():
            raise NotebookError(_RUNS)

    def _continue(
        self, journal: Journal, contents: JournalContents, cells: Sequence[Cell], said: str, title: str | None
    ) -> str:
        """Replace the open conversation by a saved one, with a new title for a copy. Returns the message to print."""
        self._parts.forget()
        self.conversation = conversation = Conversation.resumed(journal, contents)
        self._session_id, self._offered = conversation.id, True
        place = self.saved.place()
        self._note(JournalNote(pid=journal.pid, notebook=place.notebook or None, title=title))
        self.begin_run()
        with without_working_folder():
            from vibe_jupyter.app.lost_variables import Move, loss_text, lost_variables
        has_notebook = self._parts.kernel.notebook is not None
        self._move = Move.of(contents, journal.pid, place.notebook, has_notebook=has_notebook)
        present = self._parts.kernel.host.namespace()
        known = next((note.variables for note in reversed(contents.notes) if note.variables is not None), ())
        self._lost = lost_variables(known, present, conversation.history)
        self._ended = next((note.background for note in reversed(contents.notes) if note.background is not None), ())
        ended = f"No longer running in the background: {', '.join(self._ended)}." if self._ended else ""
        loss = loss_text(self._lost, cells, present, self._move)
        return "\n".join(filter(None, [said, *contents.dropped, loss, ended]))

    def _note(self, note: JournalNote) -> None:
        assert self.conversation is not None
        writing = self._parts.kernel.engine.submit(self.conversation.note(note))
        try:
            writing.result(NOTE_WAIT)
        except concurrent.futures.TimeoutError:
            raise JournalError(f"The journal was not written within {NOTE_WAIT:g} s. Try again.") from None


async def _note_quietly(conversation: Conversation, note: JournalNote) -> None:
    with contextlib.suppress(JournalError):  # the next run hits the same journal error and reports it
        await conversation.note(note)


def _title_of_copy(found: "SavedSession") -> str:
    return found.title if found.title.endswith(_COPY) else f"{found.title}{_COPY}"


def _described(found: "SavedSession") -> str:
    count = f"{found.messages:,} message{'s' if found.messages != 1 else ''}"
    return f"{found.title!r} ({found.short_id}, {count}, last at {local_time(found.ended)})"


def kept_in(conversation: Conversation) -> str:
    """Describe where the conversation is stored."""
    journal = conversation.journal
    return f"kept in {journal.path}" if isinstance(journal, Journal) else "kept in memory alone"


def status_line(conversation: Conversation | None) -> str:
    """Describe the open conversation for the user."""
    if conversation is None:
        return "Conversation: none yet"
    usage = conversation.usage
    return (
        f"Conversation: {len(conversation.history)} messages, {usage.prompt_tokens:,} tokens in, "
        f"{usage.completion_tokens:,} out, {kept_in(conversation)}"
    )


def end_other_mode(settings: config.Settings, forget: Callable[[], None]) -> str:
    """Close the open conversation after a change of privacy mode, because its whole history is sent with each request.

    Args:
        settings: Settings with the current mode.
        forget: Closes the conversation.

    Returns:
        The message for the user.
    """
    forget()
    return f"The privacy mode is now {settings.privacy.mode}: a new conversation begins."


def _check_mode(found: "SavedSession", settings: config.Settings) -> None:
    """Check that the conversation's privacy mode matches the settings.

    Raises:
        ConfigError: It was held in another privacy mode.
    """
    if found.schema_only != settings.privacy.schema_only:
        how = "without" if found.schema_only else "with"
        raise ConfigError(
            f"{found.title!r} was held {how} values of your data. [privacy] mode in your config.toml is another now: "
            "change it to continue this conversation."
        )


def whereabouts(sessions: KernelSessions) -> tuple[str, str]:
    """Return the id of the open conversation and the folder of its journal, for the user's hooks. Thread-safe."""
    conversation = sessions.conversation
    return ("", "") if conversation is None else (conversation.id, str(conversation.folder or ""))


def saved_id(sessions: KernelSessions) -> str:
    """Return the id of the open conversation if it is saved on disk, else ""."""
    session_id, folder = whereabouts(sessions)
    return session_id if folder else ""
