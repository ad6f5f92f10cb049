"""What an agent is (model, tools, rules, instructions), and what may go along with a run of it."""

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
    """Everything that is the same for all turns of a run. Frozen: a change of settings makes a new one."""

    name: str
    """Of its profile, such as ``default``."""
    model: Model
    client: LLMClient
    tools: Toolset
    permissions: Permissions
    middleware: Sequence[Middleware]
    """Asked in this order."""
    instructions: str
    """The system prompt."""
    redactor: Redactor
    """Strikes keys out of everything that is recorded, shown or sent."""
    stream: bool = True
    compaction: CompactionTerms = DEFAULT_TERMS
    find_subagent: "Callable[[str], Awaitable[Subagent]] | None" = None
    """The sub-agent of a name, or a `ToolError` that names those there are; None where none may work for it."""
    snapshots: RunSnapshots | None = None
    """Keeps what the run is about to change; None where nothing is kept of the conversation."""
    newly_lost: "Callable[[], Awaitable[Sequence[str]]] | None" = None
    """Variables that code of the run may have changed and that undo would not restore, each of them once; None where
    nothing is kept of them."""
    schema_only: bool = False
    """Whether no value of the user's data may be sent."""


class Subagent(NamedTuple):
    """One that works for another, and what holds of its run alone."""

    agent: Agent
    levels: Mapping[str, Level]
    """Of its tools; they only narrow those of the run it works for."""
    only_reads: bool = False
    """As in `RunTerms`."""


def system_prompt(name: str) -> str:
    """The prompt of that name that comes with this package, from ``prompts/NAME.md``."""
    return resources.files("vibe_jupyter.agent").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8").strip()


class HookContext(NamedTuple):
    """What the hooks of a run may use of it, from `begin` to `end`."""

    call_context: CallContext
    model: Model
    client: LLMClient
    budget: Budget


class PreparedPrompt(NamedTuple):
    """What the hooks of a run make of its prompt."""

    before: PromptParts = ()
    """Goes before the user's words."""
    instead: PromptParts | None = None
    """Takes the place of the user's words; None where they stay."""


class RunHooks(Protocol):
    """One for each run. Engine loop only."""

    async def begin(self, hook_context: HookContext) -> PreparedPrompt:
        """Prepare, before anything is sent to the model; an interrupt cancels it. What takes long is said by a Notice.

        Raises:
            VibeError: the run ends with these words, and nothing is sent.
        """
        ...

    async def end(self) -> None:
        """The run is about to end; whatever was shown in it is over when this returns."""
        ...
