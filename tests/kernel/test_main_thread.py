"""Functions of the engine that run on the main thread, without a kernel."""

import asyncio
import concurrent.futures
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from vibe_jupyter.kernel.main_thread import MainThread

WAIT = 10.0
"""Seconds in which a call is answered."""


@pytest.fixture
def engine() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(WAIT)
    loop.close()


def raise_at(code: CodeType, line: int) -> None:
    """Raise `ValueError` on this thread before a line of a function runs, as a signal handler of the user's may."""

    def on_event(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line" and frame.f_lineno == line:
            raise ValueError("the alarm")
        return on_event

    sys.settrace(lambda frame, _event, _argument: on_event if frame.f_code is code else None)


@pytest.mark.requirement("magics.interrupt.prompt-back")
@pytest.mark.parametrize("step", ["_serve_step", "_next_item", "_run_item"])
def test_an_exception_of_a_signal_handler_leaves_no_call_waiting(step: str, engine: asyncio.AbstractEventLoop) -> None:
    code: CodeType = getattr(MainThread, step).__code__
    lines = sorted({line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno})
    assert len(lines) >= 5
    for line in lines:
        main_thread = MainThread(None)
        answer = asyncio.run_coroutine_threadsafe(main_thread.call(lambda: "done"), engine)
        raise_at(code, line)
        with contextlib.suppress(ValueError):
            main_thread.serve(answer, interrupt=answer.cancel)
        sys.settrace(None)
        assert concurrent.futures.wait([answer], WAIT).done, line


@pytest.mark.requirement("magics.interrupt.prompt-back")
def test_the_users_own_alarm_ends_the_cell_also_while_something_is_shown(engine: asyncio.AbstractEventLoop) -> None:
    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise ValueError("the alarm")

    def fail() -> None:
        raise ValueError("its own")

    def served(show: Callable[[], None]) -> BaseException | None:
        main_thread = MainThread(None)
        answer = asyncio.run_coroutine_threadsafe(main_thread.call(show, raises=False), engine)
        main_thread.serve(answer, interrupt=answer.cancel)
        return answer.exception(WAIT)

    before = signal.signal(signal.SIGALRM, on_alarm)
    try:
        with pytest.raises(ValueError, match="the alarm"):
            served(lambda: signal.raise_signal(signal.SIGALRM))
        assert str(served(fail)) == "its own"  # back to whoever called, and no further
    finally:
        signal.signal(signal.SIGALRM, before)
