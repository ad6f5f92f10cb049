"""A real Redis for the tests, as the system has it.

python tests/gateway/redis_server.py    install it on Debian and Ubuntu, with the rights of root
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.patience import patient

PROGRAM = "redis-server"
START = patient(30.0)
"""Seconds it may take to begin on a busy machine."""
_PAUSE = 0.02  # seconds between two looks
_MISSING = f"{PROGRAM} is not installed: its tests are left out, and those on SQLite say the same"


class RedisServer:
    """One behind a socket in a folder of its own, which can go away and come back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self._folder}/redis.sock"

    def start(self) -> None:
        """Until it answers; it has what it had when it was stopped."""
        place = ["--port", "0", "--unixsocket", f"{self._folder}/redis.sock", "--dir", str(self._folder)]
        self._process = subprocess.Popen([PROGRAM, *place, "--appendonly", "yes"], stdout=subprocess.DEVNULL)
        end = time.monotonic() + START
        while not self._answers():
            assert self._process.poll() is None, f"{PROGRAM} ended as it started"
            assert time.monotonic() < end, f"{PROGRAM} did not start within {START} s"
            time.sleep(_PAUSE)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(START)
            self._process = None

    def clear(self) -> None:
        """Forget all."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return client.ping()
        except redis.ConnectionError:
            return False


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """One that runs. Its folder has a short name, which sockets need."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed here")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def install() -> str:
    """Have it; what came of it."""
    if (found := shutil.which(PROGRAM)) is not None:
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return _MISSING
    apt = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    variables = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apt, "update"], env=variables, stdout=subprocess.DEVNULL)
    wanted = ["install", "--yes", "--no-install-recommends", PROGRAM]
    subprocess.run([*apt, *wanted], env=variables, stdout=subprocess.DEVNULL)
    return shutil.which(PROGRAM) or _MISSING


if __name__ == "__main__":
    print(f"redis: {install()}", file=sys.stderr)
