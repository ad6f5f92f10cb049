"""Continuing a conversation of 10,000 messages, and listing it: seconds, and processor time.

.venv/bin/python -m benchmarks.resume [MESSAGES]
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.report import Row, report, size
from vibe_jupyter.protocol import (
    AssistantMessage,
    DurableEvent,
    Headline,
    MessageAdded,
    RunFinished,
    RunStarted,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolStarted,
    Usage,
    UserMessage,
)
from vibe_jupyter.session.conversation import Conversation, check_history
from vibe_jupyter.session.journal import Journal, JournalHeader, encode_body, encode_record, journal_time
from vibe_jupyter.session.store import SessionStore

T = TypeVar("T")
MESSAGES = size(10_000, 80)
AIM = 2.0
"""Seconds of processor time to go on with so many messages."""
RESULT = "species island bill_length_mm\n" * 40
"""About 1,200 characters, as a table that a cell shows."""


def events(messages: int) -> list[DurableEvent]:
    """Runs of eight messages: a prompt, three calls with their results, an answer."""
    headline = Headline(verb="Ran code", doing="Running code", asking="Run code", target="")
    made: list[DurableEvent] = []
    count = 0
    while count < messages:
        made.append(RunStarted(run_id=f"r{count}", model="m", provider="localhost", agent="default", prompt="Look."))
        made.append(MessageAdded(message=UserMessage(parts=(TextPart(text="Look at the penguins."),))))
        for number in range(3):
            call = ToolCall(id=f"c{count}-{number}", name="run_code", arguments='{"code": "penguins.head(40)"}')
            asked = AssistantMessage(parts=(TextPart(text="I look."), call), stop_reason="tool_calls")
            made += [
                MessageAdded(message=asked),
                ToolStarted(call_id=call.id, name=call.name, headline=headline),
                ToolFinished(call_id=call.id, name=call.name, headline=headline, outcome="ok", summary="40 rows"),
                MessageAdded(message=ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=RESULT),))),
            ]
        answer = AssistantMessage(parts=(TextPart(text="They are heavy."),), stop_reason="stop")
        made += [MessageAdded(message=answer), RunFinished(reason="stop", turns=4, seconds=1.0, usage=Usage())]
        count += 8
    return made


def write(folder: Path, made: list[DurableEvent]) -> None:
    """As the journal does, but synced once."""
    folder.mkdir(parents=True)
    header = JournalHeader(session_id="f" * 32, started=journal_time(), pid=1)
    with (folder / "journal.jsonl").open("wb") as file:
        file.write(encode_record(header.started, "header", encode_body(header)))
        for event in made:
            file.write(encode_record(journal_time(), "event", encode_body(event)))


def main(messages: int) -> int:
    """Print the table; 1 where the aim was missed."""
    with tempfile.TemporaryDirectory() as name:
        store = SessionStore(Path(name))
        write(store.folder / "session_a", events(messages))
        size = (store.folder / "session_a" / "journal.jsonl").stat().st_size
        print(f"{messages:,} messages, {size / 1e6:.1f} MB")
        show("listed for the first time", store.sessions)
        show("listed again", store.sessions)
        conversation, spent = show(
            "resumed", lambda: Conversation.resumed(*Journal.reopen(store.journal_of(store.sessions()[0])))
        )
        check_history(conversation.history)
        assert len(conversation.history) == messages
        conversation.journal.close()
    return report([Row("resumed, processor time", spent, AIM, "s")])


def show(what: str, work: Callable[[], T]) -> tuple[T, float]:
    """Do it, and say how long it took; its result and seconds of processor time."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    result = work()
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - used
    print(f"{what:<28}{time.perf_counter() - began:7.3f} s {spent:7.3f} s of processor time")
    return result, spent


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))
