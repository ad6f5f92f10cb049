"""How the user's hooks end a run, or keep it from ending."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.middleware import StopRun
from vibe_jupyter.protocol import AssistantMessage, FinishReason


class HookedEnding:
    """What hooks said of one run so far."""

    def __init__(self, agent: str, *, is_main: bool) -> None:
        """
        Args:
            agent: the agent that runs.
            is_main: False for a sub-agent.
        """
        self.agent = agent
        self.is_main = is_main
        self.retried = 0
        """Times that hooks have sent the agent on."""
        self.stopped: StopRun | None = None
        """Set once a hook wants the run to end."""

    def stop(self, why: str) -> None:
        """End the run after the calls of the present answer, with a text for the user."""
        self.stopped = StopRun(reason="refused", notice=why)

    async def reason(
        self,
        message: AssistantMessage,
        call_context: CallContext,
        guard: Callable[[Coroutine[Any, Any, None]], Awaitable[bool]],
    ) -> FinishReason | None:
        """Return why the run ends after a last answer; None when a hook sends the agent on.

        Args:
            message: the answer.
            call_context: of the run.
            guard: runs what an interrupt cancels; gives False where one came.
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
