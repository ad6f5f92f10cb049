"""The parts of one kernel's app that its tools and MCP, in both directions, are built from."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.agents import PlanAcceptance
from vibe_jupyter.app.instructions import Instructions
from vibe_jupyter.app.project import CurrentSettings, KernelSettings
from vibe_jupyter.app.prompt_report import PromptReport
from vibe_jupyter.app.run_rules import RunRules
from vibe_jupyter.app.run_view import RunView
from vibe_jupyter.app.sessions import KernelSessions
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.app.undo import KernelUndo
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.pump import Pump
from vibe_jupyter.options import Options
from vibe_jupyter.permissions.decide import Permissions
from vibe_jupyter.permissions.grants import Grants
from vibe_jupyter.session.conversation import Conversation

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess


class ToolParts(NamedTuple):
    """What the built-in tools use of it."""

    shell: InteractiveShell
    pump: Pump | None
    main_thread: MainThread
    host: ShellHost
    workspace: Workspace
    notebook: "NotebookAccess | None"
    folder: Path
    """The kernel's, as it was found."""
    home: Path
    """The user's own."""
    sees_images: Callable[[], bool]
    """Whether images go to the model that answers now."""
    sessions: KernelSessions
    """The one that is open keeps files, and commands that go on in the background."""
    plan: PlanAcceptance
    undo: KernelUndo


class ServingParts(NamedTuple):
    """What serving needs of the kernel's app."""

    shell: InteractiveShell
    pump: Pump
    engine: Engine
    main_thread: MainThread
    host: ShellHost
    notebook: "NotebookAccess"
    permissions: Permissions
    setup: KernelSettings


class ContextParts(NamedTuple):
    """What measures the conversation and makes it shorter."""

    engine: Engine
    run_view: RunView
    main_thread: MainThread
    report: PromptReport
    instructions: Instructions
    rules: RunRules
    permissions: Permissions
    setup: KernelSettings
    conversation: Callable[[], Conversation | None]
    """The present one; None before the first prompt."""
    build_agent: Callable[[Options, CurrentSettings], Agent]
    """Without its instructions."""


class McpParts(NamedTuple):
    """The parts of the kernel's app that the servers use."""

    engine: Engine
    run_view: RunView
    host: ShellHost
    grants: Grants
    sees_images: Callable[[], bool]
    taken: Callable[[], frozenset[str]]
    """Names of tools that always win."""


def serving_parts(
    parts: ToolParts, engine: Engine, permissions: Permissions, setup: KernelSettings
) -> ServingParts | None:
    """What serving external clients needs; None in a terminal."""
    if parts.pump is None or parts.notebook is None:
        return None
    around = (parts.shell, parts.pump, engine, parts.main_thread, parts.host, parts.notebook)
    return ServingParts(*around, permissions, setup)
