"""`%vibe mcp serve`: serve the notebook's tools to external MCP clients."""

import atexit
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibe_jupyter.app.kernel_parts import ServingParts
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.serving_session import ServingSession


_NO_KERNEL: Final = "Only a notebook can be served: this kernel has no page that could show an approval request."
_NOBODY: Final = "No one can allow a call here: this notebook runs unattended. Nothing is served."
_USAGE: Final = "%vibe mcp serve begins, with --url it shows address and token too, and %vibe mcp serve stop ends it."
_NO_CARDS: Final = (
    "No widgets can be shown here, so nobody can be asked: a call runs only if your settings allow it in advance."
)
_STOPPED: Final = "External clients can no longer use this notebook's tools."
_NONE: Final = "This notebook is not served."
# Variables that determine Jupyter's runtime folder; most clients don't pass them to the MCP servers they start.
_RUNTIME_DIR_FROM: Final = ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_PLATFORM_DIRS", "XDG_DATA_HOME")
_HOW: Final = """\
MCP clients on this machine can now use this notebook's tools, until `%vibe mcp serve stop`, Stop below, or the end of
the kernel. What changes or runs something asks here first. In the client's list of MCP servers, such as .mcp.json:
"""
_HOW_BY_URL: Final = """
or by address. Anyone who has the token can make calls; it is in this output now, and stops working when serving ends:
"""


class NotebookServing:
    """Serving of one notebook, one session at a time. Main thread only, except for `page_loaded`."""

    def __init__(self, parts: ServingParts | None) -> None:
        self._parts = parts  # None without a kernel that has a page
        self._session: ServingSession | None = None
        self._process = os.getpid()

    def command(self, words: list[str]) -> str:
        """Run `%vibe mcp serve …`. Returns the message to print.

        Raises:
            ConfigError: Unknown arguments, or an invalid setting.
            NotebookError: The notebook can't be served.
            JournalError: The calls can't be recorded.
        """
        match words:
            case []:
                return self._serve_notebook()
            case ["--url"]:
                return self._serve_notebook(with_url=True)
            case ["stop"]:
                return self.stop()
            case _:
                raise ConfigError(f"There is no %vibe mcp serve {' '.join(words)}. {_USAGE}")

    def stop(self) -> str:
        """Stop serving. Returns the message to print."""
        session, self._session = self._session, None
        atexit.unregister(self._at_exit)
        if session is None or session.is_over:
            return _NONE
        session.end()
        return _STOPPED

    def page_loaded(self) -> None:
        """Show the view again after a page was reloaded. Thread-safe."""
        session = self._session
        if session is not None and not session.is_over:
            session.view.show_again()

    def _serve_notebook(self, *, with_url: bool = False) -> str:
        session = self._session
        if session is None or session.is_over:
            session = self._begin_session()
        else:
            session.move_here()  # running the cell again cleared its view, and approval cards with it
        words = [] if session.view.can_ask else [_NO_CARDS, ""]
        words += [_HOW, _servers_json({"command": _program_path(), "args": ["mcp"], **_environment()})]
        if with_url:
            headers = {"Authorization": f"Bearer {session.http.token}"}
            words += [_HOW_BY_URL, _servers_json({"type": "http", "url": session.http.url, "headers": headers})]
        return "\n".join(words)

    def _begin_session(self) -> "ServingSession":
        parts = self._parts
        if parts is None:
            raise NotebookError(_NO_KERNEL)
        if not parts.kernel.host.attended:
            raise NotebookError(_NOBODY)
        settings = parts.setup.without_profile()
        with without_working_folder():
            from vibe_jupyter.app.serving_session import ServingSession

            session = ServingSession(parts, settings)
            session.begin()
        self._session = session
        atexit.register(self._at_exit)
        return session

    def _at_exit(self) -> None:
        if self._session is not None and os.getpid() == self._process:
            self._session.at_exit()


def _servers_json(server: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {"vibe-jupyter": server}}, indent=2)


def _environment() -> dict[str, object]:
    """Return Jupyter's runtime folder as a client setting unless it is the default, which clients find anyway."""
    if not any(os.environ.get(name) for name in _RUNTIME_DIR_FROM):
        return {}
    with without_working_folder():
        from jupyter_core.paths import jupyter_runtime_dir

    return {"env": {"JUPYTER_RUNTIME_DIR": jupyter_runtime_dir()}}


def _program_path() -> str:
    """Return the program beside this Python interpreter, because the client's PATH may not contain it."""
    program = Path(sys.executable).with_name("vibe-jupyter")
    return str(program) if program.exists() else "vibe-jupyter"
