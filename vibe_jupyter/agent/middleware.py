"""Middleware: hooks before and after each turn of a run.

A middleware is a subclass of `Middleware`. It returns None to let the run continue, ends it (`StopRun`), compacts the
history (`CompactHistory`), or adds a message (`AddMessage`). The first one to stop or compact takes precedence;
messages from earlier ones are added regardless. Custom middleware is loaded from ``~/.vibe/middleware/*.py``
(docs/context.md).

The built-in ones are below: compaction, the warning before it, and the loop guard. The limits of a run are in `limits`.
"""

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from vibe_jupyter.agent.call_context import FAILED_AGAIN
from vibe_jupyter.agent.context_size import ContextSize
from vibe_jupyter.files.truncation import section
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import NOTE, AssistantMessage, FinishReason, Message, TextPart, ToolCall, ToolMessage, Usage
from vibe_jupyter.safe_imports import without_working_folder


class RunProgress(NamedTuple):
    """Usage of a run so far."""

    turns: int  # requests already made
    usage: Usage
    cost: float | None = None  # US dollars so far; None if the prices are unknown
    seconds: float = 0.0  # since it began, excluding time spent waiting for the user


class TurnState(NamedTuple):
    """Input of a middleware."""

    progress: RunProgress
    context: ContextSize  # size of the next request
    history: Sequence[Message]  # all messages of the next request
    agent: str  # name of the agent profile
    seconds: Mapping[str, float] = MappingProxyType({})  # duration of each call of the latest answer, by call id


class StopRun(NamedTuple):
    """Verdict that ends the run before its next request."""

    reason: FinishReason
    notice: str  # one sentence for the user, including the next step
    level: Literal["info", "warning"] = "warning"


class CompactHistory(NamedTuple):
    """Verdict that has the history summarized before the next request."""

    instructions: str = ""  # for the summary


class AddMessage(NamedTuple):
    """Verdict that adds a message to the model's next request. After the last turn, the run continues with it."""

    text: str
    notice: str = ""  # shown to the user; '' to show `text`


Verdict = StopRun | CompactHistory | AddMessage


class Middleware:
    """Base class of middleware; does nothing itself. Instances live as long as the conversation. Engine loop only."""

    def before_turn(self, state: TurnState) -> Verdict | None:
        """Inspect the state before a request. Return None to let it proceed."""
        return None

    def after_turn(self, state: TurnState) -> Verdict | None:
        """Inspect the state after an answer and its calls. Return None to let the run continue or end."""
        return None


class Verdicts(NamedTuple):
    """Combined verdicts of all middleware."""

    stop: StopRun | None = None
    compact: CompactHistory | None = None
    messages: tuple[AddMessage, ...] = ()

    @property
    def note(self) -> str:
        """Messages for the model, or '' if there are none."""
        return "\n\n".join(section(NOTE, message.text) for message in self.messages)


class MiddlewareChain:
    """Ordered middleware of one run. A middleware that fails is skipped for the rest of the run."""

    def __init__(self, middleware: Iterable[Middleware], warn: Callable[[str], Awaitable[None]]) -> None:
        self._middleware = list(middleware)
        self._warn = warn

    async def before_turn(self, state: TurnState) -> Verdicts:
        """Collect verdicts before a request."""
        return await self._ask_each("before_turn", state)

    async def after_turn(self, state: TurnState) -> Verdicts:
        """Collect verdicts after a turn."""
        return await self._ask_each("after_turn", state)

    async def _ask_each(self, when: Literal["before_turn", "after_turn"], state: TurnState) -> Verdicts:
        messages: list[AddMessage] = []
        nothing = getattr(Middleware, when)
        # A copy, because `_leave_out` removes from the list during the loop.
        asked = [(one, getattr(one, when)) for one in self._middleware]
        for one, ask in asked:
            if getattr(ask, "__func__", None) is nothing:  # not overridden
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
    """Return what is wrong with the return value of custom middleware, or '' if it is valid."""
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


COMPACT_SHARE: Final = 0.85  # share of the context window from which the history is compacted
DEFAULT_THRESHOLD: Final = 200_000  # tokens from which the history is compacted, whatever the context window
REGROWTH: Final = 0.10  # share of the context window by which the history must grow before it is compacted again
WARNING_SHARE: Final = 0.5  # share of the compaction threshold

LOOP_WINDOW: Final = 24  # latest calls among which equal ones are counted
LOOP_NOTE: Final = 3  # equal calls with equal results after which the model is asked to try something else
LOOP_STOP: Final = 6  # equal calls with equal results after which the run ends
LOOP_SECONDS: Final = 1.0  # longer calls are waiting for something, which is no loop
# Differences between equal results: memory addresses and durations
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)? m?s\b")


def compact_at(window: int, threshold: int) -> int:
    """Return the number of tokens from which the history is compacted, or 0 for never.

    Args:
        window: context window of the model, in tokens.
        threshold: threshold from the settings, in tokens; 0 for never.
    """
    return min(threshold, int(COMPACT_SHARE * window)) if threshold else 0


class AutoCompact(Middleware):
    """Middleware that has the history compacted once the next request reaches the threshold. Disabled at 0."""

    def __init__(self, threshold: int = DEFAULT_THRESHOLD) -> None:
        self.threshold = threshold  # tokens

    def before_turn(self, state: TurnState) -> Verdict | None:
        context = state.context
        limit = compact_at(context.window, self.threshold)
        if not limit or context.tokens < limit:
            return None
        # If the prompt and the tools alone fill the window, summarizing the summary doesn't help.
        has_grown = context.tokens - context.rewritten >= REGROWTH * context.window
        return CompactHistory() if not context.rewritten or has_grown else None


class ContextWarning(Middleware):
    """Middleware that warns once when the context window fills up, and again if it refills after compaction."""

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
    """Middleware that detects repetition of the same call with the same result.

    It first warns the model, and then ends the run. Calls are equal if they do the same. A call that waited, or whose
    result has changed, makes progress.
    """

    def __init__(self) -> None:
        self._seen: deque[_Made] = deque(maxlen=LOOP_WINDOW)
        self._told: set[_Made] = set()  # calls that the model has been warned about

    def before_turn(self, state: TurnState) -> Verdict | None:
        if not state.progress.turns:  # a new run
            self._seen.clear()
            self._told.clear()
        return None

    def after_turn(self, state: TurnState) -> Verdict | None:
        quick = [
            (call, result)
            for call, result in latest_calls(state.history)
            if state.seconds.get(call.id, 0.0) < LOOP_SECONDS
        ]
        if not quick:
            return None
        with without_working_folder():
            from vibe_jupyter.agent.equal_calls import deed_of  # noqa: PLC0415 - many runs call nothing
        made = [_Made(call.name, deed_of(call), _comparable(result)) for call, result in quick]
        for one in made:
            self._forget_changed(one)
            self._seen.append(one)
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
            f"You have called {worst.name} {times} times in the same way and got the same result each time. "
            "Calling it again will not change that: try something else, or report what you found. The run ends after "
            f"{LOOP_STOP} such calls. If you are waiting for something, wait a few seconds inside the call.",
            f"The model repeats itself: {worst.name}, {times} times the same. It was asked to go another way.",
        )

    def _forget_changed(self, made: "_Made") -> None:
        """Forget earlier calls with a different result, because a changing result is progress."""
        if any(one.deed == made.deed and one.name == made.name and one.result != made.result for one in self._seen):
            kept = [one for one in self._seen if (one.name, one.deed) != (made.name, made.deed)]
            self._seen = deque(kept, maxlen=LOOP_WINDOW)


class _Made(NamedTuple):
    """A call and its result, in comparable form."""

    name: str
    deed: str
    result: str


def _comparable(result: ToolMessage) -> str:
    text = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
    # `FailedCalls` shortens repeated failures to their first line.
    return _VARYING.sub("", text.partition("\n")[0].removesuffix(FAILED_AGAIN) if result.is_error else text)


def latest_calls(history: Sequence[Message]) -> list[tuple[ToolCall, ToolMessage]]:
    """Return the calls of the latest answer with their results. Returns [] if another message follows them."""
    results: dict[str, ToolMessage] = {}
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            results[message.call_id] = message
            continue
        if not isinstance(message, AssistantMessage):
            return []
        return [(call, results[call.id]) for call in message.calls if call.id in results]
    return []
