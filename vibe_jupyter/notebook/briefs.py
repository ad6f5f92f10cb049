"""Outputs by their size: described without their weight, or cut to a limit; as `labextension/src/bridge/brief.ts`."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from vibe_jupyter.protocol.cells import BRIEF_TEXT

TEXTS: Final = ("text/plain", "text/markdown", "text/html")
"""MIME types a description may quote, the best first."""

Output = dict[str, Any]


def brief(output: Mapping[str, Any]) -> dict[str, Any]:
    """Type, MIME types, size in bytes, and how its text begins."""
    kind = str(output.get("output_type"))
    if kind == "stream":
        text = joined(output.get("text"))
        return {"type": kind, "mimes": [], "size": _bytes(text), "text": text[:BRIEF_TEXT]}
    if kind == "error":
        size = _bytes(joined(output.get("traceback")))
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
        return {"type": kind, "mimes": [], "size": size, "text": text[:BRIEF_TEXT]}
    data = _data(output)
    shown = next((mime for mime in TEXTS if mime in data), None)
    return {
        "type": kind,
        "mimes": sorted(data),
        "size": sum(_bytes(_as_text(value)) for value in data.values()),
        "text": "" if shown is None else joined(data[shown])[:BRIEF_TEXT],
    }


def bounded(output: Output, limit: int) -> Output:
    """The same output with what is longer than the limit cut, or named where a part of it would mean nothing."""
    kind = output.get("output_type")
    if kind == "stream":
        return {**output, "text": _cut(joined(output.get("text")), limit)}
    if kind == "error":
        whole = "\n".join(_lines(output.get("traceback")))
        return output if len(whole) <= limit else {**output, "traceback": _cut(whole, limit).split("\n")}
    return {**output, "data": _bounded_data(_data(output), limit)}


def joined(value: object) -> str:
    """nbformat writes long texts as lists of lines."""
    if isinstance(value, list):
        return "".join(map(str, cast("list[object]", value)))
    return value if isinstance(value, str) else ""


def _bounded_data(data: Mapping[str, Any], limit: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    left: list[str] = []
    for mime, value in data.items():
        text = _as_text(value)
        if len(text) <= limit:
            kept[mime] = value
        elif mime.startswith("text/"):
            kept[mime] = _cut(text, limit)
        else:
            left.append(f"[{mime} of {_bytes(text)} bytes left out]")
    if left:
        kept["text/plain"] = "\n".join(filter(None, [joined(kept.get("text/plain")), *left]))
    return kept


def _cut(text: str, limit: int) -> str:
    """Head and tail, with what is missing named between them."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[len(text) - half :]}"


def _data(output: Mapping[str, Any]) -> Mapping[str, Any]:
    data = output.get("data")
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _lines(value: object) -> list[str]:
    return list(map(str, cast("list[object]", value))) if isinstance(value, list) else []


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in cast("Iterable[object]", value)):
        return joined(cast("list[object]", value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
