"""A gateway of several processes, as `vibe-jupyter serve` starts it, and streams that are read beside each other."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import psutil

from tests.gateway.conftest import PATIENCE, TOKEN, TOKEN_VARIABLE, chat_body, read_events, until
from tests.patience import patient
from vibe_jupyter.llm.connections import tls_context

START = patient(120.0)
"""Seconds for processes that start, on a machine that is busy."""
_COMMAND = "from vibe_jupyter.cli import main; raise SystemExit(main())"


class Workers:
    """A gateway of two, and clients that speak to one of them each."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, home: Path) -> None:
        self.process = psutil.Process(process.pid)
        self.url = url
        self.home = home

    def all(self) -> list[psutil.Process]:
        """Those that live."""
        return [one for one in self.process.children() if _lives(one)]

    @contextmanager
    def client(self, worker: psutil.Process) -> Iterator[httpx.Client]:
        """One whose connection this worker has: the others can't take it."""
        others = [one for one in self.all() if one.pid != worker.pid]
        headers = {"x-api-key": TOKEN}
        with httpx.Client(base_url=self.url, headers=headers, timeout=START, verify=tls_context(tls=False)) as client:
            for one in others:
                one.suspend()
            try:
                client.get("/health").raise_for_status()
            finally:
                for one in others:
                    one.resume()
            yield client

    @contextmanager
    def clients(self) -> Iterator[tuple[httpx.Client, httpx.Client]]:
        """One of each worker."""
        first, second = self.all()
        with self.client(first) as one, self.client(second) as other:
            yield one, other


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False


@contextmanager
def serving(folder: Path, settings: str, *options: str, count: int = 2) -> Iterator[Workers]:
    """So many workers, as `vibe-jupyter serve --workers` starts them; they serve already. One is the process itself."""
    home = folder / "home"
    home.mkdir()
    variables = {**os.environ, "VIBE_HOME": str(home), TOKEN_VARIABLE: TOKEN}
    (folder / "aiohttp.py").write_text("raise SystemExit('A file of the folder was imported.')", encoding="utf-8")
    variables.pop("PYTHONPATH", None)  # sweeps are run with ".", which is the folder there
    accepted = ["--accept", "sample"] if "mcp_servers" in settings else []
    words = ["serve", "--port", "0", "--workers", str(count), *accepted, *options]
    argv = [sys.executable, "-P", "-c", _COMMAND, *words]
    (home / "config.toml").write_text(settings, encoding="utf-8")
    with subprocess.Popen(argv, cwd=folder, env=variables, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = re.search(r"http://[\w.:]+", process.stdout.readline())
            assert address is not None
            workers = Workers(process, address[0], home)
            until(lambda: count == 1 or len(workers.all()) == count)
            for one in workers.all() if count > 1 else [workers.process]:
                with workers.client(one):
                    pass
            yield workers
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(START)


class Stream:
    """A stream that is read on a thread."""

    def __init__(self, client: httpx.Client, content: str = "go on", **fields: Any) -> None:
        self.raw = b""
        self.broke: httpx.TransportError | None = None
        self._body = chat_body(content, stream=True, **fields)
        self._client = client
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            with self._client.stream("POST", "/v1/chat/completions", json=self._body) as response:
                for piece in response.iter_bytes():
                    self.raw += piece
        except httpx.TransportError as error:
            self.broke = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def event(self, name: str) -> Mapping[str, Any]:
        """The first event of that name."""
        found = re.compile(rf"event: {name}\ndata: .*\n\n".encode())
        until(lambda: found.search(self.raw) is not None)
        match = found.search(self.raw)
        assert match is not None
        return read_events(match[0])[0].data

    def end(self) -> None:
        """Wait for it."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
