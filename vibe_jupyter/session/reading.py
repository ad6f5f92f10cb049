"""Reading a journal: everything that is intact, and a sentence for everything that is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import DurableEvent
from vibe_jupyter.session.records import FORMAT_VERSION, MAX_LINE, Header, Record, UnreadableRecord, decode

_RECORD_START = re.compile(rb'\{"seq":\d+,"time":"')


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal still says."""

    header: Header | None
    """None when the first line is damaged."""
    events: tuple[DurableEvent, ...]
    dropped: tuple[str, ...]
    """One sentence for each thing that was passed over, with its line number."""


def read(path: Path) -> JournalContents:
    """Everything intact in a journal, in order. Damage, and records of newer versions, are passed over and named.

    Raises:
        JournalError: the file cannot be opened or read at all.
    """
    reading = _Reading()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file), start=1):
                reading.take(number, line)
    except OSError as error:
        raise JournalError(f"Cannot read {path}: {error.strerror}. Start a new session.") from error
    return reading.contents()


class _Reading:
    """One pass over a file."""

    def __init__(self) -> None:
        self._header: Header | None = None
        self._events: list[DurableEvent] = []
        self._dropped: list[str] = []
        self._next = 0

    def take(self, number: int, line: bytes | None) -> None:
        """Take the next line; None stands for one that is longer than any record."""
        if line is None:
            self._drop(number, "it is longer than any record")
            return
        try:
            self._accept(number, decode(line))
        except UnreadableRecord as error:
            self._rescue(number, line, str(error))

    def contents(self) -> JournalContents:
        return JournalContents(self._header, tuple(self._events), tuple(self._dropped))

    def _rescue(self, number: int, line: bytes, why: str) -> None:
        """Where line breaks were lost, a bad line still holds intact records."""
        starts = [match.start() for match in _RECORD_START.finditer(line)]
        ends = [*starts[1:], len(line)]
        rescued = [record for start, end in zip(starts, ends, strict=False) if (record := _intact(line[start:end]))]
        if not rescued or len(rescued) < len(starts):
            self._drop(number, why)
        for record in rescued:
            self._accept(number, record)

    def _accept(self, number: int, record: Record) -> None:
        if isinstance(record.body, Header):
            self._accept_header(number, record.body)
            return
        if record.seq < self._next:
            self._drop(number, f"it repeats record {record.seq}")
            return
        if record.seq > self._next > 0:
            self._dropped.append(f"Before line {number}: {record.seq - self._next} record(s) are missing.")
        self._events.append(record.body)
        self._next = record.seq + 1

    def _accept_header(self, number: int, header: Header) -> None:
        if header == self._header:
            return
        if self._header is not None:
            self._dropped.append(f"Line {number}: another journal, {header.session_id}, goes on here.")
        if header.version > FORMAT_VERSION:
            self._dropped.append(f"Line {number}: a newer version wrote this; update vibe-jupyter to read all of it.")
        self._header = self._header or header
        self._next = 1

    def _drop(self, number: int, why: str) -> None:
        self._dropped.append(f"Line {number} was passed over: {why}.")


def _intact(piece: bytes) -> Record | None:
    """The record in a piece; its last byte may be what became of a line break."""
    for candidate in (piece, piece[:-1]):
        try:
            return decode(candidate)
        except UnreadableRecord:
            continue
    return None


def _lines(file: BinaryIO) -> Iterator[bytes | None]:
    """Lines without their breaks, in bounded memory."""
    while line := file.readline(MAX_LINE + 1):
        whole = line.endswith(b"\n") or len(line) <= MAX_LINE
        yield line.removesuffix(b"\n") if whole else None
        while not whole and (line := file.readline(MAX_LINE + 1)):
            whole = line.endswith(b"\n")
