"""The app without a kernel, as used by `ask`, `setup`, `trust` and `mcp`."""

import argparse
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app import App
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.kernel.interrupts import Presses

if TYPE_CHECKING:
    from vibe_jupyter.ui.front_end import FrontEnd


class _PlainShell(InteractiveShell):
    """Shell without history, because the agent's code isn't what the user typed."""

    def init_history(self) -> None:
        self.history_manager = HistoryManager(shell=self, parent=self, enabled=False)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, metavar="DIR", help="work there (default: the working folder)")


def enter_folder(folder: Path | None) -> None:
    """Change the working folder, which determines settings, trust, project and conversations.

    Args:
        folder: Folder from the command line, or None to stay in the current one.

    Raises:
        ConfigError: The folder can't be entered.
    """
    if folder is None:
        return
    if home := os.environ.get("VIBE_HOME"):  # a relative path refers to the folder that the program was started in
        os.environ["VIBE_HOME"] = os.path.abspath(os.path.expanduser(home))
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigError(f"Cannot enter the folder {folder}: {error.strerror}. Name one that is there.") from None


def is_terminal() -> bool:
    """Return whether a user can read a question and type the answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def open_app(presses: Presses, *, front_end: "Callable[[], FrontEnd] | None" = None) -> Generator[App]:
    """Open the app of the working folder, and close it at the end.

    Args:
        presses: Counts interrupts.
        front_end: Creates the front end for a program; None if a user is at the terminal.
    """
    app = App(_PlainShell.instance(colors="nocolor"), None, presses, front_end=front_end)
    try:
        yield app
    finally:
        app.close()
