"""A real JupyterLab on loopback, with folders of its own."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.fork_server import GLANCE, kernels_on_path
from tests.patience import patient

REPOSITORY = Path(__file__).parents[2]
START_WAIT = patient(60.0)
"""Seconds until the server must answer."""
STOP_WAIT = patient(15.0)
"""Seconds given to the server to end its kernels."""
KERNEL = {
    "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3",
    "language": "python",
}
NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}


@dataclass(frozen=True)
class LabServer:
    """Where it answers, and the folder whose notebooks it shows."""

    url: str
    folder: Path

    def get(self, path: str) -> object:
        """The JSON it answers."""
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=10) as response:
            return json.load(response)

    def end_kernels(self) -> None:
        """Shut every kernel down."""
        kernels = self.get("api/kernels")
        assert isinstance(kernels, list)
        for kernel in kernels:
            request = urllib.request.Request(f"{self.url}/api/kernels/{kernel['id']}", method="DELETE")
            with contextlib.suppress(urllib.error.HTTPError):  # gone by itself
                urllib.request.urlopen(request, timeout=STOP_WAIT).close()


@contextlib.contextmanager
def lab_server(
    home: Path, *, disabled: tuple[str, ...] = (), python: str = sys.executable, is_installed: bool = False
) -> Iterator[LabServer]:
    """Run JupyterLab until the block ends; `disabled` names labextensions its pages do not load.

    The kernel is of this environment, also where `python` runs JupyterLab from another one; unless the package
    `is_installed` there, and nothing of this checkout may be found.
    """
    folder = home / "notebooks"
    folder.mkdir(parents=True)
    environment = {**os.environ, **_folders(home), "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"}
    if is_installed:
        del environment["PYTHONPATH"]
    elif python == sys.executable:
        environment |= {"JUPYTER_PATH": kernels_on_path(home / "jupyter_path"), GLANCE: str(START_WAIT)}
    else:
        environment["JUPYTER_PREFER_ENV_PATH"] = "0"
        _write(home / "jupyter_data_dir/kernels/python3/kernel.json", KERNEL)
    _write(home / "settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings", NO_NEWS)
    page = {"disabledExtensions": dict.fromkeys(disabled, True)}
    _write(home / "jupyter_config_dir/labconfig/page_config.json", page)
    port = _free_port()
    log = (home / "server.log").open("wb")
    process = subprocess.Popen(
        _command(python, port, folder), cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT
    )
    server = LabServer(f"http://127.0.0.1:{port}", folder)
    try:
        _wait_for(server, process, home / "server.log")
        yield server
        server.end_kernels()
    finally:
        process.terminate()
        try:
            process.wait(STOP_WAIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_WAIT)
        log.close()


def _command(python: str, port: int, folder: Path) -> list[str]:
    return [
        python,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}",
        "--IdentityProvider.token=",
        "--ServerApp.disable_check_xsrf=True",
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]


def _folders(home: Path) -> dict[str, str]:
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "VIBE_HOME")
    folders = {name: home / name.lower() for name in names}
    folders |= {"JUPYTERLAB_SETTINGS_DIR": home / "settings", "JUPYTERLAB_WORKSPACES_DIR": home / "workspaces"}
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    return {name: str(path) for name, path in folders.items()}


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(server: LabServer, process: "subprocess.Popen[bytes]", log: Path) -> None:
    pause = threading.Event()
    for _ in range(int(START_WAIT / 0.2)):
        with contextlib.suppress(OSError):
            server.get("api/status")
            return
        if process.poll() is not None:
            break
        pause.wait(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")
