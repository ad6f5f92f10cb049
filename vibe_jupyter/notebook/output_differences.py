"""Differences between the outputs of two runs of a cell, by kind: text, numbers, tables, images, errors.

Differences that any two runs have are ignored: object addresses, durations, progress bar states, element ids, and
stderr, such as warnings.
"""

import json
import math
import re
import zlib
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Final, cast

from vibe_jupyter.files.truncation import cut_line
from vibe_jupyter.kernel.outputs import Output, join_lines, plain_text
from vibe_jupyter.notebook.document import html_text

TOLERANCE: Final = 1e-6  # relative difference allowed between two numbers that aren't integers
_QUOTED: Final = 120  # characters of a quoted line
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*[A-Za-z_])")
_VARYING: Final = (
    (re.compile(r"\b0x[0-9a-fA-F]{6,}\b"), "0x…"),
    (re.compile(r"(?m)^(?:CPU times|Wall time|user|sys|real)\b.*$|^.* per loop \(mean .*$"), "(times)"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ns|µs|us|ms)\b|\b\d+\.\d+ ?(?:s|sec|seconds)\b"), "(time)"),
    (re.compile(r"(?:/tmp)?/ipykernel_\d+/\d+\.py"), "(code)"),
)
_OBJECT: Final = re.compile(r"<[^<>]+ (?:object|at 0x…)[^<>]*>")
_CHARTS: Final = ("application/vnd.plotly", "application/vnd.vega")
_PICTURE: Final = "image/png"


def difference(before: Sequence[Output], after: Sequence[Output], *, more_before: bool = False) -> str:
    """Describe what changed after another run in one line; "" if nothing did.

    Args:
        before: Outputs of the earlier run.
        after: Outputs of this run.
        more_before: Whether the earlier run had lines that this one omitted. Its additional output is then ignored.
    """
    was, now = list(_parts(before)), list(_parts(after))
    if more_before:
        was = _without_more(was, now)
    for one, other in zip_longest(was, now):
        if one is None:
            return f"shows more: {_named(other)}"
        if other is None:
            return f"no longer shows {_named(one)}"
        if one[0] != other[0]:
            return f"shows {_named(other)}, was {_named(one)}"
        if said := _part_difference(one[0], one[1], other[1]):
            return said
    return ""


def _without_more(was: Sequence["_Part"], now: Sequence["_Part"]) -> list["_Part"]:
    """Drop earlier parts and lines of text without a counterpart, if all others match in order."""
    left = list(was)
    kept: list[_Part] = []
    for kind, content in now:
        place = next((at for at, one in enumerate(left) if _holds(one, (kind, content))), None)
        if place is None:
            return list(was)
        kept.append((kind, content))
        del left[: place + (kind != "text")]  # one text may contain the lines of several
    return kept


def _holds(part: "_Part", other: "_Part") -> bool:
    if part[0] != other[0]:
        return False
    if part[0] != "text":
        return not _part_difference(*part, other[1])
    lines = iter(part[1].split("\n"))
    return all(any(_same_line(line, wanted) for line in lines) for wanted in other[1].split("\n"))


_Part = tuple[str, str]  # kind, and content in comparable form


def _parts(outputs: Sequence[Output]) -> Iterator[_Part]:
    """Yield the outputs in comparable form, merging text that was written in pieces."""
    text = ""
    for output in outputs:
        kind = output.get("output_type")
        if kind == "stream":
            text += join_lines(output.get("text")) if output.get("name") != "stderr" else ""
            continue
        if text.strip():
            yield "text", _text(text)
        text = ""
        if kind == "error":
            yield "an error", _text(f"{output.get('ename', '')}: {output.get('evalue', '')}")
        else:
            yield from _data_parts(cast("Mapping[str, Any]", output.get("data") or {}))
    if text.strip():
        yield "text", _text(text)


def _data_parts(data: Mapping[str, Any]) -> Iterator[_Part]:
    if chart := next((mime for mime in data if mime.startswith(_CHARTS)), ""):
        yield "a chart", json.dumps(_chart(data[chart]), sort_keys=True)
        return
    if _PICTURE in data:
        yield "a picture", _picture(join_lines(data[_PICTURE]))
        return
    plain = _text(join_lines(data.get("text/plain")))
    if not plain or _OBJECT.fullmatch(plain):
        better = join_lines(data.get("text/markdown")) or html_text(join_lines(data.get("text/html")))
        plain = _text(better) or plain
    if plain:
        yield "a value", plain
    elif data:
        yield ", ".join(sorted(data)), ""


def _chart(content: object) -> object:
    """Return a chart's content without ids and without fields added by a page or version."""
    if isinstance(content, dict):
        items = cast("Mapping[str, object]", content).items()
        return {name: _chart(value) for name, value in items if name not in ("uid", "config", "$schema", "usermeta")}
    return [_chart(one) for one in cast("list[object]", content)] if isinstance(content, list) else content


def _picture(encoded: str) -> str:
    """Return a key that is equal for PNGs with equal pixels. Metadata, such as the software version, is ignored."""
    try:
        raw = b64decode(encoded)
        packed = b"".join(content for name, content in _chunks(raw) if name == b"IDAT")
        size = next((content for name, content in _chunks(raw) if name == b"IHDR"), b"")
        return f"{size.hex()} {zlib.crc32(zlib.decompress(packed)):08x}"
    except (NotBase64, ValueError, zlib.error):
        return encoded


def _chunks(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(raw):
        size = int.from_bytes(raw[at : at + 4])
        yield raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        at += size + 12


def _text(text: str) -> str:
    """Return the text as finally displayed, without parts that differ between any two runs."""
    lines = plain_text(text).replace("\r\n", "\n").split("\n")
    shown = "\n".join(line.rstrip("\r").rpartition("\r")[2].rstrip() for line in lines).strip("\n")
    for pattern, instead in _VARYING:
        shown = pattern.sub(instead, shown)
    return shown


def _part_difference(kind: str, before: str, after: str) -> str:
    if before == after:
        return ""
    if kind == "a picture":
        return "the picture differs"
    if kind == "a chart":
        return "" if _same_line(before, after) else "the chart differs"
    for was, now in zip_longest(before.split("\n"), after.split("\n"), fillvalue=""):
        if not _same_line(was, now):
            return f"shows {cut_line(now.strip(), _QUOTED)!r}, was {cut_line(was.strip(), _QUOTED)!r}"
    return ""


def _same_line(was: str, now: str) -> bool:
    """Return whether words are equal and numbers are equal up to rounding. Column widths are ignored."""
    if was.split() == now.split():
        return True
    before, after = list(_NUMBER.finditer(was)), list(_NUMBER.finditer(now))
    if len(before) != len(after) or _between(was, before) != _between(now, after):
        return False
    return all(_same_number(one[0], other[0]) for one, other in zip(before, after, strict=True))


def _between(line: str, numbers: Sequence["re.Match[str]"]) -> list[list[str]]:
    """Return the words between the numbers."""
    borders = [0, *(place for one in numbers for place in one.span()), len(line)]
    return [line[start:end].split() for start, end in list(pairwise(borders))[::2]]


def _same_number(one: str, other: str) -> bool:
    whole = [text.lstrip("+-").isdigit() for text in (one, other)]
    if any(whole):
        return all(whole) and int(one) == int(other)
    return math.isclose(float(one), float(other), rel_tol=TOLERANCE, abs_tol=TOLERANCE**2)


def _named(part: _Part) -> str:
    kind, content = part
    return f"{kind} {cut_line(content.strip().split(chr(10))[0], _QUOTED)!r}" if _is_quoted(kind) else kind


def _is_quoted(kind: str) -> bool:
    return kind in ("text", "a value", "an error")
