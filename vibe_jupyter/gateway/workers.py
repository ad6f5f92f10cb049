"""Several processes that serve one address: `vibe-jupyter serve --workers`.

They share the listening socket, so that the next free worker accepts a connection, and the store, so that each can
answer for all. If a worker dies, its responses in progress are lost and another one is started.
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

MOST: Final = 64  # workers of one gateway
BACKLOG: Final = 2048  # connections waiting for a worker
EARLY: Final = 5.0  # seconds; a worker that exits sooner hasn't served
EARLY_ENDS: Final = 3  # consecutive early exits after which the gateway stops
_LOOK: Final = 0.1  # seconds between checks of the workers


def check_count(count: int) -> None:
    """Validate the number of workers.

    Raises:
        ConfigError: it is out of range, or not supported on this platform.
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
    """Supervisor of a gateway's worker processes. It serves no requests itself."""

    def __init__(self, server: GatewayServer, count: int, environ: Mapping[str, str], *, metrics: bool = True) -> None:
        """
        Args:
            server: provides the socket and the token. It must not serve itself.
            count: number of workers.
            environ: environment of the workers.
            metrics: whether the workers count requests.
        """
        self._server = server
        self._count = count
        self._environ = {**environ, TOKEN: server.token}
        self._metrics = metrics
        self._workers: list[_Worker] = []
        self._early_ends = 0
        self._ending = threading.Event()

    def serve(self) -> None:
        """Run the workers until a signal stops them all. Workers that die are replaced.

        Raises:
            ConfigError: workers exit right after their start.
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
            # Without -P, a file in the working folder such as json.py would shadow a module.
            [sys.executable, "-P", "-m", "vibe_jupyter.gateway.worker", str(descriptor), self._server.host, *options],
            env=python_environment(self._environ),
            stdin=subprocess.PIPE,  # closing it stops the worker; the system does so if this process is killed
            pass_fds=[descriptor],
            start_new_session=True,  # keep Ctrl-C from the workers: this process stops them
        )
        return _Worker(process, time.monotonic())

    def _living(self, worker: _Worker, counts: Path) -> _Worker:
        """Return the worker, or a new one in place of a dead one."""
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
        self._server.listening.close()  # else new connections would wait in its backlog and never be accepted
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
