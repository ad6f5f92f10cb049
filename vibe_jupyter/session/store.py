"""Saved conversations in one directory: list, find, fork, delete.

Journals are the source of truth. The list entries folded from them are cached in an index, with the position read. A
journal that has grown is read from there; one that was replaced is read again. A damaged or missing index only costs
time.
"""

import contextlib
import difflib
import itertools
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pydantic import ConfigDict

from vibe_jupyter.errors import ConfigError, JournalError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import MessageAdded, RunFinished, RunStarted, TextPart, UserMessage
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.session.conversation import title_of
from vibe_jupyter.session.journal import (
    FILE_NAME,
    ID_BYTES,
    MAX_LINE,
    SHORT_ID,
    Journal,
    JournalContents,
    JournalHeader,
    JournalNote,
    Place,
    UnreadableRecord,
    decode_record,
    encode_body,
    encode_record,
    journal_time,
    new_folder,
)
from vibe_jupyter.session.vibe_sessions import vibe_events, vibe_files, vibe_name, vibe_summary

INDEX_NAME: Final = "index.json"
INDEX_VERSION: Final = 1
NEAREST: Final = 3  # conversations suggested if none has the id
_LIKE: Final = 0.3
_TIME: Final = lazy_pattern(rb'\{(?:"seq":\d{1,15},)?"time":"([^"]{1,40})","')  # older versions wrote a number
_EVENT: Final = b'"event":{"type":"'
_MESSAGE: Final = b'message_added","message":{"role":"'
_TOLD: Final = (b"run_started", b"run_finished")


# Header fields in list entries, besides the id.
_OF_HEADER: Final = ("started", "folder", "notebook", "parent", "imported", "schema_only")


class SavedSession(Value):
    """A conversation's list entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # of its directory
    id: str = ""
    title: str = ""  # set by the user, else the first line of the first prompt
    is_named: bool = False  # True if the user set the title
    started: str = ""
    ended: str = ""  # time of the last record; both in the journal's format
    folder: str = ""
    notebook: str = ""
    parent: str = ""
    imported: str = ""
    schema_only: bool = False  # these five as in the journal's header
    model: str = ""  # alias of the model used last
    cost: float | None = None  # US dollars; None if no price is known
    messages: int = 0  # of user, model and tools
    prompts: int = 0
    # True if it belongs to Mistral Vibe. Continuing it makes a copy and never changes the original.
    is_foreign: bool = False

    @property
    def short_id(self) -> str:
        return self.id[:SHORT_ID]


class _Indexed(Value):
    """List entry of one journal, with the position read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: SavedSession
    told: bool = False  # True if the last run recorded its prompt; version 1 didn't
    read: int  # bytes of complete lines
    size: int
    mtime: int  # nanoseconds


class SessionStore:
    """Directory with a subdirectory per conversation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sessions(self) -> list[SavedSession]:
        """Return all conversations with a prompt, latest first. Copies replace the originals of Mistral Vibe.

        Updates the index if necessary.
        """
        known = self._read_index()
        current: dict[str, _Indexed] = {}
        for journal in self._journals():
            with contextlib.suppress(OSError):  # deleted in the meantime
                current[journal.parent.name] = _look_up(journal, known.get(journal.parent.name))
        for file in vibe_files(self.folder):
            name = vibe_name(file)
            with contextlib.suppress(OSError):
                if name not in current:
                    current[name] = _look_up_foreign(file, known.get(name))
        if current != known:
            self._write_index(current)
        ours = {one.session.imported for one in current.values() if not one.session.is_foreign}
        found = [one.session for one in current.values() if one.session.id and one.session.prompts]
        found = [one for one in found if not (one.is_foreign and one.id in ours)]
        return sorted(found, key=lambda session: (session.ended, session.name), reverse=True)

    def journal_of(self, session: SavedSession) -> Path:
        """Return the path of its journal.

        Raises:
            JournalError: It belongs to Mistral Vibe.
        """
        if session.is_foreign:
            step = f"%vibe resume {session.short_id} makes a copy that is yours to change here."
            raise JournalError(f"Mistral Vibe keeps {session.title!r}, and it stays as it is. {step}")
        return self.folder / session.name / FILE_NAME

    def fork(self, session: SavedSession, prefix: str, place: Place) -> tuple[Journal, JournalContents]:
        """Copy a conversation into a new one.

        Raises:
            JournalError: The original can't be read, or the copy can't be written.
        """
        session_id = secrets.token_hex(ID_BYTES)
        folder = new_folder(self.folder, prefix, session_id)
        Journal.create(
            folder, session_id=session_id, place=place, parent=session.id, schema_only=session.schema_only
        ).close()
        path = folder / FILE_NAME
        try:
            with self.journal_of(session).open("rb") as old, path.open("ab") as new:
                first = old.readline(MAX_LINE)
                if not _is_header(first):
                    new.write(first)
                shutil.copyfileobj(old, new)
                new.flush()
                os.fsync(new.fileno())
            for kept in (one for one in self.journal_of(session).parent.iterdir() if one.is_dir()):
                shutil.copytree(kept, folder / kept.name, symlinks=True)
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise JournalError(f"Cannot fork {session.short_id}: {error.strerror or error}.") from error
        return Journal.reopen(path)

    def take_over(
        self, session: SavedSession, prefix: str, place: Place, clean: Callable[[str], str]
    ) -> tuple[Journal, JournalContents]:
        """Copy a conversation of Mistral Vibe into a new one.

        Args:
            session: A session with `is_foreign`.
            prefix: Prefix of the new directory.
            place: New location.
            clean: Redacts text.

        Raises:
            JournalError: It can't be written.
        """
        session_id = secrets.token_hex(ID_BYTES)
        folder = new_folder(self.folder, prefix, session_id)
        Journal.create(folder, session_id=session_id, place=place, imported=session.id).close()
        time = journal_time()
        bodies = itertools.chain(
            [JournalNote(title=session.title)] if session.is_named else (),
            vibe_events(self.folder / session.name, session.model, clean),
        )
        try:
            with (folder / FILE_NAME).open("ab") as new:
                for body in bodies:
                    kind = "note" if isinstance(body, JournalNote) else "event"
                    new.write(encode_record(time, kind, encode_body(body)))
                new.flush()
                os.fsync(new.fileno())
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise JournalError(f"Cannot continue {session.short_id}: {error.strerror or error}.") from error
        return Journal.reopen(folder / FILE_NAME)

    def delete(self, session: SavedSession) -> None:
        """Delete a conversation with all its files.

        Raises:
            JournalInUse: A kernel has it open.
            JournalError: It can't be deleted.
        """
        journal, _ = Journal.reopen(self.journal_of(session))
        try:
            shutil.rmtree(self.folder / session.name)
        except OSError as error:
            raise JournalError(f"Cannot delete {self.folder / session.name}: {error.strerror}.") from error
        finally:
            journal.close()

    def _journals(self) -> list[Path]:
        try:
            return sorted(self.folder.glob(f"*/{FILE_NAME}"))
        except OSError as error:
            raise JournalError(f"Cannot read {self.folder}: {error.strerror}.") from error

    def _read_index(self) -> dict[str, _Indexed]:
        try:
            index = json.loads((self.folder / INDEX_NAME).read_bytes())
            if index["version"] != INDEX_VERSION:
                return {}
            return {name: _Indexed.model_validate(entry) for name, entry in index["sessions"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return {}  # pydantic's errors are ValueErrors

    def _write_index(self, current: dict[str, _Indexed]) -> None:
        index = {"version": INDEX_VERSION, "sessions": {name: one.model_dump() for name, one in current.items()}}
        with contextlib.suppress(OSError):  # on failure, the next listing reads everything again
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{INDEX_NAME}.")  # mode 0600
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    json.dump(index, file)
                os.replace(name, self.folder / INDEX_NAME)  # atomic: readers never see a partial index
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise


def find_session(text: str, sessions: Sequence[SavedSession]) -> SavedSession:
    """Return the one conversation that matches an id, part of an id, or part of a title.

    Raises:
        ConfigError: None or several match; suggests the nearest.
    """
    part = text.strip().lower()
    for fits in (
        [one for one in sessions if part in (one.id, one.imported)],
        [one for one in sessions if one.id.startswith(part) or (one.imported and one.imported.startswith(part))],
        [one for one in sessions if part in one.id or part in one.imported],
        [one for one in sessions if part == one.title.lower()],
        [one for one in sessions if part in one.title.lower()],
    ):
        if len(fits) == 1 and part:
            return fits[0]
        if fits:
            named = "; ".join(f"{one.short_id} {one.title}" for one in fits[: NEAREST + 1])
            more = f"; and {len(fits) - NEAREST - 1} more" if len(fits) > NEAREST + 1 else ""
            raise ConfigError(f"{text!r} fits {len(fits)} conversations: {named}{more}. Give more of the id.")
    if not sessions:
        raise ConfigError("No conversation is saved yet.")
    nearest = _nearest(part, sessions)
    named = "; ".join(f"{one.short_id} {one.title}" for one in nearest)
    raise ConfigError(f"No conversation has {text!r} in its id or title. The nearest: {named}.")


def unique_ids(sessions: Sequence[SavedSession]) -> dict[str, str]:
    """Return a unique prefix for each id, of at least `SHORT_ID` characters."""
    ordered = sorted(one.id for one in sessions)
    found: dict[str, str] = {}
    for place, one in enumerate(ordered):
        beside = [*ordered[max(0, place - 1) : place], *ordered[place + 1 : place + 2]]
        shared = max((_shared_length(one, other) for other in beside if other != one), default=0)
        found[one] = one[: max(SHORT_ID, shared + 1)]
    return found


def _shared_length(one: str, other: str) -> int:
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _nearest(part: str, sessions: Sequence[SavedSession]) -> list[SavedSession]:
    def likeness(one: SavedSession) -> float:
        texts = (one.id[: max(len(part), SHORT_ID)], one.title.lower())
        return max(difflib.SequenceMatcher(None, part, text).ratio() for text in texts)

    like = sorted(sessions, key=likeness, reverse=True)
    return [one for one in like[:NEAREST] if likeness(one) >= _LIKE] or list(sessions[:NEAREST])


def _look_up(journal: Path, known: _Indexed | None) -> _Indexed:
    status = journal.stat()
    if known is not None and (known.size, known.mtime) == (status.st_size, status.st_mtime_ns):
        return known
    if known is None or known.read > status.st_size:
        known = _Indexed(session=SavedSession(name=journal.parent.name), read=0, size=0, mtime=0)
    summary = _Summary(known.session, told=known.told)
    read = known.read
    for line in _whole_lines(journal, read):
        summary.take(line)
        read += len(line)
    return _Indexed(
        session=summary.session(), told=summary.told, read=read, size=status.st_size, mtime=status.st_mtime_ns
    )


def _look_up_foreign(file: Path, known: _Indexed | None) -> _Indexed:
    status = file.stat()
    if known is not None and (known.size, known.mtime) == (status.st_size, status.st_mtime_ns):
        return known
    session = SavedSession(name=vibe_name(file), is_foreign=True)
    with contextlib.suppress(ValueError):  # not a session, or of an unknown format
        said = vibe_summary(file)
        title = title_of(str(said.get("title", "")))
        session = SavedSession.model_validate({**session.model_dump(), **said, "title": title})
    return _Indexed(session=session, read=0, size=status.st_size, mtime=status.st_mtime_ns)


def _whole_lines(path: Path, offset: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield line


class _Summary:
    """Summary of a journal, folded line by line. Most lines are only counted by their prefix, without being parsed."""

    def __init__(self, session: SavedSession, *, told: bool) -> None:
        self._begun = session
        self._said: dict[str, object] = {}
        self.told = told
        self.messages, self.prompts, self.cost = session.messages, session.prompts, session.cost
        self.title = session.title

    def session(self) -> SavedSession:
        """Return the list entry with everything folded so far."""
        counted = {"messages": self.messages, "prompts": self.prompts, "cost": self.cost, "title": self.title}
        return self._begun.model_copy(update={**self._said, **counted})

    def take(self, line: bytes) -> None:
        """Process the next line, including its newline."""
        head = _TIME.match(line)
        if head is None:
            return
        self._said["ended"] = head[1].decode("ascii", "replace")
        kind = line[head.end() - 1 :][: len(_EVENT) + len(_MESSAGE) + len(b"assistant")]
        if kind.startswith(_EVENT + _MESSAGE):
            self.messages += 1
            if self.told or not kind.startswith(_EVENT + _MESSAGE + b"user"):
                return
        elif kind.startswith(_EVENT) and not kind[len(_EVENT) :].startswith(_TOLD):
            return
        with contextlib.suppress(UnreadableRecord):
            self._take_body(decode_record(line.rstrip(b"\n")))

    def _take_body(self, body: object) -> None:
        match body:
            case JournalHeader():
                given = {name: getattr(body, name) for name in _OF_HEADER}
                self._said |= {**given, "id": body.session_id}
            case JournalNote():
                if body.title is not None:
                    self.title = body.title
                    self._said["is_named"] = True
                if body.notebook is not None:
                    self._said["notebook"] = body.notebook
            case RunStarted():
                self._said["model"] = body.model
                self.told = bool(body.prompt)
                if body.prompt:
                    self._count_prompt(body.prompt)
            case MessageAdded(message=UserMessage(parts=parts)):
                texts = [part.text for part in parts if isinstance(part, TextPart)]
                self._count_prompt(texts[-1] if texts else "")
            case RunFinished(cost=cost) if cost is not None:
                self.cost = (self.cost or 0.0) + cost
            case _:
                pass

    def _count_prompt(self, prompt: str) -> None:
        self.prompts += 1
        self.title = self.title or title_of(prompt)


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(decode_record(line.rstrip(b"\n")), JournalHeader)
    except UnreadableRecord:
        return False
