"""What `vibe-jupyter mcp` costs an external client that starts: CPU time and time until our tools are listed.

Run it with ``PYTHONPATH=. python benchmarks/mcp_start.py``. Once with no notebook served, and once with one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.report import Row, report, size
from tests.mcp_server.test_guard import Echo, listening
from vibe_jupyter.mcp_server.notebook_client import NotebookNote, register_notebook

GOAL: Final = 0.3  # seconds of CPU
STARTS: Final = size(20, 1)
PROGRAM: Final = str(Path(sys.executable).with_name("vibe-jupyter"))
CLIENT: Final = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
ASKED: Final[list[dict[str, Any]]] = [
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": CLIENT},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
]


def main() -> int:
    """Print the table; 1 where the goal is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--starts", type=int, default=STARTS)
    starts: int = options.parse_args().starts
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {starts} starts each")
    print(f"{'to tools/list':<24}{'CPU, median':>14}{'CPU, worst':>14}{'time, median':>14}")
    rows: list[Row] = []
    for name, served in (("no notebook served", False), ("a notebook served", True)):
        with runtime_folder(served) as folder:
            took = [start(folder) for _ in range(starts)]
        cpu, wall = zip(*took, strict=True)
        print(f"{name:<24}{statistics.median(cpu):>12.2f} s{max(cpu):>12.2f} s{statistics.median(wall):>12.2f} s")
        rows.append(Row(f"to tools/list, {name}", statistics.median(cpu), GOAL, "s of CPU"))
    return report(rows)


@contextmanager
def runtime_folder(served: bool) -> Generator[str]:
    """Where the program looks for notebooks."""
    with tempfile.TemporaryDirectory() as folder, listening(Echo()) as server:
        if served:
            os.environ["JUPYTER_RUNTIME_DIR"] = folder
            register_notebook(
                NotebookNote(kernel="k", notebook="", pid=os.getpid(), url=server.url, token=server.token, version="1")
            )
        yield folder


def start(folder: str) -> tuple[float, float]:
    """Seconds of CPU of one program from its start to its end, and seconds until the tools are listed."""
    began, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [PROGRAM, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "JUPYTER_RUNTIME_DIR": folder},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in ASKED))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    took = time.perf_counter() - began
    assert answers[1]["result"]["tools"]
    process.stdin.close()
    process.wait()
    process.stdout.close()
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system, took


if __name__ == "__main__":
    sys.exit(main())
