"""What an agent is: a model, tools, rules and instructions. What it does is a `Run`."""

from collections.abc import Sequence
from dataclasses import dataclass

from vibe_jupyter.agent.loop import Loop
from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.agent.run import Run
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.policy.permissions import Permissions, RunTerms
from vibe_jupyter.protocol import SystemMessage, TextPart, UserMessage
from vibe_jupyter.session.conversation import Conversation
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

    def run(self, conversation: Conversation, prompt: str, *, terms: RunTerms, context: str = "") -> Run:
        """A run that has not begun; iterate it on the engine loop.

        Args:
            conversation: what was said before; the run adds to it.
            prompt: the person's words, unchanged.
            terms: what holds for this run only.
            context: what changed in the notebook since the last run; goes before the prompt in the same message.
        """
        parts = tuple(TextPart(text=text) for text in (context, prompt) if text)

        async def work(run: Run) -> None:
            loop = Loop(
                agent=self.name,
                model=self.model,
                client=self.client,
                tools=self.tools,
                permissions=self.permissions,
                terms=terms,
                middleware=self.middleware,
                system=SystemMessage(text=self.instructions),
                conversation=conversation,
                stream=self.stream,
                run=run,
            )
            await loop.work(UserMessage(parts=parts))

        return Run(work)
