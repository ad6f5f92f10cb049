"""Questions of a call, from the model to the user and back."""

from collections.abc import Callable

import pytest

from tests.agent.conftest import Bench, one
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    Answer,
    Answered,
    Event,
    Interrupt,
    QuestionAnswered,
    QuestionAsked,
    RunFinished,
    ToolFinished,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import call, say
from vibe_jupyter.tools.ask_user_question import AskUserQuestionTool
from vibe_jupyter.tools.contract import StaticToolset

ASKING = call("ask_user_question", questions=[{"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]}])


@pytest.fixture
def asking(bench: Bench) -> Bench:
    bench.tools = StaticToolset([AskUserQuestionTool()])
    return bench


def answering(bench: Bench, *answers: Answered) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if isinstance(event, QuestionAsked) and bench.run is not None:
            bench.run.send(Answer(question_id="unknown", answers=()))
            bench.run.send(Answer(question_id=event.question_id, answers=answers), by="person")
            bench.run.send(Answer(question_id=event.question_id, answers=None))

    return on_event


async def test_the_first_answer_reaches_the_model_and_the_journal(asking: Bench) -> None:
    asking.model.will_reply(ASKING, say("done"))
    events = await asking.ask("go", on_event=answering(asking, Answered(question="Which?", selected=("B",))))
    assert asking.model.requests[1].tool_results == ["cancelled: false\nWhich? B"]
    assert one(events, QuestionAnswered).by == "person"
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.requirement("tools.ask_user_question.headless.fails")
async def test_unattended_the_call_fails_at_once_and_says_why(asking: Bench) -> None:
    asking.model.will_reply(ASKING, say("done"))
    events = await asking.ask("go", terms=RunTerms(attended=False))
    assert not [event for event in events if isinstance(event, QuestionAsked)]
    assert "Nobody is here to answer" in asking.model.requests[1].tool_results[0]
    assert one(events, ToolFinished).outcome == "error"


async def test_an_interrupt_ends_the_waiting_and_leaves_a_valid_history(asking: Bench) -> None:
    asking.model.will_reply(ASKING)

    def interrupt(event: Event) -> None:
        if isinstance(event, QuestionAsked) and asking.run is not None:
            asking.run.send(Interrupt())

    events = await asking.ask("go", on_event=interrupt)
    assert one(events, QuestionAnswered).by == "interrupt"
    assert one(events, RunFinished).reason == "interrupted"
    check_history(asking.conversation.history)
