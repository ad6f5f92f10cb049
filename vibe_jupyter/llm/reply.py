"""Judge a finished answer, whatever its dialect, and produce a `ModelReply`.

An answer is final only if it is marked as such, isn't truncated, and contains no call. The agent loop, the gateway and
the checks see only a `ModelReply`. Reasoning, calls and special tokens that a server left in the text are removed.
While text streams in, a mark that may open a call is held back until the end of the answer decides.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

from vibe_jupyter.llm.call_repairs import ReadArguments, meant_name, read_arguments, unwrapped
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.growing_answer import new_call_id, why_empty
from vibe_jupyter.llm.hosted_events import HeldBack, Piece
from vibe_jupyter.llm.reply_stream import TextHold
from vibe_jupyter.llm.request import AS_TEXT, CUTS, NO_CALL, Ended, ModelReply, ModelRequestTerms
from vibe_jupyter.llm.written_calls import CallFinder, Findings, Heard, without_ends
from vibe_jupyter.llm.written_thoughts import split_thoughts
from vibe_jupyter.protocol import (
    AssistantMessage,
    Message,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolSpec,
)


class ReplyReader:
    """Turn the pieces and the message of one answer into displayed pieces and a `ModelReply`."""

    def __init__(self, request: ModelRequestTerms) -> None:
        self._request = request
        self._may_call = request.tool_choice != "none"
        self._hold = TextHold(lambda: self._tools, lambda: self._heard, is_streamed=request.stream)

    @cached_property
    def _tools(self) -> dict[str, frozenset[str]]:
        """Argument names of each offered tool; empty if calls aren't allowed."""
        return _properties(self._request.tools) if self._may_call else {}

    @cached_property
    def _heard(self) -> Heard:
        return Heard(self._request.messages)

    def shown(self, piece: Piece) -> Sequence[Piece]:
        """Return the part of a piece that can be shown now."""
        if type(piece) is TextDelta:
            # fast path: nearly all pieces are shown unchanged, and there are many
            if self._hold.is_open and "<" not in piece.text and "[" not in piece.text:
                return (piece,)
            now = self._hold.take(piece.text)
            # report progress even if the text is held back
            return (*now, HeldBack(self._hold.held)) if self._hold.held or not now else now
        return (piece,) if self._may_call or type(piece) is not ToolCallDelta else ()

    def finish(self, message: AssistantMessage) -> tuple[Sequence[Piece], ModelReply]:
        """Judge the complete answer.

        Returns:
            The held-back pieces that belong to the text, and the reply.

        Raises:
            BrokenAnswer: Nothing is left of the answer.
        """
        if not self._may_call:
            message = _without_calls(message)
        limit = self._request.model.max_tokens
        if limit is not None and message.usage is not None and message.usage.completion_tokens >= limit:
            # some servers report `stop` or `tool_calls` at the limit (vLLM 58228)
            message = message.model_copy(update={"stop_reason": "length"})
        reply, shown, begin = judge(message, self._tools, self._heard)
        kept = _with_new_ids(reply.message, self._request.messages)
        return self._hold.end(message.text, shown, begin), reply._replace(message=kept)


def judge(message: AssistantMessage, tools: Mapping[str, frozenset[str]], heard: Heard) -> tuple[ModelReply, str, int]:
    """Judge a complete answer.

    Args:
        message: The message as decoded.
        tools: The offered tools with their argument names.
        heard: The context the model received.

    Returns:
        The reply, its text as shown, and the offset of that text in the original text.

    Raises:
        BrokenAnswer: It contains neither text nor a call.
    """
    split = split_thoughts(message.text, heard.prompt) if _may_hold_marks(message.text) else None
    text = message.text if split is None else split.rest
    begin = len(message.text) - len(text)
    findings = CallFinder(text, tools, heard).find() if tools and text else Findings(len(text))
    calls = tuple(_repaired(call, tools) for call in message.calls)
    if not calls:
        calls = tuple(ToolCall(id=new_call_id(), name=c.name, arguments=c.text, mark=AS_TEXT) for c in findings.calls)
        text = text[: findings.start] if calls else text
    elif findings.calls and {one.name for one in findings.calls} <= {one.name for one in calls}:
        text = text[: findings.start]  # the server parsed the calls but left their text in place
    text = _without_end_token(text)
    thoughts = "" if split is None else split.thoughts
    _refuse_nothing(message, text, thoughts, calls)
    doubt = "" if calls else findings.doubt or (NO_CALL if message.stop_reason == "tool_calls" and tools else "")
    return _marked(_rebuilt(message, text, thoughts, calls), doubt), text, begin


def judge_calls(message: AssistantMessage, tools: Mapping[str, frozenset[str]]) -> ModelReply:
    """Judge the calls of a complete answer whose text has already been shown."""
    calls = tuple(_repaired(call, tools) for call in message.calls)
    return _marked(_rebuilt(message, message.text, "", calls), "")


def _marked(message: AssistantMessage, doubt: str) -> ModelReply:
    """Return the reply, with the calls of a truncated answer marked as never to run."""
    mark, has_calls = CUTS.get(message.stop_reason), bool(message.calls)
    if mark is not None and has_calls:
        parts = (p.model_copy(update={"mark": mark}) if isinstance(p, ToolCall) else p for p in message.parts)
        message = message.model_copy(update={"parts": tuple(parts)})
    ended: Ended = "cut" if mark is not None else "doubtful" if doubt else "calls" if has_calls else "final"
    return ModelReply(message, ended, doubt)


def _without_end_token(text: str) -> str:
    """Strip special tokens at the end, unless the answer is about such tokens."""
    if text.rstrip()[-1:] not in (">", "]"):
        return text
    bare = without_ends(text)
    return text if bare == text.rstrip() or "<|" in bare or "<s>" in bare else bare


def _may_hold_marks(text: str) -> bool:
    return "<" in text or "[" in text or "◁" in text or text.lstrip().startswith("analysis")


def _refuse_nothing(message: AssistantMessage, text: str, thoughts: str, calls: tuple[ToolCall, ...]) -> None:
    if text.strip() or calls:
        return
    known = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
    raise BrokenAnswer(
        "empty", why_empty(message.stop_reason, known + thoughts), passing=message.stop_reason != "content_filter"
    )


def _rebuilt(message: AssistantMessage, text: str, thoughts: str, calls: tuple[ToolCall, ...]) -> AssistantMessage:
    """Replace text and calls of a message and append reasoning. Returns the same object if nothing changes."""
    if text == message.text and not thoughts and calls == message.calls:
        return message
    parts: list[TextPart | ReasoningPart | ToolCall] = [p for p in message.parts if isinstance(p, ReasoningPart)]
    if thoughts:
        parts.append(ReasoningPart(text=thoughts))
    if text.strip():
        parts.append(TextPart(text=text))
    stop = "tool_calls" if calls and message.stop_reason in ("stop", "other") else message.stop_reason
    return message.model_copy(update={"parts": (*parts, *calls), "stop_reason": stop})


def _repaired(call: ToolCall, tools: Mapping[str, frozenset[str]]) -> ToolCall:
    """Repair the name and arguments of a call, and mark what was repaired."""
    repairs: list[str] = []
    name = meant_name(call.name, tools) or call.name
    if name != call.name:
        repairs.append("name")
    arguments = call.arguments
    try:
        read = read_arguments(arguments)
    except ValueError:
        pass  # reported in the call's result, with the position
    else:
        given = unwrapped(read.value, tools.get(name, frozenset()))
        if given is not read.value:
            read = ReadArguments(given, "arguments inside the arguments")
        if read.repair:
            repairs.append(read.repair)
            arguments = read.text
    if not repairs:
        return call
    return call.model_copy(update={"name": name, "arguments": arguments, "mark": f"repaired: {', '.join(repairs)}"})


def _properties(tools: Sequence[ToolSpec]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for tool in tools:
        named = tool.parameters.get("properties")
        found[tool.name] = frozenset(cast("Mapping[str, object]", named)) if isinstance(named, Mapping) else frozenset()
    return found


def _without_calls(message: AssistantMessage) -> AssistantMessage:
    """Drop the calls of an answer to a request that allowed none.

    Raises:
        BrokenAnswer: The answer consists only of calls.
    """
    if message.calls and not message.text:
        raise BrokenAnswer("empty", "it called a tool, although none was allowed")
    kept = tuple(part for part in message.parts if not isinstance(part, ToolCall))
    return message.model_copy(update={"parts": kept})


def _with_new_ids(message: AssistantMessage, before: Sequence[Message]) -> AssistantMessage:
    """Replace the ids of all calls if one is taken by an earlier call: some servers count from 0 in each answer."""
    calls = message.calls
    if not calls:
        return message
    taken = {call.id for one in before if isinstance(one, AssistantMessage) for call in one.calls}
    if taken.isdisjoint(call.id for call in calls):
        return message
    parts = tuple(
        part.model_copy(update={"id": new_call_id()}) if isinstance(part, ToolCall) and part.id in taken else part
        for part in message.parts
    )
    return message.model_copy(update={"parts": parts})
