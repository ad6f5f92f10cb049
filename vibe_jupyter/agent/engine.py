"""The engine thread: one asyncio loop per kernel, shared by all cells and silent in the user's logging.

Log records of `vibe_jupyter` go only to handlers that were added to that logger explicitly. Python's handler of last
resort and handlers that the user's code added to the root logger don't receive them, since both write into cells.
"""

import asyncio
import concurrent.futures
import contextvars
import logging
import sys
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from vibe_jupyter.agent.process_needs import check_open_files, check_own_threads
from vibe_jupyter.import_guard import work_for_us

T = TypeVar("T")

_log = logging.getLogger(__name__)

THREAD_NAME = "vibe-engine"
CLOSE_TIMEOUT = 3.0  # seconds to wait for the thread when closing
END_WAIT: Final = 2.0  # seconds that cancelled tasks have before they are cancelled once more

_OURS: Final = "vibe_jupyter"
# Loggers that report each request. The user may use the same packages.
_NETWORK: Final = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.http2", "httpcore.proxy")
_RENDERING: Final = "markdown_it"  # logs every line of every answer

_NOWHERE: Final = logging.NullHandler()


class Engine:
    """Thread with the event loop for HTTP, file tools and the agent. Code on it must not touch the shell or print."""

    def __init__(self) -> None:
        """
        Raises:
            NotebookError: a library has replaced modules that the loop needs, or too many files are open.
        """
        check_own_threads()
        check_open_files()
        self._loop = _new_loop()
        use_own_threads(self._loop)
        self._loop.set_exception_handler(_log_failure)
        # With a copied context, output of this thread goes to the cell that started it (measured on ipykernel 6 and 7).
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run_loop,), name=THREAD_NAME, daemon=True
        )
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start a coroutine on the engine loop. Thread-safe."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel running tasks and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CLOSE_TIMEOUT)

    def _run_loop(self) -> None:
        work_for_us()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(end_tasks())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


def use_own_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Mark the loop's executor threads as ours.

    `getaddrinfo` imports codecs on them, with none of our frames on the stack to recognize the import by.
    """
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(initializer=work_for_us))


def _new_loop() -> asyncio.AbstractEventLoop:
    """Create a loop of asyncio's own kind, whatever policy the user's code has installed.

    libuv's loop maps an io_uring into the process, which then can't be forked for a trial.
    """
    return _EngineLoop()


if sys.platform == "win32":
    _EngineLoop = asyncio.ProactorEventLoop
else:

    class _EngineLoop(asyncio.SelectorEventLoop):
        """Loop that starts processes even if the user's code has disabled watching for child processes.

        The installed policy may have no child watcher, such as uvloop's (before Python 3.14), and SIGCHLD may be
        ignored.
        """

        async def subprocess_exec(self, protocol_factory: Any, *args: Any, **more: Any) -> Any:
            if sys.version_info < (3, 14):
                policy: Any = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]
                if not isinstance(policy, asyncio.DefaultEventLoopPolicy):
                    _let_watch_children(policy)
            from vibe_jupyter.agent.child_exits import CHILD_EXITS  # noqa: PLC0415 - the first request starts no program

            protocol_factory, give_up = CHILD_EXITS.keep_for(protocol_factory)
            try:
                return await super().subprocess_exec(protocol_factory, *args, **more)
            except BaseException:
                give_up()
                raise

    def _let_watch_children(policy: Any) -> None:
        """Add the missing child watcher to a policy. The loops that the policy creates don't use it."""
        try:
            policy.get_child_watcher()
        except NotImplementedError:
            watcher = asyncio.ThreadedChildWatcher()
            policy.get_child_watcher = lambda: watcher


async def end_tasks() -> None:
    """Cancel all other tasks of this loop, and wait for them.

    A task that is cancelled while asyncio connects the pipes of a process waits for the exit of that process, which
    asyncio then never notices (Python 3.11.7). Cancelling it a second time ends it.
    """
    for _ in range(2):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=END_WAIT)


def _log_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log exceptions that no task awaits. asyncio's own logger would print them into the user's cell."""
    _log.error("%s", context["message"], exc_info=context.get("exception"))


class _NotOfTheEngine(logging.Filter):
    """Filter that drops records below WARNING from the engine thread."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= logging.WARNING or record.threadName != THREAD_NAME


_FILTER: Final = _NotOfTheEngine()


def keep_quiet() -> None:
    """Prevent log records of the agent's own work from reaching cells. Safe to call twice."""
    ours = logging.getLogger(_OURS)
    ours.addHandler(_NOWHERE)
    ours.propagate = False
    for name in _NETWORK:
        logging.getLogger(name).addFilter(_FILTER)
    rendering = logging.getLogger(_RENDERING)
    if rendering.level == logging.NOTSET:
        rendering.setLevel(logging.WARNING)
