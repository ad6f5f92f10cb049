"""A server that others wrote asks the user and the model, and offers resources and prompts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.mcp import real_servers
from tests.mcp.bench import McpBench, all_of, allowing, mcp_bench, one
from tests.mcp.conftest import declared
from vibe_jupyter.agent.run import Run
from vibe_jupyter.config.tool_servers import ServerProgram
from vibe_jupyter.protocol import Answer, Answered, ApprovalRequested, Event, Question, QuestionAsked, ToolFinished
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("real mcp servers")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[McpBench]:
    async with mcp_bench(tmp_path) as bench:
        program = ServerProgram((real_servers.node(), real_servers.npm("everything")))
        bench.declare(declared("everything", program, sampling=True))
        yield bench


def fitting(question: Question) -> Answered:
    """The first choice, or something of the form that is asked for."""
    forms = {"e-mail": "ada@example.org", "an address": "https://example.org", "a date": "2026-01-31"}
    words = next((value for form, value in forms.items() if form in question.question), "42")
    chosen = tuple(option.label for option in question.options[:1])
    return Answered(question=question.question, selected=chosen, other="" if chosen else words)


def filling_in(event: Event, run: Run) -> None:
    if isinstance(event, QuestionAsked):
        run.send(Answer(question_id=event.question_id, answers=tuple(map(fitting, event.questions))))
    allowing(event, run)


async def test_its_form_of_every_kind_of_field_is_filled_in_at_once(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__everything__trigger-elicitation-request"), say("done"))
    events = await bench.ask("go", filling_in)
    assert len(one(events, QuestionAsked).questions) > 10
    result = bench.model.requests[1].tool_results[0]
    assert '"action": "accept"' in result
    assert '"birthdate": "2026-01-31"' in result
    assert '"number": 42' in result


async def test_it_gets_words_of_the_model_by_consent(bench: McpBench) -> None:
    asks = call("mcp__everything__trigger-sampling-request", prompt="hi", maxTokens=20)
    bench.model.will_reply(asks, say("Hello."), say("done"))
    events = await bench.ask("go", filling_in)
    assert "hi" in one(events, ApprovalRequested).preview.text
    assert '"text": "Hello."' in bench.model.requests[2].tool_results[0]


async def test_its_resources_and_prompts_are_used_by_name(bench: McpBench) -> None:
    bench.model.will_reply(say("done"), say("done"))
    first = await bench.ask("Sum up @everything:demo://resource/static/document/features.md")
    assert one(first, ToolFinished).outcome == "ok"
    assert "# Everything Server" in bench.model.requests[0].last_user_text
    second = await bench.ask("/everything:args-prompt city=Bern")
    assert all_of(second, ToolFinished)[0].name == "get_prompt"
    assert "Bern" in bench.model.requests[1].last_user_text
