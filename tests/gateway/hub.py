"""A real JupyterHub with its proxy, from PyPI and npm, in a folder of their own under .matrix/.

PYTHONPATH=. python tests/gateway/hub.py    install them; afterwards the tests need no network
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.gateway.conftest import PATIENCE, until
from tests.mcp.real_servers import is_ready, node, say_ready
from tests.patience import patient

FOLDER = Path(__file__).resolve().parents[2] / ".matrix" / "jupyterhub"
FROM_PYPI = ("jupyterhub==6.1.1",)
FROM_NPM = ("configurable-http-proxy@5.3.0",)
HUB_TOKEN = "ab" * 16
"""Token of the Hub's own API."""
_INSTALL = 600  # seconds
START = patient(120.0)
"""Seconds for the Hub to start, and for its services, on a machine that is busy."""
_END = 60.0  # seconds for all processes
_SETTINGS = """
import os

c = get_config()
{services}
c.JupyterHub.bind_url = "http://127.0.0.1:{port}{base}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
c.ConfigurableHTTPProxy.command = {proxy!r}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.services.append({{"name": "reader", "api_token": "{key}"}})
c.JupyterHub.load_roles = [{{"name": "reader", "scopes": ["read:services"], "services": ["reader"]}}]
"""


class Hub:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        """Of its proxy, with the Hub's path."""

    def api(self, path: str) -> httpx.Response:
        """What its own API says."""
        return httpx.get(f"{self.url}/hub/api{path}", headers={"authorization": f"token {HUB_TOKEN}"}, timeout=PATIENCE)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def jupyterhub(folder: Path, services: str, *, port: int, base: str = "") -> Generator[Hub]:
    """A Hub with these lines in its `jupyterhub_config.py`, whose services it has started."""
    program = [install(), "-m", "jupyterhub"]
    proxy = [node(), str(FOLDER / "node_modules" / "configurable-http-proxy" / "bin" / "configurable-http-proxy")]
    ports = {"port": port, "hub_port": free_port(), "proxy_port": free_port()}
    said = _SETTINGS.format(services=services, base=base, proxy=proxy, key=HUB_TOKEN, **ports)
    (folder / "jupyterhub_config.py").write_text(said, encoding="utf-8")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    with (folder / "hub.log").open("wb") as log:
        process = subprocess.Popen(
            program, cwd=folder, env={**os.environ, "PATH": path}, stdout=log, stderr=log, start_new_session=True
        )
    hub = Hub(f"http://127.0.0.1:{port}{base}")
    try:
        until(lambda: process.poll() is not None or _answers(hub), within=START)
        assert process.poll() is None, (folder / "hub.log").read_text("utf-8")
        yield hub
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_END)


def _answers(hub: Hub) -> bool:
    try:
        return hub.api("/").status_code == 200
    except httpx.TransportError:
        return False


def install() -> str:
    """The Python that has JupyterHub, installed with its proxy at the first use."""
    packages = (*FROM_PYPI, *FROM_NPM)
    if not is_ready(FOLDER, packages):
        shutil.rmtree(FOLDER, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True, timeout=_INSTALL)
        pip = [str(FOLDER / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *FROM_PYPI], check=True, timeout=_INSTALL)
        npm = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(FOLDER)]
        subprocess.run([*npm, *FROM_NPM], check=True, timeout=_INSTALL)
        say_ready(FOLDER, packages)
    return str(FOLDER / "bin" / "python")


if __name__ == "__main__":
    print(f"JupyterHub: {install()}")
