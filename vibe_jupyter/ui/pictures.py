"""Pictures and files in the detail of a step: what came as data is shown and can be saved, nothing is fetched."""

import re

from pydantic import JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.protocol import Download, Picture
from vibe_jupyter.ui.code import LIVE, CodeLook
from vibe_jupyter.ui.markup import (
    NOTHING,
    Markup,
    escape_text,
    html_element,
    inert_text,
    is_picture,
    join_markup,
    picture_size,
)
from vibe_jupyter.ui.text import one_line

KEPT_SHARE = 15
"""Characters of base64 that are kept for each character a text beside it may have: 120,000 where there is room."""
PICTURES_LIMIT = 12
"""Pictures shown in a step."""

_UNITS = ("bytes", "kB", "MB", "GB")
_PICTURES = TypeAdapter(tuple[Picture, ...])
_DOWNLOADS: TypeAdapter[Download | tuple[Download, ...]] = TypeAdapter(Download | tuple[Download, ...])
_SOUNDS = frozenset({"audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3", "audio/mp4", "audio/ogg", "audio/webm"})
"""What browsers play; nothing of it can do anything else."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
DOWNLOADS_LIMIT = 12
"""Files offered in a step."""


def pictures_html(content: JsonValue, look: CodeLook, limit: int) -> Markup:
    """Raster pictures that came as data."""
    try:
        pictures = _PICTURES.validate_python(content)
    except ValidationError:
        return NOTHING
    most = None if look is LIVE else limit * KEPT_SHARE
    pieces = [_picture_html(picture, most) for picture in pictures[:PICTURES_LIMIT]]
    if len(pictures) > PICTURES_LIMIT:
        pieces.append(html_element("div", inert_text(f"… {len(pictures) - PICTURES_LIMIT:,} more pictures")))
    return html_element("div", *pieces, class_="vibe-prose" if look is LIVE else None)


def download_html(content: JsonValue, look: CodeLook, limit: int) -> Markup:
    """Where each file is, and a link that saves it where it came along; a sound can be heard."""
    try:
        found = _DOWNLOADS.validate_python(content)
    except ValidationError:
        return NOTHING
    files = (found,) if isinstance(found, Download) else found
    pieces = [_download_html(file, look, limit) for file in files[:DOWNLOADS_LIMIT]]
    if len(files) > DOWNLOADS_LIMIT:
        pieces.append(html_element("div", inert_text(f"… {len(files) - DOWNLOADS_LIMIT:,} more files")))
    return join_markup(*pieces)


def _download_html(download: Download, look: CodeLook, limit: int) -> Markup:
    pieces: list[Markup] = []
    if look is LIVE and download.media_type in _SOUNDS and _BASE64.fullmatch(download.data):
        address = f"data:{download.media_type};base64,{download.data}"
        pieces.append(html_element("audio", controls=True, src=address, aria_label=one_line(download.name) or "sound"))
    if download.data and (look is LIVE or len(download.data) <= limit * KEPT_SHARE):
        # Never its own type: a click saves it, and no page of it is opened.
        address = f"data:application/octet-stream;base64,{download.data}"
        name = one_line(download.name) or "file"
        pieces.append(html_element("a", inert_text(f"Download {name}"), href=address, download=name))
    if download.path:
        pieces.append(join_markup(inert_text("Kept as "), html_element("code", escape_text(download.path))))
    if not pieces:
        return NOTHING
    return html_element("div", Markup(" · ".join(pieces)), class_="vibe-prose" if look is LIVE else None)


def size_words(size: int) -> str:
    """``950 bytes``, ``1.2 MB``."""
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {_UNITS[unit]}" if unit == 0 or amount >= 100 else f"{amount:.1f} {_UNITS[unit]}"


def _picture_html(picture: Picture, most: int | None) -> Markup:
    """One of them; `most` is how many characters of base64 are kept, None for all."""
    address = f"data:{picture.media_type};base64,{picture.data}"
    label = one_line(picture.label) or "picture"
    if not is_picture(address):
        return html_element("div", inert_text(f"{label}: no picture that can be shown"))
    if most is not None and len(picture.data) > most:
        size = size_words(len(picture.data) * 3 // 4)
        return html_element("div", inert_text(f"{label}: {size}, too large to be kept in the notebook"))
    width, height = picture_size(address) or (None, None)
    style = None if most is None else "max-width:100%;height:auto"
    image = html_element("img", src=address, alt=label, width=width, height=height, style=style)
    return html_element("div", Markup(image.removesuffix("</img>")))
