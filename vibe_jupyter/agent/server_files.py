"""Files that a model server made: their content is put into the session's folder, and enough of it into the event."""

import asyncio
import base64
import binascii
import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.agentic import ServerFile
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.fetch import Wanted, id_in_path
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import FileProduced

FILE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one file that is fetched."""
CARRIED_LIMIT: Final = 2 * 1024 * 1024
"""Bytes of a file that the transcript carries along, to be shown and saved from there."""
PREVIEW_LIMIT: Final = 4_000
"""Characters of a text shown."""
NAME_LIMIT: Final = 100
"""Characters of a file's name on this machine."""

_FOLDER: Final = "files"
_WRONG: Final = re.compile(r"[^\w.()+ -]|^[. ]+|[. ]+$")
_PROBLEMS: Final = {
    404: "the server has it no longer: it keeps files for 30 minutes",
    410: "the server kept its name, but not its content",
    422: "the server could not make it",
}


class _Missing(Exception):
    """Why there is no content, in words for the person."""


@dataclass(frozen=True)
class FileShelf:
    """Where files of a server go."""

    client: LLMClient
    model: Model
    folder: Path
    """The session's own."""

    async def take(self, file: ServerFile) -> FileProduced:
        """Keep a file and say so. What cannot be had is a file with a problem, never an error."""
        made = FileProduced(
            file_id=file.id,
            name=file.name or file.id,
            media_type=file.media_type,
            size=file.size,
            host=self.model.server.host,
            problem=file.problem,
        )
        if file.problem:
            return made
        try:
            content = await self._content(file)
            path = await asyncio.to_thread(_keep, self.folder / _FOLDER, safe_name(made.name), content)
        except (_Missing, ModelError) as problem:
            return made.model_copy(update={"problem": str(problem)})
        except OSError as problem:
            return made.model_copy(update={"problem": f"it could not be kept: {problem.strerror or problem}"})
        carried = base64.b64encode(content).decode() if len(content) <= CARRIED_LIMIT else ""
        said = {"size": len(content), "path": str(path), "data": carried, "preview": _preview(file, content)}
        return made.model_copy(update=said)

    async def _content(self, file: ServerFile) -> bytes:
        if file.text is not None:
            return file.text.encode("utf-8", "replace")
        if file.data is None:
            return await self._fetched(file)
        try:
            return base64.b64decode(file.data, validate=True)
        except binascii.Error:
            raise _Missing("the server sent it in a form that cannot be read") from None

    async def _fetched(self, file: ServerFile) -> bytes:
        try:
            path = f"/files/{id_in_path(file.id)}/content"
        except ValueError:
            raise _Missing("the server named no id to fetch it by") from None
        got = await self.client.fetch(self.model, Wanted("GET", path, most=FILE_LIMIT))
        if got.status != 200:
            raise _Missing(_PROBLEMS.get(got.status, f"the server did not give it out (status {got.status})"))
        return got.content


def safe_name(name: str) -> str:
    """A name that is one file in one folder, on every system."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = _WRONG.sub("_", last.strip())
    stem, dot, ending = clean.rpartition(".")
    if len(clean) > NAME_LIMIT:
        clean = (stem or clean)[: NAME_LIMIT - 12] + dot + ending[:11]
    return clean if clean.strip("._ ") else "file"


def _keep(folder: Path, name: str, content: bytes) -> Path:
    """Write it under its name, or under the next free one: nothing that is there is touched."""
    folder.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    for free in _names(name):
        try:
            opened = os.open(folder / free, flags, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(opened, "wb") as out:
            out.write(content)
        return folder / free
    raise AssertionError("there is always another name")


def _names(name: str) -> Iterator[str]:
    yield name
    stem, dot, ending = name.rpartition(".")
    for number in itertools.count(2):
        yield f"{stem}-{number}.{ending}" if dot and stem else f"{name}-{number}"


def _preview(file: ServerFile, content: bytes) -> str:
    """The beginning of a text; empty for anything else."""
    if file.text is not None:
        return file.text[:PREVIEW_LIMIT]
    if file.preview:
        return file.preview[:PREVIEW_LIMIT]
    if not file.media_type.startswith("text/"):
        return ""
    return content[:PREVIEW_LIMIT].decode("utf-8", "replace")
