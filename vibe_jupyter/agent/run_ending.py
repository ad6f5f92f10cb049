"""End of a run as decided by the user's hooks, which may also make it continue."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.middleware import StopRun
from vibe_jupyter.protocol import AssistantMessage, FinishReason


class HookedEnding:
    """Decisions of hooks on the end of one run."""

    def __init__(self, agent: str, *, is_main: bool) -> None:
        """
        Args:
            agent: name of the agent that runs.
            is_main: False for a sub-agent.
        """
        self.agent = agent
        self.is_main = is_main
        self.retried = 0  # number of times that hooks made the agent continue
        self.stopped: StopRun | None = None  # set once a hook ends the run

    def stop(self, why: str) -> None:
        """End the run after the calls of the current answer, with a text for the user."""
        self.stopped = StopRun(reason="refused", notice=why)

    async def reason(
        self,
        message: AssistantMessage,
        call_context: CallContext,
        guard: Callable[[Coroutine[Any, Any, None]], Awaitable[bool]],
    ) -> FinishReason | None:
        """Return why the run ends after a final answer, or None if a hook makes the agent continue.

        Args:
            message: the answer.
            call_context: context of the run.
            guard: runs a step that an interrupt cancels, and returns False if one arrived.
        """
        if call_context.permissions.hooks is None:
            return "stop"
        from vibe_jupyter.agent.hooked_calls import screen_end  # noqa: PLC0415 - few have hooks

        sent_on = False

        async def ask_hooks() -> None:
            nonlocal sent_on
            sent_on = await screen_end(
                self.agent, message.text, call_context, is_main=self.is_main, retried=self.retried
            )

        if not await guard(ask_hooks()):
            return "interrupted"
        self.retried += sent_on
        return None if sent_on else "stop"
