"""Groups of an app's parts, passed to the tools, the MCP client and the MCP server."""

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
    """Dependencies of the built-in tools."""

    shell: InteractiveShell
    pump: Pump | None
    main_thread: MainThread
    host: ShellHost
    workspace: Workspace
    notebook: "NotebookAccess | None"
    folder: Path  # the kernel's working folder at start
    home: Path  # the user's vibe folder
    sees_images: Callable[[], bool]  # returns whether the current model accepts images
    sessions: KernelSessions  # the open session stores files and background commands
    plan: PlanAcceptance
    undo: KernelUndo


class ServingParts(NamedTuple):
    """Dependencies of the MCP server."""

    shell: InteractiveShell
    pump: Pump
    engine: Engine
    main_thread: MainThread
    host: ShellHost
    notebook: "NotebookAccess"
    permissions: Permissions
    setup: KernelSettings


class ContextParts(NamedTuple):
    """Dependencies of the commands that measure and shorten the conversation."""

    engine: Engine
    run_view: RunView
    main_thread: MainThread
    report: PromptReport
    instructions: Instructions
    rules: RunRules
    permissions: Permissions
    setup: KernelSettings
    conversation: Callable[[], Conversation | None]  # returns the current conversation, or None before the first prompt
    build_agent: Callable[[Options, CurrentSettings], Agent]  # builds an agent without instructions


class McpParts(NamedTuple):
    """Dependencies of the MCP client."""

    engine: Engine
    run_view: RunView
    host: ShellHost
    grants: Grants
    sees_images: Callable[[], bool]
    taken: Callable[[], frozenset[str]]  # names of tools that take precedence over MCP tools


def serving_parts(
    parts: ToolParts, engine: Engine, permissions: Permissions, setup: KernelSettings
) -> ServingParts | None:
    """Return the dependencies of the MCP server, or None in a terminal."""
    if parts.pump is None or parts.notebook is None:
        return None
    around = (parts.shell, parts.pump, engine, parts.main_thread, parts.host, parts.notebook)
    return ServingParts(*around, permissions, setup)
