"""Real SIGINTs at random moments of a prompt, half of them in its first 50 ms.

A press that came before the cell began or after its end is not counted, and is made again.
"""

import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import psutil

from tests.app.conftest import Session, running_session
from tests.app.test_mcp import Servers
from tests.kernel.matrix import INSTALLED
from tests.notebook.page import Page, PageCell
from tests.patience import patient
from vibe_jupyter.testing import ModelRequest, Reply, answer, call, hold, say

COUNT = 500
IN_ONE_KERNEL = 25
EARLY = 0.050
"""Seconds; half of the presses come before."""
LATE = 1.5
ENDS_WITHIN = patient(2.0)
"""Seconds from the press to the end of the cell; more on a busy machine alone."""
HANGS_AFTER = 20.0
"""Seconds that a second press is given."""
GONE_WITHIN = 5.0
"""Seconds until processes and sockets of the run are gone."""
SOCKETS = 2
"""Connections to the model that are kept for the next prompt."""
PRESSES = 40
"""How often a try may miss the prompt."""
AGAIN = "speak again"
CODE = {
    "busy": "while True: pass",
    "sleep": "import time; time.sleep(300)",
    "await": "import asyncio; await asyncio.sleep(300)",
    "child": "!sleep 300",
}
COMMANDS = {"bash": "sleep 300", "stubborn": "trap '' TERM INT; sleep 300 & wait; wait"}
SCENARIOS = ("streaming", "card", *COMMANDS, *CODE, "in place", "MCP")
_SEEN = "get_ipython().magics_manager.registry['VibeMagics']._presses"
_NO_SERVER, _SERVER = "disabled = true", "disabled = false"


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen, took = random.Random(seed), list[float]()
    for first in range(0, count, IN_ONE_KERNEL):
        tries = Tries(chosen, took)
        with (
            tempfile.TemporaryDirectory() as folder,
            running_session(INSTALLED, Path(folder), script=tries.reply) as session,
        ):
            yield from tries.run(session, range(first, min(count, first + IN_ONE_KERNEL)))
    took.sort()
    if took:
        middle, last = took[len(took) // 2], took[-1]
        print(f"interrupts: from the press to the end {middle:.3f} s in the middle, {last:.3f} s at most", flush=True)


class Tries:
    """Those of one kernel."""

    def __init__(self, chosen: random.Random, took: list[float]) -> None:
        self._chosen = chosen
        self._took = took
        """Seconds from each press to the end of its cell."""
        self._target = ""
        """Id of the cell that is run in its place."""

    def reply(self, request: ModelRequest) -> Reply:
        """What the model says to a scenario."""
        asked = request.last_user_text
        if asked.endswith(AGAIN):
            return say("Here again.")
        scenario = asked.rpartition("scenario ")[2].strip()
        if scenario == "in place":
            ids = [self._target]
            return call("run_cells", cells=ids) if request.tool_results else call("read_notebook")
        if scenario in COMMANDS:
            return call("bash", command=COMMANDS[scenario], timeout=600)
        if scenario in ("streaming", "MCP"):
            return hold(threading.Event(), "Thinking aloud")
        return answer("Running.", [call("run_code", code=CODE.get(scenario, CODE["busy"]), timeout=600)])

    def run(self, session: Session, numbers: range) -> Iterator[str]:
        """Make these tries; yields what is wrong."""
        session.wire.run("import os; print(os.getpid())")
        self._session = session
        self._kernel = psutil.Process(int(session.wire.run("print(os.getpid())").text))
        (Servers(session).accepted("slow", more=f"startup_timeout_sec = 300\n{_SERVER}") / "hang").touch()
        for number in numbers:
            scenario = SCENARIOS[number // 2 % len(SCENARIOS)]
            yield from (f"{scenario}, {failure}" for failure in self._until_arrived(scenario, early=number % 2 == 0))

    def _declare(self, *, server: bool) -> None:
        config = self._session.folder / "vibe" / "config.toml"
        text = config.read_text(encoding="utf-8")
        config.write_text(text.replace(_NO_SERVER, _SERVER) if server else text.replace(_SERVER, _NO_SERVER), "utf-8")

    def _until_arrived(self, scenario: str, *, early: bool) -> list[str]:
        again = self._chosen.random() < 0.3  # then the app is built in the prompt, as in a new kernel
        for _ in range(PRESSES):
            self._declare(server=scenario == "MCP")
            if again:
                self._session.wire.run("%reload_ext vibe_jupyter")
            delay = self._chosen.uniform(0, EARLY) if early else self._chosen.uniform(EARLY, LATE)
            failures = self._try(scenario, delay)
            if failures is not None:
                return [f"{delay * 1000:.0f} ms: {failure}" for failure in failures]
        return [f"none of {PRESSES} presses arrived"]

    def _try(self, scenario: str, delay: float) -> list[str] | None:
        """What is wrong after one press; None where it did not arrive."""
        wire = self._session.wire
        wire.forget()
        page = Page(wire, CODE["busy"])
        self._target = page.cells[0].id
        page.run(f"{_SEEN}.count = 0")
        allowed = "" if scenario == "card" else "--yes=run_code,bash,run_cells"
        cell = page.add(f"%%vibe {allowed}\nscenario {scenario}")
        page.press(cell)
        pressed = self._press(page, cell, delay)
        ended = _ends(page, cell, ENDS_WITHIN + 1)
        if not ended:
            self._press(page, cell, 0)
            if not _ends(page, cell, HANGS_AFTER):
                return [f"stuck, also after a second press: {cell.outputs}"]
        presses = int(page.run(f"print({_SEEN}.count)").text)
        begun, over = self._date(cell, "execute_input"), self._date(cell, "status", "idle")
        arrived = presses >= (1 if ended else 2) or "KeyboardInterrupt" in cell.text or begun <= pressed <= over
        if not arrived:
            return None
        wrong = self._left(cell)
        self._took.append(over - pressed)
        if over - pressed > ENDS_WITHIN:
            wrong.append(f"over after {over - pressed:.1f} s")
        return wrong + self._next(page)

    def _press(self, page: Page, cell: PageCell, delay: float) -> float:
        """Press after so many seconds; when it was."""
        at = time.time() + delay
        page.until(lambda: time.time() >= at - 0.06 or cell.idle, "the moment")  # a look takes that long
        time.sleep(max(0.0, at - time.time()))
        os.kill(self._kernel.pid, signal.SIGINT)
        return time.time()

    def _date(self, cell: PageCell, kind: str, state: str | None = None) -> float:
        """When the kernel said this of a cell, in seconds of the clock."""
        for message in self._session.wire.of(cell.request):
            if message["msg_type"] == kind and message["content"].get("execution_state") == state:
                date = message["header"]["date"]
                return (date if isinstance(date, datetime) else datetime.fromisoformat(date)).timestamp()
        return float("inf")

    def _left(self, cell: PageCell) -> list[str]:
        """What is wrong with what the run left."""
        wrong = []
        if "vibe_jupyter/" in cell.text or "magics.py" in str(cell.outputs):
            wrong.append(f"a traceback of ours: {cell.outputs[-1]}")
        views = [
            output for output in cell.outputs if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
        ]
        if views:
            wrong.append("no transcript in the place of the view")
        end = time.monotonic() + GONE_WITHIN
        while (left := self._processes_and_sockets()) and time.monotonic() < end:
            time.sleep(0.02)
        return wrong + left

    def _processes_and_sockets(self) -> list[str]:
        left: list[str] = []
        for process in self._kernel.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                left.append(f"still running: {process.cmdline()}")
        sockets = [one for one in self._kernel.net_connections("inet") if one.status == psutil.CONN_ESTABLISHED]
        return left + ([f"{len(sockets)} sockets are open"] if len(sockets) > SOCKETS else [])

    def _next(self, page: Page) -> list[str]:
        """What is wrong with the prompt that follows."""
        self._declare(server=False)
        cell = page.run(f"%vibe {AGAIN}")
        return [] if "Here again." in cell.text + str(cell.outputs) else [f"the next prompt failed: {cell.outputs}"]


def _ends(page: Page, cell: PageCell, seconds: float) -> bool:
    end = time.monotonic() + seconds
    # ipykernel sends no reply where an interrupt reaches it just before the cell; it says only that it is idle.
    page.until(lambda: cell.idle or time.monotonic() > end, "the end or its time")
    return cell.idle
