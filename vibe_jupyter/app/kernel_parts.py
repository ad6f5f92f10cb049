"""The parts of one kernel's app that MCP, in both directions, is built from."""

from collections.abc import Callable
from dataclasses import dataclass

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.built_in_tools import NotebookAccess
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.run_view import RunView
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.permissions.decide import Permissions
from vibe_jupyter.permissions.grants import Grants


@dataclass(frozen=True)
class ServingParts:
    """What serving needs of the kernel's app."""

    shell: InteractiveShell
    pump: Pump
    engine: Engine
    main_thread: MainThread
    host: ShellHost
    notebook: NotebookAccess
    permissions: Permissions
    setup: KernelSettings


@dataclass(frozen=True)
class McpParts:
    """The parts of the kernel's app that the servers use."""

    engine: Engine
    run_view: RunView
    host: ShellHost
    grants: Grants
    sees_images: Callable[[], bool]
    taken: Callable[[], frozenset[str]]
    """Names of tools that always win."""
