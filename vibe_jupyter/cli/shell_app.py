"""The app of a shell: what `ask`, `setup`, `trust` and `mcp` have of a kernel's app without a kernel."""

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
    """Keeps no history: the agent's code is not what the user typed."""

    def init_history(self) -> None:
        self.history_manager = HistoryManager(shell=self, parent=self, enabled=False)


def add_folder_option(parser: argparse.ArgumentParser) -> None:
    """Take ``--folder``."""
    parser.add_argument("--folder", type=Path, metavar="DIR", help="work there (default: the working folder)")


def enter_folder(folder: Path | None) -> None:
    """Make it the working folder, with all that follows from it: settings, trust, project and conversations.

    Args:
        folder: as the command line names it; None for the working folder as it is.

    Raises:
        ConfigError: it cannot be entered.
    """
    if folder is None:
        return
    if home := os.environ.get("VIBE_HOME"):  # it was said from where the program was started
        os.environ["VIBE_HOME"] = os.path.abspath(os.path.expanduser(home))
    try:
        os.chdir(folder)
    except OSError as error:
        raise ConfigError(f"Cannot enter the folder {folder}: {error.strerror}. Name one that is there.") from None


def is_terminal() -> bool:
    """True if somebody can read a question and type the answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def open_app(presses: Presses, *, front_end: "Callable[[], FrontEnd] | None" = None) -> Generator[App]:
    """The app of the working folder, closed at the end.

    Args:
        presses: counts Ctrl-C.
        front_end: shows runs to a program; None where a user is at the terminal.
    """
    app = App(_PlainShell.instance(colors="nocolor"), None, presses, front_end=front_end)
    try:
        yield app
    finally:
        app.close()
