"""Convert the result of a server's tool: labeled data for the model, a display for the user, details for the log.

Nothing that a result refers to is fetched: a link remains text, and only embedded pictures and files are used.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, assert_never, cast

from pydantic import JsonValue

from vibe_jupyter.files.images import fit_image, raster_type
from vibe_jupyter.files.truncation import head_and_tail, label_as_data
from vibe_jupyter.protocol import (
    DOWNLOAD_MIME,
    PICTURES_MIME,
    TABLE_MIME,
    Download,
    ImagePart,
    MimeBundle,
    Picture,
    Table,
    TextPart,
    ToolResult,
)

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, EmbeddedResource, ResourceLink

IMAGES_LIMIT: Final = 4  # images of one result that are sent to a model with vision
LOGGED: Final = 100_000  # characters kept in the log, of the text and of structured content
NOTHING: Final = "It returned nothing."
_SUMMARY: Final = 80  # characters of the result in the call's summary line

_TYPE: Final = re.compile(r"[\w.+-]{1,40}/[\w.+-]{1,60}")
_UNNAMED: Final = "application/octet-stream"
_ENDINGS: Final = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/webm": "webm",
    "application/pdf": "pdf",
    "application/json": "json",
    "image/svg+xml": "svg",
}
_HEAD: Final = 12  # leading bytes that identify an image format
_NAME_LIMIT: Final = 80  # characters of a file name

ROWS_LIMIT: Final = 200  # rows kept of a table
COLUMNS_LIMIT: Final = 30  # columns of a table; wider data is not shown as one


@dataclass(frozen=True)
class ResultSource:
    """The tool that returned a result."""

    server: str
    tool: str
    name: str  # published name, which contains no text of the server's choosing

    @property
    def words(self) -> str:
        """Description for the model."""
        return f"MCP tool {self.name}"


@dataclass
class _Read:
    """Content blocks of a result, sorted by audience."""

    # For the model: the server's text in order, with one line for each other block
    texts: list[str] = field(default_factory=list[str])
    shown: list[str] = field(default_factory=list[str])  # for the user, who sees pictures and files directly
    said: list[str] = field(default_factory=list[str])  # the server's own text only
    images: list[ImagePart] = field(default_factory=list[ImagePart])
    pictures: list[Picture] = field(default_factory=list[Picture])
    files: list[Download] = field(default_factory=list[Download])


def tool_result(answer: "CallToolResult", source: ResultSource, *, sees_images: bool) -> ToolResult:
    """Convert a tool's response for the model, the user and the log.

    Args:
        answer: the response as received.
        source: the tool that returned it.
        sees_images: whether the model accepts images.
    """
    read = _Read()
    for block in answer.content:
        _read_block(block, read, sees_images=sees_images)
    structured: JsonValue = answer.structured_content
    is_more = structured is not None and not says_same(read.said, structured)
    text = "\n".join(read.texts)
    whole = "\n".join(filter(None, (text, indented_json(structured) if is_more else "")))
    display, counted = _shown_display(read, structured, is_more=is_more)
    return ToolResult(
        parts=(_told_part(whole, source), *read.images),
        summary=_result_summary(counted, is_error=answer.is_error),
        display=display,
        details=log_details(source, ok=not answer.is_error, text=text, structured=structured),
        is_error=answer.is_error,
    )


def failed_result(source: ResultSource, words: str) -> ToolResult:
    """Build the result of a call that got no response. `words` may quote the server's last log lines."""
    return ToolResult(
        parts=(_told_part(words, source),),
        summary=words.split("\n", 1)[0],
        display={"text/plain": words},
        details=log_details(source, ok=False, text=words, structured=None),
        is_error=True,
    )


def log_details(source: ResultSource, *, ok: bool, text: str, structured: JsonValue) -> dict[str, JsonValue]:
    """Return the fields of a result for the log."""
    if len(json.dumps(structured)) > LOGGED:
        structured = head_and_tail(indented_json(structured), LOGGED)
    return {
        "ok": ok,
        "server": source.server,
        "tool": source.tool,
        "text": head_and_tail(text, LOGGED),
        "structured": structured,
    }


def _told_part(text: str, source: ResultSource) -> TextPart:
    return TextPart(text=label_as_data(text, source.words) if text else NOTHING)


def _shown_display(read: _Read, structured: JsonValue, *, is_more: bool) -> tuple[MimeBundle, str]:
    """Return the display for the user and a short summary of it."""
    table = table_of(structured) if structured is not None else None
    texts = [] if table is not None and not is_more else list(read.shown)
    if is_more and table is None:
        texts.append(indented_json(structured))
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


def _read_block(block: "ContentBlock", read: _Read, *, sees_images: bool) -> None:
    match block.type:
        case "text":
            _add_text(block.text, read)
            read.said.append(block.text)
        case "image":
            _take_image(ResultBlob.sent(block.data, block.mime_type), read, sees_images=sees_images)
        case "audio":
            _take_file(ResultBlob.sent(block.data, block.mime_type), read, name="")
        case "resource_link":
            _add_text(_link_text(block), read)
        case "resource":
            _take_resource(block, read, sees_images=sees_images)
        case _ as rest:
            assert_never(rest)


def _add_text(text: str, read: _Read) -> None:
    read.texts.append(text)
    read.shown.append(text)


@dataclass(frozen=True)
class ResultBlob:
    """Binary content of a result."""

    data: str  # base64, unless the server sent something else
    media_type: str  # as declared by the server

    @classmethod
    def sent(cls, data: str, media_type: str) -> "ResultBlob":
        """Wrap data as received. Some encoders break base64 into lines, which image decoders reject."""
        return cls("".join(data.split()), media_type)

    @property
    def kind(self) -> str:
        """The media type, if it is well-formed."""
        return self.media_type if _TYPE.fullmatch(self.media_type) else _UNNAMED

    @property
    def words(self) -> str:
        """Media type and size."""
        return f"{self.kind}, {len(self.data) * 3 // 4:,} bytes"

    @property
    def raw(self) -> bytes:
        """The decoded bytes, or b"" if the data is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return b""

    @property
    def text(self) -> str | None:
        """The decoded text, or None if it isn't declared as text or isn't valid UTF-8."""
        if not self.kind.startswith("text/") and self.kind != "application/json":
            return None
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def as_file(self, name: str) -> Download:
        """Return a download. Only the last path component of `name` is used, since it may be a whole URI."""
        last = re.split(r"[/\\?#]", name.rstrip("/"))[-1].strip() or "file"
        ending = _ENDINGS.get(self.kind, "")
        if ending and "." not in last:
            last = f"{last}.{ending}"
        return Download(name=last[-_NAME_LIMIT:], data=self.data if self.raw else "", path="", media_type=self.kind)


def _take_image(blob: ResultBlob, read: _Read, *, sees_images: bool) -> None:
    picture, seen = as_picture(blob, label=f"picture {len(read.pictures) + 1}")
    if picture is None:
        _take_file(blob, read, name="")
        return
    read.pictures.append(picture)
    sent = seen if sees_images and len(read.images) < IMAGES_LIMIT else None
    if sent is not None:
        read.images.append(sent)
    read.texts.append(f"[{blob.words}, {'it follows' if sent is not None else 'shown to the user'}]")


def _take_file(blob: ResultBlob, read: _Read, *, name: str) -> None:
    file = blob.as_file(name or f"file {len(read.files) + 1}")
    if blob.data and not blob.raw:
        _add_text(f"[{file.name}: {blob.kind}, not sent as base64, so nothing of it could be kept]", read)
        return
    read.files.append(file)
    read.texts.append(f"[{file.name}: {blob.words}, given to the user]")


def _take_resource(block: "EmbeddedResource", read: _Read, *, sees_images: bool) -> None:
    resource = block.resource
    uri, media_type = str(resource.uri), resource.mime_type or ""
    if (text := getattr(resource, "text", None)) is not None:
        _add_text(f"[{uri}]\n{text}", read)
        return
    blob = ResultBlob.sent(str(getattr(resource, "blob", "")), media_type)
    if (text := blob.text) is not None:
        _add_text(f"[{uri}]\n{text}", read)
        return
    if media_type.startswith("image/"):
        _add_text(f"[{uri}]", read)
        _take_image(blob, read, sees_images=sees_images)
    else:
        _take_file(blob, read, name=uri)


def _link_text(link: "ResourceLink") -> str:
    facts = ", ".join(
        filter(None, (link.mime_type, f"{link.size:,} bytes" if link.size is not None else "", link.description))
    )
    return f"[a resource, not loaded: {link.title or link.name}, {link.uri}{f' ({facts})' if facts else ''}]"


def _result_summary(text: str, *, is_error: bool) -> str:
    """Return the call's status and the beginning of its content."""
    first = text.strip().split("\n", 1)[0]
    words = (first if len(first) > len("[{") else " ".join(text[: _SUMMARY * 4].split()))[:_SUMMARY]
    return words if is_error else " · ".join(filter(None, ("ok", words)))


def as_picture(blob: ResultBlob, *, label: str) -> tuple[Picture | None, ImagePart | None]:
    """Return the picture for the user, and a smaller one for the model if needed; None for what is no picture.

    The format is detected from the first bytes, whatever the server declares.
    """
    kind = raster_type(blob.raw[:_HEAD])
    if kind is None:
        return None, None
    picture = Picture(media_type=kind, data=blob.data, label=label)
    return picture, fit_image(ImagePart(media_type=kind, data=blob.data))


def indented_json(value: JsonValue) -> str:
    """Format JSON for display."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def says_same(texts: Sequence[str], structured: JsonValue) -> bool:
    """Return whether the text blocks repeat the structured content, as servers do for older clients."""
    if not texts:
        return False
    forms = [structured]
    if isinstance(structured, dict) and len(structured) == 1:  # a value that is no object is wrapped in one
        forms.extend(structured.values())
    values = [_parse_value(text) for text in texts]
    return any(
        (len(values) == 1 and _is_same_json(values[0], texts[0], form)) or (isinstance(form, list) and values == form)
        for form in forms
    )


def table_of(structured: JsonValue) -> Table | None:
    """Return a table for a list of flat objects, alone or as the only value of an object; else None."""
    if isinstance(structured, dict) and len(structured) == 1:
        structured = next(iter(structured.values()))
    if not isinstance(structured, list) or not structured or not all(_is_flat(row) for row in structured):
        return None
    rows = cast("list[dict[str, JsonValue]]", structured)
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    if not 0 < len(columns) <= COLUMNS_LIMIT:
        return None
    cells = (tuple(_cell_text(row.get(column)) for column in columns) for row in rows[:ROWS_LIMIT])
    return Table(columns=columns, rows=tuple(cells))


def _is_same_json(value: JsonValue, text: str, form: JsonValue) -> bool:
    return value == form or text == form


def _parse_value(text: str) -> JsonValue:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_flat(row: JsonValue) -> bool:
    return isinstance(row, dict) and not any(isinstance(value, dict | list) for value in row.values())


def _cell_text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
