"""Agents (model, tools, permissions, instructions) and the hooks of a run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import resources
from typing import NamedTuple, Protocol

from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.compaction import DEFAULT_TERMS, CompactionTerms
from vibe_jupyter.agent.limits import Budget
from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.permissions.decide import Permissions
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import ImagePart, Level, TextPart
from vibe_jupyter.session.snapshots import RunSnapshots
from vibe_jupyter.tools.contract import Toolset

PromptParts = tuple[TextPart | ImagePart, ...]


class Agent(NamedTuple):
    """Configuration of an agent, shared by all turns of a run. Immutable: changed settings create a new one."""

    name: str  # name of the agent profile, such as ``default``
    model: Model
    client: LLMClient
    tools: Toolset
    permissions: Permissions
    middleware: Sequence[Middleware]  # called in this order
    instructions: str  # system prompt
    redactor: Redactor  # redacts secrets in everything that is recorded, shown or sent
    stream: bool = True
    compaction: CompactionTerms = DEFAULT_TERMS
    # Returns the sub-agent of a name, or raises `ToolError` with the available names; None if the agent can't delegate
    find_subagent: "Callable[[str], Awaitable[Subagent]] | None" = None
    # Saves what the run is about to change; None if the conversation isn't stored
    snapshots: RunSnapshots | None = None
    # Returns variables that the run's code may have changed and that undo would not restore, each only once; None if
    # variables aren't recorded for undo
    newly_lost: "Callable[[], Awaitable[Sequence[str]]] | None" = None
    schema_only: bool = False  # True if no values of the user's data may be sent


class Subagent(NamedTuple):
    """An agent that works for another one, with the restrictions of its run."""

    agent: Agent
    levels: Mapping[str, Level]  # permission levels of its tools, which can only restrict those of the calling run
    only_reads: bool = False  # see `RunTerms`


def system_prompt(name: str) -> str:
    """Return a prompt shipped with this package, from ``prompts/NAME.md``."""
    return resources.files("vibe_jupyter.agent").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()


class HookContext(NamedTuple):
    """Resources available to the hooks of a run between `begin` and `end`."""

    call_context: CallContext
    model: Model
    client: LLMClient
    budget: Budget


class PreparedPrompt(NamedTuple):
    """Changes that the hooks of a run make to its prompt."""

    before: PromptParts = ()  # placed before the user's text
    instead: PromptParts | None = None  # replaces the user's text; None to leave it unchanged


class RunHooks(Protocol):
    """Hooks of a single run. Engine loop only."""

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        """Prepare the run before anything is sent to the model. An interrupt cancels it.

        Slow operations announce themselves with a `Notice`.

        Raises:
            VibeError: the run ends with this message, and nothing is sent.
        """
        ...

    async def end(self) -> None:
        """Clean up before the run ends. Everything displayed in it must be final when this returns."""
        ...
