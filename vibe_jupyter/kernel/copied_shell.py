"""The shell in a copy of this process: it runs code as the kernel does, and reaches no front end."""

import io
import multiprocessing.context
import sys
import threading
from typing import Any


def cut_off_shell(shell: object, *, formats: bool = True) -> None:
    """Take from the shell, and from what the user's objects may still hold of it, every way to the front end.

    The descriptors are gone already; but libzmq ends a process that uses one of its sockets without.

    Args:
        shell: of IPython.
        formats: whether it draws figures and formats tables and errors, which takes longer than most code does.
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


def _write_to_present_stream(*given: object) -> int:
    """As a method of a class, and as the function of an instance."""
    return sys.stderr.write(text) if isinstance(text := given[-1], str) else 0


def _do_nothing(*_given: object, **_more: object) -> None:
    pass


def _keep_pools_to_threads() -> None:
    """No processes can be started, and locks between them need files."""
    context: Any = multiprocessing.context.BaseContext
    context.Lock, context.RLock = _thread_lock, _thread_reentrant_lock
    joblib: Any = sys.modules.get("joblib")
    if joblib is not None:
        joblib.parallel_config(backend="threading")


def _thread_lock(_context: object) -> Any:
    return threading.Lock()


def _thread_reentrant_lock(_context: object) -> Any:
    return threading.RLock()
