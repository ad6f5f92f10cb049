"""Files that clients give and get, for a while."""

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

FILE_SECONDS: Final = 30 * 60
"""A file is gone so many seconds after it was made."""
MOST_FILES: Final = 4_096
"""Beyond them the oldest are forgotten."""
BODIES_LIMIT: Final = 1024 * 1024 * 1024
"""Bytes of the bodies of all files together; beyond them the oldest bodies are dropped."""
PREVIEW: Final = 4_096
"""Characters of an input file that are shown."""
MADE_PREVIEW: Final = 1_024
"""Bytes of a file that was made that are shown."""
USER_DATA: Final = "user_data"
AGENT_OUTPUT: Final = "agent_output"
INLINE_LIMIT: Final = 8 * 1024 * 1024
"""Bytes of a body that stands in its file object; a larger one is fetched by its id."""

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


class FileFailure(NamedTuple):
    """Why there is no file where one was expected."""

    code: str
    message: str


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
    """Of files of the gateway's own."""
    preview: str | None = None
    """The beginning of a text."""
    code: str | None = None
    message: str | None = None
    """Both in the place of a body, where a file that was asked for was not made."""


def new_run() -> str:
    """What tells the ids of a run's files from all others."""
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
    """What is known of a file that is there now.

    Args:
        file_id: its own.
        name: as it was written.
        body: its bytes, if there are any.
        form: its format; empty for what its name says.
        source: what made it; None for one that a client gave.
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
        made = new_file(f"file-{new_run()}", plain_name(name), body)
        await self.keep(made, body)
        return made

    async def keep(self, made: FileObject, body: bytes | None) -> None:
        """Keep what is known of a file, and its body if there is one."""
        if body is not None:
            await self._store.put(_BODIES, self._body_key(made), body, seconds=FILE_SECONDS)
        raw = made.model_dump_json(exclude_none=True).encode()
        await self._store.put(_FILES, self._key(made.id), raw, seconds=FILE_SECONDS)
        await self._make_room()

    async def inline(self, found: FileObject) -> Object:
        """A file object with its body, where that is small enough and there is one."""
        told: Object = found.model_dump(exclude_none=True)
        if found.code is not None or found.bytes > INLINE_LIMIT:
            return told
        body = await self._store.get(_BODIES, self._body_key(found))
        if body is not None:
            told |= await asyncio.to_thread(_body_fields, body)
        return told

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
        keys = await self._store.keys(_FILES, self._owner)
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
        """Ends with the body's size, so that all sizes can be summed without reading a body."""
        return f"{self._key(found.id)}/{found.bytes}"


def text_preview(body: bytes, most: int) -> str | None:
    """The beginning of a text in UTF-8; None for anything else."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text[:most]


def output_preview(body: bytes) -> str | None:
    """The same of a file that was made, by bytes."""
    text = text_preview(body, len(body))
    return None if text is None else body[:MADE_PREVIEW].decode("utf-8", "ignore")


def _body_fields(body: bytes) -> Object:
    text = text_preview(body, len(body))
    return {"data_base64": base64.b64encode(body).decode()} if text is None else {"text": text}


def _size(body_key: str) -> int:
    return int(body_key.rpartition("/")[2])
