"""`vibe-jupyter doctor`: check what the page and the kernel need, and say how to fix what is missing.

JupyterLab and the kernel may be installed in different environments: the page's part is checked in this one, the rest
by code executed in the kernel.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

from jupyter_core.paths import jupyter_config_path, jupyter_path

from vibe_jupyter import config
from vibe_jupyter.config.mcp_servers import AnyMcpServer, McpHttp, McpOther
from vibe_jupyter.errors import ConfigError, VibeError
from vibe_jupyter.headless import NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.notebook_run import KernelProcess
from vibe_jupyter.installation import pip_install
from vibe_jupyter.tools.process_marks import processes_left_behind
from vibe_jupyter.version import __version__

OURS: Final = "vibe-jupyter"
OLDEST_IPYKERNEL: Final = (6, 29)
PROBE_WAIT: Final = 30.0  # seconds the kernel has to respond
HERE: Final = ("jupyterlab", "notebook", "anywidget")
# Labextensions, and the consequence if one is missing.
PAGE: Final = {
    OURS: "the agent cannot see or change the open notebook",
    "anywidget": "the live view and its buttons do not show; questions are asked as text",
    "@jupyter-widgets/jupyterlab-manager": "no widget shows; questions are asked as text",
}
# Packages to install whose names differ from the extension's.
COMES_WITH: Final = {"@jupyter-widgets/jupyterlab-manager": "jupyterlab_widgets"}

PROBE: Final = """
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
said = {"python": sys.executable, "pump": None}
said.update({name: version(name) for name in ("vibe-jupyter", "anywidget", "ipykernel")})
try:
    from vibe_jupyter.kernel.pump import Pump
    Pump(get_ipython())
except Exception as error:
    said["pump"] = str(error)
try:
    from vibe_jupyter.tools.shell_path import why_no_shell
    said["shell"] = why_no_shell()
except ImportError:
    said["shell"] = ""
try:
    from vibe_jupyter.sandbox.availability import describe_machine
    said["sandbox"] = describe_machine()
except ImportError:
    said["sandbox"] = None
try:
    from vibe_jupyter.commands.autoload import startup_file
    said["autoload"] = str(startup_file(get_ipython())) if startup_file(get_ipython()).is_file() else ""
except ImportError:
    said["autoload"] = ""
print(json.dumps(said))
"""


@dataclass
class _Report:
    """Lines of the report, with a remedy below each problem."""

    problems: int = 0
    lines: list[str] = field(default_factory=list[str])

    def good(self, text: str) -> None:
        self.lines.append(f"  ok  {text}")

    def bad(self, text: str, remedy: str) -> None:
        self.problems += 1
        self.lines += [f"  !!  {text}", f"      {remedy}"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter doctor`."""
    parser.add_argument("--kernel", default="python3", metavar="NAME", help="kernel to look at (default: python3)")
    parser.set_defaults(command=_report_chosen)


def _report_chosen(chosen: argparse.Namespace) -> int:
    return print_report(chosen.kernel)


def print_report(kernel: str) -> int:
    """Print the report. Returns 0 if there are no problems, else 1."""
    report = _Report()
    report.lines.append(f"Here, where JupyterLab would run: {sys.executable}")
    _look_here(report)
    _look_at_the_page(report)
    _look_at_the_settings(report)
    report.lines.append(f"The kernel {kernel!r}:")
    try:
        said = _ask_kernel(kernel)
    except (VibeError, OSError) as error:
        report.bad(str(error), "Without a kernel nothing runs.")
    else:
        _look_at_the_kernel(report, said)
    _look_at_processes(report)
    count = report.problems
    report.lines.append("Nothing is wrong." if not count else f"{count} problem{'s' if count > 1 else ''} found.")
    print("\n".join(report.lines))
    return 1 if count else 0


def _look_at_processes(report: _Report) -> None:
    """List child processes of kernels that were killed along with their supervisors, and how to kill them."""
    if left := [one for one in processes_left_behind() if one.is_of_user]:
        names = ", ".join(f"{one.name} ({one.pid})" for one in left)
        report.lines.append(f"  --  Still running, though the kernel that started them has ended: {names}")
        report.lines.append(f"      To end them: kill -9 {' '.join(str(one.pid) for one in left)}")


def _look_here(report: _Report) -> None:
    report.good(f"{OURS} {__version__}")
    for name in HERE:
        try:
            report.good(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            report.lines.append(f"  --  {name} is not installed here")


def _look_at_the_page(report: _Report) -> None:
    try:
        disabled = _disabled_extensions()
        versions = {name: _labextension_version(name) for name in PAGE}
    except ConfigError as error:
        report.bad(str(error), "Correct the file, or remove it.")
        return
    for name, loss in PAGE.items():
        found = versions[name]
        if found is None:
            report.bad(
                f"The extension {name} is missing here: {loss}.",
                f"{_install_command(name)}, then reload the page.",
            )
        elif any(one == name or one.startswith(f"{name}:") for one in disabled):
            report.bad(f"The extension {name} is disabled: {loss}.", f"jupyter labextension enable {name}")
        elif name == OURS and _minor_version(found) != _minor_version(__version__):
            report.bad(
                f"The extension {name} is {found}, the package {__version__}.",
                f"{pip_install(_pip_of(sys.executable), '--force-reinstall')}, then reload the page.",
            )
        else:
            report.good(f"extension {name} {found}")


def _install_command(extension: str) -> str:
    if extension == OURS:
        return pip_install(_pip_of(sys.executable))
    return f"{_pip_of(sys.executable)} install {COMES_WITH.get(extension, extension)}"


def _pip_of(python: str) -> str:
    return f"{python} -m pip"


def _look_at_the_settings(report: _Report) -> None:
    report.lines.append(f"The settings, in {config.vibe_home(os.environ)}:")
    try:
        reading = config.read_settings(os.environ)
    except ConfigError as error:
        report.bad(str(error), "Correct it, then run this again.")
        return
    report.lines += [f"  --  {warning}" for warning in reading.warnings]
    settings = reading.settings
    try:
        model = config.choose_model(settings, settings.active_model or config.DEFAULT_ACTIVE_MODEL, os.environ)
        report.good(f"model {model.alias} at {model.server.host}")
    except ConfigError as error:
        if settings.active_model:
            report.bad(str(error), "vibe-jupyter setup chooses another model and stores its key.")
        else:
            report.lines.append("  --  no model is configured yet; vibe-jupyter setup asks for one")
    for server in settings.mcp_servers:
        _look_at_server(report, server)


def _look_at_server(report: _Report, server: AnyMcpServer) -> None:
    """Check an MCP server's settings without starting or connecting to it."""
    if server.disabled:
        report.lines.append(f"  --  MCP server {server.name} is disabled")
    elif isinstance(server, McpOther):
        report.bad(f"MCP server {server.name}: there is no transport {server.transport!r}.", "Use stdio or http.")
    elif isinstance(server, McpHttp):
        report.good(f"MCP server {server.name} at {server.url}")
    elif shutil.which(server.argv[0]) is None:
        program = server.argv[0]
        report.bad(f"MCP server {server.name}: there is no program {program!r}.", "Install it, or write its path.")
    else:
        report.good(f"MCP server {server.name}: {server.argv[0]}")


def _look_at_the_kernel(report: _Report, said: dict[str, Any]) -> None:
    python = said["python"]
    report.lines.append(f"  ..  {python}")
    ours = said[OURS]
    if ours is None:
        report.bad(f"{OURS} is not installed there.", pip_install(_pip_of(python)))
        return
    if _minor_version(ours) != _minor_version(__version__):
        is_older = _minor_version(ours) < _minor_version(__version__)
        cure = pip_install(_pip_of(python)) if is_older else f"Install {OURS} {ours} for {sys.executable}."
        report.bad(f"{OURS} is {ours} there and {__version__} here.", cure)
    else:
        report.good(f"{OURS} {ours}")
    if _minor_version(said["ipykernel"] or "0") < OLDEST_IPYKERNEL:
        report.bad(f"ipykernel {said['ipykernel']} is too old.", f"{python} -m pip install -U ipykernel")
    else:
        report.good(f"ipykernel {said['ipykernel']}")
    if said["anywidget"] is None:
        report.bad("anywidget is not installed there: no live view.", f"{python} -m pip install anywidget")
    else:
        report.good(f"anywidget {said['anywidget']}")
    if said["pump"] is not None:
        report.bad(said["pump"], "Until then questions are asked as text.")
    else:
        report.good("clicks can be taken while a cell runs")
    if said["autoload"]:
        report.good(f"%vibe is loaded with every kernel, by {said['autoload']}")
    else:
        report.lines.append("  --  %load_ext vibe_jupyter is needed after each start; %vibe autoload on changes that")
    if said["shell"]:
        report.lines.append(f"  --  {said['shell']}")
    if said["sandbox"] is not None:
        _look_at_the_sandbox(report, said["sandbox"])


def _look_at_the_sandbox(report: _Report, offers: dict[str, Any]) -> None:
    """Report what the kernel's machine supports for code that runs without approval."""
    if offers["refusal"]:
        report.lines.append(f"  --  code asks before it runs: {offers['refusal']}")
    else:
        report.good(f"code that only looks runs in a copy of the kernel, of {_megabytes(offers['memory'])} at most")
        if offers["overlay_refusal"]:
            report.lines.append(f"  --  a trial run ends at the first file it would write: {offers['overlay_refusal']}")
        else:
            report.good("a trial run writes to files of its own, so that a card can say what code would write")
    headroom = offers["cgroup_headroom"]
    words = (
        f"Landlock {offers['landlock']}" if offers["landlock"] else "no Landlock",
        "seccomp" if offers["seccomp"] else "no seccomp",
        "user namespaces" if offers["user_namespaces"] else "no user namespaces",
    )
    room = "no bound on memory" if headroom is None else f"{_megabytes(headroom)} left of the cgroup's memory"
    report.lines.append(f"      {', '.join((*words, room))}")


def _megabytes(size: int) -> str:
    return f"{size >> 20:,} MB"


def _ask_kernel(name: str) -> dict[str, Any]:
    document = HeadlessDocument({"cells": []})
    cell = document.append("code", PROBE)
    # Run in an empty folder: in the working folder, a file `vibe_jupyter.py` would shadow our package.
    with tempfile.TemporaryDirectory(prefix="vibe-doctor-", ignore_cleanup_errors=True) as folder:
        kernel = KernelProcess(name, Path(folder, "doctor.ipynb"))
        try:
            outcome = NotebookRun(document, kernel, path="", say=str).run_cell(cell, timeout=PROBE_WAIT)
        finally:
            kernel.close()
    if outcome.status != "ok":
        raise VibeError(f"The kernel did not answer: {outcome.error} Is it a Python kernel?")
    printed = "".join(output.get("text", "") for output in document.cell(cell)["outputs"])
    try:
        return json.loads(printed.splitlines()[-1])
    except (IndexError, ValueError) as error:
        raise VibeError("The kernel did not answer as Python does. Is it a Python kernel?") from error


def _labextension_version(name: str) -> str | None:
    """Return the version of the extension that JupyterLab would load, or None without one."""
    for folder in jupyter_path("labextensions"):
        about = Path(folder, name, "package.json")
        if about.is_file():
            return str(_read_object(about).get("version", ""))
    return None


def _disabled_extensions() -> set[str]:
    """Return the extensions and plugins that a page_config.json disables."""
    names: dict[str, bool] = {}
    # Reversed, because the first folder takes precedence.
    for folder in reversed(jupyter_config_path()):
        config = Path(folder, "labconfig", "page_config.json")
        if config.is_file():
            said = _read_object(config).get("disabledExtensions", {})
            names |= cast("dict[str, bool]", said if isinstance(said, dict) else dict.fromkeys(said, True))
    return {name for name, off in names.items() if off}


def _read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ConfigError: The file can't be read, or holds something else.
    """
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"Cannot read {path}: {error}.") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path} holds no JSON object.")
    return cast("dict[str, Any]", found)


def _minor_version(version: str) -> tuple[int, int]:
    first, _, rest = version.partition(".")
    second = rest.partition(".")[0]
    return int(first) if first.isdecimal() else 0, int(second) if second.isdecimal() else 0
