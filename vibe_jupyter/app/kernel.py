"""The kernel that an app runs in, with what gives access to it."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess


class Kernel(NamedTuple):
    """One kernel, or IPython in a terminal, which has neither pump nor notebook."""

    shell: InteractiveShell
    pump: Pump | None
    presses: Presses
    engine: Engine
    main_thread: MainThread
    host: ShellHost
    workspace: Workspace
    notebook: "NotebookAccess | None"
    folder: Path  # the working folder at start
    home: Path  # the user's vibe folder
