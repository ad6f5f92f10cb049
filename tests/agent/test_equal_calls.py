"""Equal calls of one answer are one question."""

from collections.abc import Sequence

import pytest

from tests.agent.conftest import Bench, Echo, EchoArguments, one
from vibe_jupyter.protocol import ApprovalRequested, Approve, Preview, Reject, Resource, ToolFinished
from vibe_jupyter.testing import answer, call, say
from vibe_jupyter.tools.contract import StaticToolset


def asked(events: list[object]) -> list[ApprovalRequested]:
    return [event for event in events if isinstance(event, ApprovalRequested)]


@pytest.mark.requirement("permission.approve.once")
async def test_equal_calls_of_one_answer_are_asked_once_and_the_card_says_how_many(bench: Bench) -> None:
    calls = [call("risky", text="a"), call("risky", text="a"), call("risky", text="b"), call("risky", text="a")]
    bench.model.will_reply(answer(calls=calls), say("done"))
    events = await bench.ask("go", decide=lambda request: Approve(approval_id=request.approval_id))
    first, second = asked([*events])
    assert first.preview.text == "a"
    assert first.reason.endswith("the agent sent this call 3 times: your answer holds for each")
    assert second.preview.text == "b"
    assert "times" not in second.reason
    assert bench.risky.ran == ["a", "a", "b", "a"]


async def test_one_denial_answers_all_equal_calls(bench: Bench) -> None:
    bench.model.will_reply(answer(calls=[call("risky", text="a"), call("risky", text="a")]), say("done"))
    events = await bench.ask("go", decide=lambda r: Reject(approval_id=r.approval_id, message="no"))
    assert one(events, ApprovalRequested).preview.text == "a"
    assert bench.risky.ran == []
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["denied", "denied"]
    assert len(bench.model.requests[1].tool_results) == 2


async def test_an_answer_holds_for_its_turn_only(bench: Bench) -> None:
    twice = [call("risky", text="a"), call("risky", text="a")]
    bench.model.will_reply(answer(calls=twice), call("risky", text="a"), say("done"))
    events = await bench.ask("go", decide=lambda request: Approve(approval_id=request.approval_id))
    assert len(asked([*events])) == 2
    assert bench.risky.ran == ["a", "a", "a"]


@pytest.mark.parametrize("edited", ["b", None])
async def test_equal_calls_run_as_the_person_edited_the_one_that_was_shown(bench: Bench, edited: str | None) -> None:
    bench.model.will_reply(answer(calls=[call("risky", text="a"), call("risky", text="a")]), say("done"))
    await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id, edited=edited))
    assert bench.risky.ran == [edited or "a"] * 2


class Adding(Echo):
    """A tool that makes a new cell with each call."""

    def touches(self, args: EchoArguments) -> Sequence[Resource]:
        return [Resource(kind="cell", value="new", access="write")]


@pytest.mark.requirement("permission.approve.once")
@pytest.mark.parametrize(
    ("texts", "cards"),
    [("aa", "a"), ("aaa", "a"), ("aba", "ab"), ("aab", "ab"), ("abab", "ab"), ("abcabc", "abc"), ("abacc", "abc")],
)
async def test_equal_changes_of_one_answer_are_asked_once_however_many_others_are_asked_with_them(
    bench: Bench, texts: str, cards: str
) -> None:
    adding = Adding("adding", "ask")
    bench.tools = StaticToolset([adding])
    bench.model.will_reply(answer(calls=[call("adding", text=text) for text in texts]), say("done"))
    events = await bench.ask("go", decide=lambda request: Approve(approval_id=request.approval_id))
    shown = asked([*events])
    assert "".join(card.preview.text for card in shown) == cards
    assert {card.review.size if card.review else 1 for card in shown} == {len(cards)}
    assert adding.ran == list(texts)


class Counter(Echo):
    """A tool that would do something else each time."""

    def preview(self, args: EchoArguments) -> Preview:
        return Preview(kind="text", text=f"{args.text} after {len(self.ran)}")


async def test_an_equal_call_that_would_do_something_else_by_now_is_asked_about(bench: Bench) -> None:
    counter = Counter("counter", "ask")
    bench.tools = StaticToolset([counter])
    bench.model.will_reply(answer(calls=[call("counter", text="a"), call("counter", text="a")]), say("done"))
    events = await bench.ask("go", decide=lambda request: Approve(approval_id=request.approval_id))
    assert [card.preview.text for card in asked([*events])] == ["a after 0", "a after 1"]
    assert counter.ran == ["a", "a"]
