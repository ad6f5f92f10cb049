"""What the gateway adds to a model server's answers, beside a bare httpx relay and litellm's proxy.

Each is a process of its own, as are this client and the upstream, which answers at once. Requests take turns. Then many
streams at a time, each piece stamped as it leaves; then their clients leave in the middle. CPU is that of the server's
process alone.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles

from benchmarks.gateway_servers import OURS, PEER, RELAY, TOOLS, Served, servers
from benchmarks.report import SMOKE, Row, report, size

REQUESTS = size(100, 2)
"""Of each row, one after the other, after some that are not counted."""
PIECES = size(200, 5)
"""Of a long answer."""
STREAMS = size(200, 3)
RATE = 20
"""Pieces a second of each of them."""
SECONDS = size(10, 1)
PATIENCE = 60.0
"""Seconds for all that was left to be let go of; streams have this beyond their own time."""
CPU_AIM = 5.0
"""Milliseconds that a request may cost."""
BYTE_AIM, PIECE_AIM = 0.2, 0.1
"""Of what the proxy adds to the time to the first byte, and of its CPU for a piece."""
LATE_AIM = 1.0
"""Of what one of a hundred pieces of many streams is late by through the bare relay."""
MEMORY_AIM = 1024 * 1024
"""Bytes for each of many streams."""

_STAMP = re.compile(rb'"content": ?"([0-9.]+) ?"')


class Stream:
    """One request, and when its pieces came."""

    def __init__(self, server: Served, pieces: int, pause: int = 0) -> None:
        """
        Args:
            server: who is asked.
            pieces: of the answer.
            pause: milliseconds between two.
        """
        self.first = 0.0
        """Seconds to the first piece."""
        self.late: list[float] = []
        """Seconds from the upstream to here, of each piece."""
        self.is_whole = False
        body = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": "hello"}]}
        raw = json.dumps({**body, "max_tokens": pieces, "seed": pause}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nconnection: close\r\n"
            f"authorization: Bearer {server.token}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(raw)}\r\n\r\n"
        )
        self._server = server
        self._sent = head.encode() + raw

    async def read(self) -> None:
        """The whole answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port, limit=1 << 20)
        try:
            began = time.monotonic()
            writer.write(self._sent)
            async for line in reader:  # lines of the chunked encoding lie between those of events
                if not line.startswith(b"data: "):
                    continue
                now = time.monotonic()
                self.first = self.first or now - began
                if (stamp := _STAMP.search(line)) is not None:
                    self.late.append(now - float(stamp[1]))
                if line.startswith(b"data: [DONE]"):
                    self.is_whole = True
                    break
        finally:
            writer.close()


class Single:
    """What the requests of one server took, one after the other."""

    def __init__(self) -> None:
        self.firsts: list[float] = []
        """Milliseconds to the first byte of short answers."""
        self.costs: dict[int, list[float]] = {1: [], PIECES: []}
        """Milliseconds of CPU, by the pieces of an answer."""

    async def ask(self, server: Served, pieces: int) -> None:
        """One request more."""
        stream, before = Stream(server, pieces), server.cpu()
        await stream.read()
        if not stream.is_whole or len(stream.late) != pieces:
            raise SystemExit("An answer is not whole.")
        self.costs[pieces].append((server.cpu() - before) * 1000)
        if pieces == 1:
            self.firsts.append(stream.first * 1000)

    @property
    def first(self) -> float:
        """Milliseconds to the first byte."""
        return median(self.firsts)

    @property
    def request(self) -> float:
        """Milliseconds of CPU for a request."""
        return median(self.costs[1])

    @property
    def piece(self) -> float:
        """Microseconds of CPU for a piece."""
        return (median(self.costs[PIECES]) - self.request) / (PIECES - 1) * 1000


async def one_after_the_other(upstream: Served, found: Mapping[str, Served], requests: int) -> list[Row]:
    """Print the table of single requests, and return what has an aim."""
    for server in found.values():
        for _ in range(requests // 10):  # not counted
            await Stream(server, PIECES).read()
    rows = {name: Single() for name in found}
    bare = Single()
    for _ in range(requests):
        for pieces in (1, PIECES):
            await bare.ask(upstream, pieces)
            for name, server in found.items():
                await rows[name].ask(server, pieces)
    print(f"\n{'one after the other':<26}{'first byte +ms':>15}{'CPU ms':>9}{'CPU µs a piece':>16}")
    for name, row in rows.items():
        print(f"{name:<26}{row.first - bare.first:>15.2f}{row.request:>9.2f}{row.piece:>16.1f}")
    judged = [Row(f"CPU of a request ({name})", rows[name].request, CPU_AIM, "ms of CPU") for name in (OURS, TOOLS)]
    if (peer := rows.get(PEER)) is None:
        return judged
    for name in (OURS, TOOLS):
        row, added = rows[name], peer.first - bare.first
        judged.append(Row(f"first byte, beside the proxy ({name})", (row.first - bare.first) / added, BYTE_AIM, "x"))
        judged.append(Row(f"CPU of a piece, beside the proxy ({name})", row.piece / peer.piece, PIECE_AIM, "x"))
    return judged


async def many_at_once(found: Mapping[str, Served], count: int, seconds: int) -> list[Row]:
    """Print the table of streams side by side, and return what has an aim."""
    title = f"{count} streams, {RATE} pieces a second"
    print(
        f"\n{title:<35}{'first byte p95 ms':>18}{'late p50 ms':>12}{'p99':>8}{'worst stream':>14}"
        f"{'kB a stream':>12}{'whole':>7}"
    )
    judged: list[Row] = []
    latest: dict[str, float] = {}
    for name, server in found.items():
        await asyncio.gather(*(Stream(server, 1).read() for _ in range(count)))  # it has its connections and threads
        before, streams = server.memory(), [Stream(server, RATE * seconds, 1000 // RATE) for _ in range(count)]
        reading = asyncio.gather(*(stream.read() for stream in streams), return_exceptions=True)
        most = before
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds + PATIENCE):
                while not reading.done():
                    await asyncio.wait([reading], timeout=0.5)
                    most = max(most, server.memory())
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        late = quantiles([one for stream in streams for one in stream.late], n=100)
        first = quantiles([stream.first for stream in streams], n=20)[-1]
        worst = max(median(stream.late or [PATIENCE]) for stream in streams)
        latest[name] = late[98]
        each, whole = (most - before) / count, sum(stream.is_whole for stream in streams)
        print(
            f"{name:<35}{first * 1000:>18.0f}{late[49] * 1000:>12.1f}{late[98] * 1000:>8.1f}{worst * 1000:>14.1f}"
            f"{each / 1000:>12.0f}{whole:>7}"
        )
        if name in (OURS, TOOLS):
            judged.append(Row(f"memory of a stream ({name})", each / 1000, MEMORY_AIM / 1000, "kB"))
            judged.append(Row(f"streams that are not whole ({name})", count - whole, 0.5))
    for name in (OURS, TOOLS):
        row = f"lateness of one piece in a hundred, beside the relay ({name})"
        judged.append(Row(row, latest[name] / latest[RELAY], LATE_AIM, "x"))
    return judged


async def clients_leave(upstream: Served, found: Mapping[str, Served], count: int) -> list[Row]:
    """Print the table of streams that are left in the middle, and return what has an aim."""
    print(f"\n{f'{count} clients leave at once':<35}{'upstream free after s':>22}{'descriptors kept':>18}")
    judged: list[Row] = []
    for name, server in found.items():
        before = server.descriptors()
        reading = [asyncio.ensure_future(Stream(server, RATE * 600, 1000 // RATE).read()) for _ in range(count)]
        await _until(upstream, lambda number: number >= count)
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        began = time.monotonic()
        is_free = await _until(upstream, lambda number: number == 0)
        took = time.monotonic() - began
        kept = server.descriptors() - before
        print(f"{name:<35}{took if is_free else float('inf'):>22.2f}{kept:>18}")
        if name in (OURS, TOOLS):
            judged.append(Row(f"streams that are not let go of ({name})", int(not is_free), 0.5))
    return judged


async def _until(upstream: Served, is_so: Callable[[int], bool]) -> bool:
    """Wait for a number of open streams; whether it came."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
        writer.write(b"GET /open HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write_eof()
        number = int(await reader.read())
        writer.close()
        if is_so(number):
            return True
        await asyncio.sleep(0.02)
    return False


async def _table(folder: Path, *, requests: int, streams: int, seconds: int, peer: bool) -> int:
    with servers(folder, peer=peer) as (upstream, found):
        judged = await one_after_the_other(upstream, found, requests)
        judged += await many_at_once(found, streams, seconds)
        judged += await clients_leave(upstream, found, streams)
    return report(judged)


def main() -> int:
    """Print the tables; 1 where an aim is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=REQUESTS, help="of each row, one after the other")
    options.add_argument("--streams", type=int, default=STREAMS, help="at a time")
    options.add_argument("--seconds", type=int, default=SECONDS, help="that each of them takes")
    options.add_argument("--no-peer", action="store_true", help="without litellm's proxy, which is installed otherwise")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(
            _table(
                Path(folder),
                requests=chosen.requests,
                streams=chosen.streams,
                seconds=chosen.seconds,
                peer=not (chosen.no_peer or SMOKE),
            )
        )


if __name__ == "__main__":
    sys.exit(main())
