"""An answer of 60 KB in 4,000 pieces, from a model server through a real kernel to where the page would read it.

Beside it the floor: a cell that prints the same pieces at the same pace, as ipykernel sends them.

The page is played by a client that reads raw frames from the kernel's iopub socket. As JupyterLab does, it loads the
view when it is made, and says that it is alive when the run stands in the output; with `--draws-late`, as some editors
do, it knows no view before it is to draw one. All frames are those of the cell's whole life: headers, the script of the
view, and what the notebook keeps.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel
from timed_server import TimedServer

from benchmarks.report import Row, report, size

ROOT = Path(__file__).resolve().parent.parent
PIECES = size(4_000, 40)
PIECES_A_PARAGRAPH = 40
PACES = size((10.0, 40.0), (1.0,))  # seconds of the whole answer
KERNEL_WAIT = 60  # seconds
LIMITS = {
    "view's messages / text": 3.0,
    "all frames of all messages / text": 7.0,
    "messages a second": 20.5,
    "19 of 20 pieces behind by at most, beside printing": 1.5,
}
PRINTED = """
import time
pieces, seconds = {pieces!r}, {seconds!r}
start, sent = time.monotonic(), []
for number, piece in enumerate(pieces):
    time.sleep(max(0.0, start + seconds * number / len(pieces) - time.monotonic()))
    sent.append(time.monotonic())
    print(piece, end="")
"""
SENT = "print(sent)"
"""When each of them was printed, by the clock of all processes."""
WIDGET = "application/vnd.jupyter.widget-view+json"
CONTENT_FRAME = 5  # after delimiter, signature, header, parent header, metadata

_MARK = re.compile(r'data-vibe-view="([0-9a-f]+)"')
_NUMBER = re.compile(r"word (\d{4})")


@dataclass
class Page:
    """What a page would have seen."""

    payload: Counter[str] = field(default_factory=Counter[str])
    """Bytes of content by type of message."""
    wire: int = 0  # bytes
    patches: int = 0
    streams: int = 0
    printed: str = ""
    draws_late: bool = False
    views: set[str] = field(default_factory=set[str])
    """Views it has loaded and not drawn."""
    first: float = 0.0
    last: float = 0.0
    shown: list[float] = field(default_factory=list[float])
    """`time.monotonic` at which each piece of the answer could be seen."""

    def see(self, content: dict[str, Any]) -> None:
        """Take one message of the view."""
        said: dict[str, Any] = content.get("data", {}).get("content", {})
        if said.get("type") in ("patches", "snapshot"):
            self.patches += 1
            self.last = self.show(said)
            self.first = self.first or self.last

    def view_to_draw(self, data: dict[str, Any]) -> str | None:
        """The view that is drawn for this output, the first time it is shown."""
        if WIDGET in data:
            return data[WIDGET]["model_id"]
        mark = _MARK.search(data.get("text/html", ""))
        if mark is None or mark[1] not in self.views:
            return None
        self.views.remove(mark[1])
        return mark[1]

    def show(self, said: dict[str, Any]) -> float:
        """Note which pieces of the answer can be seen now; returns the time."""
        now = time.monotonic()
        numbers = [int(number) for number in _NUMBER.findall(json.dumps(said))]
        self.shown += [now] * (max(numbers, default=-1) + 1 - len(self.shown))
        return now


def main() -> int:
    """Print a table for each pace; fail when a limit is passed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, nargs="+", default=PACES, help="that the model takes for its answer")
    options.add_argument("--draws-late", action="store_true", help="the page loads the view only when it is to draw it")
    chosen = options.parse_args()
    return report([row for seconds in chosen.seconds for row in _measure(seconds, draws_late=chosen.draws_late)])


def _measure(seconds: float, *, draws_late: bool) -> list[Row]:
    pieces = [_piece(number) for number in range(PIECES)]
    with tempfile.TemporaryDirectory() as home, TimedServer(pieces, seconds=seconds) as server:
        os.environ |= {"VIBE_HOME": home, "IPYTHONDIR": home, "NO_PROXY": "127.0.0.1"}
        manager, client = start_new_kernel(startup_timeout=KERNEL_WAIT, cwd=str(ROOT))
        try:
            floor = Page()
            _wait_idle(client, client.execute(PRINTED.format(pieces=pieces, seconds=seconds)), floor)
            told = Page()
            _wait_idle(client, client.execute(SENT), told)
            printed: list[float] = json.loads(told.printed)
            _wait_idle(client, client.execute("%load_ext vibe_jupyter"), Page())
            page = Page(draws_late=draws_late)
            _wait_idle(client, client.execute(f"%%vibe --model bench@{server.url}\nTell me"), page)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
        text = sum(map(len, pieces))
        rows = _figures(page, text, list(server.sent), seconds, floor=_behind(floor, printed))
        # The request comes back as it was sent, and here it holds the whole text.
        print(
            f"{'floor: all frames of printing / text':<36}{(floor.wire - floor.payload['execute_input']) / text:>10.1f}"
        )
        print(f"{'floor: messages a second':<36}{floor.streams / seconds:>10.1f}")
        return rows


def _piece(number: int) -> str:
    end = "said.\n\n" if number % PIECES_A_PARAGRAPH == PIECES_A_PARAGRAPH - 1 else "said "
    return f"word {number:04} {end}"


def _wait_idle(client: BlockingKernelClient, request: str, page: Page) -> None:
    """Read iopub until the cell is done, answering its view as a page does."""
    socket: Any = client.iopub_channel.socket
    while True:
        if not socket.poll(KERNEL_WAIT * 1000):
            raise SystemExit(f"The kernel was silent for {KERNEL_WAIT} seconds.")
        frames: list[bytes] = socket.recv_multipart()
        delimiter = frames.index(b"<IDS|MSG>")
        header, parent = json.loads(frames[delimiter + 2]), json.loads(frames[delimiter + 3])
        content: dict[str, Any] = json.loads(frames[delimiter + CONTENT_FRAME])
        page.wire += sum(map(len, frames))
        page.payload[header["msg_type"]] += len(frames[delimiter + CONTENT_FRAME])
        match header["msg_type"]:
            case "comm_open" if "view_id" in content["data"]["state"] and not page.draws_late:
                page.views.add(content["comm_id"])
                _say(client, content["comm_id"], "loaded")
            case "comm_msg":
                page.see(content)
            case "display_data" | "update_display_data":  # what the notebook holds, until the view is drawn over it
                page.show(content)
                if view := page.view_to_draw(content["data"]):
                    _say(client, view, "alive")
            case "stream" if content["name"] == "stdout":
                page.streams += 1
                page.printed += content["text"]
                page.show(content)
            case "stream" | "error":
                print(content.get("text") or content.get("evalue"), file=sys.stderr)
            case "status" if content["execution_state"] == "idle" and parent.get("msg_id") == request:
                return
            case _:
                pass


def _say(client: BlockingKernelClient, model_id: str, what: str) -> None:
    content = {"comm_id": model_id, "data": {"method": "custom", "content": {"type": what}}}
    client.shell_channel.send(client.session.msg("comm_msg", content))


def _behind(page: Page, sent: list[float]) -> list[float]:
    """Milliseconds from when each piece was sent until it could be seen."""
    if len(page.shown) < PIECES:
        raise SystemExit(f"Only {len(page.shown)} of {PIECES} pieces were shown.")
    return [(shown - left) * 1000 for shown, left in zip(page.shown, sent, strict=True)]


def _figures(page: Page, text: int, sent: list[float], seconds: float, *, floor: list[float]) -> list[Row]:
    behind = _behind(page, sent)
    figures = {
        "view's messages / text": page.payload["comm_msg"] / text,
        "what the notebook keeps / text": page.payload["update_display_data"] / text,
        "all frames of all messages / text": page.wire / text,
        "messages a second": page.patches / ((page.last - page.first) or seconds),
        "19 of 20 pieces behind by at most, beside printing": _most(behind) / _most(floor),
        "19 of 20 pieces behind by at most, ms": _most(behind),
        "most behind, ms": max(behind),
        "half of it behind by at most, ms": median(behind),
        "half of what is printed behind by at most, ms": median(floor),
    }
    print(f"\n{text:,} bytes of text in {PIECES:,} pieces, {sent[-1] - sent[0]:.1f} s; {page.patches} messages")
    return [Row(f"{sent[-1] - sent[0]:.0f} s: {name}", figure, LIMITS.get(name)) for name, figure in figures.items()]


def _most(behind: list[float]) -> float:
    """Of all but one piece in twenty: single ones depend on what else the machine did."""
    return quantiles(behind, n=20)[-1]


if __name__ == "__main__":
    sys.exit(main())
