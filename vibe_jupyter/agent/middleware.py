"""Middleware: what acts before and after each turn of a run, and what it can ask for.

A middleware is a class on `Middleware`. It returns None for a run that goes on, or ends the run (`StopRun`), has the
history compacted (`CompactHistory`), or adds a message (`AddMessage`). The first that stops or compacts wins; what
others say before it is added all the same. Your own stand in ``~/.vibe/middleware/*.py`` (docs/context.md).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import methodcaller
from typing import Final, Literal, NamedTuple

from vibe_jupyter.agent.context_size import ContextSize
from vibe_jupyter.files.truncation import section
from vibe_jupyter.protocol import FinishReason, Message, TextPart, Usage

NOTE: Final = "vibe_note"
"""The tag around what a middleware says to the model: the user did not write it."""


class RunProgress(NamedTuple):
    """How far a run is."""

    turns: int
    """Requests already made."""
    usage: Usage
    cost: float | None = None
    """US dollars so far; None where the prices are not known."""
    seconds: float = 0.0
    """Since it began, without the time it waited for the user."""


class TurnState(NamedTuple):
    """What a middleware may look at."""

    progress: RunProgress
    context: ContextSize
    """The next request."""
    history: Sequence[Message]
    """All messages that the next request has."""
    agent: str
    """Name of the profile."""


class StopRun(NamedTuple):
    """End the run before its next request."""

    reason: FinishReason
    notice: str
    """One sentence for the user, with the next step."""
    level: Literal["info", "warning"] = "warning"


class CompactHistory(NamedTuple):
    """Have the history summarised before the next request."""

    instructions: str = ""
    """For the summary."""


class AddMessage(NamedTuple):
    """Say something to the model before its next request. After the last turn the run goes on with it."""

    text: str
    notice: str = ""
    """What the user is shown of it; empty for the text itself."""


Verdict = StopRun | CompactHistory | AddMessage


class Middleware:
    """Acts around each turn; does nothing by itself. Lives as long as the conversation, on the engine's loop."""

    def before_turn(self, state: TurnState) -> Verdict | None:
        """A request is about to be made; None when it may."""
        return None

    def after_turn(self, state: TurnState) -> Verdict | None:
        """An answer came, and its calls were answered; None when the run may go on, or end."""
        return None


class Verdicts(NamedTuple):
    """What all of them want."""

    stop: StopRun | None = None
    compact: CompactHistory | None = None
    messages: tuple[AddMessage, ...] = ()

    @property
    def note(self) -> str:
        """What the model is sent; empty for nothing."""
        return "\n\n".join(section(NOTE, message.text) for message in self.messages)


class MiddlewareChain:
    """Asks one after the other. One that fails is left out of the rest of the run."""

    def __init__(self, middleware: Iterable[Middleware], warn: Callable[[str], Awaitable[None]]) -> None:
        self._middleware = list(middleware)
        self._warn = warn

    async def before_turn(self, state: TurnState) -> Verdicts:
        """Ask each what is to be done before a request."""
        return await self._ask_each(methodcaller("before_turn", state))

    async def after_turn(self, state: TurnState) -> Verdicts:
        """Ask each what is to be done after a turn."""
        return await self._ask_each(methodcaller("after_turn", state))

    async def _ask_each(self, ask: Callable[[Middleware], Verdict | None]) -> Verdicts:
        messages: list[AddMessage] = []
        for one in tuple(self._middleware):
            try:
                verdict = ask(one)
            except Exception as error:  # noqa: BLE001 - foreign code: what it raises is reported
                self._middleware.remove(one)
                await self._warn(_failure(one, f"failed: {type(error).__name__}: {error}"))
                continue
            match verdict:
                case None:
                    pass
                case AddMessage():
                    messages.append(verdict)
                case StopRun():
                    return Verdicts(stop=verdict, messages=tuple(messages))
                case CompactHistory():
                    return Verdicts(compact=verdict, messages=tuple(messages))
                case _ as other:  # pyright: ignore[reportUnnecessaryComparison] - foreign code may return anything
                    self._middleware.remove(one)
                    await self._warn(_failure(one, f"returned {type(other).__name__}, which is no verdict"))
        return Verdicts(messages=tuple(messages))


def note_part(note: str) -> TextPart:
    """What the model is sent of a middleware's words."""
    return TextPart(text=note)


def _failure(one: Middleware, what: str) -> str:
    return f"The middleware {type(one).__name__} {what}. It is left out of this run."
