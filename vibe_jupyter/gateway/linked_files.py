"""Files that a request names by URL. They are downloaded if the settings allow it, and stored like uploads."""

from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.gateway.chat_request import Object
from vibe_jupyter.gateway.file_names import plain_name
from vibe_jupyter.gateway.files import FileStore
from vibe_jupyter.gateway.forwarding import Forwarder
from vibe_jupyter.gateway.refusals import Refused

LINKED_LIMIT: Final = 64 * 1024 * 1024  # bytes of one file
MOST_LINKED: Final = 16  # files of one request
_SCHEMES: Final = frozenset({"http", "https"})


class LinkedFiles:
    """Downloader for the linked files of one request."""

    def __init__(self, files: FileStore, forwarder: Forwarder, origins: tuple[str, ...]) -> None:
        """
        Args:
            files: store for the downloaded files.
            forwarder: HTTP client.
            origins: origins from which files may be downloaded.
        """
        self._files = files
        self._forwarder = forwarder
        self._origins = frozenset(origin.lower() for origin in origins)
        self._read = 0

    async def fetched(self, body: Mapping[str, JsonValue]) -> Object:
        """Replace each file URL of a Responses request with the ID of the downloaded file.

        Raises:
            Refused: a URL isn't allowed, there are too many of them, or a download failed.
        """
        given = body.get("input")
        items = [await self._item(one) for one in given] if isinstance(given, list) else given
        return {**body, "input": items}

    async def _item(self, item: JsonValue) -> JsonValue:
        content = item.get("content") if isinstance(item, dict) else None
        if not isinstance(content, list):
            return item
        return {**cast("Object", item), "content": [await self._part(part) for part in content]}

    async def _part(self, part: JsonValue) -> JsonValue:
        if not isinstance(part, dict) or part.get("type") != "input_file" or not part.get("file_url"):
            return part
        self._read += 1
        url = part["file_url"]
        if self._read > MOST_LINKED or not isinstance(url, str) or not self._is_allowed(url):
            words = "file_url is read only from the file_origins in [gateway] of the settings."
            raise Refused(422, words, code="file_url_refused", param="input")
        named = part.get("filename")
        name = plain_name(named if isinstance(named, str) else unquote(urlsplit(url).path) or "file")
        try:
            body = await self._forwarder.fetch(url, most=LINKED_LIMIT)
        except ModelError as error:
            raise Refused(422, f"file_url cannot be read: {error}", code="file_url_failed", param="input") from None
        return {"type": "input_file", "file_id": (await self._files.add(name, body)).id}

    def _is_allowed(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        return parts.scheme in _SCHEMES and f"{parts.scheme}://{parts.netloc}".lower() in self._origins
