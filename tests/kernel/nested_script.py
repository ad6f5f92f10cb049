"""Run by `test_nested` in a Python that has nothing but the standard library: cases of the nested driver.

Each in a fork of its own, named on a line when it has passed.
"""

import asyncio
import contextvars
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# The package itself needs IPython; the driver and what it stands on need nothing.
for name, folder in {"vibe_jupyter": "vibe_jupyter", "vibe_jupyter.kernel": "vibe_jupyter/kernel"}.items():
    package = types.ModuleType(name)
    package.__path__ = [str(ROOT / folder)]
    sys.modules[name] = package

from vibe_jupyter.errors import NotebookError  # noqa: E402  # noqa: E402
from vibe_jupyter.kernel import nested_await  # noqa: E402  # noqa: E402
from vibe_jupyter.kernel.nested_await import run_nested  # noqa: E402  # noqa: E402


async def answer(seconds: float = 0.01) -> str:
    await asyncio.sleep(seconds)
    return "answer"


def plain() -> None:
    assert run_nested(answer()) == "answer"  # no loop runs

    async def outer() -> None:
        task = asyncio.current_task()
        assert run_nested(answer()) == "answer"
        assert asyncio.current_task() is task
        await asyncio.sleep(0)
        assert run_nested(deeper()) == "answer"
        await asyncio.sleep(0)

    async def deeper() -> str:
        return run_nested(answer())

    asyncio.run(outer())


def debug() -> None:
    async def outer() -> None:
        asyncio.get_running_loop().slow_callback_duration = 60.0  # a busy machine is no finding
        assert run_nested(answer()) == "answer"

    asyncio.run(outer(), debug=True)


def order() -> None:
    """What is ready when the nesting begins runs once, in order, and nothing is awaited twice."""
    ran: list[int] = []

    async def outer() -> None:
        loop = asyncio.get_running_loop()
        for number in range(5):
            loop.call_soon(ran.append, number)
        future = loop.create_future()
        loop.call_soon_threadsafe(future.set_result, "set")
        assert run_nested(wait_for(future)) == "set"
        for number in range(5, 8):
            loop.call_soon(ran.append, number)
        await asyncio.sleep(0.01)

    async def wait_for(future: "asyncio.Future[str]") -> str:
        return await future

    asyncio.run(outer())
    assert ran == list(range(8)), ran


def shut_out() -> None:
    """A task whose context is entered already begins later."""
    began: list[str] = []

    async def outer() -> None:
        context = contextvars.copy_context()
        tasks: list[asyncio.Task[None]] = []

        def cell() -> None:
            tasks.extend(loop.create_task(late(name), context=context) for name in "ab")
            assert run_nested(answer()) == "answer"
            began.append("cell over")

        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(lambda: (cell(), done.set_result(None)), context=context)
        await done
        await asyncio.gather(*tasks)

    async def late(name: str) -> None:
        began.append(name)

    asyncio.run(outer())
    assert began == ["cell over", "a", "b"], began


def interrupt() -> None:
    """Cancelled, drained, and the loop goes on."""
    cleaned: list[str] = []

    async def cleaning() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            cleaned.append("cleaned")

    interrupted(cleaning(), within=10)
    assert cleaned == ["cleaned"]


def busy() -> None:
    async def never_awaits() -> None:
        while True:
            pass

    interrupted(never_awaits(), within=10)


def stubborn() -> None:
    """Left behind after the time it has to end, or at a second interrupt."""
    release: list[bool] = []

    async def swallowing() -> None:
        while not release:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    async def outer() -> None:
        began = time.monotonic()
        interrupt_later(0.2)
        assert isinstance(raised(lambda: run_nested(swallowing())), KeyboardInterrupt)
        took = time.monotonic() - began
        assert nested_await.DRAIN <= took < nested_await.DRAIN + 10, took
        release.append(True)
        await asyncio.sleep(0.1)

    with_python_handler(outer)


def error() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("mine")

    async def outer() -> None:
        assert repr(raised(lambda: run_nested(fails()))) == "LookupError('mine')"
        assert run_nested(answer()) == "answer"

    asyncio.run(outer())


def with_nest_asyncio() -> None:
    async def outer() -> None:
        enter = asyncio.tasks._enter_task
        probe = nested_await.can_be_turned
        nested_await.can_be_turned = lambda loop: False
        try:
            assert run_nested(answer()) == "answer"
        finally:
            nested_await.can_be_turned = probe
        assert asyncio.tasks._enter_task is enter

    asyncio.run(outer())


def foreign() -> None:
    class Loop:
        """Neither asyncio's nor like it."""

    error = raised(lambda: nested_await._with_nest_asyncio(Loop(), answer()))
    assert isinstance(error, NotebookError)
    assert "Run the code in a cell of its own" in str(error)


def with_uvloop() -> None:
    import uvloop

    async def outer() -> None:
        error = raised(lambda: run_nested(answer()))
        assert isinstance(error, NotebookError)
        assert "uvloop" in str(error)

    uvloop.run(outer())


def interrupted(coroutine: Coroutine[Any, Any, Any], *, within: float) -> None:
    async def outer() -> None:
        began = time.monotonic()
        interrupt_later(0.2)
        assert isinstance(raised(lambda: run_nested(coroutine)), KeyboardInterrupt)
        assert time.monotonic() - began < within
        assert run_nested(answer()) == "answer"
        await asyncio.sleep(0.01)

    with_python_handler(outer)


def with_python_handler(outer: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """As in a kernel, where SIGINT raises; `asyncio.run` would put its own handler there."""
    loop = asyncio.new_event_loop()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        loop.run_until_complete(outer())
    finally:
        loop.close()


def raised(function: Callable[[], object]) -> BaseException | None:
    try:
        function()
    except BaseException as error:  # noqa: BLE001 (the interrupt too)
        return error
    return None


def interrupt_later(seconds: float) -> None:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


CASES = {
    "plain": plain,
    "debug": debug,
    "order": order,
    "shut-out": shut_out,
    "interrupt": interrupt,
    "busy": busy,
    "stubborn": stubborn,
    "error": error,
    "nest-asyncio": with_nest_asyncio,
    "foreign": foreign,
    "uvloop": with_uvloop,
}

if __name__ == "__main__":
    for case in sys.argv[1:]:
        sys.stdout.flush()
        if child := os.fork():
            os.waitpid(child, 0)
        else:
            CASES[case]()
            print(case)
            sys.exit()
