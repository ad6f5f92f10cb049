"""Compaction: the model summarises the conversation, and the summary takes the place of the history.

What must not depend on a summary is kept word for word: the user's prompts (the first and the latest, within bounds),
a line for each cell and file that was made, and the list of steps. The whole conversation is kept in a file beside the
journal, which the model can page through with read_file.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.call_context import headline_of
from vibe_jupyter.agent.context_size import CHARACTERS_PER_TOKEN, count_messages
from vibe_jupyter.agent.shortening import SUMMARY_TAG, is_prompt, prompt_text, without_pictures
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import head_and_tail, section, spill_text
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import (
    AssistantMessage,
    CarriedOver,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from vibe_jupyter.tools.arguments import find_meant
from vibe_jupyter.tools.contract import Toolset

SUMMARY_LIMIT: Final = 24_000
"""Characters of a summary."""
SUMMARY_SHARE: Final = 0.15
"""Of the window, that a summary may take, and that the latest messages may take beside it."""
PROMPTS_SHARE: Final = 0.10
"""Of the window, that the user's own prompts may take."""
PROMPT_LIMIT: Final = 4_000
"""Characters of one prompt; of a longer one both ends are kept."""
MADE_LINES: Final = 60
MADE_LINE: Final = 160
"""Characters of a line on a cell or file."""
PLAN_LIMIT: Final = 3_000
"""Characters of the list of steps."""
RESULT_LIMIT: Final = 600
"""Characters of a result in the transcript that is summarised where the history itself does not fit."""
FITS: Final = 0.95
"""Of the window, that the request for a summary may take."""
_TODO: Final = "todo"
_ACKNOWLEDGED: Final = "I have read this and go on from it."
_NO_SUMMARY: Final = "(The model wrote no summary; what follows was kept without it.)"


FreshReport = Callable[[], Awaitable[str]]
"""Looks at the notebook as if for a first prompt."""


async def no_report() -> str:
    """Of a conversation without a notebook."""
    return ""


class CompactionTerms(NamedTuple):
    """How an agent compacts."""

    prompt: Callable[[], str] | None = None
    """Writes what asks for the summary; None for the prompt that comes along."""
    model: Model | None = None
    """Writes it; None for the model of the conversation."""
    on_overflow: bool = True
    """Whether a conversation is compacted that the model server refused as too long."""
    must_succeed: bool = False
    """Whether a run ends where there is no summary, rather than go on without one."""
    report: FreshReport = no_report
    """Goes along with the summary."""


DEFAULT_TERMS: Final = CompactionTerms()


def summary_request(
    history: Sequence[Message], system: SystemMessage, prompt: str, *, room: int
) -> tuple[tuple[Message, ...], bool]:
    """What asks for the summary, and whether it is the conversation itself, which the server has in its cache.

    Args:
        history: what is summarised.
        system: the instructions of the agent.
        prompt: what asks for it.
        room: tokens that all of it may take, the tools not counted.
    """
    asked = UserMessage(parts=(TextPart(text=prompt),))
    whole = (system, *history, asked)
    if count_messages(whole) <= room:
        return whole, True
    text = head_and_tail(transcript_text(history, RESULT_LIMIT), max(0, room * CHARACTERS_PER_TOKEN - len(prompt) * 2))
    return (UserMessage(parts=(TextPart(text=section("transcript", text)), TextPart(text=prompt))),), False


def carry_over(
    history: Sequence[Message], before: CarriedOver, tools: Toolset, *, window: int, left_out: int = 0
) -> CarriedOver:
    """What is kept word for word.

    Args:
        history: what is summarised.
        before: what the compaction before kept.
        tools: name what a call did.
        window: tokens of the model.
        left_out: messages at the end that stay as they are.
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
    """The history that takes the place of the old one.

    Args:
        summary: by the model; empty where it gave none.
        carried: what is kept word for word.
        tail: the latest messages, which stay.
        whole: where the whole conversation can be read; empty where it is not kept.
        report: of the notebook as it is now; empty for none.
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
    between = () if tail and isinstance(tail[0], AssistantMessage) else (_acknowledgement(),)
    return (opening, *between, *tail)


def _acknowledgement() -> AssistantMessage:
    return AssistantMessage(parts=(TextPart(text=_ACKNOWLEDGED),), stop_reason="stop")


def latest_messages(history: Sequence[Message], *, room: int) -> tuple[Message, ...]:
    """The end of the history that a summary does not replace: a prompt that has no answer yet, or the calls of the last
    answer with their results, which the model has not read. Nothing where that takes more than `room` tokens."""
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
    """The conversation as plain text, results cut to `limit` characters; None for whole ones."""
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
    """Keep the whole conversation in a file; gives the line that names it, empty where nothing is kept."""
    kept = spill_text(transcript_text(history), folder, limit=0) if folder is not None else ""
    return f"The whole of it, as text: {kept.strip()}" if kept else ""


def _within(words: Sequence[str], room: int) -> tuple[str, ...]:
    """The first, and the latest that fit."""
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
    """What a call changed, in a line; empty for one that changed no cell and no file."""
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
    plain = without_pictures(message)
    parts = tuple(
        TextPart(text=head_and_tail(part.text, RESULT_LIMIT)) if isinstance(part, TextPart) else part
        for part in plain.parts
    )
    return message.model_copy(update={"parts": parts})


def _text_of(message: UserMessage | ToolMessage) -> str:
    return "\n".join("[image]" if isinstance(part, ImagePart) else part.text for part in message.parts)
