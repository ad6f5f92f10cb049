"""Shell setup in a forked copy of the kernel: code runs as usual, but nothing reaches a front end."""

import asyncio
import io
import multiprocessing.context
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from vibe_jupyter.kernel.nested_await import run_nested

T = TypeVar("T")


def has_running_loop() -> bool:
    """Return whether an event loop is running on this thread, as it does around a cell."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def cut_off_shell(shell: object, *, formats: bool = True) -> None:
    """Disconnect the shell, and any references the user's objects hold to it, from the front end.

    The file descriptors are closed by now, and libzmq aborts the process if a socket is used after that.

    Args:
        shell: IPython's shell.
        formats: Whether to render figures and format tables and errors, which takes longer than most code does.
    """
    one: Any = shell
    old_streams = [stream for stream in (sys.stdout, sys.stderr) if stream is not None]
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    streams: Any = sys.modules.get("ipykernel.iostream")
    if streams is not None:
        for owner in (streams.OutStream, *old_streams):
            owner.write, owner.flush = _write_to_present_stream, _do_nothing
        streams.IOPubThread.schedule = streams.IOPubThread.send_multipart = _do_nothing
    kernel = getattr(one, "kernel", None)
    if kernel is not None:
        kernel.session.send = _do_nothing
        kernel._allow_stdin = False
    if not formats:
        one.showtraceback = one.showsyntaxerror = _do_nothing
        one.display_formatter.active_types = ["text/plain"]
    _keep_pools_to_threads()


def run_inside_loop(shell: object, work: Callable[[], T]) -> T:
    """Do the work inside a running event loop, as around a cell, so that asyncio treats code as in the kernel.

    The kernel's own loop isn't running in a forked process, and its descriptors are closed.
    """
    one: Any = shell
    if one.loop_runner is one.loop_runner_map["asyncio"][0]:
        one.loop_runner = run_nested

    async def inside() -> T:
        return work()

    return asyncio.new_event_loop().run_until_complete(inside())


def _write_to_present_stream(*given: object) -> int:
    # Patched both onto a class (called with self) and onto instances (called without): the text is the last argument.
    return sys.stderr.write(text) if isinstance(text := given[-1], str) else 0


def _do_nothing(*_given: object, **_more: object) -> None:
    pass


def _keep_pools_to_threads() -> None:
    # The copy can't start processes, and multiprocessing locks need files (named semaphores), which it can't create.
    context: Any = multiprocessing.context.BaseContext
    context.Lock, context.RLock = _thread_lock, _thread_reentrant_lock
    joblib: Any = sys.modules.get("joblib")
    if joblib is not None:
        joblib.parallel_config(backend="threading")


def _thread_lock(_context: object) -> Any:
    return threading.Lock()


def _thread_reentrant_lock(_context: object) -> Any:
    return threading.RLock()
