"""Files that clients give and get, for a while."""

import asyncio
import base64
import binascii
import re
import secrets
import time
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, cast

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.gateway.chat_request import RequestedFile
from vibe_jupyter.gateway.file_names import format_of, mime_type, plain_name
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.store import Store

FILE_SECONDS: Final = 30 * 60
"""A file is gone so many seconds after it was made."""
MOST_FILES: Final = 4_096
"""Beyond them the oldest are forgotten."""
BODIES_LIMIT: Final = 1024 * 1024 * 1024
"""Bytes of the bodies of all files together; beyond them the oldest bodies are dropped."""
PREVIEW: Final = 4_096
"""Characters of one input file that the model gets."""
PREVIEWS: Final = 32_768
"""The same for all files of a request."""
USER_DATA: Final = "user_data"
AGENT_OUTPUT: Final = "agent_output"
NOT_MADE: Final = "file_not_made"
URL_REFUSED: Final = "A file is given as file_id, or as filename with file_data; no address is read here."

_FILES: Final = "files"
_BODIES: Final = "file-bodies"
_ID_BYTES: Final = 16
_ID: Final = re.compile(r"file[-_][0-9A-Za-z_]{1,80}")

Object = dict[str, JsonValue]


class FileSource(BaseModel):
    """Where a file comes from."""

    model_config = ConfigDict(frozen=True)

    tool: str
    """Empty where none made it."""
    round: int
    turn: int


class FileObject(BaseModel):
    """What is known of a file."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["file"] = "file"
    name: str
    filename: str
    """The same, as OpenAI's clients read it."""
    format: str
    """The ending of its name; empty where it has none."""
    mime_type: str
    bytes: int
    created_at: int
    """Unix seconds."""
    expires_at: int
    purpose: str
    source: FileSource | None = None
    """Of files that were asked for."""
    preview: str | None = None
    """The beginning of a text."""
    code: str | None = None
    message: str | None = None
    """Both in the place of a body, where a file that was asked for was not made."""


class FileStore:
    """Those of one token."""

    def __init__(self, store: Store, owner: str, *, bodies_limit: int = BODIES_LIMIT) -> None:
        self._store = store
        self._owner = owner
        self._bodies_limit = bodies_limit

    async def add(self, name: str, body: bytes) -> FileObject:
        """Keep a file that a client gives.

        Raises:
            Refused: its name is none.
        """
        name = plain_name(name)
        now = int(time.time())
        made = FileObject(
            id=f"file-{secrets.token_hex(_ID_BYTES)}",
            name=name,
            filename=name,
            format=format_of(name),
            mime_type=mime_type(name),
            bytes=len(body),
            created_at=now,
            expires_at=now + FILE_SECONDS,
            purpose=USER_DATA,
            preview=text_preview(body, PREVIEW),
        )
        await self._store.put(_BODIES, self._body_key(made), body, seconds=FILE_SECONDS)
        await self._keep(made)
        return made

    async def add_missing(self, wanted: Sequence[RequestedFile], last_round: int) -> list[FileObject]:
        """Keep that files were asked for and not made."""
        run, now = secrets.token_hex(_ID_BYTES), int(time.time())
        missing: list[FileObject] = []
        for place, one in enumerate(wanted):
            made = FileObject(
                id=f"file_{run}_r{last_round}_{place}",
                name=one.name,
                filename=one.name,
                format=one.format or format_of(one.name),
                mime_type=mime_type(one.name),
                bytes=0,
                created_at=now,
                expires_at=now + FILE_SECONDS,
                purpose=AGENT_OUTPUT,
                source=FileSource(tool="", round=last_round, turn=last_round),
                code=NOT_MADE,
                message=f"No tool made {one.name}.",
            )
            await self._keep(made)
            missing.append(made)
        return missing

    async def find(self, file_id: str) -> FileObject:
        """What is known of a file.

        Raises:
            Refused: there is none of that id, or no more.
        """
        kept = await self._store.get(_FILES, self._key(file_id)) if _ID.fullmatch(file_id) else None
        if kept is None:
            raise Refused(404, "There is no such file, or no more.", code="file_not_found", param="file_id")
        return FileObject.model_validate_json(kept)

    async def body(self, found: FileObject) -> bytes:
        """A file's bytes.

        Raises:
            Refused: it was never made, or they were not kept.
        """
        if found.code is not None:
            raise Refused(422, found.message or "", code=found.code, param="file_id")
        body = await self._store.get(_BODIES, self._body_key(found))
        if body is None:
            raise Refused(410, "The file's body was not kept.", code="file_body_gone", param="file_id")
        return body

    async def all(self) -> list[FileObject]:
        """Every file, the newest first."""
        keys = await self._store.keys(_FILES, f"{self._owner}:")
        kept = [await self._store.get(_FILES, key) for key in reversed(keys)]
        return [FileObject.model_validate_json(one) for one in kept if one is not None]

    async def delete(self, file_id: str) -> None:
        """Forget a file.

        Raises:
            Refused: there is none of that id.
        """
        found = await self.find(file_id)
        await self._store.take(_FILES, self._key(file_id))
        await self._store.take(_BODIES, self._body_key(found))

    async def _keep(self, made: FileObject) -> None:
        raw = made.model_dump_json(exclude_none=True).encode()
        await self._store.put(_FILES, self._key(made.id), raw, seconds=FILE_SECONDS)
        await self._make_room()

    async def _make_room(self) -> None:
        files = await self._store.keys(_FILES, f"{self._owner}:")
        gone = files[: max(0, len(files) - MOST_FILES)]
        for key in gone:
            await self._store.take(_FILES, key)
        bodies = await self._store.keys(_BODIES, f"{self._owner}:")
        kept = sum(map(_size, bodies))
        for key in bodies:
            if kept > self._bodies_limit or key.rpartition(":")[0] in gone:
                await self._store.take(_BODIES, key)
                kept -= _size(key)

    def _key(self, file_id: str) -> str:
        return f"{self._owner}:{file_id}"

    def _body_key(self, found: FileObject) -> str:
        """Ends with the body's size, so that all sizes can be summed without reading a body."""
        return f"{self._key(found.id)}:{found.bytes}"


class InputFiles:
    """The file parts of requests, made into what a model may read of them."""

    def __init__(self, files: FileStore) -> None:
        self._files = files

    async def read_in(self, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
        """The messages with a text in the place of each file; the very same where there is none.

        Raises:
            Refused: a file is unknown, or no file.
        """
        left = PREVIEWS
        read: list[JsonValue] = []
        found = False
        for message in messages:
            content = message.get("content") if isinstance(message, dict) else None
            parts = list[JsonValue]()
            for part in content if isinstance(content, list) else ():
                if not isinstance(part, dict) or part.get("type") != "file":
                    parts.append(part)
                    continue
                found = True
                shown = _shown(await self._file(part.get("file")), left)
                left -= shown.used
                parts.append({"type": "text", "text": shown.text})
            read.append({**cast("Object", message), "content": parts} if isinstance(content, list) else message)
        return read if found else messages

    async def _file(self, given: JsonValue) -> "_InputFile":
        fields = given if isinstance(given, dict) else {}
        file_id, name, data = (fields.get(key) for key in ("file_id", "filename", "file_data"))
        if isinstance(file_id, str):
            found = await self._files.find(file_id)
            return _InputFile(found.name, await self._files.body(found), file_id)
        if isinstance(name, str) and isinstance(data, str) and not _is_address(data):
            return _InputFile(plain_name(name), await asyncio.to_thread(decode_data, data))
        raise Refused(422, URL_REFUSED, code="validation_error", param="messages")


class _InputFile(NamedTuple):
    name: str
    body: bytes
    file_id: str = ""


class _Shown(NamedTuple):
    text: str
    used: int
    """Characters of previews."""


def _shown(file: _InputFile, left: int) -> _Shown:
    about = [f"File {file.name}", mime_type(file.name), f"{len(file.body):,} bytes"]
    if file.file_id:
        about.append(f"id {file.file_id}")
    heading = ", ".join(about)
    preview = text_preview(file.body, min(PREVIEW, left))
    if not preview:
        return _Shown(f"[{heading}; its content is not shown]", 0)
    whole = len(preview.encode()) == len(file.body)
    extent = "whole" if whole else f"its first {len(preview):,} characters"
    return _Shown(f"[{heading}; {extent}:]\n{preview}\n[end of {file.name}]", len(preview))


def _is_address(data: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", data, re.IGNORECASE) is not None


def decode_data(data: str) -> bytes:
    """The bytes of base64, plain or as a data URL.

    Raises:
        Refused: it is neither.
    """
    if data[:5].lower() == "data:":
        head, comma, data = data.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise Refused(422, "file_data is a data URL without base64.", code="validation_error", param="file_data")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(422, "file_data is no base64.", code="validation_error", param="file_data") from None


def text_preview(body: bytes, most: int) -> str | None:
    """The beginning of a text in UTF-8; None for anything else."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text[:most]


def _size(body_key: str) -> int:
    return int(body_key.rpartition(":")[2])
