"""What a server's tool gave: to the model as data, to the user as it looks, to the log.

Nothing that a result names is fetched: a link is words, and pictures and files are those that came along.
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

IMAGES_LIMIT: Final = 4
"""Images of one result that a model with eyes gets."""
LOGGED: Final = 100_000
"""Characters of a text, and of structured content, that the log keeps."""
NOTHING: Final = "It returned nothing."
_SUMMARY: Final = 80
"""Characters of the result on the call's line."""

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
_HEAD: Final = 12
"""Bytes that tell the kind of an image."""
_NAME_LIMIT: Final = 80
"""Characters of a file's name."""

ROWS_LIMIT: Final = 200
"""Rows of a table that are kept."""
COLUMNS_LIMIT: Final = 30
"""Columns of a table; what has more is no table to read."""


@dataclass(frozen=True)
class ResultSource:
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
    """For the user, who sees pictures and files themselves."""
    said: list[str] = field(default_factory=list[str])
    """The server's own words alone."""
    images: list[ImagePart] = field(default_factory=list[ImagePart])
    pictures: list[Picture] = field(default_factory=list[Picture])
    files: list[Download] = field(default_factory=list[Download])


def tool_result(answer: "CallToolResult", source: ResultSource, *, sees_images: bool) -> ToolResult:
    """A server's answer for its three readers.

    Args:
        answer: as it came.
        source: whose it is.
        sees_images: whether the model is given images.
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
    """A call that the server gave no answer to; the words may be its last."""
    return ToolResult(
        parts=(_told_part(words, source),),
        summary=words.split("\n", 1)[0],
        display={"text/plain": words},
        details=log_details(source, ok=False, text=words, structured=None),
        is_error=True,
    )


def log_details(source: ResultSource, *, ok: bool, text: str, structured: JsonValue) -> dict[str, JsonValue]:
    """The fields of a result that the log keeps."""
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
    """What the user sees, and in a few words what there is."""
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
    """What a server sent that is no text."""

    data: str
    """Base64, if it is what it says."""
    media_type: str
    """What the server says."""

    @classmethod
    def sent(cls, data: str, media_type: str) -> "ResultBlob":
        """As it came; some encoders break base64 into lines, which readers of pictures refuse."""
        return cls("".join(data.split()), media_type)

    @property
    def kind(self) -> str:
        """The type, if it has the form of one."""
        return self.media_type if _TYPE.fullmatch(self.media_type) else _UNNAMED

    @property
    def words(self) -> str:
        """Kind and size."""
        return f"{self.kind}, {len(self.data) * 3 // 4:,} bytes"

    @property
    def raw(self) -> bytes:
        """The bytes; none where it is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except (binascii.Error, ValueError):
            return b""

    @property
    def text(self) -> str | None:
        """What it says, if it is said to be text and is; else None."""
        if not self.kind.startswith("text/") and self.kind != "application/json":
            return None
        try:
            return self.raw.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def as_file(self, name: str) -> Download:
        """Something to take; of a name only the last part, since it may be a whole address."""
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
    """Whether it went well, and what came."""
    first = text.strip().split("\n", 1)[0]
    words = (first if len(first) > len("[{") else " ".join(text[: _SUMMARY * 4].split()))[:_SUMMARY]
    return words if is_error else " · ".join(filter(None, ("ok", words)))


def as_picture(blob: ResultBlob, *, label: str) -> tuple[Picture | None, ImagePart | None]:
    """The picture for the user, and for the model if it can be made small enough; None for what is no picture.

    What it is say its first bytes, whatever the server says.
    """
    kind = raster_type(blob.raw[:_HEAD])
    if kind is None:
        return None, None
    picture = Picture(media_type=kind, data=blob.data, label=label)
    return picture, fit_image(ImagePart(media_type=kind, data=blob.data))


def indented_json(value: JsonValue) -> str:
    """JSON for readers."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def says_same(texts: Sequence[str], structured: JsonValue) -> bool:
    """Whether these blocks of text hold the structured content already, as servers put it for older clients."""
    if not texts:
        return False
    forms = [structured]
    if isinstance(structured, dict) and len(structured) == 1:  # around a value that is no object
        forms.extend(structured.values())
    values = [_parse_value(text) for text in texts]
    return any(
        (len(values) == 1 and _is_same_json(values[0], texts[0], form)) or (isinstance(form, list) and values == form)
        for form in forms
    )


def table_of(structured: JsonValue) -> Table | None:
    """A list of flat objects, alone or as the only value of an object; None for everything else."""
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
