"""The loop against a scripted model: what is asked, what runs, what comes back."""

import json
import time
from itertools import pairwise

import pytest

from tests.agent.conftest import Bench, Echo, EchoArguments, one
from vibe_jupyter.agent import answer_watch
from vibe_jupyter.agent.limits import MAX_UNATTENDED, DenialLimit, TurnLimit
from vibe_jupyter.errors import NothingDone
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    AnswerAwaited,
    ApprovalRequested,
    AssistantMessage,
    MessageAdded,
    Notice,
    ReasoningDelta,
    Reject,
    RequestSent,
    RunFinished,
    RunStarted,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
    TurnStarted,
    Usage,
    UserMessage,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import Call, Raw, Tokens, answer, call, raw, say, status
from vibe_jupyter.tools.contract import StaticToolset, ToolContext

SAID = (b'"content":"Four."', b"null")
STOPPED = (b"", b'"stop"')


@pytest.mark.requirement("agent.events.kinds")
async def test_what_is_thought_said_called_and_done_arrives_in_its_order_in_one_stream(bench: Bench) -> None:
    thoughtful = answer(text="Look.", calls=[call("quiet", text="slow")], reasoning="Hm.")
    bench.model.will_reply(thoughtful, say("done"))
    events = await bench.ask("go")
    assert list(dict.fromkeys(type(event) for event in events)) == [
        RunStarted,
        MessageAdded,
        TurnStarted,
        RequestSent,
        ReasoningDelta,
        TextDelta,
        ToolCallDelta,
        ToolStarted,
        ToolProgress,
        ToolFinished,
        RunFinished,
    ]
    roles = [event.message.role for event in events if isinstance(event, MessageAdded)]
    assert roles == ["user", "assistant", "tool", "assistant"]


@pytest.mark.requirement("view.foot.silence")
async def test_silence_of_the_model_server_is_told_before_the_first_word_and_within_the_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_watch, "SILENCE", 0.1)
    piece, end = (b'data: {"choices":[{"delta":{%s},"finish_reason":%s}]}\n\n' % pair for pair in (SAID, STOPPED))
    bench.model.will_reply(raw([piece, b": ping\n\n", b": ping\n\n", end], delay_between=0.15), say("done"))
    events = await bench.ask("go")
    told = [(event.has_begun, event.limit) for event in events if isinstance(event, AnswerAwaited)]
    assert told == [(True, 300.0)]  # once for each silence, and keep-alive comments are silence
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.requirement("agent.events.finish", "wire.finish.stop")
async def test_a_plain_answer_arrives_as_events_and_ends_with_one_run_finished(bench: Bench) -> None:
    bench.model.will_reply(say("Four."))
    events = await bench.ask("What is 2 + 2?")
    kinds = [type(event) for event in events if not isinstance(event, TextDelta)]
    assert kinds == [RunStarted, MessageAdded, TurnStarted, RequestSent, MessageAdded, RunFinished]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Four."
    assert one(events, RunFinished).reason == "stop"
    assert events[-1] == one(events, RunFinished)
    user, reply = bench.conversation.history
    assert user == UserMessage(parts=(TextPart(text="What is 2 + 2?"),))
    assert isinstance(reply, AssistantMessage)
    assert reply.text == "Four."


@pytest.mark.requirement(
    "agent.loop.until-no-calls",
    "agent.loop.parallel-calls",
    "agent.loop.one-call-per-result",
    "permission.level.always",
)
async def test_all_calls_of_an_answer_run_and_their_results_are_in_the_next_request(bench: Bench) -> None:
    bench.model.will_reply(
        answer(text="Two calls.", calls=[call("quiet", text="a"), call("quiet", text="b")]), say("done")
    )
    events = await bench.ask("go")
    assert bench.quiet.ran == ["a", "b"]
    results = [message for message in bench.model.requests[1].messages if message["role"] == "tool"]
    assert [result["content"] for result in results] == ["a", "b"]
    sent = bench.model.requests[1].messages[2]["tool_calls"]
    assert [result["tool_call_id"] for result in results] == [one_call["id"] for one_call in sent]
    assert one(events, RunFinished).turns == 2
    assert [event for event in events if isinstance(event, ApprovalRequested)] == []
    check_history(bench.conversation.history)


@pytest.mark.requirement("agent.loop.sequential-calls", "project.use.exploratory")
async def test_later_calls_and_later_runs_see_the_earlier_results(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="a"), call("quiet", text="b"), say("first"), say("second"))
    await bench.ask("one")
    await bench.ask("two")
    roles = [message["role"] for message in bench.model.requests[3].messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user"]


async def test_calls_of_a_server_that_counts_them_from_0_in_each_answer_are_told_apart(bench: Bench) -> None:
    counted = [Call("quiet", '{"text": "a"}', id="0"), Call("quiet", '{"text": "b"}', id="1")]
    bench.model.will_reply(answer(calls=counted), Call("quiet", "{", id="0"), say("first"))
    bench.model.will_reply(answer(calls=counted), say("second"))
    events = [*await bench.ask("one"), *await bench.ask("two")]
    ended = [event.call_id for event in events if isinstance(event, ToolFinished)]
    assert ended[:2] == ["0", "1"]
    assert len(set(ended)) == len(ended) == 5
    check_history(bench.conversation.history)
    results = [message["tool_call_id"] for message in bench.model.requests[-1].messages if message["role"] == "tool"]
    assert results == ended


@pytest.mark.requirement("agent.loop.append-only")
async def test_each_request_of_a_conversation_begins_with_the_one_before(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="a"), say("first"), call("quiet", text="fail"), say("second"))
    await bench.ask("one")
    await bench.ask("two")
    bodies = [request.body for request in bench.model.requests]
    for earlier, later in pairwise(bodies):
        assert later["messages"][: len(earlier["messages"])] == earlier["messages"]
        assert json.dumps(later["tools"]) == json.dumps(earlier["tools"])


@pytest.mark.requirement("agent.loop.streaming-both")
@pytest.mark.parametrize("stream", [True, False])
async def test_streamed_or_not_the_history_is_the_same(bench: Bench, stream: bool) -> None:
    bench.stream = stream
    bench.model.will_reply(answer(text="Look:", calls=[call("quiet", text="a")]), say("done"))
    await bench.ask("go")
    assert bench.model.requests[0].body.get("stream", False) is stream
    user, asked, result, told = bench.conversation.history
    assert user == UserMessage(parts=(TextPart(text="go"),))
    assert isinstance(asked, AssistantMessage)
    assert (asked.text, asked.stop_reason) == ("Look:", "tool_calls")
    (called,) = asked.calls
    assert (called.name, json.loads(called.arguments)) == ("quiet", {"text": "a"})
    assert result == ToolMessage(call_id=called.id, name="quiet", parts=(TextPart(text="a"),))
    assert isinstance(told, AssistantMessage)
    assert (told.text, told.calls, told.stop_reason) == ("done", (), "stop")


@pytest.mark.requirement("agent.loop.recovery", "agent.loop.one-call-per-result", "wire.call.values")
@pytest.mark.parametrize(
    ("text", "words"), [("fail", "It failed. Say something else."), ("crash", "ZeroDivisionError: by zero")]
)
async def test_a_failing_tool_is_a_result_for_the_model_and_the_run_goes_on(
    bench: Bench, text: str, words: str
) -> None:
    bench.model.will_reply(call("quiet", text=text), say("I see."))
    events = await bench.ask("go")
    assert one(events, ToolFinished).outcome == "error"
    assert words in bench.model.requests[1].tool_results[0]
    assert one(events, RunFinished).reason == "stop"
    check_history(bench.conversation.history)
    (result,) = [message for message in bench.conversation.history if isinstance(message, ToolMessage)]
    assert (result.name, result.is_error) == ("quiet", True)


async def test_an_unknown_argument_is_named_with_the_nearest_one_there_is(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", txt="a"), say("Understood."))
    await bench.ask("go")
    assert "there is no argument 'txt', did you mean 'text'? (text, times)" in bench.model.requests[1].tool_results[0]
    assert bench.quiet.ran == []


@pytest.mark.requirement("agent.loop.unknown-tool")
async def test_an_unknown_tool_is_named_and_the_other_calls_still_run(bench: Bench) -> None:
    bench.model.will_reply(answer(text="", calls=[call("nope", x=1), call("quiet", text="b")]), say("done"))
    await bench.ask("go")
    first, second = bench.model.requests[1].tool_results
    assert "no tool 'nope'" in first
    assert "quiet, risky" in first
    assert second == "b"


@pytest.mark.requirement("agent.loop.invalid-arguments")
async def test_wrong_arguments_name_the_field_and_nothing_runs(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", times="many"), say("done"))
    events = await bench.ask("go")
    (result,) = bench.model.requests[1].tool_results
    assert "text: Field required" in result
    assert "times:" in result
    assert bench.quiet.ran == []
    assert not [event for event in events if isinstance(event, ToolStarted)]


@pytest.mark.requirement("agent.loop.broken-json", "agent.loop.one-call-per-result")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"text": "a', "Unterminated string"),
        ("[1]", "expected a JSON object, got a list"),
        ('{"text": NaN}', "NaN is not JSON"),
        ('"a"', "expected a JSON object, got a string"),
    ],
)
async def test_broken_arguments_are_answered_and_the_call_never_runs(
    bench: Bench, arguments: str, problem: str
) -> None:
    bench.model.will_reply(Call("quiet", arguments), say("done"))
    await bench.ask("go")
    assert bench.quiet.ran == []
    (result,) = bench.model.requests[1].tool_results
    assert f"The arguments of quiet are not one JSON object: {problem}" in result
    check_history(bench.conversation.history)


@pytest.mark.requirement("middleware.turn.limit", "agent.loop.iterations-clamp", "magics.option.max-turns")
@pytest.mark.parametrize(("limit", "requests"), [(2, 2), (0, 1), (-5, 1)])
async def test_the_turn_limit_ends_the_run_before_one_request_too_many(bench: Bench, limit: int, requests: int) -> None:
    bench.turns = limit
    bench.model.will_reply(*[call("quiet", text="again")] * 5)
    events = await bench.ask("go")
    assert one(events, RunFinished).reason == "turn_limit"
    assert len(bench.model.requests) == requests
    assert "--max-turns" in one(events, Notice).text
    check_history(bench.conversation.history)
    assert TurnLimit(1_000).turns == 200


@pytest.mark.requirement("agent.usage.counting")
async def test_tokens_of_all_requests_are_added_up_for_run_and_session(bench: Bench) -> None:
    for _ in range(2):
        bench.model.will_reply(
            answer(calls=[call("quiet", text="a")], usage=Tokens(10, 2)),
            say("done", usage=Tokens(20, 3)),
        )
        events = await bench.ask("go")
        assert one(events, RunFinished).usage == Usage(prompt_tokens=30, completion_tokens=5)
    assert bench.conversation.usage == Usage(prompt_tokens=60, completion_tokens=10)


@pytest.mark.requirement("agent.usage.counting")
async def test_an_answer_without_counts_is_kept_with_those_that_its_run_is_counted_with(bench: Bench) -> None:
    counts = Tokens(2_000, 3)
    bench.model.will_reply(answer(calls=[call("quiet", text="a")], usage=Tokens(0, 0)), say("done", usage=counts))
    events = await bench.ask("go")
    said = [event.message for event in events if isinstance(event, MessageAdded)]
    kept = [message.usage for message in said if isinstance(message, AssistantMessage) and message.usage is not None]
    assert kept[1] == Usage(prompt_tokens=2_000, completion_tokens=3)
    assert kept[0].prompt_tokens > 10
    assert kept[0] + kept[1] == one(events, RunFinished).usage


@pytest.mark.requirement("stream.sse.cut")
async def test_a_cut_answer_is_kept_for_the_person_asked_again_once_and_not_sent(bench: Bench) -> None:
    whole_call = {"index": 0, "id": "c1", "function": {"name": "quiet", "arguments": '{"text": "a"}'}}
    delta = {"content": "Half an ans", "tool_calls": [whole_call]}
    cut = raw([f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n".encode()])
    bench.model.will_reply(cut, say("Whole."))
    events = await bench.ask("go")
    assert bench.quiet.ran == []
    kept = [event for event in events if isinstance(event, MessageAdded) and not event.in_history]
    assert [event.message.text for event in kept if isinstance(event.message, AssistantMessage)] == ["Half an ans"]
    assert "Half" not in json.dumps(bench.model.requests[1].messages)
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.parametrize(
    "broken",
    [
        raw([b'{"choices": [{"index": 0, "message": {"role": "assi'], content_type="application/json"),
        raw([b"<html>", b"busy</html>"], content_type="application/json"),
        raw([b'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n', b"data: {broken\n\n"]),
    ],
    ids=["half a body", "no JSON", "a line of a stream"],
)
async def test_an_answer_that_is_no_json_is_asked_for_again_once(bench: Bench, broken: Raw) -> None:
    bench.model.will_reply(broken, say("Whole."))
    events = await bench.ask("go")
    assert one(events, RunFinished).reason == "stop"
    assert len(bench.model.requests) == 2
    bench.model.will_reply(broken, broken)
    assert one(await bench.ask("again"), RunFinished).reason == "error"
    assert len(bench.model.requests) == 4


async def test_an_answer_cut_twice_is_an_error_with_the_next_step(bench: Bench) -> None:
    cut = raw([b'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'])
    bench.model.will_reply(cut, cut)
    events = await bench.ask("go")
    finished = one(events, RunFinished)
    assert finished.reason == "error"
    assert finished.error
    assert len(bench.model.requests) == 2
    bench.model.will_reply(say("Here."))
    assert one(await bench.ask("again"), RunFinished).reason == "stop"


@pytest.mark.requirement("wire.errors.status")
async def test_a_refused_key_ends_the_run_with_what_to_do(bench: Bench) -> None:
    bench.model.will_reply(status(401, {"message": "Unauthorized"}))
    finished = one(await bench.ask("go"), RunFinished)
    assert finished.reason == "error"
    assert "401" in finished.error
    assert "key" in finished.error


async def test_an_answer_cut_by_the_token_limit_says_so_and_keeps_its_text(bench: Bench) -> None:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "It is"}, "finish_reason": "length"}]}
    bench.model.will_reply(raw([json.dumps(body).encode()], content_type="application/json"))
    events = await bench.ask("go")
    assert one(events, RunFinished).reason == "length"
    last = bench.conversation.history[-1]
    assert isinstance(last, AssistantMessage)
    assert last.text == "It is"


@pytest.mark.requirement("permission.approve.deny")
async def test_the_same_call_denied_three_times_ends_the_run(bench: Bench) -> None:
    bench.model.will_reply(*[call("risky", text="a")] * 5)
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert one(events, RunFinished).reason == "refused"
    assert len(bench.model.requests) == 3
    assert all(m.is_error for m in bench.conversation.history if isinstance(m, ToolMessage))
    check_history(bench.conversation.history)


@pytest.mark.requirement("permission.approve.deny")
async def test_a_denied_call_is_the_same_however_it_is_spelled(bench: Bench) -> None:
    spelled = ['{"text": "a"}', '{ "text":\n"a" }', '{"text": "\\u0061"}']
    bench.model.will_reply(*(Call("risky", arguments) for arguments in spelled), *[call("risky", text="a")] * 2)
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert one(events, RunFinished).reason == "refused"
    assert len(bench.model.requests) == 3


@pytest.mark.requirement("permission.approve.deny")
@pytest.mark.parametrize(
    ("arguments", "are_enough"),
    [
        (['{"path": "a", "old": "x"}', '{"old": "x", "path": "a"}', '{"path": "./a", "old": "x"}'], True),
        (['{"old": "x", "new": "x  # 1"}', '{"old": "x", "new": "x  # 2"}', '{"old": "x", "new": "x"}'], False),
        (["{broken", "{broken", "{broken "], False),
    ],
)
def test_denials_of_calls_that_do_the_same_are_counted_together(arguments: list[str], are_enough: bool) -> None:
    denials = DenialLimit(lambda: False)
    for number, given in enumerate(arguments):
        denials.note(ToolCall(id=str(number), name="edit_file", arguments=given), denied=True)
    assert denials.are_enough is are_enough


async def test_denials_between_which_a_call_ran_do_not_end_the_run(bench: Bench) -> None:
    denied = [call("risky", text=str(number)) for number in range(2 * MAX_UNATTENDED - 2)]
    half = MAX_UNATTENDED - 1
    bench.model.will_reply(*denied[:half], call("quiet", text="a"), *denied[half:], say("Done."))
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert one(events, RunFinished).reason == "stop"


async def test_where_nobody_can_say_yes_varied_calls_that_are_denied_end_the_run(bench: Bench) -> None:
    bench.model.will_reply(*(call("risky", text=str(number)) for number in range(9)))
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert one(events, RunFinished).reason == "refused"
    assert len(bench.model.requests) == MAX_UNATTENDED
    check_history(bench.conversation.history)


async def test_a_call_that_runs_between_denials_lets_the_run_go_on(bench: Bench) -> None:
    denied = [call("risky", text=str(number)) for number in range(8)]
    bench.model.will_reply(*denied[:4], call("quiet", text="a"), *denied[4:], say("done"))
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert one(events, RunFinished).reason == "stop"


async def test_a_person_may_deny_as_many_different_calls_as_they_like(bench: Bench) -> None:
    bench.model.will_reply(*(call("risky", text=str(number)) for number in range(8)), say("done"))
    events = await bench.ask("go", decide=lambda asked: Reject(approval_id=asked.approval_id))
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.requirement("wire.finish.tool-calls")
@pytest.mark.parametrize("finish", ["tool_calls", "stop", "weird"])
async def test_calls_are_executed_whatever_complete_finish_reason_comes_with_them(bench: Bench, finish: str) -> None:
    bench.model.will_reply(answer(calls=[call("quiet", text="a")], finish=finish), say("done"))
    await bench.ask("go")
    assert bench.quiet.ran == ["a"]


@pytest.mark.requirement("agent.loop.empty-arguments")
@pytest.mark.parametrize("arguments", ["", "  ", "null"])
async def test_blank_or_null_arguments_count_as_an_empty_object(bench: Bench, arguments: str) -> None:
    bench.model.will_reply(Call("quiet", arguments), say("done"))
    await bench.ask("go")
    (result,) = bench.model.requests[1].tool_results
    assert "text: Field required" in result


class Refusing(Echo):
    """A tool that finds out, some time after it began, that there is nothing to do."""

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            pass
        raise NothingDone("Nothing was done.")


async def test_a_call_that_did_nothing_took_no_time(bench: Bench) -> None:
    bench.tools = StaticToolset([Refusing("quiet", "always")])
    bench.model.will_reply(call("quiet", text="a"), say("done"))
    finished = one(await bench.ask("go"), ToolFinished)
    assert (finished.outcome, finished.seconds) == ("error", 0.0)
