"""An answer that is growing: pieces are kept in lists, joined and validated once, at the end."""

from collections.abc import Callable, Iterable

from vibe_jupyter.llm.agentic import CountsSoFar, Piece
from vibe_jupyter.llm.calls import CallList, new_call_id
from vibe_jupyter.llm.failures import Broken
from vibe_jupyter.llm.limits import Limits
from vibe_jupyter.llm.surrogates import PairJoiner, repair
from vibe_jupyter.protocol import (
    AssistantMessage,
    Delta,
    ReasoningDelta,
    ReasoningPart,
    StopReason,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    Usage,
)


class GrowingAnswer:
    """What the decoders of all dialects fill. Deltas gather until `take`."""

    def __init__(self, limits: Limits, *, new_id: Callable[[], str] = new_call_id) -> None:
        self.model = ""
        self.usage: Usage | None = None
        """The last counts that came; None while none came."""
        self.stop_reason: StopReason = "stop"
        self.signature: str | None = None
        """The server's seal on the reasoning."""
        self._limits = limits
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._text_joiner = PairJoiner()
        self._reasoning_joiner = PairJoiner()
        self._calls = CallList(new_id)
        self._size = 0
        self._deltas: list[Delta | CountsSoFar] = []

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def add_text(self, piece: str) -> None:
        """A piece of the answer."""
        self._grow(len(piece))
        if shown := self._text_joiner.feed(piece):
            self._text.append(shown)
            self._deltas.append(TextDelta(shown))

    def add_reasoning(self, piece: str) -> None:
        """A piece of what the model thinks."""
        self._grow(len(piece))
        if shown := self._reasoning_joiner.feed(piece):
            self._reasoning.append(shown)
            self._deltas.append(ReasoningDelta(shown))

    def add_call(self, *, index: int | None, call_id: str, name: str, arguments: str, whole: bool = False) -> None:
        """A piece of a call, see `CallList.add`."""
        self._grow(len(name) + len(arguments))
        delta = self._calls.add(index=index, call_id=call_id, name=name, arguments=arguments, whole=whole)
        if delta.position >= self._limits.calls:
            raise Broken("limit", f"more than {self._limits.calls} calls in one answer")
        self._deltas.append(delta)

    def grow_call(self, index: int, arguments: str) -> bool:
        """The next piece of the arguments of a call that has begun; False where none has, and nothing was taken."""
        delta = self._calls.grow(index, arguments)
        if delta is None:
            return False
        self._grow(len(arguments))
        self._deltas.append(delta)
        return True

    def tell_counts(self) -> None:
        """Say what the answer has used, although it goes on."""
        if self.usage is not None:
            self._deltas.append(CountsSoFar(self.usage))

    def take(self) -> list[Delta | CountsSoFar]:
        """The deltas since the last time."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def finish(self) -> AssistantMessage:
        """The complete message.

        Raises:
            Broken: there is neither text nor a call.
        """
        self._text.append(self._text_joiner.end())
        self._reasoning.append(self._reasoning_joiner.end())
        text, reasoning, calls = self.text, "".join(self._reasoning), self._calls.finish()
        if not text and not calls:
            raise Broken("empty", _why_empty(self.stop_reason, reasoning))
        parts: list[TextPart | ReasoningPart | ToolCall] = []
        if reasoning:
            parts.append(ReasoningPart(text=reasoning, signature=self.signature))
        if text:
            parts.append(TextPart(text=text))
        return AssistantMessage(
            parts=(*parts, *calls), stop_reason=self.stop_reason, usage=self.usage, model=repair(self.model)
        )

    def _grow(self, characters: int) -> None:
        self._size += characters
        if self._size > self._limits.message:
            raise Broken("limit", f"more than {self._limits.message} characters in one answer")


def allowed(deltas: Iterable[Piece], *, calls: bool) -> Iterable[Piece]:
    """The deltas, without those of calls where none are allowed."""
    return deltas if calls else (delta for delta in deltas if not isinstance(delta, ToolCallDelta))


def without_calls(message: AssistantMessage) -> AssistantMessage:
    """An answer to a request that allowed no calls.

    Raises:
        Broken: it is nothing but calls.
    """
    if message.calls and not message.text:
        raise Broken("empty", "it called a tool, although it was told to call none")
    kept = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    return message.model_copy(update={"parts": kept})


def _why_empty(stop_reason: StopReason, reasoning: str) -> str:
    if stop_reason == "content_filter":
        return "the provider's content filter held the answer back"
    if stop_reason == "length":
        return "the token limit was reached before the answer began"
    return "it thought, but gave no answer" if reasoning else ""
