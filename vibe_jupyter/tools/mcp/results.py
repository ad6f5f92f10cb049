"""What a server's tool gave: to the model as data, to the person as it looks, to the log (seed 001, Result Handling).

Nothing that a result names is fetched: a link is words, and pictures and files are those that came along.
"""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never

from pydantic import JsonValue

from vibe_jupyter.protocol import (
    DOWNLOAD_MIME,
    PICTURES_MIME,
    TABLE_MIME,
    Download,
    ImagePart,
    MimeBundle,
    Picture,
    TextPart,
    ToolResult,
)
from vibe_jupyter.tools.data_block import data_block
from vibe_jupyter.tools.mcp.blobs import Blob, as_picture
from vibe_jupyter.tools.mcp.structured import indented, says_same, table_of
from vibe_jupyter.tools.truncate import head_and_tail

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, EmbeddedResource, ResourceLink

IMAGES_LIMIT: Final = 4
"""Images of one result that a model with eyes gets."""
LOGGED: Final = 100_000
"""Characters of a text, and of structured content, that the log keeps."""
NOTHING: Final = "It gave nothing."
_SUMMARY: Final = 80
"""Characters of the result on the call's line."""


@dataclass(frozen=True)
class Source:
    """Whose result it is."""

    server: str
    tool: str
    name: str
    """The published one: the only one that says nothing but what it is."""

    @property
    def words(self) -> str:
        """For the model."""
        return f"MCP tool {self.name}"


@dataclass
class _Read:
    """The blocks of a result, by who can use them."""

    texts: list[str] = field(default_factory=list[str])
    """For the model: the server's words in order, with a line for each block that is none."""
    shown: list[str] = field(default_factory=list[str])
    """For the person, who sees pictures and files themselves."""
    said: list[str] = field(default_factory=list[str])
    """The server's own words alone."""
    images: list[ImagePart] = field(default_factory=list[ImagePart])
    pictures: list[Picture] = field(default_factory=list[Picture])
    files: list[Download] = field(default_factory=list[Download])


def result_of(answer: "CallToolResult", source: Source, *, sees_images: bool) -> ToolResult:
    """A server's answer for its three readers.

    Args:
        answer: as it came.
        source: whose it is.
        sees_images: whether the model is given images.
    """
    read = _Read()
    for block in answer.content:
        _read(block, read, sees_images=sees_images)
    structured: JsonValue = answer.structured_content
    is_more = structured is not None and not says_same(read.said, structured)
    text = "\n".join(read.texts)
    whole = "\n".join(filter(None, (text, indented(structured) if is_more else "")))
    display, counted = _shown(read, structured, is_more=is_more)
    return ToolResult(
        parts=(_told(whole, source), *read.images),
        summary=_summary(counted, is_error=answer.is_error),
        display=display,
        details=details(source, ok=not answer.is_error, text=text, structured=structured),
        is_error=answer.is_error,
    )


def failed(source: Source, words: str) -> ToolResult:
    """A call that the server gave no answer to; the words may be its last."""
    return ToolResult(
        parts=(_told(words, source),),
        summary=words.split("\n", 1)[0],
        display={"text/plain": words},
        details=details(source, ok=False, text=words, structured=None),
        is_error=True,
    )


def details(source: Source, *, ok: bool, text: str, structured: JsonValue) -> dict[str, JsonValue]:
    """The fields of a result that the log keeps."""
    if len(json.dumps(structured)) > LOGGED:
        structured = head_and_tail(indented(structured), LOGGED)
    return {
        "ok": ok,
        "server": source.server,
        "tool": source.tool,
        "text": head_and_tail(text, LOGGED),
        "structured": structured,
    }


def _told(text: str, source: Source) -> TextPart:
    return TextPart(text=data_block(text, source.words) if text else NOTHING)


def _shown(read: _Read, structured: JsonValue, *, is_more: bool) -> tuple[MimeBundle, str]:
    """What the person sees, and in a few words what there is."""
    table = table_of(structured) if structured is not None else None
    texts = [] if table is not None and not is_more else list(read.shown)
    if is_more and table is None:
        texts.append(indented(structured))
    text = "\n".join(texts)
    display: MimeBundle = {"text/plain": text} if text else {}
    if table is not None:
        display[TABLE_MIME] = table.model_dump(mode="json")
    if read.pictures:
        display[PICTURES_MIME] = [picture.model_dump(mode="json") for picture in read.pictures]
    if read.files:
        display[DOWNLOAD_MIME] = [file.model_dump(mode="json") for file in read.files]
    counts = (
        (len(table.rows) if table is not None else 0, "row"),
        (len(read.pictures), "picture"),
        (len(read.files), "file"),
    )
    words = [f"{count:,} {word}{'s' * (count != 1)}" for count, word in counts if count]
    return display, ", ".join(words) or text


def _read(block: "ContentBlock", read: _Read, *, sees_images: bool) -> None:
    match block.type:
        case "text":
            _add(block.text, read)
            read.said.append(block.text)
        case "image":
            _take_image(Blob(block.data, block.mime_type), read, sees_images=sees_images)
        case "audio":
            _take_file(Blob(block.data, block.mime_type), read, name="")
        case "resource_link":
            _add(_link(block), read)
        case "resource":
            _take_resource(block, read, sees_images=sees_images)
        case _ as rest:
            assert_never(rest)


def _add(text: str, read: _Read) -> None:
    read.texts.append(text)
    read.shown.append(text)


def _take_image(blob: Blob, read: _Read, *, sees_images: bool) -> None:
    picture, seen = as_picture(blob, label=f"picture {len(read.pictures) + 1}")
    if picture is None:
        _take_file(blob, read, name="")
        return
    read.pictures.append(picture)
    sent = seen if sees_images and len(read.images) < IMAGES_LIMIT else None
    if sent is not None:
        read.images.append(sent)
    read.texts.append(f"[{blob.words}, {'it follows' if sent is not None else 'shown to the person'}]")


def _take_file(blob: Blob, read: _Read, *, name: str) -> None:
    file = blob.as_file(name or f"file {len(read.files) + 1}")
    read.files.append(file)
    read.texts.append(f"[{file.name}: {blob.words}, given to the person]")


def _take_resource(block: "EmbeddedResource", read: _Read, *, sees_images: bool) -> None:
    resource = block.resource
    uri, media_type = str(resource.uri), resource.mime_type or ""
    if (text := getattr(resource, "text", None)) is not None:
        _add(f"[{uri}]\n{text}", read)
        return
    blob = Blob(str(getattr(resource, "blob", "")), media_type)
    if (text := blob.text) is not None:
        _add(f"[{uri}]\n{text}", read)
        return
    if media_type.startswith("image/"):
        _add(f"[{uri}]", read)
        _take_image(blob, read, sees_images=sees_images)
    else:
        _take_file(blob, read, name=uri)


def _link(link: "ResourceLink") -> str:
    facts = ", ".join(
        filter(None, (link.mime_type, f"{link.size:,} bytes" if link.size is not None else "", link.description))
    )
    return f"[a resource, not loaded: {link.title or link.name}, {link.uri}{f' ({facts})' if facts else ''}]"


def _summary(text: str, *, is_error: bool) -> str:
    """Whether it went well, and what came."""
    first = text.strip().split("\n", 1)[0]
    words = (first if len(first) > len("[{") else " ".join(text[: _SUMMARY * 4].split()))[:_SUMMARY]
    return words if is_error else " · ".join(filter(None, ("ok", words)))
