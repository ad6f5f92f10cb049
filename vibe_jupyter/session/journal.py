"""Journal of a session: an append-only file of records, byte-for-byte reproducible and readable when damaged.

{"seq":7,"time":"2026-01-31T12:00:00.000Z","event":{…},"sum":"0f3a99c1"}

`sum` is the CRC-32 of every byte before ``,"sum"``, so a line can be verified without parsing it. Keys are in this
order, without white space. JSON strings escape all line breaks, so a record is exactly one line.
"""

import asyncio
import errno
import json
import os
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import BinaryIO, Literal, NamedTuple, Protocol, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from vibe_jupyter.errors import JournalError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import DurableEvent
from vibe_jupyter.protocol.messages import Value

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

FORMAT_VERSION = 2  # version 1 had no notes, and no folder, notebook or origin in its header; it is loaded as it is
MAX_LINE = 64 * 2**20  # bytes; an event holds at most a few images of about 1 MB each

Kind = Literal["header", "event", "note"]

_KINDS: tuple[str, ...] = get_args(Kind)
_HEAD = lazy_pattern(rb'\{"seq":(\d{1,15}),"time":"([^"]{1,40})","(\w{1,40})":')
_SUM = lazy_pattern(rb',"sum":"([0-9a-f]{8})"\}\Z')
# Built on first use, as most models aren't needed before the first request.
_EVENT: TypeAdapter[DurableEvent] = TypeAdapter(DurableEvent, config=ConfigDict(defer_build=True))

_RECORD_START = lazy_pattern(rb'\{"seq":\d+,"time":"')

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


class JournalRecord(NamedTuple):
    """An intact line of a journal."""

    seq: int  # 0 for the header, then consecutive; defines the order, since clocks may jump
    time: str
    body: JournalBody


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


def encode_record(seq: int, time: str, kind: Kind, body: bytes) -> bytes:
    """Return the record as a line with its newline."""
    line = b'{"seq":%d,"time":"%s","%s":%s' % (seq, time.encode(), kind.encode(), body)
    return b'%s,"sum":"%08x"}\n' % (line, zlib.crc32(line))


def decode_record(line: bytes) -> JournalRecord:
    """Parse a line without its newline.

    Raises:
        UnreadableRecord: It is damaged, or of a kind that this version doesn't know.
    """
    seal = _SUM.search(line, max(0, len(line) - 32))
    if seal is None:
        raise UnreadableRecord("it has no end")
    if zlib.crc32(memoryview(line)[: seal.start()]) != int(seal[1], 16):
        raise UnreadableRecord("its checksum is wrong")
    head = _HEAD.match(line)
    if head is None or (kind := head[3].decode()) not in _KINDS:
        raise UnreadableRecord(f"this version knows no {head[3].decode() if head else 'such'} record")
    return JournalRecord(
        seq=int(head[1]), time=head[2].decode(), body=_decode_body(kind, line[head.end() : seal.start()])
    )


def _decode_body(kind: str, text: bytes) -> JournalBody:
    try:
        if kind == "event":
            return _EVENT.validate_json(text)
        return (JournalHeader if kind == "header" else JournalNote).model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UnreadableRecord(f"this version cannot read the {kind} ({where}: {first['msg']})") from None


class JournalContents(NamedTuple):
    """The readable contents of a journal."""

    header: JournalHeader | None  # None if the first line is damaged
    events: tuple[DurableEvent, ...]
    dropped: tuple[str, ...]  # one sentence per skipped item, with its line number
    notes: tuple[JournalNote, ...] = ()
    next_seq: int = 1  # number of the next record


def read_journal(path: Path) -> JournalContents:
    """Read everything intact in a journal, in order. Reports damaged records and those of newer versions.

    Raises:
        JournalError: The file can't be opened or read at all.
    """
    reading = _Reading()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_bounded_lines(file), start=1):
                reading.take(number, line)
    except OSError as error:
        raise JournalError(f"Cannot read {path}: {error.strerror}. Start a new session.") from error
    return reading.contents()


class _Reading:
    """Reader of one journal file, line by line."""

    def __init__(self) -> None:
        self._header: JournalHeader | None = None
        self._events: list[DurableEvent] = []
        self._notes: list[JournalNote] = []
        self._dropped: list[str] = []
        self._next = 0

    def take(self, number: int, line: bytes | None) -> None:
        """Process the next line. None stands for a line longer than any record."""
        if line is None:
            self._drop_line(number, "it is longer than any record")
            return
        try:
            self._accept_record(number, decode_record(line))
        except UnreadableRecord as error:
            self._rescue_line(number, line, str(error))

    def contents(self) -> JournalContents:
        return JournalContents(
            self._header, tuple(self._events), tuple(self._dropped), tuple(self._notes), max(1, self._next)
        )

    def _rescue_line(self, number: int, line: bytes, why: str) -> None:
        """Recover intact records from a bad line, which occur if newlines were lost."""
        starts = [match.start() for match in _RECORD_START.finditer(line)]
        ends = [*starts[1:], len(line)]
        rescued = [
            record for start, end in zip(starts, ends, strict=False) if (record := _intact_record(line[start:end]))
        ]
        if not rescued or len(rescued) < len(starts):
            self._drop_line(number, why)
        for record in rescued:
            self._accept_record(number, record)

    def _accept_record(self, number: int, record: JournalRecord) -> None:
        if isinstance(record.body, JournalHeader):
            self._accept_header(number, record.body)
            return
        if record.seq < self._next:
            self._drop_line(number, f"it repeats record {record.seq}")
            return
        if record.seq > self._next > 0:
            self._dropped.append(f"Before line {number}: {record.seq - self._next} record(s) are missing.")
        if isinstance(record.body, JournalNote):
            self._notes.append(record.body)
        else:
            self._events.append(record.body)
        self._next = record.seq + 1

    def _accept_header(self, number: int, header: JournalHeader) -> None:
        if header == self._header:
            return
        if self._header is not None:
            self._dropped.append(f"Line {number}: another journal, {header.session_id}, goes on here.")
        if header.version > FORMAT_VERSION:
            self._dropped.append(f"Line {number}: a newer version wrote this; update vibe-jupyter to read all of it.")
        self._header = self._header or header
        self._next = 1

    def _drop_line(self, number: int, why: str) -> None:
        self._dropped.append(f"Line {number} was passed over: {why}.")


def _intact_record(piece: bytes) -> JournalRecord | None:
    """Parse a record whose last byte may be the remainder of a damaged newline."""
    for candidate in (piece, piece[:-1]):
        try:
            return decode_record(candidate)
        except UnreadableRecord:
            continue
    return None


def _bounded_lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines without newlines, using bounded memory."""
    while line := file.readline(MAX_LINE + 1):
        whole = line.endswith(b"\n") or len(line) <= MAX_LINE
        yield line.removesuffix(b"\n") if whole else None
        while not whole and (line := file.readline(MAX_LINE + 1)):
            whole = line.endswith(b"\n")


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

    def __init__(self, path: Path, tail: _Tail, *, seq: int = 1) -> None:
        self.path = path
        self._seq = seq  # number of the next record; used on the writer thread
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
            tail.append(_encode_record(0, header.started, "header", encode_body(header)))
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
        return cls(path, tail, seq=contents.next_seq), contents

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
                tail.append(_encode_record(self._seq, job.time, job.kind, job.body))
            except OSError as error:
                job.done.set_exception(_cannot_record(self.path, error))
            except MemoryError:
                job.done.set_exception(JournalError(f"Cannot record in {self.path}: out of memory."))
            else:
                self._seq += 1
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


def _encode_record(seq: int, time: str, kind: Kind, body: bytes) -> bytes:
    line = encode_record(seq, time, kind, body)
    if len(line) > MAX_LINE:
        raise OSError(None, f"the record has {len(line)} bytes, at most {MAX_LINE} are read back")
    return line


def _writer_of(path: Path) -> int | None:
    """Return the process that writes a journal, if recorded."""
    with suppress(JournalError):
        header, _, _, notes, _ = read_journal(path)
        pids = [note.pid for note in notes if note.pid is not None]
        return pids[-1] if pids else header and header.pid
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
