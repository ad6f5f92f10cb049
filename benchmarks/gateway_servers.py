"""The servers that `gateway.py` compares, each in a process of its own."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
LITELLM = HERE.parent / ".matrix" / "litellm"
LITELLM_VERSION = "litellm[proxy]==1.106.2"
TOKEN = "b" * 64
OURS, TOOLS, RELAY, PEER = "gateway", "gateway, tools offered", "httpx relay", "litellm proxy"
START = 180.0
"""Seconds for a server to start, on a machine that is busy."""
_INSTALL = 900
_COMMAND = "from vibe_jupyter.cli import main; raise SystemExit(main())"
_SETTINGS = """
active_model = "bench"
[[providers]]
name = "here"
api_base = "{upstream}"
[[models]]
name = "bench"
alias = "bench"
provider = "here"
"""
_TOOLS = """
[[mcp_servers]]
name = "sample"
transport = "stdio"
command = "{python}"
args = ["{server}"]
startup_timeout_sec = 120
[gateway]
allow = ["mcp__*"]
"""
_PROXY = """
model_list:
  - model_name: bench
    litellm_params: {{model: openai/bench, api_base: "{upstream}", api_key: none}}
general_settings: {{master_key: sk-{token}}}
litellm_settings: {{telemetry: false}}
"""


class Served:
    """A server that runs."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, token: str = TOKEN) -> None:
        self.port = port
        self.token = token
        self._process = psutil.Process(process.pid)

    def cpu(self) -> float:
        """Seconds of CPU that it has had; what it started is not counted."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(one.read_text().split()[0]) for one in tasks) / 1e9

    def memory(self) -> int:
        """Bytes that it holds now."""
        return self._process.memory_info().rss

    def descriptors(self) -> int:
        """Files and connections that it has open."""
        return self._process.num_fds()


@contextmanager
def servers(folder: Path, *, peer: bool) -> Generator[tuple[Served, Mapping[str, Served]]]:
    """The upstream, and all that stand before it."""
    with ExitStack() as stack:

        def start(argv: list[str], port: int, **named: str) -> Served:
            variables = {**os.environ, "VIBE_GATEWAY_TOKEN": TOKEN, "PYTHONPATH": str(HERE.parent), **named}
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(argv, cwd=folder, env=variables, stdout=quiet, stderr=quiet)
            stack.callback(_end, process)
            _wait(process, port)
            return Served(process, port)

        port = _free_port()
        upstream = start([sys.executable, str(HERE / "gateway_upstream.py"), str(port)], port)
        url = f"http://127.0.0.1:{upstream.port}/v1"
        found: dict[str, Served] = {}
        for name, settings in ((OURS, ""), (TOOLS, _TOOLS)):
            home = folder / name.replace(" ", "-")
            home.mkdir()
            server = HERE.parent / "tests" / "mcp" / "sample_server.py"
            text = (_SETTINGS + settings).format(upstream=url, python=sys.executable, server=server)
            (home / "config.toml").write_text(text, encoding="utf-8")
            port = _free_port()
            accepted = ["--accept", "sample"] if settings else []
            argv = [sys.executable, "-c", _COMMAND, "serve", "--port", str(port), *accepted]
            found[name] = start(argv, port, VIBE_HOME=str(home))
        port = _free_port()
        found[RELAY] = start([sys.executable, str(HERE / "gateway_relay.py"), str(port), url], port)
        if peer:
            (folder / "proxy.yaml").write_text(_PROXY.format(upstream=url, token=TOKEN), encoding="utf-8")
            port = _free_port()
            argv = [*_litellm(), "--config", "proxy.yaml", "--host", "127.0.0.1", "--port", str(port)]
            found[PEER] = start(argv, port, LITELLM_LOCAL_MODEL_COST_MAP="True", LITELLM_LOG="ERROR")
            found[PEER].token = f"sk-{TOKEN}"
        yield upstream, found


def _litellm() -> list[str]:
    """How the proxy is started; it is installed at the first use."""
    ready = LITELLM / "ready"
    if not ready.exists() or ready.read_text(encoding="utf-8") != LITELLM_VERSION:
        shutil.rmtree(LITELLM, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(LITELLM)], check=True, timeout=_INSTALL)
        pip = [str(LITELLM / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, LITELLM_VERSION], check=True, timeout=_INSTALL)
        ready.write_text(LITELLM_VERSION, encoding="utf-8")
    return [str(LITELLM / "bin" / "python"), str(LITELLM / "bin" / "litellm")]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    until = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{process.args} does not start.") from None
            time.sleep(0.05)
        else:
            return


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
