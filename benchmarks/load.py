"""What loading costs, and how long from the start of a process to the first request.

Every measure is a process of its own; rows take turns, and the first round is a warm-up that is not counted. Compare
rows of one run with each other, never with another day's.
"""

import argparse
import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from statistics import median
from typing import TypeVar

from timed_server import TimedServer

from benchmarks.report import SMOKE, Row, report, size

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
PEER = "jupyter-ai-magics"
PEER_VENV = ROOT / ".matrix" / PEER
PEER_INSTALL_LIMIT = 600  # seconds
PROCESS_LIMIT = 60  # seconds
LOAD_AIM = 15.0  # milliseconds of CPU
START_AIM = 1.6  # times the CPU of a bare shell with httpx
KERNEL = "ipykernel.kernelapp,ipykernel.ipkernel,ipykernel.zmqshell"

SHELL = "from IPython.core.interactiveshell import InteractiveShell\nshell = InteractiveShell.instance()\n"
LOAD = (
    SHELL
    + """
import importlib, json, resource, sys, time
for name in filter(None, sys.argv[2].split(",")):
    importlib.import_module(name)
before, start, cpu = len(sys.modules), time.perf_counter(), time.process_time()
if sys.argv[1]:
    shell.run_line_magic("load_ext", sys.argv[1])
took, cpu = (time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
print("\\n" + json.dumps({"ms": took, "cpu": cpu, "modules": len(sys.modules) - before, "mb": rss}))
"""
)
MARK = "CPU seconds until the connection opens:"
AT_REQUEST = f"""
import socket, sys, time
def connect(self, address, connect=socket.socket.connect):
    print("\\n{MARK}", time.process_time())  # the first counts
    return connect(self, address)
socket.socket.connect = connect
"""
"""No audit hook, which would be called thousands of times while more is imported."""
ASK_HTTPX = (
    SHELL
    + AT_REQUEST
    + """
import httpx
with httpx.Client() as client:
    client.post(sys.argv[1] + "/chat/completions", json={"model": "bench", "messages": []})
"""
)
ASK_VIBE = (
    SHELL
    + AT_REQUEST
    + """
shell.run_line_magic("load_ext", "vibe_jupyter")
shell.run_cell_magic("vibe", f"--model bench@{sys.argv[1]}", "Hello")
"""
)


@dataclass(frozen=True)
class Loaded:
    """One process that loaded something, or nothing."""

    ms: float
    cpu: float  # milliseconds
    modules: float
    mb: float


@dataclass(frozen=True)
class Asked:
    """One process that sent a request."""

    seconds: float
    """From its start to the request."""
    cpu_before: float
    """Seconds of CPU until its connection opens."""
    cpu: float
    """Seconds of its whole life."""


def main() -> int:
    """Print both tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=size(7, 1), help="processes per row, after one warm-up")
    options.add_argument("--no-peer", action="store_true", help=f"do not install and measure {PEER}")
    given = options.parse_args()
    ours = Path(sys.executable)
    # As pip does when it installs; without it a source tree would be compiled again in each process.
    compileall.compile_dir(ROOT / "vibe_jupyter", quiet=1)
    with tempfile.TemporaryDirectory() as home:
        load_rows: dict[str, Callable[[], Loaded]] = {
            "bare IPython shell": lambda: _load(ours, "", home),
            "%load_ext vibe_jupyter": lambda: _load(ours, "vibe_jupyter", home),
            "the same, where a kernel's modules are": lambda: _load(ours, "vibe_jupyter", home, there=KERNEL),
        }
        peer = None if given.no_peer or SMOKE else _peer_python()
        if peer is not None:
            load_rows["bare IPython shell, peer's environment"] = lambda: _load(peer, "", home)
            load_rows["%load_ext jupyter_ai_magics"] = lambda: _load(peer, "jupyter_ai_magics", home)
        loaded = _rounds(load_rows, given.rounds)
        _print_load(loaded)
        ask_rows: dict[str, Callable[[], Asked]] = {
            "bare shell + httpx": lambda: _start_to_request(ASK_HTTPX, home),
            "%load_ext vibe_jupyter + %%vibe": lambda: _start_to_request(ASK_VIBE, home),
        }
        asked = _rounds(ask_rows, given.rounds)
        _print_ask(asked)
    extension = loaded["%load_ext vibe_jupyter"]
    floor, prompt = (min(run.cpu_before for run in runs) for runs in asked.values())
    return report(
        [
            Row("%load_ext vibe_jupyter", min(run.cpu for run in extension), LOAD_AIM, "ms of CPU"),
            Row("start of a process until the connection opens, beside httpx", prompt / floor, START_AIM, "x of CPU"),
        ]
    )


def _rounds(rows: dict[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    results: dict[str, list[T]] = {name: [] for name in rows}
    for number in range(rounds + 1):
        for name, measure in rows.items():
            result = measure()
            if number:
                results[name].append(result)
    return results


def _print_load(results: dict[str, list[Loaded]]) -> None:
    print(f"\n{'load':<42}{'median ms':>10}{'best ms':>10}{'CPU ms':>10}{'modules':>10}{'RSS MB':>10}")
    for name, runs in results.items():
        ms, modules, mb = (median(getattr(run, field) for run in runs) for field in ("ms", "modules", "mb"))
        best, cpu = min(run.ms for run in runs), min(run.cpu for run in runs)
        print(f"{name:<42}{ms:>10.1f}{best:>10.1f}{cpu:>10.1f}{modules:>10.0f}{mb:>10.1f}")


def _print_ask(results: dict[str, list[Asked]]) -> None:
    # The best of each row is the least disturbed by whatever else the machine does, and CPU time even less.
    print(
        f"\n{'process start to first request':<42}" + f"{'median ms':>10}{'ratio':>8}{'best ms':>10}{'ratio':>8}",
        end="",
    )
    print(f"{'CPU till':>10}{'ratio':>8}{'CPU ms':>10}{'ratio':>8}")
    rows = {name: _figures(runs) for name, runs in results.items()}
    floor = next(iter(rows.values()))
    for name, figures in rows.items():
        print(
            f"{name:<42}" + "".join(f"{ms:>10.0f}{ms / least:>8.2f}" for ms, least in zip(figures, floor, strict=True))
        )


def _figures(runs: list[Asked]) -> tuple[float, float, float, float]:
    """Milliseconds: median and best to the request, least CPU until it, least CPU in all."""
    seconds = [run.seconds for run in runs]
    before = min(run.cpu_before for run in runs)
    return median(seconds) * 1000, min(seconds) * 1000, before * 1000, min(run.cpu for run in runs) * 1000


def _environment(home: str) -> dict[str, str]:
    return {**os.environ, "HOME": home, "VIBE_HOME": home, "IPYTHONDIR": home, "NO_PROXY": "127.0.0.1"}


def _load(python: Path, extension: str, home: str, *, there: str = "") -> Loaded:
    done = subprocess.run(
        [python, "-c", LOAD, extension, there],
        env=_environment(home),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT,
        check=True,
    )
    return Loaded(**json.loads(done.stdout.splitlines()[-1]))


def _start_to_request(code: str, home: str) -> Asked:
    with TimedServer(["Hello."]) as server:
        before, start = _cpu_of_children(), time.monotonic()
        child = subprocess.Popen(
            [sys.executable, "-c", code, server.url],
            env=_environment(home),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said, _ = child.communicate(timeout=PROCESS_LIMIT)
        try:
            seconds = server.arrivals.get_nowait() - start
            return Asked(seconds, float(said.partition(MARK)[2].split()[0]), _cpu_of_children() - before)
        except Empty:
            raise SystemExit(f"No request came. The process said:\n{said}") from None


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peer_python() -> Path | None:
    """The peer's interpreter in an environment of its own, made at the first run; None where that fails."""
    python = PEER_VENV / "bin" / "python"
    if (PEER_VENV / "installed").exists():
        return python
    print(f"Installing {PEER} into {PEER_VENV.relative_to(ROOT)} (once, some minutes; --no-peer leaves it out)")
    try:
        subprocess.run([sys.executable, "-m", "venv", PEER_VENV], check=True, timeout=PROCESS_LIMIT)
        install = [python, "-m", "pip", "install", "-q", PEER, "ipython"]
        subprocess.run(install, check=True, timeout=PEER_INSTALL_LIMIT, stderr=subprocess.DEVNULL)
        (PEER_VENV / "installed").touch()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{PEER} could not be installed ({error}); its rows are left out.")
        return None
    return python


if __name__ == "__main__":
    sys.exit(main())
