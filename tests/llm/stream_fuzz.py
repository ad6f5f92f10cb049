"""Streams that are broken at random, in each dialect: whatever comes, an answer or an error of ours must come of it.

    PYTHONPATH=. python tests/llm/stream_fuzz.py [100000]    as many; minutes

`make test` reads a sample. A stream that brings anything else is printed whole.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache

from tests.llm.agentic_server import approval, produced, progress
from tests.llm.support import corpus, cut, read, reads
from vibe_jupyter.llm.failures import BrokenAnswer

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
LONGEST = 3_000
"""Bytes of a stream that is taken for a start."""
_INSERTED = [
    b"\r",
    b"\n",
    b"\r\n\r\n",
    b"data:",
    b"event: file_produced\n",
    b"null",
    b"{",
    b'"',
    b"\xff",
    b"NaN",
    b"1e999",
]
_LINES = (
    b'{"model":"m","message":{"role":"assistant","content":"H\xc3\xa9\xe2\x80\xa8"},"done":false}\n'
    b'{"message":{"thinking":"hm","content":""},"done":false}\n'
    b'{"message":{"content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":[1,"\xf0\x9f\x98\x80"]}}}]}}\n'
    b'{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}\n'
)


@cache
def seeds(dialect: str) -> list[bytes]:
    """Whole streams of a dialect."""
    if dialect == "ollama":
        return [_LINES]
    chats = [data for data in (b"".join(reads(case)) for case in corpus()) if 0 < len(data) <= LONGEST]
    if dialect != "mistralrs":
        return chats
    told = [progress("calling", code="1"), approval(), progress("complete", stdout="1"), produced(text=None, bytes=9)]
    named = b"".join(f"event: {one.name}\ndata: {json.dumps(one.body)}\n\n".encode() for one in told)
    return [named + chat for chat in chats]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A stream with some of its bytes changed, dropped or doubled."""
    body = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(body) + 1)
        match rng.randrange(5):
            case 0:
                body[place:place] = rng.randbytes(rng.randrange(1, 4))
            case 1:
                del body[place : place + rng.randrange(1, 30)]
            case 2:
                body[place:place] = rng.choice(_INSERTED)
            case 3:
                body[place:place] = body[place : place + rng.randrange(1, 200)]
            case _:
                body = body[:place]
    return bytes(body)


def fuzz(dialect: str, streams: int, rng: random.Random) -> Counter[str]:
    """Read so many broken streams; how each ended.

    Raises:
        AssertionError: one brought something else than an answer or an error of ours; says which.
    """
    ends: Counter[str] = Counter()
    kind = LINES if dialect == "ollama" else EVENTS
    for _ in range(streams):
        pieces = cut(mutated(rng.choice(seeds(dialect)), rng), rng)
        try:
            _, result, partial = read(pieces, kind, dialect=dialect)
            partial.encode("utf-8")
            if not isinstance(result, BrokenAnswer):
                result.model_dump_json().encode("utf-8")
        except Exception as error:
            raise AssertionError(f"{dialect}: {type(error).__name__}: {error}, of {pieces!r}") from error
        ends[result.kind if isinstance(result, BrokenAnswer) else "answer"] += 1
    return ends


def main(streams: int, say: Callable[[str], None] = print) -> None:
    """Read so many, in equal parts of each dialect."""
    dialects = ("openai", "mistral", "ollama", "mistralrs")
    for number, dialect in enumerate(dialects):
        ends = fuzz(dialect, streams // len(dialects), random.Random(number))
        say(f"{dialect:10} " + ", ".join(f"{name} {count:,}" for name, count in ends.most_common()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
