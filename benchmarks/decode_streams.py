"""The streams that `decode.py` has read: one write an event, as servers flush."""

import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from itertools import cycle, islice
from typing import Any

from vibe_jupyter.testing import Raw, ScriptedModel, raw

FRAGMENTS = 50
"""Pieces of the arguments of one call."""
MAX_CALLS = 200
"""Calls in one answer; a real one has fewer, and more than 128 are refused unless the bound is raised."""
PIECE = "lorem i "
SEPARATED = "a\u2028b\u2029c\u0085d\x0be "
PROSE = re.findall(
    r"\s?\w{1,8}|\s?[^\w\s]+|\s+",
    "The frame has 1,475 rows and 38 columns. I dropped 12 rows without a **date**, since `pd.to_datetime` could not "
    "read them, and merged both tables on `customer_id`:\n\n```python\nmerged = orders.merge(customers, how='left')\n"
    "print(merged.shape)\n```\n\n- The mean is 23.4 (median 19.0), and considering the outliers the distribution is "
    "skewed.\n- A significant part of the revenue comes from three regions; each key column is unique.\n\nNext I will "
    "plot the residuals by month, count the tokens of each message, and check whether the pattern holds inside every "
    "group before anything else is changed. ",
)
"""Pieces such as tokens of a model, among them words that make the redactor look twice."""
BULK = 65_536
"""Bytes a write in mode ``bulk``."""

Object = dict[str, Any]


def serve() -> None:
    """Answer until the input is closed. The model's name says what is wanted."""
    with ScriptedModel(lambda request: body(request.body["model"]), strict=False) as model:
        print(model.url, flush=True)
        sys.stdin.read()


@cache
def body(name: str) -> Raw:
    """A whole stream."""
    mode, _, count = name.partition("-")
    if mode.startswith("line"):
        return raw(list(lines(mode, int(count))), content_type="application/x-ndjson")
    events = list(chunks(mode, int(count)))
    if mode == "bulk":
        joined = b"".join(events)
        events = [joined[start : start + BULK] for start in range(0, len(joined), BULK)]
    return raw(events)


def text_of(mode: str, count: int) -> str:
    """What must have come through."""
    return "".join(pieces_of(mode, count))


def pieces_of(mode: str, count: int) -> Iterable[str]:
    """The text of each delta."""
    return islice(cycle(PROSE if mode == "prose" else [SEPARATED if mode.endswith("u") else PIECE]), count)


def chunks(mode: str, count: int) -> Iterable[bytes]:
    """Events of Chat Completions."""
    deltas = tool_deltas(count) if mode == "tools" else ({"content": piece} for piece in pieces_of(mode, count))
    for delta in deltas:
        yield event({"index": 0, "delta": delta, "finish_reason": None})
    yield event({"index": 0, "delta": {}, "finish_reason": "stop"})
    yield b"data: [DONE]\n\n"


def number_of_calls(count: int) -> int:
    """Calls in an answer of so many deltas; where these are many, the pieces of a call are more."""
    return min(MAX_CALLS, max(count // FRAGMENTS, 1))


def tool_deltas(count: int) -> Iterable[Object]:
    """Calls in pieces."""
    calls = number_of_calls(count)
    for index in range(calls):
        head = {"index": index, "id": f"call{index:05}", "type": "function", "function": {"name": "f", "arguments": ""}}
        yield {"tool_calls": [head]}
        for piece in ['{"x": "', *["lorem"] * (count // calls - 3), '"}']:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def event(choice: Object) -> bytes:
    """One event, as long as those of real servers; not escaped, so that U+2028 is on the wire as it is."""
    chunk = {"id": "chatcmpl-1234567890", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}, ensure_ascii=False).encode() + b"\n\n"


def lines(mode: str, count: int) -> Iterable[bytes]:
    """Lines of Ollama, which sends each call whole."""
    for number in range(count):
        message: Object = {"role": "assistant", "content": text_of(mode, 1)}
        if mode == "linetools":
            message["content"] = ""
            if number % (count // MAX_CALLS or 1) == 0 and number // (count // MAX_CALLS or 1) < MAX_CALLS:
                message["tool_calls"] = [{"function": {"name": "f", "arguments": {"x": "lorem" * FRAGMENTS}}}]
            else:
                message["content"] = PIECE
        yield line({"message": message, "done": False})
    ending = {"done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": count}
    yield line({"message": {"role": "assistant", "content": ""}, **ending})


def line(rest: Object) -> bytes:
    """One line."""
    start = {"model": "m", "created_at": "2026-01-01T00:00:00.000000000Z"}
    return json.dumps({**start, **rest}, ensure_ascii=False).encode() + b"\n"
