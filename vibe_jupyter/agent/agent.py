"""What an agent is: a model, tools, rules and instructions. What it does is a `Run`; how, `loop` says."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.policy.permissions import Permissions
from vibe_jupyter.policy.secrets import Redactor
from vibe_jupyter.tools.base import Toolset


@dataclass(frozen=True)
class Agent:
    """Everything that is the same for all turns of a run. Frozen: a change of settings makes a new one."""

    name: str
    """Of its profile, such as ``default``."""
    model: Model
    client: LLMClient
    tools: Toolset
    permissions: Permissions
    middleware: Sequence[Middleware]
    instructions: str
    """The system prompt."""
    stream: bool = True
    redactor: Redactor = field(default_factory=Redactor)
    """Strikes keys out of everything that is recorded, shown or sent."""
