"""What a server tells of its calls may have any shape: it becomes a step, a card or a file, or it is passed over."""

import json
import random
from typing import Any

from vibe_jupyter.agent.hosted_approval import call_text, pending_call_text
from vibe_jupyter.llm.hosted_events import MAX_DEPTH, HostedCall, HostedCallRequest, HostedFile, read_answer, read_event
from vibe_jupyter.protocol import FileProduced, Headline, Preview

EVENTS = ("agentic_tool_call_progress", "agentic_tool_approval_required", "file_produced")
NAMES = [
    "type",
    "round",
    "tool_name",
    "phase",
    "data",
    "approval_id",
    "tool",
    "source",
    "kind",
    "label",
    "arguments",
    "tool_type",
    "code",
    "commands",
    "query",
    "images_base64",
    "video_frames_base64",
    "stdout",
    "stderr",
    "exception",
    "exit_code",
    "timed_out",
    "results_count",
    "content",
    "id",
    "name",
    "mime_type",
    "bytes",
    "text",
    "data_base64",
    "preview",
    "message",
    "session_id",
    "outputs",
    "agentic_tool_calls",
    "files",
    "result_content",
]
WORDS = ["", "null", "calling", "complete", "shell", "code_execution", "web_search", "\ud83d", "iVBOR", "\x1b[0m\u202e"]
SIMPLE: list[Any] = [None, True, 0, -1, 1.5, 10**30, float("inf"), [], {}, *WORDS]
EVENTS_READ = 3_000


def anything(rng: random.Random, depth: int) -> Any:
    """A value of any shape."""
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(SIMPLE)
    if rng.random() < 0.4:
        return [anything(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): anything(rng, depth - 1) for _ in range(rng.randrange(6))}


def body(rng: random.Random) -> dict[str, Any]:
    """The body of an event, more often than not with what makes it one."""
    made = {name: anything(rng, 3) for name in rng.sample(NAMES, rng.randrange(12))}
    likely = {
        "phase": rng.choice(["calling", "complete"]),
        "data": {name: anything(rng, 2) for name in rng.sample(NAMES, rng.randrange(8))},
        "approval_id": "appr_1",
    }
    return made | {name: value for name, value in likely.items() if rng.random() < 0.7}


def written(*parts: Headline | Preview | FileProduced | None) -> None:
    """Each can be put into the journal."""
    for part in parts:
        if part is not None:
            part.model_dump_json().encode("utf-8")


def test_values_of_any_shape_become_steps_that_can_be_kept() -> None:
    rng = random.Random(60)
    seen: set[str] = set()
    for _ in range(EVENTS_READ):
        about = body(rng)
        for event in [*read_event(rng.choice(EVENTS), about), *read_answer(about)]:
            seen.add(type(event).__name__)
            match event:
                case HostedCall():
                    first = call_text(event, "host")
                    again = call_text(event, "host", first)
                    written(first.headline, first.preview, again.preview)
                    json.dumps([again.display, again.summary], ensure_ascii=False).encode("utf-8")
                case HostedCallRequest():
                    card = pending_call_text(event, "host")
                    written(card.headline, card.preview)
                case HostedFile():
                    size = event.size
                    written(FileProduced(file_id=event.id, name=event.name, media_type="", size=size, host="host"))
                case _:
                    pass
    assert seen == {"HostedCall", "HostedCallRequest", "HostedFile", "HostedSession"}


def test_what_is_nested_deeper_than_anyone_reads_is_cut() -> None:
    deep: Any = "the end"
    for _ in range(MAX_DEPTH * 10):
        deep = [deep]
    (event,) = read_event(EVENTS[1], {"approval_id": "a", "arguments": deep})
    assert isinstance(event, HostedCallRequest)
    preview = pending_call_text(event, "host").preview
    assert preview is not None
    assert "…" in preview.text
    assert "the end" not in preview.text
