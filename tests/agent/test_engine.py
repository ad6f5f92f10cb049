"""The engine's loop: what fails beside its tasks is logged under our name; asyncio's own logger writes into cells."""

import asyncio
import logging
import queue
import threading
from logging.handlers import QueueHandler

import pytest

from tests.patience import patient
from vibe_jupyter.agent.engine import Engine, keep_quiet

WAIT = patient(30.0)  # seconds


def test_a_failure_that_no_task_waits_for_is_logged_under_our_name() -> None:
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handler = QueueHandler(records)  # type: ignore[arg-type]

    async def begin() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)

    engine = Engine()
    loggers = [logging.getLogger(name) for name in ("vibe_jupyter", "asyncio")]
    try:
        for logger in loggers:
            logger.addHandler(handler)
        engine.submit(begin()).result(WAIT)
        record = records.get(timeout=WAIT)
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        engine.close()

    assert record.name == "vibe_jupyter.agent.engine"
    assert "ZeroDivisionError" in record.getMessage()
    assert records.empty()


def test_what_waits_on_when_the_engine_ends_does_not_keep_its_thread() -> None:
    waiting, again = threading.Event(), threading.Event()

    async def wait_on() -> None:
        try:
            waiting.set()
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.Event().wait()
            finally:
                again.set()

    before = set(threading.enumerate())
    engine = Engine()
    [thread] = set(threading.enumerate()) - before
    engine.submit(wait_on())
    assert waiting.wait(WAIT)
    engine.close()
    thread.join(WAIT)
    assert (thread.is_alive(), again.is_set()) == (False, True)


def test_records_of_ours_go_to_handlers_of_our_own_logger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, root = logging.getLogger("vibe_jupyter"), logging.getLogger()
    monkeypatch.setattr(ours, "propagate", True)
    everybodys: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    own: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    handlers = (root, QueueHandler(everybodys)), (ours, QueueHandler(own))  # type: ignore[arg-type]
    try:
        for logger, handler in handlers:
            logger.addHandler(handler)
        keep_quiet()
        logging.getLogger("vibe_jupyter.agent").error("of ours")
        logging.getLogger("somebody").error("of theirs")
    finally:
        for logger, handler in handlers:
            logger.removeHandler(handler)
    assert own.get_nowait().getMessage() == "of ours"
    assert everybodys.get_nowait().getMessage() == "of theirs"
    assert everybodys.empty()
