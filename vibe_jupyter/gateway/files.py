"""Temporary storage of files that clients upload or that runs produce."""

import asyncio
import base64
import re
import secrets
import time
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.gateway.file_names import format_of, mime_type, plain_name
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.store import Store

FILE_SECONDS: Final = 30 * 60  # lifetime of a file in seconds
MOST_FILES: Final = 4_096  # files per token; beyond this the oldest are deleted
# Total bytes of file bodies per token; beyond this the oldest bodies are deleted
BODIES_LIMIT: Final = 1024 * 1024 * 1024
PREVIEW: Final = 4_096  # characters of an input file shown to the model
MADE_PREVIEW: Final = 1_024  # bytes of a produced file shown to the model
USER_DATA: Final = "user_data"
AGENT_OUTPUT: Final = "agent_output"
INLINE_LIMIT: Final = 8 * 1024 * 1024  # bytes of a body included in its file object; larger ones are downloaded by ID

_FILES: Final = "files"
_BODIES: Final = "file-bodies"
_ID_BYTES: Final = 16
_ID: Final = re.compile(r"file[-_][0-9A-Za-z_]{1,80}")

Object = dict[str, JsonValue]


class FileSource(BaseModel):
    """Origin of a file."""

    model_config = ConfigDict(frozen=True)

    tool: str  # "" if no tool made it
    round: int
    turn: int


class FileFailure(NamedTuple):
    """Reason why a requested or produced file has no body."""

    code: str
    message: str


class FileObject(BaseModel):
    """Metadata of a file."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["file"] = "file"
    name: str
    filename: str  # same as `name`; read by OpenAI's clients
    format: str  # extension of the name, or ""
    mime_type: str
    bytes: int
    created_at: int  # Unix seconds
    expires_at: int
    purpose: str
    source: FileSource | None = None  # set for files produced by a run
    preview: str | None = None  # start of a text file
    code: str | None = None
    message: str | None = None  # set with `code` if the file has no body: it wasn't made, or is too large


def new_run() -> str:
    """Return a random part that makes the file IDs of a run unique."""
    return secrets.token_hex(_ID_BYTES)


def new_file(
    file_id: str,
    name: str,
    body: bytes | None,
    *,
    form: str = "",
    source: FileSource | None = None,
    failure: FileFailure | None = None,
) -> FileObject:
    """Create the metadata of a file.

    Args:
        file_id: its ID.
        name: its name, as the tool or client gave it.
        body: its bytes, or None if there are none.
        form: its format, or "" to derive it from the name.
        source: the tool call that made it, or None for an upload.
        failure: why there is no body.
    """
    now = int(time.time())
    return FileObject(
        id=file_id,
        name=name,
        filename=name,
        format=form or format_of(name),
        mime_type=mime_type(name),
        bytes=len(body or b""),
        created_at=now,
        expires_at=now + FILE_SECONDS,
        purpose=USER_DATA if source is None else AGENT_OUTPUT,
        source=source,
        preview=None if body is None else text_preview(body, PREVIEW) if source is None else output_preview(body),
        code=None if failure is None else failure.code,
        message=None if failure is None else failure.message,
    )


class FileStore:
    """Uploaded and produced files of one token, limited in number and total size."""

    def __init__(self, store: Store, owner: str, *, bodies_limit: int = BODIES_LIMIT) -> None:
        self._store = store
        self._owner = owner
        self._bodies_limit = bodies_limit

    async def add(self, name: str, body: bytes) -> FileObject:
        """Store an uploaded file.

        Raises:
            Refused: its name is invalid.
        """
        made = new_file(f"file-{new_run()}", plain_name(name), body)
        await self.keep(made, body)
        return made

    async def keep(self, made: FileObject, body: bytes | None) -> None:
        """Store a file's metadata, and its body if there is one. Deletes the oldest files beyond the limits."""
        if body is not None:
            await self._store.put(_BODIES, self._body_key(made), body, seconds=FILE_SECONDS)
        raw = made.model_dump_json(exclude_none=True).encode()
        await self._store.put(_FILES, self._key(made.id), raw, seconds=FILE_SECONDS)
        await self._make_room()

    async def inline(self, found: FileObject) -> Object:
        """Return a file object, including the body if it exists and is small enough."""
        told: Object = found.model_dump(exclude_none=True)
        if found.code is not None or found.bytes > INLINE_LIMIT:
            return told
        body = await self._store.get(_BODIES, self._body_key(found))
        if body is not None:
            told |= await asyncio.to_thread(_body_fields, body)
        return told

    async def find(self, file_id: str) -> FileObject:
        """Return the metadata of a file.

        Raises:
            Refused: there is no file with that ID, or it has expired.
        """
        kept = await self._store.get(_FILES, self._key(file_id)) if _ID.fullmatch(file_id) else None
        if kept is None:
            raise Refused(404, "There is no such file, or no more.", code="file_not_found", param="file_id")
        return FileObject.model_validate_json(kept)

    async def body(self, found: FileObject) -> bytes:
        """Return the bytes of a file.

        Raises:
            Refused: the file has no body, or the body was dropped to make room.
        """
        if found.code is not None:
            raise Refused(422, found.message or "", code=found.code, param="file_id")
        body = await self._store.get(_BODIES, self._body_key(found))
        if body is None:
            raise Refused(410, "The file's body was not kept.", code="file_body_gone", param="file_id")
        return body

    async def all(self) -> list[FileObject]:
        """Return all files, newest first."""
        keys = await self._store.keys(_FILES, self._owner)
        kept = [await self._store.get(_FILES, key) for key in reversed(keys)]
        return [FileObject.model_validate_json(one) for one in kept if one is not None]

    async def delete(self, file_id: str) -> None:
        """Delete a file and its body.

        Raises:
            Refused: there is no file with that ID.
        """
        found = await self.find(file_id)
        await self._store.take(_FILES, self._key(file_id))
        await self._store.take(_BODIES, self._body_key(found))

    async def _make_room(self) -> None:
        files = await self._store.keys(_FILES, self._owner)
        gone = files[: max(0, len(files) - MOST_FILES)]
        for key in gone:
            await self._store.take(_FILES, key)
        bodies = await self._store.keys(_BODIES, self._owner)
        kept = sum(map(_size, bodies))
        for key in bodies:
            if kept > self._bodies_limit or key.rpartition("/")[0] in gone:
                await self._store.take(_BODIES, key)
                kept -= _size(key)

    def _key(self, file_id: str) -> str:
        return f"{self._owner}:{file_id}"

    def _body_key(self, found: FileObject) -> str:
        """Return the key of a body. It ends with the size, so that the total size is known without reading any body."""
        return f"{self._key(found.id)}/{found.bytes}"


def text_preview(body: bytes, most: int) -> str | None:
    """Return the first `most` characters of a UTF-8 text, or None if it is binary."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text[:most]


def output_preview(body: bytes) -> str | None:
    """Return the first `MADE_PREVIEW` bytes of a produced text file, or None if it is binary."""
    text = text_preview(body, len(body))
    return None if text is None else body[:MADE_PREVIEW].decode("utf-8", "ignore")


def _body_fields(body: bytes) -> Object:
    text = text_preview(body, len(body))
    return {"data_base64": base64.b64encode(body).decode()} if text is None else {"text": text}


def _size(body_key: str) -> int:
    return int(body_key.rpartition("/")[2])
