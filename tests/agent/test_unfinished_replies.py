"""Replies that do not end a run: written calls and their cards, cut answers, empty answers, failing servers."""

import json

import pytest

from tests.agent.conftest import Bench, one
from vibe_jupyter.protocol import (
    ApprovalRequested,
    Approve,
    AssistantMessage,
    MessageAdded,
    Notice,
    Reject,
    RunFinished,
    TextDelta,
    ToolFinished,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import Call, answer, call, raw, say

WRITTEN = '<tool_call>\n{"name": "risky", "arguments": {"text": "a"}}\n</tool_call>'
OPEN = '<tool_call>\n{"name": "risky", "arguments": {"text": "a'


@pytest.mark.requirement("reply.written.calls")
@pytest.mark.parametrize("allowed", [True, False])
async def test_a_call_written_as_text_gets_the_card_of_its_tool(bench: Bench, allowed: bool) -> None:
    bench.model.will_reply(say(f"I'll say it.\n{WRITTEN}"), say("done"))
    events = await bench.ask(
        "go",
        decide=lambda card: Approve(approval_id=card.approval_id) if allowed else Reject(approval_id=card.approval_id),
    )
    card = one(events, ApprovalRequested)
    assert (card.call.name, json.loads(card.call.arguments)) == ("risky", {"text": "a"})
    assert bench.risky.ran == (["a"] if allowed else [])
    assert one(events, ToolFinished).summary.endswith("written as text")
    kept = next(bench.folder.rglob("*.jsonl"))
    assert '"mark":"written as text"' in kept.read_text(encoding="utf-8").replace(": ", ":")


@pytest.mark.requirement("reply.written.doubtful")
async def test_a_model_that_goes_on_writing_half_calls_ends_the_run_with_the_setting_to_change(bench: Bench) -> None:
    bench.model.will_reply(*[say(OPEN)] * 3)
    events = await bench.ask("go")
    finished = one(events, RunFinished)
    assert (finished.reason, len(bench.model.requests)) == ("error", 3)
    assert all(setting in finished.error for setting in ("--jinja", "--tool-call-parser"))
    assert bench.risky.ran == []
    check_history(bench.conversation.history)


LOST = raw([b'data: {"choices":[{"delta":{"content":"I look."},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'])


@pytest.mark.requirement("reply.call.lost")
async def test_a_call_that_was_announced_and_never_came_is_asked_for_once(bench: Bench) -> None:
    bench.model.will_reply(LOST, call("quiet", text="b"), LOST, LOST)
    events = await bench.ask("go")
    assert (one(events, RunFinished).reason, bench.quiet.ran) == ("stop", ["b"])
    assert len(bench.model.requests) == 4
    assert len([event for event in events if isinstance(event, Notice) and "sent none" in event.text]) == 2
    assert "none arrived" in json.dumps(bench.model.requests[1].messages[-1])
    check_history(bench.conversation.history)


async def test_half_calls_with_proper_ones_between_them_are_counted_anew(bench: Bench) -> None:
    proper = call("quiet", text="b")
    bench.model.will_reply(say(OPEN), say(OPEN), proper, say(OPEN), say(OPEN), say("done"))
    events = await bench.ask("go")
    assert (one(events, RunFinished).reason, bench.quiet.ran) == ("stop", ["b"])


@pytest.mark.requirement("reply.written.prose")
async def test_a_call_that_repeats_the_prompt_or_a_result_is_text(bench: Bench) -> None:
    shown = WRITTEN.replace("risky", "quiet")
    bench.model.will_reply(call("quiet", text=shown), say(f"It says:\n{shown}"))
    events = await bench.ask("What does it say?")
    assert (one(events, RunFinished).reason, bench.quiet.ran) == ("stop", [shown])
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == f"It says:\n{shown}"


@pytest.mark.requirement("reply.cut.calls")
async def test_each_call_of_a_cut_answer_gets_a_result_and_the_run_goes_on(bench: Bench) -> None:
    cut = answer("I begin.", calls=[call("quiet", text="a"), Call("risky", '{"text": "b')], finish="length")
    bench.model.will_reply(cut, call("quiet", text="c"), say("done"))
    events = await bench.ask("go")
    assert (bench.quiet.ran, bench.risky.ran) == (["c"], [])
    assert [event for event in events if isinstance(event, ApprovalRequested)] == []
    results = bench.model.requests[1].tool_results
    assert len(results) == 2
    assert all("cut off at the token limit; nothing was run" in result for result in results)
    assert one(events, RunFinished).reason == "stop"
    check_history(bench.conversation.history)


async def test_a_model_that_is_cut_again_and_again_ends_the_run(bench: Bench) -> None:
    bench.model.will_reply(*[answer(calls=[call("quiet", text=str(n))], finish="length") for n in range(9)])
    events = await bench.ask("go")
    assert (one(events, RunFinished).reason, bench.quiet.ran) == ("length", [])
    assert len(bench.model.requests) == 4
    check_history(bench.conversation.history)


@pytest.mark.requirement("reply.empty")
async def test_an_empty_answer_is_asked_for_twice_and_the_hint_is_not_recorded(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="a"), say(""), say("", reasoning="I wonder."), say("done"))
    events = await bench.ask("go")
    assert one(events, RunFinished).reason == "stop"
    first, second, third = (request.messages[-1] for request in bench.model.requests[1:])
    assert first == second
    assert "Your last answer was empty" in third["content"]
    assert "Your last answer was empty" not in str(bench.conversation.history)
    assert len([event for event in events if isinstance(event, Notice)]) == 2


async def test_three_empty_answers_end_the_run_as_before(bench: Bench) -> None:
    bench.model.will_reply(*[say("")] * 4)
    events = await bench.ask("go")
    finished = one(events, RunFinished)
    assert (finished.reason, len(bench.model.requests)) == ("error", 3)
    assert "answered with nothing" in finished.error


async def test_what_the_content_filter_held_back_is_not_asked_for_again(bench: Bench) -> None:
    bench.model.will_reply(answer("", finish="content_filter"))
    events = await bench.ask("go")
    assert (one(events, RunFinished).reason, len(bench.model.requests)) == ("error", 1)


@pytest.mark.parametrize(("code", "requests"), [(502, 3), (400, 1)])
async def test_a_server_that_fails_inside_a_stream_is_asked_again_if_that_may_help(
    bench: Bench, code: int, requests: int
) -> None:
    failing = raw([b'data: {"choices":[{"delta":{"content":"Half"}}]}\n\n', _error(code)])
    bench.model.will_reply(*[failing] * 3)
    events = await bench.ask("go")
    assert (one(events, RunFinished).reason, len(bench.model.requests)) == ("error", requests)
    halves = [event for event in events if isinstance(event, MessageAdded) and not event.in_history]
    assert [event.message.text for event in halves if isinstance(event.message, AssistantMessage)] == [
        "Half"
    ] * requests


def _error(code: int) -> bytes:
    return f'data: {{"error": {{"code": {code}, "message": "Provider returned error"}}}}\n\n'.encode()
