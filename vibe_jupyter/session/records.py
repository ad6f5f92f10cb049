"""One line of the journal: the same bytes written and read.

    {"seq":7,"time":"2026-01-31T12:00:00.000Z","event":{…},"sum":"0f3a99c1"}

`sum` is the CRC-32 of every byte before ``,"sum"``, so a line proves itself without being parsed. Keys stand in this
order and without blanks. JSON text escapes every line break, hence a record is exactly one line.
"""

import json
import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from vibe_jupyter.protocol import DurableEvent
from vibe_jupyter.protocol.value import Value

FORMAT_VERSION = 1
MAX_LINE = 64 * 2**20  # bytes; an event holds at most a few images of about 1 MB each

Kind = Literal["header", "event"]

_KINDS: tuple[str, ...] = get_args(Kind)
_HEAD = re.compile(rb'\{"seq":(\d{1,15}),"time":"([^"]{1,40})","(\w{1,40})":')
_SUM = re.compile(rb',"sum":"([0-9a-f]{8})"\}\Z')
_EVENT: TypeAdapter[DurableEvent] = TypeAdapter(DurableEvent)


class Header(Value):
    """What a journal begins with."""

    version: int = FORMAT_VERSION
    session_id: str
    started: str
    """UTC, ISO 8601 with milliseconds."""
    pid: int
    """The process that writes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One intact line."""

    seq: int
    """The header is 0, then one more for each event; it gives the order, since clocks jump."""
    time: str
    body: Header | DurableEvent


class UnreadableRecord(Exception):
    """A line that is damaged, or that a newer version wrote; the text says which."""


def now() -> str:
    """The time as the journal writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode_body(body: Header | DurableEvent) -> bytes:
    """The body's JSON.

    Raises:
        ValueError: it cannot be said in JSON.
    """
    try:
        return body.model_dump_json().encode()
    except PydanticSerializationError:
        # Half a surrogate pair: JSON of a model or a file may bring one, UTF-8 has no bytes for it.
        text = json.dumps(body.model_dump(), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def encode(seq: int, time: str, kind: Kind, body: bytes) -> bytes:
    """One line, with its line break."""
    line = b'{"seq":%d,"time":"%s","%s":%s' % (seq, time.encode(), kind.encode(), body)
    return b'%s,"sum":"%08x"}\n' % (line, zlib.crc32(line))


def decode(line: bytes) -> Record:
    """Read one line, given without its line break.

    Raises:
        UnreadableRecord: it is not what was written, or not a kind this version knows.
    """
    seal = _SUM.search(line, max(0, len(line) - 32))
    if seal is None:
        raise UnreadableRecord("it has no end")
    if zlib.crc32(memoryview(line)[: seal.start()]) != int(seal[1], 16):
        raise UnreadableRecord("its checksum is wrong")
    head = _HEAD.match(line)
    if head is None or (kind := head[3].decode()) not in _KINDS:
        raise UnreadableRecord(f"this version knows no {head[3].decode() if head else 'such'} record")
    return Record(seq=int(head[1]), time=head[2].decode(), body=_decode_body(kind, line[head.end() : seal.start()]))


def _decode_body(kind: str, text: bytes) -> Header | DurableEvent:
    try:
        return Header.model_validate_json(text) if kind == "header" else _EVENT.validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UnreadableRecord(f"this version cannot read the {kind} ({where}: {first['msg']})") from None
