"""What acts around the turns of a run: limits, the guard against loops, and classes of the user's own."""

import asyncio
import json
import threading

import pytest

from tests.agent.conftest import WAIT, Bench, Echo, EchoArguments, one
from tests.agent.test_price_limit import chunk
from vibe_jupyter.agent import middleware
from vibe_jupyter.agent.equal_calls import deed_of
from vibe_jupyter.agent.limits import TimeLimit, TokenLimit, TurnLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.agent.middleware import (
    AddMessage,
    CompactHistory,
    LoopGuard,
    Middleware,
    RunProgress,
    StopRun,
    TurnState,
    Verdict,
)
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    ApprovalRequested,
    Approve,
    Event,
    FinishReason,
    HistoryRewritten,
    Notice,
    RunFinished,
    TextDelta,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolResult,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import Tokens, answer, call, hold, raw, say
from vibe_jupyter.tools.contract import StaticToolset, ToolContext


async def ask(bench: Bench, *chain: Middleware, prompt: str = "go") -> list[Event]:
    agent = bench.agent()._replace(middleware=chain)
    async with asyncio.timeout(WAIT):
        return [event async for event in start_run(agent, bench.conversation, prompt, terms=RunTerms())]


def notices(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice)]


EQUAL = [
    ("run_code", [{"code": "x = 1"}, {"code": "x=1  # once more", "reason": "Let me look."}, {"code": "\nx = (1)\n"}]),
    ("run_code", [{"code": "%matplotlib inline\n"}, {"code": "%matplotlib inline", "reason": "Set up."}]),
    ("bash", [{"command": "ls -l a"}, {"command": "ls  -l 'a'", "description": "List."}, {"command": "ls -l a # all"}]),
    ("bash", [{"command": "echo a#b '#c'"}, {"command": "echo 'a#b'  \"#c\" # it's (all) of it; x"}]),
    ("read_file", [{"path": "a.csv"}, {"path": "./a.csv"}, {"path": "b/../a.csv", "limit": None}]),
    ("search", [{"query": "red  fox", "limit": 10}, {"limit": 10.0, "query": " red fox "}]),
]
DIFFERENT = [
    ("run_code", [{"code": "x = 1"}, {"code": "x = 2"}, {"code": "if y:\n    a\n    b"}, {"code": "if y:\n    a\nb"}]),
    (
        "bash",
        [{"command": "echo 'a  b'"}, {"command": "echo 'a b'"}, {"command": "cat <<E\na\nE"}],
    ),
    *(
        ("bash", [{"command": command} for command in commands])
        for commands in (
            ("git log a#b", "git log a#c", "git log a", "git log '#b'", "git log 'a #b'", "git log 'a #c'"),
            ("echo a#; rm x", "echo a", "echo 'a#;' rm x", "echo a # b\nrm x"),
            ("ls ~", "ls '~'", "ls *", "ls '*'", "ls [a]", "ls '[a]'", "ls {a,b}", "ls '{a,b}'", "ls $a", "ls '$a'"),
            ("x; y", "x ';' y", "x | y", "x '|' y", "x > y", "x '>' y", "x & y", "x '&' y", "! x", "'!' x"),
            ("A=1 x", "'A=1' x", "x a\\ b", "x 'a\\' b", "x a\rb", "x a b"),
        )
    ),
    ("think", [{"reason": "one"}, {"reason": "two"}]),
    ("edit_cell", [{"cell": "a", "source": "# 1"}, {"cell": "a", "source": "# 2"}]),
    ("add_task", [{"list": "food", "description": "milk"}, {"list": "food", "description": "bread"}]),
    (
        "write_file",
        [{"path": "a.py", "content": "if a:\n    b\n    c"}, {"path": "a.py", "content": "if a:\n    b\nc"}],
    ),
    ("broken", ["{", "{}", "[1]", '{"a": ']),
]


@pytest.mark.requirement("agent.loop.equal-calls")
@pytest.mark.parametrize(("name", "given", "kinds"), [*((*one, 1) for one in EQUAL), *((*one, 0) for one in DIFFERENT)])
def test_calls_are_compared_by_what_they_do(name: str, given: list[dict[str, object] | str], kinds: int) -> None:
    texts = [one if isinstance(one, str) else json.dumps(one) for one in given]
    deeds = {deed_of(ToolCall(id=str(at), name=name, arguments=text)) for at, text in enumerate(texts)}
    assert len(deeds) == (kinds or len(given))


class Watch(Echo):
    """Waits for something, and says how it stands."""

    def __init__(self, *stands: str, seconds: float = 0.0) -> None:
        super().__init__("quiet", "always")
        self.stands = list(stands)
        self.seconds = seconds

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        await asyncio.sleep(self.seconds)
        return ToolResult.text(self.stands.pop(0) if len(self.stands) > 1 else self.stands[0])


@pytest.mark.requirement("agent.loop.equal-calls")
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(Watch("running", seconds=0.06), id="each takes its time"),
        pytest.param(Watch("1 %", "1 %", "5 %", "5 %", "1 %", "1 %", "7 %", "7 %", "8 %"), id="the result changes"),
    ],
)
async def test_waiting_for_something_is_no_loop(bench: Bench, tool: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "LOOP_SECONDS", 0.05)
    bench.tools = StaticToolset([tool])
    bench.model.will_reply(*[call("quiet", text="job")] * 9, say("It is done."))
    events = await ask(bench, LoopGuard())
    assert (one(events, RunFinished).reason, notices(events)) == ("stop", [])


class Scribe(Middleware):
    """Notes what it sees, and says what it was given to say."""

    def __init__(self, before: dict[int, Verdict] | None = None, after: dict[int, Verdict] | None = None) -> None:
        self.before, self.after = before or {}, after or {}
        self.seen: list[tuple[str, int, int]] = []

    def before_turn(self, state: TurnState) -> Verdict | None:
        self.seen.append(("before", state.progress.turns, len(state.history)))
        return self.before.get(state.progress.turns)

    def after_turn(self, state: TurnState) -> Verdict | None:
        self.seen.append(("after", state.progress.turns, len(state.history)))
        return self.after.get(state.progress.turns)


async def test_it_is_asked_before_and_after_each_turn_with_all_that_the_model_has_seen(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="a"), say("Done."))
    scribe = Scribe()
    await ask(bench, scribe)
    assert scribe.seen == [("before", 0, 1), ("after", 1, 3), ("before", 1, 3), ("after", 2, 4)]


@pytest.mark.requirement("agent.stop-signals.middleware")
async def test_it_can_stop_compact_or_add_a_message_before_and_after_a_turn(bench: Bench) -> None:
    stop = StopRun("loop", "Enough of this.")
    bench.model.will_reply(*[call("quiet", text="a")] * 2)
    for place in (Scribe(before={1: stop}), Scribe(after={1: stop})):
        events = await ask(bench, place)
        assert one(events, RunFinished).reason == "loop"
        assert notices(events) == ["Enough of this."]
    assert len(bench.model.requests) == 2

    bench.model.will_reply(call("quiet", text="a"), say("Checked."), say("Again."))
    place = Scribe(before={1: AddMessage("Be brief.")}, after={2: AddMessage("Check it.", notice="Asked to check.")})
    events = await ask(bench, place)
    assert one(events, RunFinished).reason == "stop"
    assert notices(events) == ["Be brief.", "Asked to check."]
    *_, second, third = bench.model.requests
    assert second.last_user_text == "<vibe_note>\nBe brief.\n</vibe_note>"
    assert third.last_user_text == "<vibe_note>\nCheck it.\n</vibe_note>"

    for place in (Scribe(before={1: CompactHistory()}), Scribe(after={1: CompactHistory()})):
        bench.model.will_reply(call("quiet", text="a"), say("What was done."), say("Done."))
        events = await ask(bench, place)
        assert one(events, HistoryRewritten).kind == "compacted"
        assert one(events, RunFinished).reason == "stop"
    check_history(bench.conversation.history)


async def test_of_several_that_stop_the_first_wins_and_what_others_said_before_it_is_added(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="a"), say("Done."))
    said = [AddMessage("Be brief."), StopRun("loop", "First."), AddMessage("Too late."), StopRun("refused", "Second.")]
    events = await ask(bench, *(Scribe(before={1: verdict}) for verdict in said))
    assert one(events, RunFinished).reason == "loop"
    assert notices(events) == ["Be brief.", "First."]


async def test_what_is_added_before_the_first_turn_goes_along_with_the_prompt(bench: Bench) -> None:
    bench.model.will_reply(say("Done."))
    await ask(bench, Scribe(before={0: AddMessage("One.")}), Scribe(before={0: AddMessage("Two.")}), prompt="My words.")
    (_, message) = bench.model.requests[0].messages
    text = json.dumps(message["content"])
    assert text.index("One.") < text.index("Two.") < text.index("My words.")


async def test_one_that_fails_is_named_and_left_out_of_the_rest_of_the_run(bench: Bench) -> None:
    class Broken(Middleware):
        def before_turn(self, state: TurnState) -> Verdict | None:
            raise KeyError("gone")

    class Leaving(Middleware):
        def before_turn(self, state: TurnState) -> Verdict | None:
            raise SystemExit(2)

    class Odd(Middleware):
        def before_turn(self, state: TurnState) -> Verdict | None:
            return "stop"  # pyright: ignore[reportReturnType]

    bench.model.will_reply(call("quiet", text="a"), say("Done."))
    events = await ask(bench, Broken(), Leaving(), Odd())
    assert notices(events) == [
        "The middleware Broken failed: KeyError: 'gone'. It is left out of this run.",
        "The middleware Leaving failed: SystemExit: 2. It is left out of this run.",
        "The middleware Odd returned str, which is no verdict. It is left out of this run.",
    ]
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (StopRun("budget", "Enough."), "the reason 'budget'; there are stop, length"),  # pyright: ignore[reportArgumentType]
        (StopRun("stop", "Enough.", "error"), "StopRun with a value of the wrong kind"),  # pyright: ignore[reportArgumentType]
        (AddMessage(5), "AddMessage with a value of the wrong kind"),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_one_whose_verdict_cannot_be_told_is_left_out_too(bench: Bench, verdict: Verdict, words: str) -> None:
    bench.model.will_reply(say("Done."))
    events = await ask(bench, Scribe(before={0: verdict}))
    (notice,) = notices(events)
    assert notice.startswith(f"The middleware Scribe returned {words}")
    assert one(events, RunFinished).reason == "stop"


async def test_tokens_are_limited_before_each_request_and_while_an_answer_comes(bench: Bench) -> None:
    used = answer(calls=[call("quiet", text="a")], usage=Tokens(prompt=400, completion=100))
    bench.model.will_reply(used, used, used)
    events = await ask(bench, TokenLimit(999))
    assert (one(events, RunFinished).reason, len(bench.model.requests)) == ("token_limit", 2)
    assert notices(events)[0].startswith("Stopped: the run has used 1,000 tokens, and the limit of one run is 999.")
    # A server that counts nothing before its end: four characters are taken for a token.
    bench.model.will_reply(raw([chunk("x" * 1_000) for _ in range(200)], delay_between=0.002))
    events = await ask(bench, TokenLimit(5_000))
    assert one(events, RunFinished).reason == "token_limit"
    shown = sum(len(event.text) for event in events if isinstance(event, TextDelta))
    assert 20_000 <= shown < 40_000
    check_history(bench.conversation.history)


@pytest.mark.requirement("reply.held.limits")
@pytest.mark.parametrize(
    "begun", ['<tool_call>\n{"name": "quiet", "arguments": {"text": "', '{"name": "quiet", "arguments": {"text": "']
)
async def test_tokens_are_limited_while_an_answer_that_may_be_a_call_is_held_back(bench: Bench, begun: str) -> None:
    bench.model.will_reply(hold(threading.Event(), begun + "x" * 40_000))
    events = await ask(bench, TokenLimit(5_000))
    assert one(events, RunFinished).reason == "token_limit"
    assert [event for event in events if isinstance(event, TextDelta)] == []
    assert bench.quiet.ran == []
    check_history(bench.conversation.history)


@pytest.mark.requirement("reply.held.limits")
async def test_what_was_held_back_and_is_shown_counts_once(bench: Bench) -> None:
    text = "See <tool_call> " + "x" * 9_000 + "[TOOL_CALLS] is a mark. " + "y" * 9_000
    bench.model.will_reply(say(text, pieces=200))
    events = await ask(bench, TokenLimit(5_200))
    assert one(events, RunFinished).reason == "stop"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


async def test_time_is_limited_also_while_the_model_says_nothing(bench: Bench) -> None:
    bench.model.will_reply(hold(threading.Event()))
    events = await ask(bench, TimeLimit(1_000.0), TimeLimit(0.2), TimeLimit(900.0))
    finished = one(events, RunFinished)
    assert finished.reason == "time_limit"
    assert 0.2 <= finished.seconds < WAIT / 2
    assert notices(events)[0].startswith("Stopped: the run has taken 0 s, and the limit of one run is 0 s.")
    check_history(bench.conversation.history)


@pytest.mark.requirement("programmatic.limits.running-tool")
async def test_the_call_that_runs_when_the_time_is_up_is_ended_and_later_ones_do_not_begin(bench: Bench) -> None:
    class UpInTheFirstCall(TimeLimit):
        def exceeded(self, progress: RunProgress) -> StopRun | None:
            return super().exceeded(progress) if bench.quiet.ran else None

    bench.model.will_reply(answer(calls=[call("quiet", text="wait"), call("quiet", text="b")]))
    events = await ask(bench, UpInTheFirstCall(0.2))
    assert one(events, RunFinished).reason == "time_limit"
    assert bench.quiet.ran == ["wait"]
    steps = [(event.outcome, event.summary) for event in events if isinstance(event, ToolFinished)]
    assert steps == [("interrupted", "ended at the time limit of the run")] * 2
    results = (message for message in bench.conversation.history if isinstance(message, ToolMessage))
    told = [part.text for message in results for part in message.parts if isinstance(part, TextPart)]
    assert told == [
        "The time of the run was up; this call may have run in part.",
        "Not run: the time of the run was up before this call started.",
    ]
    check_history(bench.conversation.history)


async def test_the_time_in_which_the_user_was_waited_for_does_not_count(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), say("Done."))
    agent = bench.agent()._replace(middleware=[TimeLimit(2.0)])
    run = start_run(agent, bench.conversation, "go", terms=RunTerms())
    async with asyncio.timeout(WAIT):
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ApprovalRequested):
                before = run.waited
                while run.waited - before < 2.1:
                    await asyncio.sleep(0.1)
                run.send(Approve(approval_id=event.approval_id))
    finished = one(events, RunFinished)
    assert finished.reason == "stop"
    assert finished.waited > 2.0 > finished.seconds


@pytest.mark.requirement("middleware.stop.reason")
@pytest.mark.parametrize(
    ("limit", "reason", "named"),
    [
        (TurnLimit(1), "turn_limit", "limit of 1 turn"),
        (TokenLimit(10), "token_limit", "limit of one run is 10"),
        (Scribe(before={1: StopRun("loop", "It repeats itself.")}), "loop", "It repeats itself."),
    ],
)
async def test_a_run_that_was_ended_says_by_what_and_its_history_is_valid(
    bench: Bench, limit: Middleware, reason: FinishReason, named: str
) -> None:
    bench.model.will_reply(answer(calls=[call("quiet", text="a")], usage=Tokens(prompt=40, completion=10)), say("On."))
    events = await ask(bench, limit)
    assert one(events, RunFinished).reason == reason
    assert named in notices(events)[0]
    check_history(bench.conversation.history)
    assert one(await ask(bench), RunFinished).reason == "stop"  # a strict server takes it


async def test_the_third_equal_call_is_pointed_out_and_the_sixth_ends_the_run(bench: Bench) -> None:
    bench.model.will_reply(*[call("quiet", text="a")] * 9)
    events = await ask(bench, LoopGuard())
    assert (one(events, RunFinished).reason, len(bench.model.requests)) == ("loop", 6)
    told, stopped = notices(events)
    assert told == "The model repeats itself: quiet, 3 times the same. It was asked to go another way."
    assert stopped.startswith("Stopped: the model called quiet 6 times in the same way")
    assert "called quiet 3 times in the same way" in bench.model.requests[3].last_user_text
    check_history(bench.conversation.history)


async def test_among_the_calls_of_an_answer_the_one_that_repeats_counts(bench: Bench) -> None:
    answers = [
        answer(calls=[call("quiet", text=f"{number}"), call("quiet", text="a"), call("quiet", text=f"{number + 10}")])
        for number in range(3)
    ]
    bench.model.will_reply(*answers, say("Done."))
    (told,) = notices(await ask(bench, LoopGuard()))
    assert told == "The model repeats itself: quiet, 3 times the same. It was asked to go another way."


async def test_equal_failures_count_though_the_second_is_reported_in_a_line_and_other_results_do_not(
    bench: Bench,
) -> None:
    bench.model.will_reply(*[call("quiet", text="crash")] * 3, say("I give up."))
    assert "The model repeats itself: quiet" in notices(await ask(bench, LoopGuard()))[0]
    bench.model.will_reply(*[call("quiet", text=str(number)) for number in range(5)], say("Done."))
    assert notices(await ask(bench, LoopGuard())) == []
