"""Lives in the kernel under test: an engine thread, a main_thread, and cells that serve. Stands in for the app."""

import asyncio
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

from comm import create_comm
from IPython import get_ipython

from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.protocol import ExecutionResult

WAIT = 25.0  # seconds
shell = get_ipython()
pump = Pump(shell)
pump.install()
main_thread = MainThread(pump)
runner = CodeRunner(shell, pump)
engine = asyncio.new_event_loop()
threading.Thread(target=engine.run_forever, daemon=True, name="engine").start()
threads_at_rest = {thread.name for thread in threading.enumerate()}

comm = create_comm(target_name="test", data={})
serving_cell: list[Any] = []
clicks: list[Any] = []
click_threads: list[str] = []


def on_click(message: dict[str, Any]) -> None:
    clicks.append(message["content"]["data"])
    click_threads.append(threading.current_thread().name)


comm.on_msg(on_click)


def forget() -> None:
    comm.on_msg(on_click)
    clicks.clear()
    click_threads.clear()
    pump.on_execute = None


def tell(text: str) -> None:
    """Print past any capture, from any thread, in the cell that serves."""
    kernel = shell.kernel
    send = type(kernel.session).send
    send(kernel.session, kernel.iopub_socket, "stream", {"name": "stdout", "text": text}, parent=serving_cell[-1])


async def once_served(work: Awaitable[Any]) -> Any:
    await main_thread.call(lambda: None)
    tell("serving\n")
    return await work


def begin(work: Awaitable[Any]) -> Future[Any]:
    """Start work on the engine; it says ``serving`` when this cell does."""
    serving_cell.append(shell.kernel.get_parent("shell"))
    return asyncio.run_coroutine_threadsafe(once_served(work), engine)


def serve(work: Awaitable[Any]) -> Any:
    """Serve as a `%%vibe` cell does, and give what the work gave, or ``interrupted``."""
    future = begin(work)
    if main_thread.serve(future, interrupt=future.cancel):
        return "interrupted"
    return future.result(0)


async def clicked(number: int = 1) -> str:
    end = time.monotonic() + WAIT
    while len(clicks) < number:
        if time.monotonic() > end:
            return "no click"
        await asyncio.sleep(0.005)
    return "clicked"


async def run(code: str, *, keep: bool = False, timeout: float | None = WAIT) -> ExecutionResult:
    """Run code as the agent does."""
    return await main_thread.call(lambda: runner.run(code, keep=keep, timeout=timeout, on_output=heard.append))


heard: list[str] = []


def serve_code(code: str, *, keep: bool = False, timeout: float | None = WAIT) -> Any:
    heard.clear()
    return serve(run(code, keep=keep, timeout=timeout))


def extra_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()} - threads_at_rest
