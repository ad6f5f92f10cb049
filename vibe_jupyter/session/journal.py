"""Journal of a session: an append-only file of JSON lines, each synced before anything is done because of it.

{"time":"2026-01-31T12:00:00.000Z","event":{…}}

Keys are in this order, without white space. JSON strings escape all line breaks, so a record is exactly one line, and
damage costs no more than the lines that it touches.
"""

import asyncio
import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Literal, NamedTuple, Protocol

from pydantic import ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import DurableEvent, LazyModel
from vibe_jupyter.protocol.messages import Value

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Earlier versions are loaded as they are. Version 2 had a number and a checksum in each line; version 1 also had no
# notes, and no folder, notebook or origin in its header.
FORMAT_VERSION = 3
MAX_LINE = 64 * 2**20  # bytes; an event holds at most a few images of about 1 MB each

Kind = Literal["header", "event", "note"]

FILE_NAME = "journal.jsonl"
ID_BYTES = 16
SHORT_ID = 8  # characters of a conversation's short id; more if two start alike
CLOSE_WAIT = 5.0  # seconds; if the file system hangs longer, the daemon thread is abandoned

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def new_folder(folder: Path, prefix: str, session_id: str) -> Path:
    """Return the directory for a conversation that starts now. Doesn't create it."""
    return folder / f"{prefix}_{datetime.now(UTC):%Y%m%d_%H%M%S}_{session_id[:SHORT_ID]}"


class JournalHeader(Value):
    """The first record of a journal."""

    # Unknown fields of newer versions are ignored.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    version: int = FORMAT_VERSION
    session_id: str
    started: str  # UTC, ISO 8601 with milliseconds
    pid: int  # the writing process
    folder: str = ""  # working directory of the kernel, or "" if unknown
    notebook: str = ""  # path of the notebook, or "" if unknown or in a terminal
    parent: str = ""  # id of the conversation this one was forked from
    imported: str = ""  # id in Mistral Vibe, if the conversation was imported from there
    schema_only: bool = False  # True if it contains no values of the user's data


class JournalNote(Value):
    """Later facts about the conversation. None means unchanged."""

    title: str | None = None  # set by the user
    notebook: str | None = None  # as in the header, after a rename
    variables: tuple[str, ...] | None = None  # names of the user's variables at the end of a run
    background: tuple[str, ...] | None = None  # commands that were still running then
    pid: int | None = None  # the writing process from here on


JournalBody = JournalHeader | JournalNote | DurableEvent


class _Line(LazyModel):
    """A line of a journal, with one of these bodies. Other keys are ignored, such as `seq` and `sum` of version 2."""

    header: JournalHeader | None = None
    event: DurableEvent | None = None
    note: JournalNote | None = None


class UnreadableRecord(Exception):
    """A line that is damaged or was written by a newer version. The message says which."""


def journal_time() -> str:
    """Return the current time in the journal's format."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_body(body: Value) -> bytes:
    """Serialize a record's body, or a line of the conversation's other files.

    Raises:
        ValueError: It can't be represented in JSON.
    """
    try:
        return body.model_dump_json().encode()
    except PydanticSerializationError:
        # A lone surrogate, as may occur in JSON from a model or file, has no UTF-8 encoding.
        text = json.dumps(body.model_dump(), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def encode_record(time: str, kind: Kind, body: bytes) -> bytes:
    """Return the record as a line with its newline.

    Raises:
        OSError: It is longer than is read back.
    """
    line = b'{"time":"%s","%s":%s}\n' % (time.encode(), kind.encode(), body)
    if len(line) > MAX_LINE:
        raise OSError(None, f"the record has {len(line)} bytes, at most {MAX_LINE} are read back")
    return line


def decode_record(line: bytes) -> JournalBody:
    """Return the body of a line without its newline.

    Raises:
        UnreadableRecord: It is damaged, or of a kind that this version doesn't know.
    """
    if len(line) > MAX_LINE:
        raise UnreadableRecord("it is longer than any record")
    try:
        record = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if not first["loc"]:
            raise UnreadableRecord("it is damaged" if line.endswith(b"}") else "it has no end") from None
        where = ".".join(str(step) for step in first["loc"])
        raise UnreadableRecord(f"this version cannot read it ({where}: {first['msg']})") from None
    body = record.header or record.event or record.note
    if body is None:
        raise UnreadableRecord("this version knows no such record")
    return body


class JournalContents(NamedTuple):
    """The readable contents of a journal."""

    header: JournalHeader | None  # None if the first line is damaged
    events: tuple[DurableEvent, ...]
    dropped: tuple[str, ...]  # one sentence per skipped item, with its line number
    notes: tuple[JournalNote, ...] = ()


def read_journal(path: Path) -> JournalContents:
    """Read everything readable in a journal, in order. Reports damaged records and those of newer versions.

    Raises:
        JournalError: The file can't be opened or read at all.
    """
    header: JournalHeader | None = None
    events: list[DurableEvent] = []
    notes: list[JournalNote] = []
    dropped: list[str] = []
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_bounded_lines(file), start=1):
                try:
                    body = decode_record(line)
                except UnreadableRecord as error:
                    dropped.append(f"Line {number} was passed over: {error}.")
                    continue
                if isinstance(body, JournalHeader):
                    dropped += _header_problems(number, header, body)
                    header = header or body
                elif isinstance(body, JournalNote):
                    notes.append(body)
                else:
                    events.append(body)
    except OSError as error:
        raise JournalError(f"Cannot read {path}: {error.strerror}. Start a new session.") from error
    return JournalContents(header, tuple(events), tuple(dropped), tuple(notes))


def _header_problems(number: int, first: JournalHeader | None, header: JournalHeader) -> Iterator[str]:
    if first is not None:
        what = "this journal begins again" if header == first else f"another journal, {header.session_id}, goes on"
        yield f"Line {number}: {what} here."
    if header.version > FORMAT_VERSION:
        yield f"Line {number}: a newer version wrote this; update vibe-jupyter to read all of it."


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines without newlines, and of those longer than any record only the beginning."""
    while line := file.readline(MAX_LINE + 1):
        rest = line
        while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE + 1)
        yield line.removesuffix(b"\n")


class _Tail:
    """Append end of a file. Lives on the writer thread; one write and one fsync per line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._good_end = os.fstat(descriptor).st_size
        self._torn = False

    def lock(self) -> None:
        """Acquire an exclusive lock until the file is closed or the process ends in any way.

        Raises:
            BlockingIOError: Another process has the lock.
        """
        if fcntl is None:  # Windows: a second kernel isn't detected
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise  # otherwise a file system without locks

    def end_line(self) -> None:
        """Terminate a line that a crash left incomplete."""
        if self._good_end:
            os.lseek(self._descriptor, self._good_end - 1, os.SEEK_SET)
            if os.read(self._descriptor, 1) != b"\n":
                self.append(b"\n")

    def append(self, line: bytes) -> None:
        # The previous write failed midway: remove its remains.
        if self._torn:
            os.ftruncate(self._descriptor, self._good_end)
        self._torn = True
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        os.fsync(self._descriptor)
        self._good_end += len(line)
        self._torn = False

    def close(self) -> None:
        try:
            if self._torn:
                os.ftruncate(self._descriptor, self._good_end)
        finally:
            os.close(self._descriptor)


class _Job(NamedTuple):
    time: str
    kind: Kind
    body: bytes
    done: "Future[None]"


class JournalInUse(JournalError):
    """Error for a journal that another process is writing."""

    def __init__(self, path: Path, pid: int | None) -> None:
        who = "another kernel" if pid is None else f"another kernel (process {pid})"
        super().__init__(f"Cannot write {path}: {who} has the conversation open.")
        self.who = who  # for messages


class Place(NamedTuple):
    """Location of a conversation."""

    folder: str = ""
    notebook: str = ""  # both as in `JournalHeader`


NO_PLACE = Place()


class EventLog(Protocol):
    """Sink for the events of a conversation."""

    @property
    def folder(self) -> Path | None:
        """Directory for files of the conversation, or None if nothing is stored."""
        ...

    async def append(self, event: DurableEvent | JournalNote) -> None:
        """Store an event or note, and return once it is stored.

        Raises:
            JournalError: It couldn't be stored, so nothing that depends on it may be done.
        """
        ...

    def close(self) -> None:
        """Close the log."""
        ...


class Journal:
    """Exclusive writer of one journal file.

    A failed write only fails its own `append`; the next one first truncates the file to its last good end.
    """

    def __init__(self, path: Path, tail: _Tail) -> None:
        self.path = path
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self.pid = os.getpid()  # the process that may write: a fork must not
        self._writer = threading.Thread(target=self._write_queue, args=(tail,), name="vibe-journal", daemon=True)
        self._writer.start()

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        session_id: str,
        place: Place = NO_PLACE,
        parent: str = "",
        imported: str = "",
        schema_only: bool = False,
    ) -> "Journal":
        """Create a journal in its own directory, readable only by its owner.

        Args:
            folder: The journal's directory.
            session_id: Id of the conversation.
            place: Location of the conversation.
            parent: See `JournalHeader`.
            imported: See `JournalHeader`.
            schema_only: See `JournalHeader`.

        Raises:
            JournalError: The directory can't be created or written, or already has a journal.
        """
        path = folder / FILE_NAME
        header = JournalHeader(
            session_id=session_id,
            started=journal_time(),
            pid=os.getpid(),
            folder=place.folder,
            notebook=place.notebook,
            parent=parent,
            imported=imported,
            schema_only=schema_only,
        )
        try:
            _make_private(folder)
            # O_EXCL: two kernels never write the same file.
            tail = _Tail(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, _FILE_MODE))
        except OSError as error:
            raise _cannot_record(path, error) from error
        try:
            tail.lock()
            tail.append(encode_record(header.started, "header", encode_body(header)))
            with suppress(OSError):  # some file systems reject fsync on directories
                _sync_folder(folder)
        except OSError as error:
            with suppress(OSError):
                tail.close()
                path.unlink()
            raise _cannot_record(path, error) from error
        return cls(path, tail)

    @classmethod
    def reopen(cls, path: Path) -> "tuple[Journal, JournalContents]":
        """Open an existing journal as its exclusive writer, and return it with its contents.

        The contents aren't changed, but a torn last line gets a newline so that the next record starts on its own line.

        Raises:
            JournalInUse: Another process is writing it.
            JournalError: It can't be read or written.
        """
        try:
            tail = _Tail(os.open(path, os.O_RDWR | os.O_APPEND))
        except OSError as error:
            raise _cannot_record(path, error) from error
        try:
            tail.lock()
            contents = read_journal(path)
            tail.end_line()
        except BlockingIOError:
            tail.close()
            raise JournalInUse(path, _writer_of(path)) from None
        except OSError as error:
            tail.close()
            raise _cannot_record(path, error) from error
        except BaseException:
            tail.close()
            raise
        return cls(path, tail), contents

    @property
    def folder(self) -> Path | None:
        """Directory for files of the conversation."""
        return self.path.parent

    async def append(self, event: DurableEvent | JournalNote) -> None:
        """Write an event or note and wait until it is on disk. It is written even if the wait is cancelled.

        Raises:
            JournalError: It couldn't be written, so nothing that depends on it may be done.
        """
        try:
            kind: Kind = "note" if isinstance(event, JournalNote) else "event"
            job = _Job(time=journal_time(), kind=kind, body=encode_body(event), done=Future())
        except ValueError as error:
            raise JournalError(f"Cannot record a {type(event).__name__}: {error}.") from error
        job.done.set_running_or_notify_cancel()  # from here on, only the wait can be cancelled
        with self._lock:
            if self._closed or os.getpid() != self.pid:
                raise JournalError(f"Cannot record in {self.path}: the session is closed. Start a new one.")
            self._jobs.put(job)
        await asyncio.wrap_future(job.done)

    def close(self) -> None:
        """Write pending records and close the file. Returns within `CLOSE_WAIT` seconds; may be called twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._writer.join(CLOSE_WAIT)

    def _write_queue(self, tail: _Tail) -> None:
        """Run the writer thread: process jobs in order until the end mark."""
        while (job := self._jobs.get()) is not None:
            try:
                tail.append(encode_record(job.time, job.kind, job.body))
            except OSError as error:
                job.done.set_exception(_cannot_record(self.path, error))
            except MemoryError:
                job.done.set_exception(JournalError(f"Cannot record in {self.path}: out of memory."))
            else:
                job.done.set_result(None)
        # Nothing waits for this, and the reader can handle a torn tail.
        with suppress(OSError):
            tail.close()


class UnkeptJournal:
    """Log that stores nothing, for conversations that exist only in memory."""

    folder: Path | None = None

    async def append(self, event: DurableEvent | JournalNote) -> None:
        """Discard the event."""

    def close(self) -> None:
        """Do nothing."""


def _writer_of(path: Path) -> int | None:
    """Return the process that writes a journal, if recorded."""
    with suppress(JournalError):
        contents = read_journal(path)
        pids = [one.pid for one in (contents.header, *contents.notes) if one is not None and one.pid is not None]
        return pids[-1] if pids else None
    return None


def _make_private(folder: Path) -> None:
    """Create a directory and its missing parents, accessible only by the owner regardless of the umask."""
    missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
    for one in reversed(missing):
        one.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        one.chmod(_FOLDER_MODE)


def _sync_folder(folder: Path) -> None:
    """Make the file's directory entry as durable as its contents."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_record(path: Path, error: OSError) -> JournalError:
    match error:
        case FileExistsError():
            step = "Another session uses that journal: start a new one"
        case OSError(errno=number) if number in _FULL:
            step = f"Free space on {path.parent}, then try again"
        case _:
            step = f"Make {path.parent} a folder you can write, or set VIBE_HOME to one, then try again"
    return JournalError(f"Cannot record in {path}: {error.strerror}. {step}; nothing after this point was done.")
