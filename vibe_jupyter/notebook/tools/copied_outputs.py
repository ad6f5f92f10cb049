"""Outputs that a copy of the kernel reports: data of the code, brought into the forms that a notebook knows.

The report may be forged: fields of other types, kinds of data that no front end knows, pictures without end. What is no
output is left out. Pictures are counted, since each is shown in the user's cell.
"""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.kernel.outputs import Output, join_lines

MOST_PICTURES: Final = 20
"""Pictures of one copy that are kept."""
MOST_PICTURE_BYTES: Final = 5 << 20
"""Bytes of these pictures together."""
_LONGEST_NAME: Final = 200
"""Characters of the class of an error."""
PICTURES: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
"""Pictures that are shown of a copy's outputs, and how each begins: nothing that a page runs."""
_TEXTS: Final = frozenset({"text/plain", "text/html", "text/markdown", "text/latex", "application/javascript"})
_DATA: Final = re.compile(
    r"application/(?:json|vnd\.(?:plotly\.v1|vega(?:lite)?\.v\d(?:\.\d{1,2})?|jupyter\.widget-view"
    r"|bokehjs_(?:exec|load)\.v0|holoviews_(?:exec|load)\.v0|dataresource|geo)\+json)"
)
"""Kinds of data that front ends draw."""
_PNG_SIDES: Final = slice(16, 24)
_LONGEST_SIDE: Final = 20_000
"""Pixels of a picture's side; a front end that unpacks more may not come to an end."""


class CopiedOutputs(NamedTuple):
    """Outputs of a copy within their bounds."""

    outputs: tuple[Output, ...]
    left_out: int
    """Pictures that were not kept."""


def copied_outputs(reported: Sequence[Mapping[str, JsonValue]]) -> CopiedOutputs:
    """Return the outputs that are well formed, with at most `MOST_PICTURES` pictures."""
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
        """The parts of a display that are kept."""
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
    """Return a picture's base64 without blanks; '' for anything else under its name.

    With anything else there, the notebook is no longer valid, and no export reads it.
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
