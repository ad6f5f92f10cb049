"""Validation of outputs reported by a copy of the kernel: they become valid notebook outputs.

The report may be forged, with fields of other types, MIME types that no front end knows, or endless images. Anything
that isn't an output is dropped. Images are limited, since each is shown in the user's cell.
"""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.kernel.outputs import Output, join_lines

MOST_PICTURES: Final = 20  # images kept per copy
MOST_PICTURE_BYTES: Final = 5 << 20  # total bytes of these images
_LONGEST_NAME: Final = 200  # characters of an error's class name
# Image types accepted from a copy, with their signatures. Neither can contain scripts.
PICTURES: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
_TEXTS: Final = frozenset({"text/plain", "text/html", "text/markdown", "text/latex", "application/javascript"})
# MIME types that front ends draw.
_DATA: Final = re.compile(
    r"application/(?:json|vnd\.(?:plotly\.v1|vega(?:lite)?\.v\d(?:\.\d{1,2})?|jupyter\.widget-view"
    r"|bokehjs_(?:exec|load)\.v0|holoviews_(?:exec|load)\.v0|dataresource|geo)\+json)"
)
_PNG_SIDES: Final = slice(16, 24)
_LONGEST_SIDE: Final = 20_000  # pixels per side; decoding larger images could hang a front end


class CopiedOutputs(NamedTuple):
    """Validated outputs of a copy."""

    outputs: tuple[Output, ...]
    left_out: int  # images that were dropped


def copied_outputs(reported: Sequence[Mapping[str, JsonValue]]) -> CopiedOutputs:
    """Return the well-formed outputs, with at most `MOST_PICTURES` images."""
    kept: list[Output] = []
    pictures = _PictureBudget()
    for one in reported:
        match one:
            case {"output_type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
                kept.append({"output_type": "stream", "name": name, "text": text})
            case {"output_type": "error", "ename": str(name), "evalue": str(value), "traceback": list(lines)}:
                texts: list[JsonValue] = [line for line in lines if isinstance(line, str)]
                kept.append(
                    {"output_type": "error", "ename": name[:_LONGEST_NAME], "evalue": value, "traceback": texts}
                )
            case {"output_type": "display_data" | "execute_result" as kind, "data": dict(data)}:
                bundle = pictures.bundle(cast("dict[str, JsonValue]", data))
                result = {"execution_count": None} if kind == "execute_result" else {}
                if bundle:
                    kept.append({"output_type": kind, "data": bundle, "metadata": {}, **result})
            case _:
                pass
    return CopiedOutputs(tuple(kept), pictures.left_out)


class _PictureBudget:
    def __init__(self) -> None:
        self.left_out = 0
        self._kept = self._bytes = 0

    def bundle(self, data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the accepted parts of a display's data."""
        kept: dict[str, JsonValue] = {}
        for mime, content in data.items():
            if mime in _TEXTS:
                kept |= {mime: join_lines(content)} if isinstance(content, str | list) else {}
            elif _DATA.fullmatch(mime):
                kept[mime] = content
        wanted = [mime for mime in data if mime.startswith("image/")]
        picture = next(((mime, text) for mime in PICTURES if (text := picture_data(mime, data.get(mime)))), None)
        if picture is not None and self._has_room(picture[1]):
            kept[picture[0]] = picture[1]
        elif wanted:
            self.left_out += 1
        return kept

    def _has_room(self, text: str) -> bool:
        size = len(text) * 3 // 4
        if self._kept >= MOST_PICTURES or self._bytes + size > MOST_PICTURE_BYTES:
            return False
        self._kept += 1
        self._bytes += size
        return True


def picture_data(mime: str, data: object) -> str:
    """Return an image's base64 without white space, or '' if it isn't valid.

    With invalid image data the notebook itself is invalid, and exports fail.
    """
    if not isinstance(data, str) or len(data) > 2 * MOST_PICTURE_BYTES:
        return ""
    text = "".join(data.split())
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return ""
    if not raw.startswith(PICTURES[mime]):
        return ""
    sides = [int.from_bytes(raw[at : at + 4], "big") for at in range(_PNG_SIDES.start, _PNG_SIDES.stop, 4)]
    return text if mime != "image/png" or all(0 < side <= _LONGEST_SIDE for side in sides) else ""
