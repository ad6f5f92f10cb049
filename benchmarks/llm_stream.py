"""CPU per delta of a streamed answer, ours beside the floor: httpx, `json` and a fold, and nothing else.

    python benchmarks/llm_stream.py            # 20,000 deltas, and 100,000 for the growth
    python benchmarks/llm_stream.py --quick    # a tenth of it

The server runs in a process of its own, and so does each measurement, since only CPU time of the client is
compared: the ratio of two figures of one run means something on a busy machine, the figures themselves do not.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from functools import cache
from typing import Any, cast

from vibe_jupyter.testing import Raw, ScriptedModel, raw

ROUNDS = 5
"""Measurements of each figure; the median counts."""
FRAGMENTS = 50
"""Pieces of the arguments of one call."""
PARALLEL_CALLS = 100
"""Calls in the answer with tools; a real one has fewer, and more than 128 are refused."""
GOALS = {"text": 1.5, "tools": 1.6, "bulk": 1.5}
"""Times the floor (performance 5, S1 and S2)."""
MAX_GROWTH = 1.15
"""Cost of a delta in an answer five times as long (S3)."""

Object = dict[str, Any]


def main() -> None:
    """Run the table, or one of the processes it needs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.serve:
        serve()
    elif chosen.measure:
        client, name, url = chosen.measure
        print(asyncio.run(CLIENTS[client](name, url)))
    else:
        table(2_000 if chosen.quick else 20_000)


def table(deltas: int) -> None:
    """Measure everything and print it."""
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout
    url = server.stdout.readline().decode().strip()
    try:
        print(f"{'':14}{'floor µs':>10}{'ours µs':>10}{'ratio':>8}{'goal':>8}")
        for mode, goal in GOALS.items():
            floor, ours = pair(mode, deltas, url)
            print(f"{mode:14}{floor:10.2f}{ours:10.2f}{ours / floor:8.2f}{goal:8.2f}")
        short, long = pair("text", deltas, url), pair("text", deltas * 5, url)
        print(f"{'growth × 5':14}{long[0] / short[0]:10.2f}{long[1] / short[1]:10.2f}{'':8}{MAX_GROWTH:8.2f}")
    finally:
        server.communicate(timeout=30)


def pair(mode: str, deltas: int, url: str) -> tuple[float, float]:
    """Microseconds a delta of the floor and of ours, measured in turns."""
    figures: dict[str, list[float]] = {name: [] for name in CLIENTS}
    for _ in range(ROUNDS):
        for name, measured in figures.items():
            command = [sys.executable, __file__, "--measure", name, f"{mode}-{deltas}", url]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            measured.append(float(done.stdout) / deltas * 1e6)
    return statistics.median(figures["floor"]), statistics.median(figures["ours"])


def serve() -> None:
    """Answer until the input is closed. The model's name says what is wanted."""
    with ScriptedModel(lambda request: body(request.body["model"])) as model:
        print(model.url, flush=True)
        sys.stdin.read()


@cache
def body(name: str) -> Raw:
    """A whole stream; one write an event, but for ``bulk``."""
    mode, _, count = name.partition("-")
    deltas = tool_deltas(int(count)) if mode == "tools" else [{"content": "lorem i "} for _ in range(int(count))]
    events = [event({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas]
    events += [event({"index": 0, "delta": {}, "finish_reason": "stop"}), b"data: [DONE]\n\n"]
    if mode == "bulk":
        joined = b"".join(events)
        events = [joined[start : start + 65536] for start in range(0, len(joined), 65536)]
    return raw(events)


def tool_deltas(count: int) -> list[Object]:
    """Calls of `FRAGMENTS` pieces each; when there are many pieces, the pieces of a call are more."""
    calls = min(PARALLEL_CALLS, max(count // FRAGMENTS, 1))
    deltas: list[Object] = []
    for index in range(calls):
        head = {"index": index, "id": f"call{index:05}", "type": "function", "function": {"name": "f", "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        pieces = ['{"x": "', *["lorem"] * (count // calls - 3), '"}']
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    return deltas


def event(choice: Object) -> bytes:
    """One event, as long as those of real servers."""
    chunk = {"id": "chatcmpl-1234567890", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n"


async def measure_floor(name: str, url: str) -> float:
    """Seconds of CPU for what nobody can do without."""
    import httpx  # noqa: PLC0415

    text: list[str] = []
    arguments: dict[int, list[str]] = {}
    asked = {"model": name, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with httpx.AsyncClient(trust_env=False) as client:
        await client.get(url + "/models")
        began = time.process_time()
        async with client.stream("POST", url + "/chat/completions", json=asked) as response:
            rest = b""
            async for chunk in response.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:") and not line.endswith(b"[DONE]"):
                        fold(cast("Object", json.loads(line[5:])), text, arguments)
        assert "".join(text) or ["".join(pieces) for pieces in arguments.values()]
        return time.process_time() - began


def fold(chunk: Object, text: list[str], arguments: dict[int, list[str]]) -> None:
    """Add a chunk to what there is."""
    delta = chunk["choices"][0]["delta"]
    if content := delta.get("content"):
        text.append(content)
    for call in delta.get("tool_calls", ()):
        arguments.setdefault(call["index"], []).append(call["function"]["arguments"])


async def measure_ours(name: str, url: str) -> float:
    """Seconds of CPU from the request to the validated message, with each delta seen."""
    from vibe_jupyter.llm.client import LLMClient  # noqa: PLC0415
    from vibe_jupyter.llm.request import Model, Request, Server  # noqa: PLC0415
    from vibe_jupyter.protocol import TextPart, UserMessage  # noqa: PLC0415

    client = LLMClient(user_agent="vibe-jupyter/benchmark")
    hello = (UserMessage(parts=(TextPart(text="hi"),)),)

    def ask(model: str) -> Request:
        return Request(Model(Server("bench", url), model, model), hello)

    async for _ in client.answer(ask("text-1")):
        pass
    seen = 0
    began = time.process_time()
    async for _ in client.answer(ask(name)):
        seen += 1
    spent = time.process_time() - began
    await client.close()
    assert seen > int(name.partition("-")[2]) * 0.9
    return spent


CLIENTS = {"floor": measure_floor, "ours": measure_ours}


if __name__ == "__main__":
    main()
