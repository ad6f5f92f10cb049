"""How long after ■ the prompt is back: an interrupt while the agent waits, thinks, computes, or runs a command.

Each is a real kernel that gets a real SIGINT, beside a cell of plain Python that sleeps. The rows take turns.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from benchmarks.report import Row, report, size
from vibe_jupyter.testing import Reply, ScriptedModel, call, hold

ROOT = Path(__file__).resolve().parent.parent
AIM = 2_000.0  # milliseconds
KERNEL_WAIT = 60  # seconds
ROUNDS = size(7, 1)
MARK = "started"
"""A file that what is interrupted makes first."""
CODE = f"import pathlib, time\npathlib.Path({MARK!r}).touch()\ntime.sleep(60)"
COMMAND = f"touch {MARK}; sleep 60"
SILENT = "%%vibe, the model is silent"
ROWS: dict[str, Callable[[], Reply] | None] = {
    "plain cell, sleeping": None,
    SILENT: lambda: hold(threading.Event(), text=""),
    "%%vibe, run_code sleeps": lambda: call("run_code", code=CODE, timeout=60),
    "%%vibe, bash sleeps": lambda: call("bash", command=COMMAND),
}
"""What goes on when ■ is pressed: the model's reply; None for a cell that asks no model."""


def main() -> int:
    """Print the table; 1 where the aim is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=ROUNDS, help="interrupts per row, after one that is not counted")
    rounds: int = options.parse_args().rounds
    found: dict[str, list[float]] = {name: [] for name in ROWS}
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        model = stack.enter_context(ScriptedModel())
        manager, client = _kernel(home, stack)
        _until_reply(client, client.execute("%load_ext vibe_jupyter"))
        for number in range(rounds + 1):
            for name, reply in ROWS.items():
                cell = _begun(client, model, reply)
                if name != SILENT:
                    _until_made(Path(home, MARK))
                began = time.monotonic()
                manager.interrupt_kernel()
                _until_reply(client, cell)
                took = (time.monotonic() - began) * 1000
                if number:
                    found[name].append(took)
    print(f"\n{'from ■ to the prompt':<34}{'median ms':>10}{'worst ms':>10}")
    for name, times in found.items():
        print(f"{name:<34}{median(times):>10.0f}{max(times):>10.0f}")
    plain, *others = found.items()
    floor = min(plain[1])
    return report(
        [Row(f"{name}, worst, more than {plain[0]}", max(times) - floor, AIM, "ms") for name, times in others]
    )


def _kernel(home: str, stack: ExitStack) -> tuple[KernelManager, BlockingKernelClient]:
    own = {name: home for name in ("HOME", "VIBE_HOME", "IPYTHONDIR")}
    manager = KernelManager()
    manager.start_kernel(env={**os.environ, **own, "PYTHONPATH": str(ROOT)}, cwd=home)
    stack.callback(manager.shutdown_kernel, now=True)
    client = manager.client()
    client.start_channels()
    stack.callback(client.stop_channels)
    client.wait_for_ready(timeout=KERNEL_WAIT)
    return manager, client


def _begun(client: BlockingKernelClient, model: ScriptedModel, reply: Callable[[], Reply] | None) -> str:
    """Id of the request of a cell; a model that is asked has been asked."""
    if reply is None:
        return client.execute(CODE, stop_on_error=False)
    asked = len(model.requests)
    model.will_reply(reply())
    cell = client.execute(f"%%vibe --yes=run_code,bash --model bench@{model.url}\nWork.", stop_on_error=False)
    model.wait_for_request(asked + 1)
    return cell


def _until_made(mark: Path) -> None:
    end = time.monotonic() + KERNEL_WAIT
    while not mark.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{mark} was not made")
        time.sleep(0.01)
    mark.unlink()


def _until_reply(client: BlockingKernelClient, cell: str) -> None:
    while client.get_shell_msg(timeout=KERNEL_WAIT)["parent_header"].get("msg_id") != cell:
        pass


if __name__ == "__main__":
    sys.exit(main())
