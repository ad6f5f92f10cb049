"""What a run may cost: looked at before each request, and in the midst of an answer where the server counts there."""

import asyncio
import json
from typing import Any

import pytest

from tests.agent.conftest import WAIT, Bench, one
from vibe_jupyter.agent.limits import PriceLimit
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import AssistantMessage, Event, Notice, RunFinished, TextDelta
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import Tokens, answer, call, raw, say

PRICE = 1.0
"""US dollars for a million tokens, in and out."""
MILLION = 1_000_000


def chunk(text: str, used: int | None = None, finish: str | None = None) -> bytes:
    """A piece of an answer, with what it has used so far where the server says so."""
    body: dict[str, Any] = {"choices": [{"delta": {"content": text}, "finish_reason": finish}]}
    if used is not None:
        body["usage"] = {"prompt_tokens": used, "completion_tokens": 0}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


async def ask(bench: Bench, dollars: float) -> list[Event]:
    """One run of a model with prices, and a limit."""
    plain = bench.agent()
    priced = plain.model._replace(input_price=PRICE, output_price=PRICE)
    agent = plain._replace(model=priced, middleware=[PriceLimit(dollars)])
    async with asyncio.timeout(WAIT):
        return [event async for event in start_run(agent, bench.conversation, "go", terms=RunTerms())]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.requirement("agent.events.finish", "middleware.price.limit")
async def test_before_each_request_the_cost_is_looked_at(bench: Bench) -> None:
    dear = answer(calls=[call("quiet", text="a")], usage=Tokens(prompt=400_000, completion=0))
    bench.model.will_reply(dear, dear, dear, say("never asked"))
    events = await ask(bench, 1.0)
    finished = one(events, RunFinished)
    assert events[-1] == finished
    assert finished.usage.prompt_tokens == 1_200_000
    assert (finished.reason, finished.turns, len(bench.model.requests)) == ("price_limit", 3, 3)
    assert finished.cost == pytest.approx(1.2)
    check_history(bench.conversation.history)


@pytest.mark.requirement("middleware.price.limit")
async def test_an_answer_that_grows_too_dear_is_ended_and_what_it_said_is_kept(bench: Bench) -> None:
    pieces = [chunk(f"{number} ", used=number * MILLION) for number in range(1, 200)]
    bench.model.will_reply(raw(pieces, delay_between=0.005), say("Here again."))
    events = await ask(bench, 2.0)
    finished = one(events, RunFinished)
    assert finished.reason == "price_limit"
    assert finished.cost == pytest.approx(3.0)
    assert text_of(events) == "1 2 3 "
    notice = next(event for event in events if isinstance(event, Notice))
    assert notice.text.startswith("Stopped: the run has cost $3.00, and the limit of one run is $2.00.")
    kept = bench.conversation.history[-1]
    assert isinstance(kept, AssistantMessage)
    assert (kept.text, kept.stop_reason) == ("1 2 3 ", "interrupted")
    assert one(await ask(bench, 0.0), RunFinished).reason == "stop"


async def test_what_a_cut_answer_used_is_counted_too(bench: Bench) -> None:
    cut = raw([chunk("Half", used=2 * MILLION)])
    bench.model.will_reply(cut, say("Whole.", usage=Tokens(prompt=MILLION, completion=0)))
    finished = one(await ask(bench, 5.0), RunFinished)
    assert (finished.reason, finished.cost) == ("stop", pytest.approx(3.0))


async def test_counts_in_the_midst_are_not_added_to_those_of_the_end(bench: Bench) -> None:
    bench.model.will_reply(raw([chunk("a", used=10), chunk("b", used=20), chunk("c", used=30, finish="stop")]))
    assert one(await ask(bench, 0.0), RunFinished).usage.prompt_tokens == 30


async def test_counts_in_the_midst_are_those_of_an_answer_whose_end_names_none(bench: Bench) -> None:
    bench.model.will_reply(raw([chunk("a", used=10), chunk("b", used=20), chunk("c", finish="stop")]))
    assert one(await ask(bench, 0.0), RunFinished).usage.prompt_tokens == 20
