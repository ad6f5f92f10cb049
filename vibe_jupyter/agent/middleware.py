"""Middleware: what acts before and after each turn of a run, and what it can ask for.

A middleware is a class on `Middleware`. It returns None for a run that goes on, or ends the run (`StopRun`), has the
history compacted (`CompactHistory`), or adds a message (`AddMessage`). The first that stops or compacts wins; what
others say before it is added all the same. Your own stand in ``~/.vibe/middleware/*.py`` (docs/context.md).

Those that come along are below: compaction, the warning before it, and the guard against loops. The limits of a run are
in `limits`.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, get_args

from vibe_jupyter.agent.call_context import FAILED_AGAIN
from vibe_jupyter.agent.context_size import ContextSize
from vibe_jupyter.files.truncation import section
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import AssistantMessage, FinishReason, Message, TextPart, ToolCall, ToolMessage, Usage

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
        return await self._ask_each("before_turn", state)

    async def after_turn(self, state: TurnState) -> Verdicts:
        """Ask each what is to be done after a turn."""
        return await self._ask_each("after_turn", state)

    async def _ask_each(self, when: Literal["before_turn", "after_turn"], state: TurnState) -> Verdicts:
        messages: list[AddMessage] = []
        nothing = getattr(Middleware, when)
        asked = [(one, getattr(one, when)) for one in self._middleware]
        for one, ask in asked:
            if getattr(ask, "__func__", None) is nothing:
                continue
            try:
                verdict: Verdict | None = ask(state)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: what it raises is reported
                await self._leave_out(one, f"failed: {type(error).__name__}: {error}")
                continue
            if problem := _problem_with(verdict):
                await self._leave_out(one, f"returned {problem}")
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
        return Verdicts(messages=tuple(messages))

    async def _leave_out(self, one: Middleware, what: str) -> None:
        self._middleware.remove(one)
        await self._warn(f"The middleware {type(one).__name__} {what}. It is left out of this run.")


def _problem_with(verdict: object) -> str:
    """What is wrong with what foreign code returned; empty where nothing is."""
    match verdict:
        case None | AddMessage(text=str(), notice=str()) | CompactHistory(instructions=str()):
            return ""
        case StopRun(reason=reason, notice=str(), level="info" | "warning"):
            known = get_args(FinishReason)
            return "" if reason in known else f"the reason {reason!r}; there are {', '.join(known)}"
        case AddMessage() | CompactHistory() | StopRun():
            return f"{type(verdict).__name__} with a value of the wrong kind"
        case _:
            return f"{type(verdict).__name__}, which is no verdict"


COMPACT_SHARE: Final = 0.85
"""Of the window, from which the history is compacted."""
DEFAULT_THRESHOLD: Final = 200_000
"""Tokens from which it is compacted, whatever the window."""
REGROWTH: Final = 0.10
"""Share of the window that the history must have grown by since it was compacted, before it is compacted again."""
WARNING_SHARE: Final = 0.5
"""Of the tokens from which the history is compacted."""

LOOP_WINDOW: Final = 24
"""Latest calls among which equal ones are counted."""
LOOP_NOTE: Final = 3
"""Equal calls with an equal result after which the model is asked to go another way."""
LOOP_STOP: Final = 6
"""And after which the run ends."""
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)? m?s\b")
"""What differs between two equal results: addresses in memory, and times."""


def compact_at(window: int, threshold: int) -> int:
    """Tokens from which the history is compacted; 0 for never.

    Args:
        window: of the model, in tokens.
        threshold: what was set, in tokens; 0 for never.
    """
    return min(threshold, int(COMPACT_SHARE * window)) if threshold else 0


class AutoCompact(Middleware):
    """Has the history compacted once the next request is as large as the threshold; never at 0."""

    def __init__(self, threshold: int = DEFAULT_THRESHOLD) -> None:
        self.threshold = threshold
        """Tokens."""

    def before_turn(self, state: TurnState) -> Verdict | None:
        context = state.context
        limit = compact_at(context.window, self.threshold)
        if not limit or context.tokens < limit:
            return None
        # Where the prompt and the tools alone fill the window, a summary of the summary helps nobody.
        has_grown = context.tokens - context.rewritten >= REGROWTH * context.window
        return CompactHistory() if not context.rewritten or has_grown else None


class ContextWarning(Middleware):
    """Says once that the context is filling; once more after it was compacted and fills again."""

    def __init__(self, threshold: int = DEFAULT_THRESHOLD) -> None:
        self.threshold = threshold
        self._said = False

    def before_turn(self, state: TurnState) -> Verdict | None:
        context = state.context
        limit = compact_at(context.window, self.threshold) or context.window
        if context.tokens < WARNING_SHARE * limit:
            self._said = False
            return None
        if self._said:
            return None
        self._said = True
        share = f"{context.tokens / limit:.0%}"
        words = f"{share} of the context is used: {context.tokens:,} of {limit:,} tokens"
        return AddMessage(
            f"{words}. Keep what follows short.", f"{words}. %vibe context shows what takes it, %vibe compact frees it."
        )


class LoopGuard(Middleware):
    """Tells the model when it makes the same call with the same result again and again, and then ends the run."""

    def __init__(self) -> None:
        self._seen: deque[_Made] = deque(maxlen=LOOP_WINDOW)
        self._told: set[_Made] = set()
        """Calls of which the model knows already."""

    def before_turn(self, state: TurnState) -> Verdict | None:
        if not state.progress.turns:  # a new run
            self._seen.clear()
            self._told.clear()
        return None

    def after_turn(self, state: TurnState) -> Verdict | None:
        made = [_Made(call.name, call.arguments, _comparable(result)) for call, result in latest_calls(state.history)]
        self._seen.extend(made)
        counts = Counter(self._seen)
        worst = max(made, key=lambda one: counts[one], default=None)
        if worst is None or (times := counts[worst]) < LOOP_NOTE:
            return None
        if times >= LOOP_STOP:
            return StopRun(
                reason="loop",
                notice=f"Stopped: the model called {worst.name} {times} times in the same way, always with the same "
                "result. Say in another prompt what it should do instead.",
            )
        if worst in self._told:
            return None
        self._told.add(worst)
        return AddMessage(
            f"You have called {worst.name} {times} times with the same arguments and got the same result each time. "
            "Calling it again will not change that: take another way, or report what you found.",
            f"The model repeats itself: {worst.name}, {times} times the same. It was asked to go another way.",
        )


class _Made(NamedTuple):
    """A call with its result."""

    name: str
    arguments: str
    result: str


def _comparable(result: ToolMessage) -> str:
    text = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
    # The second equal failure is reported in one line.
    return _VARYING.sub("", text.partition("\n")[0].removesuffix(FAILED_AGAIN) if result.is_error else text)


def latest_calls(history: Sequence[Message]) -> list[tuple[ToolCall, ToolMessage]]:
    """The calls of the last answer with their results; none where something else came after them."""
    results: dict[str, ToolMessage] = {}
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            results[message.call_id] = message
            continue
        if not isinstance(message, AssistantMessage):
            return []
        return [(call, results[call.id]) for call in message.calls if call.id in results]
    return []
