"""Events of a small session, and a journal in a folder of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vibe_jupyter.protocol import (
    Answered,
    ApprovalRequested,
    ApprovalResolved,
    AssistantMessage,
    CarriedOver,
    Choice,
    DurableEvent,
    FileProduced,
    Headline,
    HistoryEdit,
    HistoryRewritten,
    ImagePart,
    MessageAdded,
    Preview,
    Question,
    QuestionAnswered,
    QuestionAsked,
    Resource,
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
from vibe_jupyter.session.journal import Journal

HEADLINE = Headline(verb="Ran code", doing="Running code", asking="Run code", target="")


def user(text: str) -> MessageAdded:
    return MessageAdded(message=UserMessage(parts=(TextPart(text=text),)))


def assistant(text: str, *calls: str) -> MessageAdded:
    parts = (TextPart(text=text), *(ToolCall(id=name, name="run_code", arguments="{}") for name in calls))
    return MessageAdded(message=AssistantMessage(parts=parts, stop_reason="tool_calls" if calls else "stop"))


def result(call_id: str, text: str) -> MessageAdded:
    return MessageAdded(message=ToolMessage(call_id=call_id, name="run_code", parts=(TextPart(text=text),)))


def started(call_id: str) -> ToolStarted:
    return ToolStarted(call_id=call_id, name="run_code", headline=HEADLINE)


def finished(call_id: str) -> ToolFinished:
    return ToolFinished(call_id=call_id, name="run_code", headline=HEADLINE, outcome="ok", summary="3 rows")


def a_session() -> tuple[DurableEvent, ...]:
    """One run with an approved call, holding every kind of durable event."""
    call = ToolCall(id="c1", name="run_code", arguments='{"code": "1"}')
    picture = ImagePart(media_type="image/png", data="aGVsbG8=")
    return (
        RunStarted(run_id="r1", model="m", provider="localhost", agent="default"),
        MessageAdded(message=UserMessage(parts=(TextPart(text="wish · \u2028 🙂"), picture))),
        MessageAdded(message=AssistantMessage(parts=(TextPart(text="I look"), call), stop_reason="tool_calls")),
        ApprovalRequested(
            approval_id="a1",
            call=call,
            headline=HEADLINE,
            preview=Preview(kind="code", text="1"),
            reason="runs code",
            resources=(Resource(kind="code", value="1", access="execute"),),
            remember_as=None,
            digest="d",
        ),
        ApprovalResolved(approval_id="a1", call_id="c1", allowed=True, by="person"),
        started("c1"),
        QuestionAsked(
            question_id="q1",
            call_id="c1",
            questions=(Question(question="Which?", options=(Choice(label="One"), Choice(label="Two"))),),
        ),
        QuestionAnswered(
            question_id="q1",
            call_id="c1",
            answers=(Answered(question="Which?", selected=("One",), other="or ten"),),
            by="person",
        ),
        finished("c1"),
        result("c1", "1"),
        FileProduced(file_id="f1", name="plot.png", media_type="image/png", size=5, host="localhost", data="aGVsbG8="),
        assistant("Done"),
        HistoryRewritten(
            kind="compacted",
            length=4,
            edits=(HistoryEdit(at=1, length=0),),  # leaves the messages as they are
            tokens_before=90,
            tokens_after=90,
            carried=CarriedOver(prompts=("look",), made=("Added cell 3",), plan="[x] look"),
        ),
        RunFinished(reason="stop", turns=2, seconds=1.5, usage=Usage(prompt_tokens=3)),
    )


@pytest.fixture
def new_journal(tmp_path: Path) -> Iterator[Callable[[str], Journal]]:
    """Makes journals that are closed when the test ends."""
    made: list[Journal] = []

    def make(session_id: str) -> Journal:
        made.append(Journal.create(tmp_path / "sessions" / session_id, session_id=session_id))
        return made[-1]

    yield make
    for journal in made:
        journal.close()


@pytest.fixture
def journal(new_journal: Callable[[str], Journal]) -> Journal:
    return new_journal("one")
