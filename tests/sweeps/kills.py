"""SIGKILL of a kernel at random moments of a run: no torn file, no child left, and a journal that can be read."""

import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from tests.app.conftest import CONFIG
from tests.kernel.fork_server import CLIENT, kernel_command
from tests.kernel.matrix import ROOT
from tests.patience import patient
from vibe_jupyter.session.journal import FILE_NAME as JOURNAL
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ModelRequest, Reply, ScriptedModel, answer, call, say
from vibe_jupyter.testing.scripted import Script

COUNT = 200
LATEST = 1.0
"""Seconds of a run in which the kernel is killed."""
GONE_WITHIN = 10.0
"""Seconds until no child is left."""
READY_WITHIN = patient(60.0)
FILE = "kept.txt"
OLD, NEW = "old\n" * 500, "new\n" * 5_000
COMMAND = "sleep 300 & setsid env -i sleep 300 & ((env -i sleep 300 &) &); (trap '' TERM; sleep 300) & wait"
PROMPT = "%%vibe --yes=bash,write_file,run_code\ngo"


Attempt = Callable[["Kernels", ScriptedModel, Path], Iterator[str]]
"""One of a sweep: what is wrong after it."""


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    moments = [0] * 4
    yield from attempts(count, _reply, lambda forks, model, folder: _try(forks, model, folder, chosen, moments))
    before, at_file, at_command, after = moments
    print(
        f"kills: {before} before the first call, {at_file} before the file was new, {at_command} with it new, "
        f"{after} with the command running",
        flush=True,
    )


def attempts(count: int, script: Script, attempt: Attempt) -> Iterator[str]:
    """What is wrong in so many attempts, each in a folder of its own, with kernels and a model that all share."""
    with ScriptedModel(script) as model, kernels() as forks:
        for number in range(count):
            with tempfile.TemporaryDirectory(prefix="vibe-kill-", ignore_cleanup_errors=True) as folder:
                yield from (f"try {number}: {wrong}" for wrong in attempt(forks, model, Path(folder)))


def _reply(request: ModelRequest) -> Reply:
    match len(request.tool_results):
        case 0:
            return call("read_file", path=FILE)
        case 1:
            return answer("Writing.", [call("write_file", path=FILE, content=NEW, overwrite=True)])
        case 2:
            return answer("Running.", [call("bash", command=COMMAND, timeout=600)])
        case _:
            return say("Done.")


class Kernels:
    """Each a fork of one process, which has imported what a kernel does until it has answered a prompt."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, folder: Path) -> tuple[int, BlockingKernelClient]:
        """A kernel that is ready; its process, and a client."""
        connection = str(folder / "connection.json")
        write_connection_file(connection, transport="ipc", ip=str(folder / "socket"))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "VIBE_HOME": str(folder / "vibe"),
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        }
        command = [connection if word == "{connection_file}" else word for word in kernel_command()]
        with (folder / "log").open("ab") as log:
            self._started.append(
                subprocess.Popen(
                    command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )
        client = BlockingKernelClient(connection_file=connection)
        client.load_connection_file()
        client.start_channels()
        client.hb_channel.time_to_dead = READY_WITHIN  # a second is too short for a kernel that still starts
        client.wait_for_ready(timeout=READY_WITHIN)
        return int(run_cell(client, "print(__import__('os').getpid())")), client

    def end(self) -> None:
        """End those that still run."""
        for process in self._started:
            process.kill()
            process.wait(GONE_WITHIN)


@contextmanager
def kernels() -> Iterator[Kernels]:
    """Kernels that start quickly."""
    forks = Kernels()
    try:
        yield forks
    finally:
        forks.end()


def make_folders(folder: Path, model: ScriptedModel) -> None:
    """The user's folder, and one to work in."""
    (folder / "vibe").mkdir()
    (folder / "work").mkdir()
    (folder / "vibe" / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")


def _try(
    forks: Kernels, model: ScriptedModel, folder: Path, chosen: random.Random, moments: list[int]
) -> Iterator[str]:
    make_folders(folder, model)
    (folder / "work" / FILE).write_text(OLD, encoding="utf-8")
    process, client = forks.start(folder)
    try:
        run_cell(client, "%load_ext vibe_jupyter")
        asked = len(model.requests)
        client.execute(PROMPT, allow_stdin=False)
        # From the first request on, or from the cell's first line.
        if chosen.random() < 0.8:
            model.wait_for_request(asked + 1, timeout=READY_WITHIN)
        time.sleep(chosen.uniform(0, LATEST))
        running = bool(_children(folder, process))
        os.kill(process, signal.SIGKILL)
    finally:
        client.stop_channels()
    kept = (folder / "work" / FILE).read_text(encoding="utf-8")
    moments[3 if running else 2 if kept == NEW else 1 if len(model.requests) > asked else 0] += 1
    if kept not in (OLD, NEW):
        yield f"the file is torn: {len(kept)} characters"
    yield from wrong_on_disk(folder, process)


def run_cell(client: BlockingKernelClient, code: str) -> str:
    """Run a cell to its end; what it printed."""
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        printed.append(message["content"].get("text", "") if message["msg_type"] == "stream" else "")

    reply = client.execute_interactive(code, allow_stdin=False, timeout=READY_WITHIN, output_hook=hear)
    assert reply["content"]["status"] == "ok", reply
    return "".join(printed)


def wrong_on_disk(folder: Path, process: int) -> Iterator[str]:
    """What a killed kernel left that it must not: a damaged journal, a child."""
    for journal in (folder / "vibe").rglob(JOURNAL):
        contents = read_journal(journal)
        if contents.header is None:
            yield f"the journal has no header: {journal.stat().st_size} bytes"
        # A line that was being written is cut off; nothing but the last may be.
        lines = journal.read_bytes().split(b"\n")
        damaged = [number for number, line in enumerate(lines[:-1], start=1) if not _is_json(line)]
        if damaged:
            yield f"lines {damaged} of {len(lines) - 1} of the journal are damaged"
    end = time.monotonic() + GONE_WITHIN
    while (left := _children(folder, process)) and time.monotonic() < end:
        time.sleep(0.02)
    for child in left:
        yield f"a child is left: {child}"


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _children(folder: Path, process: int) -> list[str]:
    """What runs in the folder of the try, or has its name, besides the kernel."""
    found: list[str] = []
    for one in psutil.process_iter():
        try:
            if one.pid == process or one.status() == psutil.STATUS_ZOMBIE or not one.cwd().startswith(str(folder)):
                continue
            if str(CLIENT) not in one.cmdline():  # that one stands for the kernel
                found.append(f"{one.pid} {one.cmdline()}")
        except psutil.Error:
            continue
    return found
