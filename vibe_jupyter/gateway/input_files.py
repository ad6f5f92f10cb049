"""File parts of requests, and their conversion to text for the model."""

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.gateway.file_names import mime_type, plain_name
from vibe_jupyter.gateway.files import PREVIEW, FileStore, Object, text_preview
from vibe_jupyter.gateway.refusals import Refused

PREVIEWS: Final = 32_768  # characters of all files of a request shown to the model
FOLDER_LIMIT: Final = 256 * 1024 * 1024  # bytes of all files of a request copied to a working folder
URL_REFUSED: Final = "A file is given as file_id, or as filename with file_data; no address is read here."


class InputFile(NamedTuple):
    """A file to describe to the model."""

    name: str
    body: bytes
    file_id: str = ""


class InputFiles:
    """Converter for the file parts of one request."""

    def __init__(self, files: FileStore, *, has_folder: bool) -> None:
        """
        Args:
            files: store of the uploaded files.
            has_folder: whether to collect the files for a working folder.
        """
        self.for_folder: dict[str, bytes] = {}  # files for the working folder, by name
        self._files = files
        self._has_folder = has_folder

    async def read_in(self, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
        """Replace each file part with text. Returns the same object if there are none.

        A file in the history that has expired or can't be decoded becomes a line of text, because the client sends it
        with every later request.

        Raises:
            Refused: a file of the latest question is unknown or can't be decoded.
        """
        left = PREVIEWS
        asked = [place for place, one in enumerate(messages) if isinstance(one, dict) and one.get("role") == "user"]
        read: list[JsonValue] = []
        found = False
        for place, message in enumerate(messages):
            content = message.get("content") if isinstance(message, dict) else None
            parts = list[JsonValue]()
            for part in content if isinstance(content, list) else ():
                if not isinstance(part, dict) or part.get("type") != "file":
                    parts.append(part)
                    continue
                found = True
                try:
                    given = await self._file(part.get("file"))
                except Refused as refusal:
                    if place >= max(asked, default=0):
                        raise
                    parts.append({"type": "text", "text": f"[A file that cannot be read: {refusal}]"})
                    continue
                if self._has_folder:
                    self._take(given)
                preview = text_preview(given.body, min(PREVIEW, left)) or ""
                left -= len(preview)
                where = " in the working folder" if self._has_folder else ""
                parts.append({"type": "text", "text": file_text(given, preview, where=where)})
            read.append({**cast("Object", message), "content": parts} if isinstance(content, list) else message)
        return read if found else messages

    def _take(self, file: InputFile) -> None:
        self.for_folder[file.name] = file.body
        if sum(map(len, self.for_folder.values())) > FOLDER_LIMIT:
            raise Refused(413, f"The files of a request have more than {FOLDER_LIMIT:,} bytes together.")

    async def _file(self, given: JsonValue) -> InputFile:
        fields = given if isinstance(given, dict) else {}
        file_id, name, data = (fields.get(key) for key in ("file_id", "filename", "file_data"))
        if isinstance(file_id, str):
            found = await self._files.find(file_id)
            return InputFile(found.name, await self._files.body(found), file_id)
        if isinstance(name, str) and isinstance(data, str) and not _is_address(data):
            return InputFile(plain_name(name), await asyncio.to_thread(decode_data, data))
        raise Refused(422, URL_REFUSED, code="validation_error", param="messages")


def file_text(file: InputFile, preview: str, *, where: str = "") -> str:
    """Describe a file to the model: its metadata, and the start of its content."""
    about = [f"File {file.name}{where}", mime_type(file.name), f"{len(file.body):,} bytes"]
    if file.file_id:
        about.append(f"id {file.file_id}")
    heading = ", ".join(about)
    if not preview:
        return f"[{heading}; its content is not shown]"
    whole = len(preview.encode()) == len(file.body)
    extent = "whole" if whole else f"its first {len(preview):,} characters"
    return f"[{heading}; {extent}:]\n{preview}\n[end of {file.name}]"


def _is_address(data: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", data, re.IGNORECASE) is not None


def decode_data(data: str) -> bytes:
    """Decode base64, plain or in a data URL.

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
