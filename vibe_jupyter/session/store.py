"""The saved conversations of one folder: listed, found, forked, deleted.

A journal is the truth. What a list needs of it is folded line by line and kept in an index, with how far it was read; a
journal that grew is read from there on, one that is another file is read again. An index that is broken or gone costs
time and nothing else.
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
NEAREST: Final = 3
"""Conversations named where none has the id."""
_LIKE: Final = 0.3
_TIME: Final = lazy_pattern(rb'\{"seq":\d{1,15},"time":"([^"]{1,40})","')
_EVENT: Final = b'"event":{"type":"'
_MESSAGE: Final = b'message_added","message":{"role":"'
_TOLD: Final = (b"run_started", b"run_finished")


_OF_HEADER: Final = ("started", "folder", "notebook", "parent", "imported", "schema_only")
"""What a list tells of a journal's header, beside the id."""


class SavedSession(Value):
    """One conversation, as a list tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Of its folder."""
    id: str = ""
    title: str = ""
    """Given by the user, or else the first line of the first prompt."""
    is_named: bool = False
    """Whether the user gave the title."""
    started: str = ""
    ended: str = ""
    """Time of its last record; both as the journal writes it."""
    folder: str = ""
    notebook: str = ""
    parent: str = ""
    imported: str = ""
    schema_only: bool = False
    """All five as in the journal's header."""
    model: str = ""
    """Alias of the model that was asked last."""
    cost: float | None = None
    """US dollars; None where no price was known."""
    messages: int = 0
    """Of the user, the model and the tools."""
    prompts: int = 0
    is_foreign: bool = False
    """Whether Mistral Vibe keeps it; continuing it makes a copy of ours, and never changes it."""

    @property
    def short_id(self) -> str:
        return self.id[:SHORT_ID]


class _Indexed(Value):
    """What was read of one journal, and how far."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    session: SavedSession
    told: bool = False
    """Whether the last run said its prompt, as those of version 1 did not."""
    read: int
    """Bytes of whole lines."""
    size: int
    mtime: int
    """Nanoseconds."""


class SessionStore:
    """The folder that holds a folder for each conversation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sessions(self) -> list[SavedSession]:
        """All conversations with a prompt, the latest first; of one that was taken over from Mistral Vibe the copy.

        Writes the index where it has changed.
        """
        known = self._read_index()
        current: dict[str, _Indexed] = {}
        for journal in self._journals():
            with contextlib.suppress(OSError):  # deleted meanwhile
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
        """Its file.

        Raises:
            JournalError: Mistral Vibe keeps it.
        """
        if session.is_foreign:
            step = f"%vibe resume {session.short_id} makes a copy that is yours to change here."
            raise JournalError(f"Mistral Vibe keeps {session.title!r}, and it stays as it is. {step}")
        return self.folder / session.name / FILE_NAME

    def fork(self, session: SavedSession, prefix: str, place: Place) -> tuple[Journal, JournalContents]:
        """A conversation of its own that begins with all this one has so far.

        Raises:
            JournalError: the one cannot be read, or the other not written.
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
        """A conversation of ours that begins with all that Mistral Vibe keeps of this one.

        Args:
            session: one that `is_foreign`.
            prefix: of the new folder.
            place: where it is held from now on.
            clean: redacts a text.

        Raises:
            JournalError: it cannot be written.
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
                for seq, body in enumerate(bodies, start=1):
                    kind = "note" if isinstance(body, JournalNote) else "event"
                    new.write(encode_record(seq, time, kind, encode_body(body)))
                new.flush()
                os.fsync(new.fileno())
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise JournalError(f"Cannot continue {session.short_id}: {error.strerror or error}.") from error
        return Journal.reopen(folder / FILE_NAME)

    def delete(self, session: SavedSession) -> None:
        """Remove it with all its files.

        Raises:
            JournalInUse: a kernel has it open.
            JournalError: it cannot be removed.
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
        with contextlib.suppress(OSError):  # then the next list reads all again
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=f".{INDEX_NAME}.")  # readable by its owner alone
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    json.dump(index, file)
                os.replace(name, self.folder / INDEX_NAME)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise


def find_session(text: str, sessions: Sequence[SavedSession]) -> SavedSession:
    """The one conversation with this id, with this part of its id, or with this part of its title.

    Raises:
        ConfigError: there is none, or more than one; names the nearest.
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
    """Id to the beginning by which it is named: `SHORT_ID` characters, or as many as tell it from the others."""
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
    with contextlib.suppress(ValueError):  # it is no session, or not of a kind this version knows
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
    """Folds the lines of a journal; most are counted by how they begin, without being parsed."""

    def __init__(self, session: SavedSession, *, told: bool) -> None:
        self._begun = session
        self._said: dict[str, object] = {}
        self.told = told
        self.messages, self.prompts, self.cost = session.messages, session.prompts, session.cost
        self.title = session.title

    def session(self) -> SavedSession:
        """What the lines add up to."""
        counted = {"messages": self.messages, "prompts": self.prompts, "cost": self.cost, "title": self.title}
        return self._begun.model_copy(update={**self._said, **counted})

    def take(self, line: bytes) -> None:
        """Take the next line, with its break."""
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
            self._take_body(decode_record(line.rstrip(b"\n")).body)

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
        return isinstance(decode_record(line.rstrip(b"\n")).body, JournalHeader)
    except UnreadableRecord:
        return False
