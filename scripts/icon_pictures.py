"""The icons of the static form: draws each path of ``vibe_jupyter/ui/icons.py`` in a browser, as a grey PNG.

Run it after a change of a path. A test compares what it wrote with what a browser draws.
"""

import base64
import json
import struct
import sys
import zlib
from collections.abc import Mapping
from typing import Final

from playwright.sync_api import Page

from tests.browser.chromium import chromium
from vibe_jupyter.ui.icons import PATHS, PICTURES, SIDE

PIXELS: Final = 2 * SIDE
"""Of a side of the picture."""
LEVELS: Final = 15
"""Shades between nothing and the whole grey, so that a pixel takes half a byte."""
_GREY: Final = 0x80
"""It has 3.9:1 on white and 4.8:1 on #111."""
_STROKE: Final = 1.35

_DRAW: Final = """([path, pixels, side, stroke]) => {
    const canvas = new OffscreenCanvas(pixels, pixels), context = canvas.getContext("2d");
    context.scale(pixels / side, pixels / side);
    Object.assign(context, { lineWidth: stroke, lineCap: "round", lineJoin: "round" });
    context.stroke(new Path2D(path));
    const { data } = context.getImageData(0, 0, pixels, pixels);
    return Array.from({ length: pixels * pixels }, (_, at) => data[at * 4 + 3]);
}"""


def drawn_levels(page: Page, path: str) -> list[int]:
    """How much of each pixel a path covers, from 0 to `LEVELS`, row by row."""
    alphas: list[int] = page.evaluate(_DRAW, [path, PIXELS, SIDE, _STROKE])
    return [round(alpha * LEVELS / 255) for alpha in alphas]


def picture_of(levels: list[int]) -> str:
    """A PNG with a palette of grey shades, as base64."""
    rows = [levels[at : at + PIXELS] for at in range(0, len(levels), PIXELS)]
    packed = b"".join(
        b"\0" + bytes(left << 4 | right for left, right in zip(row[::2], row[1::2], strict=True)) for row in rows
    )
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", PIXELS, PIXELS, 4, 3, 0, 0, 0),
        b"PLTE": bytes([_GREY]) * 3 * (LEVELS + 1),
        b"tRNS": bytes(round(level * 255 / LEVELS) for level in range(LEVELS + 1)),
        b"IDAT": zlib.compress(packed, 9),
        b"IEND": b"",
    }
    written = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks.items()
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(written)).decode("ascii")


def levels_of(picture: str) -> list[int]:
    """What `picture_of` made a picture of."""
    data = base64.b64decode(picture)
    begin = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[begin - 4 : begin])
    packed = zlib.decompress(data[begin + 4 : begin + 4 + length])
    row_bytes = PIXELS // 2 + 1
    pairs = (byte for at in range(0, len(packed), row_bytes) for byte in packed[at + 1 : at + row_bytes])
    return [level for pair in pairs for level in (pair >> 4, pair & LEVELS)]


def draw_all(page: Page) -> Mapping[str, str]:
    """Every icon as a picture, by name."""
    return {name: picture_of(drawn_levels(page, path)) for name, path in PATHS.items()}


def main() -> int:
    """Write the file that the package reads."""
    with chromium() as browser:
        drawn = draw_all(browser.new_page())
    PICTURES.write_text(json.dumps(drawn, indent=0) + "\n", encoding="utf-8")
    print(f"{len(drawn)} icons, {sum(map(len, drawn.values())) / len(drawn):.0f} characters each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
