"""Compaction: the model summarizes the conversation, and the summary replaces the history.

Content that must not depend on a summary is preserved verbatim: the user's prompts (the first and the latest ones,
within bounds), one line for each changed cell and file, and the plan. The full conversation is stored in a file next to
the journal, which the model can page through with read_file.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.call_context import headline_of
from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN, count_messages
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import head_and_tail, section, spill_text
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import (
    SUMMARY_TAG,
    AssistantMessage,
    CarriedOver,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    is_prompt,
    prompt_text,
)
from vibe_jupyter.tools.arguments import find_meant
from vibe_jupyter.tools.contract import Toolset

SUMMARY_LIMIT: Final = 24_000  # characters of a summary
SUMMARY_SHARE: Final = 0.15  # share of the context window for a summary, and for the latest messages after it
PROMPTS_SHARE: Final = 0.10  # share of the context window for the user's own prompts
PROMPT_LIMIT: Final = 4_000  # characters of one prompt; longer ones lose their middle
MADE_LINES: Final = 60  # latest changes that are listed
MADE_LINE: Final = 160  # characters per listed change
PLAN_LIMIT: Final = 3_000  # characters of the plan
# Characters of a result in a transcript that is summarized because the history itself doesn't fit
RESULT_LIMIT: Final = 600
FITS: Final = 0.95  # share of the context window for the summary request
_TODO: Final = "todo"
_ACKNOWLEDGED: Final = "I have read this and go on from it."
_NO_SUMMARY: Final = "(The model wrote no summary; what follows was kept without it.)"


FreshReport = Callable[[], Awaitable[str]]  # returns a notebook report as for a first prompt


async def no_report() -> str:
    """Return an empty report, for conversations without a notebook."""
    return ""


class CompactionTerms(NamedTuple):
    """Compaction settings of an agent."""

    prompt: Callable[[], str] | None = None  # returns the summary prompt; None for the built-in one
    model: Model | None = None  # writes the summary; None for the model of the conversation
    on_overflow: bool = True  # compact a conversation that the model server rejected as too long
    must_succeed: bool = False  # end the run if there is no summary, instead of continuing without one
    report: FreshReport = no_report  # added to the summary


DEFAULT_TERMS: Final = CompactionTerms()


def summary_request(
    history: Sequence[Message], system: SystemMessage, prompt: str, *, room: int, may_be_whole: bool
) -> tuple[tuple[Message, ...], bool]:
    """Build the request for a summary.

    Args:
        history: conversation to summarize.
        system: system prompt of the agent.
        prompt: prompt for the summary.
        room: maximum tokens of all messages, excluding the tools.
        may_be_whole: False if the server counted more tokens in the conversation than there is room for.

    Returns:
        The messages, and whether they contain the conversation itself, which is in the server's prompt cache.
    """
    asked = UserMessage(parts=(TextPart(text=prompt),))
    whole = (system, *history, asked)
    if may_be_whole and count_messages(whole) <= room:
        return whole, True
    text = head_and_tail(transcript_text(history, RESULT_LIMIT), max(0, room * CHARACTERS_PER_TOKEN - len(prompt) * 2))
    return (UserMessage(parts=(TextPart(text=section("transcript", text)), TextPart(text=prompt))),), False


def carry_over(
    history: Sequence[Message], before: CarriedOver, tools: Toolset, *, window: int, left_out: int = 0
) -> CarriedOver:
    """Collect the content to preserve verbatim.

    Args:
        history: conversation to summarize.
        before: content preserved by the previous compaction.
        tools: used to describe calls.
        window: context window of the model, in tokens.
        left_out: number of messages at the end that are not summarized.
    """
    old = history[: len(history) - left_out] if left_out else history
    words = [
        head_and_tail(prompt_text(one), PROMPT_LIMIT) for one in old if isinstance(one, UserMessage) and is_prompt(one)
    ]
    room = int(PROMPTS_SHARE * window) * CHARACTERS_PER_TOKEN
    results = {(message.call_id): message for message in old if isinstance(message, ToolMessage)}
    calls = [call for message in old if isinstance(message, AssistantMessage) for call in message.calls]
    made = [line for call in calls if (line := _made_line(call, results, tools))]
    plan = next(
        (_text_of(results[call.id]) for call in reversed(calls) if call.name == _TODO and call.id in results), ""
    )
    return CarriedOver(
        prompts=_within([*before.prompts, *words], room),
        made=tuple(dict.fromkeys([*before.made, *made]))[-MADE_LINES:],
        plan=head_and_tail(plan, PLAN_LIMIT) or before.plan,
    )


def compacted_history(
    summary: str, carried: CarriedOver, tail: Sequence[Message], *, whole: str, report: str
) -> tuple[Message, ...]:
    """Build the history that replaces the old one.

    Args:
        summary: written by the model, or '' if there is none.
        carried: content preserved verbatim.
        tail: latest messages, which are not summarized.
        whole: reference to the full conversation, or '' if it isn't stored.
        report: current notebook report, or ''.
    """
    numbered = "\n".join(f"{number}. {words}" for number, words in enumerate(carried.prompts, 1))
    parts = [
        "The conversation up to here was compacted. What was said before is below; the notebook and the variables are "
        "as they were.",
        summary or _NO_SUMMARY,
        f"The user's prompts, word for word:\n{numbered}" if numbered else "",
        "Cells and files that were changed:\n" + "\n".join(f"- {line}" for line in carried.made)
        if carried.made
        else "",
        f"The list of steps as it was written last:\n{carried.plan}" if carried.plan else "",
        whole,
    ]
    text = section(SUMMARY_TAG, "\n\n".join(filter(None, parts)))
    opening = UserMessage(parts=tuple(TextPart(text=one) for one in (report, text) if one))
    # User and assistant messages must alternate for some servers, and what follows is a prompt.
    between = () if tail and isinstance(tail[0], AssistantMessage) else (_acknowledgement(),)
    return (opening, *between, *tail)


def _acknowledgement() -> AssistantMessage:
    return AssistantMessage(parts=(TextPart(text=_ACKNOWLEDGED),), stop_reason="stop")


def latest_messages(history: Sequence[Message], *, room: int) -> tuple[Message, ...]:
    """Return the end of the history that a summary doesn't replace.

    That is an unanswered prompt, or the calls of the latest answer with their results, which the model hasn't read yet.
    Returns () if calls and results exceed `room` tokens even with shortened results.
    """
    place = len(history)
    while place and isinstance(history[place - 1], UserMessage):
        place -= 1
    if place == len(history):
        while place and isinstance(history[place - 1], ToolMessage):
            place -= 1
        if place == len(history):
            return ()
        place -= 1
    tail = tuple(history[place:])
    if count_messages(tail) > room and not isinstance(tail[0], UserMessage):
        tail = tuple(_cut_result(message) if isinstance(message, ToolMessage) else message for message in tail)
    return tail if isinstance(tail[0], UserMessage) or count_messages(tail) <= room else ()


def transcript_text(history: Sequence[Message], limit: int | None = None) -> str:
    """Render the conversation as plain text. Results are cut to `limit` characters unless it is None."""
    pieces: list[str] = []
    for message in history:
        match message:
            case UserMessage():
                pieces.append(f"## User\n{_text_of(message)}")
            case AssistantMessage():
                calls = "\n".join(f"→ {call.name} {call.arguments}" for call in message.calls)
                pieces.append("## Assistant\n" + "\n".join(filter(None, (message.text, calls))))
            case ToolMessage():
                text = _text_of(message)
                pieces.append(f"## Result of {message.name}\n{text if limit is None else head_and_tail(text, limit)}")
            case _:
                pass
    return "\n\n".join(pieces)


def kept_transcript(history: Sequence[Message], folder: Path | None) -> str:
    """Store the full conversation in a file, and return a line that refers to it, or '' if nothing is stored."""
    kept = spill_text(transcript_text(history), folder, limit=0) if folder is not None else ""
    return f"The whole of it, as text: {kept.strip()}" if kept else ""


def _within(words: Sequence[str], room: int) -> tuple[str, ...]:
    """Return the first text, and as many of the latest ones as fit into `room` characters."""
    if not words:
        return ()
    first, *rest = words
    room -= len(first)
    kept: list[str] = []
    for one in reversed(rest):
        room -= len(one)
        if room < 0:
            break
        kept.append(one)
    return (first, *reversed(kept))


def _made_line(call: ToolCall, results: Mapping[str, ToolMessage], tools: Toolset) -> str:
    """Describe a call's change in one line, or return '' if it changed no cell or file."""
    result = results.get(call.id)
    if result is None or result.is_error:
        return ""
    try:
        meant = find_meant(call.name, call.arguments, tools)
        writes = any(one.access == "write" and one.kind in ("path", "cell") for one in meant.tool.touches(meant.args))
    except (ToolError, json.JSONDecodeError):
        return ""
    if not writes:
        return ""
    headline = headline_of(call, tools)
    done = " ".join(filter(None, (headline.verb, headline.target, headline.note)))
    return f"{done}: {_text_of(result).split(chr(10), 1)[0]}"[:MADE_LINE]


def _cut_result(message: ToolMessage) -> ToolMessage:
    from vibe_jupyter.agent.shortening import without_pictures  # noqa: PLC0415 - few conversations are compacted

    plain = without_pictures(message)
    parts = tuple(
        TextPart(text=head_and_tail(part.text, RESULT_LIMIT)) if isinstance(part, TextPart) else part
        for part in plain.parts
    )
    return message.model_copy(update={"parts": parts})


def _text_of(message: UserMessage | ToolMessage) -> str:
    return "\n".join("[image]" if isinstance(part, ImagePart) else part.text for part in message.parts)
