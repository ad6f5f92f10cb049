"""Export of a conversation as Markdown for reading or JSON for processing."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vibe_jupyter.protocol import (
    AssistantMessage,
    DurableEvent,
    ImagePart,
    Message,
    MessageAdded,
    RunStarted,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from vibe_jupyter.session.conversation import fold_history, fold_prompts
from vibe_jupyter.session.store import SavedSession

EXPORT_VERSION: Final = 1
_FENCE: Final = "```"
_SHOWN: Final = 4_000  # characters of a result in Markdown; JSON has everything


def as_json(session: SavedSession, events: Sequence[DurableEvent]) -> str:
    """Export the messages as sent to the model, with metadata of the conversation."""
    told = session.model_dump(exclude={"name"})
    messages = [message.model_dump() for message in fold_history(events)]
    return json.dumps({"version": EXPORT_VERSION, "conversation": told, "messages": messages}, indent=1) + "\n"


def as_markdown(session: SavedSession, events: Sequence[DurableEvent]) -> str:
    """Export prompts, answers, calls and results in order."""
    facts = [session.id, session.model, session.started, session.notebook or session.folder]
    lines = [f"# {session.title}", "", " · ".join(filter(None, facts)), ""]
    for heading, body in _sections(events):
        lines += [f"## {heading}", "", body, ""]
    return "\n".join(lines)


def _sections(events: Sequence[DurableEvent]) -> Iterator[tuple[str, str]]:
    prompts = dict(fold_prompts(events))
    for place, event in enumerate(events):
        if place in prompts:
            yield "Prompt", prompts[place]
        match event:
            case MessageAdded(message=UserMessage()) | RunStarted():
                pass
            case MessageAdded(message=message):
                yield from _message_sections(message)
            case _:
                pass


def _message_sections(message: Message) -> Iterator[tuple[str, str]]:
    match message:
        case AssistantMessage():
            if message.text:
                yield "Answer", message.text
            for call in message.calls:
                yield f"Call of {call.name}", _fenced(_arguments_text(call), "json")
        case ToolMessage():
            yield f"{'Error' if message.is_error else 'Result'} of {message.name}", _fenced(_result_text(message.parts))
        case _:
            pass


def _arguments_text(call: ToolCall) -> str:
    try:
        return json.dumps(json.loads(call.arguments), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return call.arguments


def _result_text(parts: Iterable[TextPart | ImagePart]) -> str:
    text = "\n".join(part.text if isinstance(part, TextPart) else f"[{part.media_type}]" for part in parts)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n[… {len(text) - _SHOWN:,} more characters]"


def _fenced(text: str, language: str = "") -> str:
    fence = _FENCE
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
