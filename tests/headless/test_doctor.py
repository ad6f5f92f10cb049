"""`vibe-jupyter doctor` says what is wrong and what to do."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.headless.test_run import echo_kernel
from tests.kernel.fork_server import program_command
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.version import __version__

ROOT = Path(__file__).parents[2]

WAIT = patient(90.0)
"""Seconds, most of them for a kernel to start."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {
        name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR", "VIBE_HOME")
    }


def doctor(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [*program_command(), "doctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)


def kernel(environment: dict[str, str], name: str, *command: str, **variables: str) -> None:
    """A kernel that is installed for this test."""
    folder = Path(environment["JUPYTER_DATA_DIR"], "kernels", name)
    folder.mkdir(parents=True)
    spec = {"argv": command, "display_name": name, "language": "python", "env": variables}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def test_where_nothing_is_wrong_it_says_so(environment: dict[str, str]) -> None:
    done = doctor(environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing is wrong." in done.stdout
    assert "clicks can be taken while a cell runs" in done.stdout
    assert "bash is not offered" not in done.stdout
    assert re.search(r"Landlock|code asks before it runs: there is no sandbox", done.stdout)


SETTINGS = """
active_model = "own"

[[models]]
name = "own"
provider = "here"

[[providers]]
name = "here"
api_base = "http://127.0.0.1:9/v1"

[[mcp_servers]]
name = "notes"
transport = "stdio"
command = "no-such-program --fast"

[[mcp_servers]]
name = "tickets"
transport = "http"
url = "http://127.0.0.1:9/mcp"
"""


@pytest.mark.requirement("programmatic.cli.doctor")
def test_versions_extensions_and_servers_are_listed_with_what_is_wrong(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(SETTINGS, encoding="utf-8")
    done = doctor({**environment, "VIBE_HOME": str(tmp_path)})
    assert done.returncode == 1
    for said in (
        f"  ok  vibe-jupyter {__version__}",
        "  ok  extension vibe-jupyter ",
        "  ok  ipykernel ",
        "  ok  model own at 127.0.0.1:9",
        "  ok  MCP server tickets at http://127.0.0.1:9/mcp",
        "  !!  MCP server notes: there is no program 'no-such-program'.",
        "1 problem found.",
    ):
        assert said in done.stdout
    (tmp_path / "config.toml").write_text("max_turns = 'many'", encoding="utf-8")
    wrong = doctor({**environment, "VIBE_HOME": str(tmp_path)})
    assert wrong.returncode == 1
    assert "max_turns" in wrong.stdout


def test_a_disabled_extension_is_found(environment: dict[str, str]) -> None:
    config = Path(environment["JUPYTER_CONFIG_DIR"], "labconfig", "page_config.json")
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"disabledExtensions": {"vibe-jupyter:bridge": True}}), encoding="utf-8")
    done = doctor(environment)
    assert done.returncode == 1
    assert "jupyter labextension enable vibe-jupyter" in done.stdout


def test_an_older_package_where_the_kernel_runs_is_found(environment: dict[str, str], tmp_path: Path) -> None:
    about = tmp_path / "old" / "vibe_jupyter-0.0.9.dist-info" / "METADATA"
    about.parent.mkdir(parents=True)
    about.write_text("Metadata-Version: 2.1\nName: vibe-jupyter\nVersion: 0.0.9\n", encoding="utf-8")
    start = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
    kernel(environment, "old", *start, PYTHONPATH=str(tmp_path / "old"))
    done = doctor(environment, "--kernel", "old")
    assert done.returncode == 1
    assert "vibe-jupyter is 0.0.9 there" in done.stdout
    assert f"-m pip install {ROOT}" in done.stdout  # where this build came from


@pytest.mark.requirement("tools.bash.platform.windows")
def test_a_kernel_on_windows_is_told_that_bash_is_not_offered_there(environment: dict[str, str]) -> None:
    startup = Path(environment["IPYTHONDIR"], "profile_default", "startup", "00.py")
    startup.parent.mkdir(parents=True)
    imported_before = "psutil, vibe_jupyter.kernel.pump, vibe_jupyter.tools.bash"  # they look at the system they are on
    startup.write_text(f"import sys, {imported_before}; sys.platform = 'win32'", encoding="utf-8")
    done = doctor(environment)
    assert "bash is not offered on Windows" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["broken", "none"])
def test_a_kernel_that_does_not_start_is_said(environment: dict[str, str], name: str) -> None:
    kernel(environment, "broken", sys.executable, "-c", "pass", "{connection_file}")
    done = doctor(environment, "--kernel", name)
    assert done.returncode == 1
    assert "Without a kernel nothing runs." in done.stdout
    assert "Traceback" not in done.stderr


def test_a_kernel_of_another_language_is_said_to_be_none_of_python(environment: dict[str, str], tmp_path: Path) -> None:
    done = doctor(environment | echo_kernel(tmp_path / "echo"), "--kernel", "echo")
    assert "!!  The kernel did not answer as Python does. Is it a Python kernel?" in done.stdout
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("text", ["{", further("[]")])
def test_a_page_configuration_that_is_broken_is_named(environment: dict[str, str], text: str) -> None:
    path = Path(environment["JUPYTER_CONFIG_DIR"], "labconfig", "page_config.json")
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    done = doctor(environment)
    assert str(path) in done.stdout
    assert "      Correct the file, or remove it." in done.stdout
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
