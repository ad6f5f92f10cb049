"""Several processes that answer at one address: `vibe-jupyter serve --workers`.

They share the listening socket, so a connection waits until any of them is free, and the store, so each answers for
all. A worker that dies takes the answers it was sending with it, and another is started in its place.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM, signal
from types import FrameType
from typing import Final

from prometheus_client import multiprocess

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.metrics import COUNTS_FOLDER
from vibe_jupyter.gateway.server import GRACE, LAST_WORDS, STOP_WAIT, TOKEN, GatewayServer
from vibe_jupyter.import_guard import python_environment

MOST: Final = 64
"""Workers of one gateway."""
BACKLOG: Final = 2048
"""Connections that wait for a worker."""
EARLY: Final = 5.0
"""Seconds: a worker that ends sooner has not served."""
EARLY_ENDS: Final = 3
"""Of them in a row, after which the gateway ends too."""
_LOOK: Final = 0.1
"""Seconds between two looks whether all live."""


def check_count(count: int) -> None:
    """See whether there can be so many workers.

    Raises:
        ConfigError: there can't.
    """
    if not 1 <= count <= MOST:
        raise ConfigError(f"--workers is {count}; it is a number from 1 to {MOST}.")
    if count > 1 and os.name == "nt":
        raise ConfigError("--workers does not work on Windows. Start without it.")


@dataclass(frozen=True)
class _Worker:
    process: "subprocess.Popen[bytes]"
    began: float


class GatewayWorkers:
    """The processes of one gateway. This one starts them and ends them, and answers nothing."""

    def __init__(self, server: GatewayServer, count: int, environ: Mapping[str, str], *, metrics: bool = True) -> None:
        """
        Args:
            server: has the port and the token; it must not serve itself.
            count: how many.
            environ: their variables.
            metrics: whether they count requests.
        """
        self._server = server
        self._count = count
        self._environ = {**environ, TOKEN: server.token}
        self._metrics = metrics
        self._workers: list[_Worker] = []
        self._early_ends = 0
        self._ending = threading.Event()

    def serve(self) -> None:
        """Keep them running until a signal ends them all.

        Raises:
            ConfigError: they end as soon as they start.
        """
        for one in (SIGINT, SIGTERM):
            signal(one, self._end_soon)
        self._server.listening.listen(BACKLOG)
        with tempfile.TemporaryDirectory(prefix="vibe-gateway-") as counts:
            self._environ[COUNTS_FOLDER] = counts
            try:
                self._workers = [self._start() for _ in range(self._count)]
                while not self._ending.wait(_LOOK):
                    self._workers = [self._living(one, Path(counts)) for one in self._workers]
            finally:
                self._end()

    def _end_soon(self, _number: int, _frame: FrameType | None) -> None:
        self._ending.set()

    def _start(self) -> _Worker:
        descriptor = self._server.listening.fileno()
        options = [] if self._metrics else ["--disable-metrics"]
        process = subprocess.Popen(
            # Without -P a file of the folder, such as json.py, would be imported in the place of a module.
            [sys.executable, "-P", "-m", "vibe_jupyter.gateway.worker", str(descriptor), self._server.host, *options],
            env=python_environment(self._environ),
            stdin=subprocess.PIPE,  # closed when it is to end, also where this process is killed
            pass_fds=[descriptor],
            start_new_session=True,  # Ctrl-C is for this process
        )
        return _Worker(process, time.monotonic())

    def _living(self, worker: _Worker, counts: Path) -> _Worker:
        """The worker, or another in the place of a dead one."""
        code = worker.process.poll()
        if code is None:
            return worker
        worker.process.communicate()
        multiprocess.mark_process_dead(worker.process.pid, str(counts))  # pyright: ignore[reportUnknownMemberType]
        self._early_ends = self._early_ends + 1 if time.monotonic() - worker.began < EARLY else 0
        if self._early_ends >= EARLY_ENDS:
            raise ConfigError(f"{EARLY_ENDS} workers of the gateway ended as they started, the last with code {code}.")
        print(f"vibe-jupyter serve: worker {worker.process.pid} ended ({code}); starting another.", file=sys.stderr)  # noqa: T201
        return self._start()

    def _end(self) -> None:
        self._server.listening.close()  # or who comes while answers end would wait here for nobody
        for one in self._workers:
            assert one.process.stdin is not None
            one.process.stdin.close()
        until = time.monotonic() + GRACE + LAST_WORDS + STOP_WAIT
        for one in self._workers:
            try:
                one.process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
