"""Groups of an app's parts, passed to the tools, the MCP client and the MCP server."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.app.agents import PlanAcceptance
from vibe_jupyter.app.instructions import Instructions
from vibe_jupyter.app.project import CurrentSettings, KernelSettings
from vibe_jupyter.app.prompt_report import PromptReport
from vibe_jupyter.app.run_rules import RunRules
from vibe_jupyter.app.run_view import RunView
from vibe_jupyter.app.sessions import KernelSessions
from vibe_jupyter.app.shell_host import Kernel
from vibe_jupyter.app.undo import KernelUndo
from vibe_jupyter.options import Options
from vibe_jupyter.permissions.decide import Permissions
from vibe_jupyter.permissions.grants import Grants
from vibe_jupyter.session.conversation import Conversation

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess


class ToolParts(NamedTuple):
    """Dependencies of the built-in tools."""

    kernel: Kernel
    sees_images: Callable[[], bool]  # returns whether the current model accepts images
    sessions: KernelSessions  # the open session stores files and background commands
    plan: PlanAcceptance
    undo: KernelUndo


class ServingParts(NamedTuple):
    """Dependencies of the MCP server."""

    kernel: Kernel
    notebook: "NotebookAccess"
    permissions: Permissions
    setup: KernelSettings


class ContextParts(NamedTuple):
    """Dependencies of the commands that measure and shorten the conversation."""

    kernel: Kernel
    run_view: RunView
    report: PromptReport
    instructions: Instructions
    rules: RunRules
    permissions: Permissions
    setup: KernelSettings
    conversation: Callable[[], Conversation | None]  # returns the current conversation, or None before the first prompt
    build_agent: Callable[[Options, CurrentSettings], Agent]  # builds an agent without instructions


class McpParts(NamedTuple):
    """Dependencies of the MCP client."""

    kernel: Kernel
    run_view: RunView
    grants: Grants
    sees_images: Callable[[], bool]
    taken: Callable[[], frozenset[str]]  # names of tools that take precedence over MCP tools


def serving_parts(kernel: Kernel, permissions: Permissions, setup: KernelSettings) -> ServingParts | None:
    """Return the dependencies of the MCP server, or None in a terminal."""
    return None if kernel.notebook is None else ServingParts(kernel, kernel.notebook, permissions, setup)
