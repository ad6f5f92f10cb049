"""A model server that costs next to nothing: ``gateway_upstream.py PORT``.

A request's ``max_tokens`` says how many pieces the answer has, and ``seed`` how many milliseconds lie between two. A
piece says when it left, by the clock of all processes (`time.monotonic`). ``GET /open`` counts the streams that are
open.
"""

import asyncio
import json
import sys
import time

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
open_streams = 0


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All requests of one connection."""
    try:
        while first := await reader.readline():
            length = 0
            while (line := (await reader.readline()).strip()) and line:
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            body = await reader.readexactly(length)
            if first.startswith(b"GET"):
                said = str(open_streams).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said))
                continue
            await _stream(json.loads(body), writer)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def _stream(asked: dict[str, float], writer: asyncio.StreamWriter) -> None:
    global open_streams
    open_streams += 1
    try:
        writer.write(_HEAD)
        pause, began = asked.get("seed", 0) / 1000, time.monotonic()
        for number in range(int(asked["max_tokens"])):
            if pause:
                await asyncio.sleep(max(0.0, began + number * pause - time.monotonic()))
            _piece(writer, {"content": f"{time.monotonic():.6f} "})
            await writer.drain()
        _piece(writer, {}, finish="stop")
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
    finally:
        open_streams -= 1


def _piece(writer: asyncio.StreamWriter, delta: dict[str, str], finish: str | None = None) -> None:
    if writer.is_closing():
        raise ConnectionResetError
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "b", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": [choice]}
    event = b"data: %s\n\n" % json.dumps(chunk).encode()
    writer.write(b"%x\r\n%s\r\n" % (len(event), event))


async def main() -> None:
    """Serve."""
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
