"""What servers ask while one of their calls is open: the user, the model, the folders; in both eras."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.bench import McpBench, OnEvent, all_of, allowing, asking, asking_at, asking_over_http, mcp_bench, one
from tests.mcp.conftest import connection, until
from vibe_jupyter.agent.run import Run
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.elicitation import OPENED, ROUNDS
from vibe_jupyter.mcp.sampling import SAMPLE_TOKENS, SAMPLES
from vibe_jupyter.mcp.server_requests import QUESTIONS
from vibe_jupyter.protocol import (
    Answer,
    Answered,
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Interrupt,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    Reject,
    RunFinished,
    ToolFinished,
    ToolStarted,
)
from vibe_jupyter.testing import Tokens, answer, call, say

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of the newer era that the tests of this module share."""
    with asking_over_http() as url:
        yield url


@pytest.fixture
async def bench(tmp_path: Path, url: str) -> AsyncIterator[McpBench]:
    async with mcp_bench(tmp_path) as bench:
        bench.declare(asking_at(url))
        yield bench


@pytest.fixture(params=["new", "old"])
async def either(request: pytest.FixtureRequest, bench: McpBench) -> McpBench:
    """With a program of the older era, too."""
    if request.param == "old":
        bench.declare(asking("legacy"))
    return bench


def answering(*answers: Sequence[Answered] | None) -> OnEvent:
    """Answers the questions that come, one after the other."""
    left = list(answers)

    def on_event(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            said = left.pop(0)
            answer = Answer(question_id=event.question_id, answers=None if said is None else tuple(said))
            run.send(answer, by="person")

    return on_event


def words(*texts: str) -> list[Answered]:
    return [Answered(question="", other=text) for text in texts]


def given(bench: McpBench, request: int = 1) -> dict[str, Any]:
    """What the server got, as it told the model."""
    result: str = bench.model.requests[request].tool_results[-1]
    return json.loads(result[result.index("{") : result.rindex("}") + 1])


async def test_a_question_of_a_server_becomes_a_card_that_names_it_and_the_answer_reaches_it(either: McpBench) -> None:
    either.model.will_reply(call("mcp__asking__ask", message="Who are you?", schema=NAME), say("done"))
    events = await either.ask("go", answering(words("Ada")))
    asked = one(events, QuestionAsked)
    assert asked.asker == "the server asking"
    assert asked.questions[0].question == "Who are you?\nname (text)"
    assert one(events, QuestionAnswered).by == "person"
    assert given(either) == {"action": "accept", "content": {"name": "Ada"}}
    assert one(events, RunFinished).reason == "stop"


async def test_an_answer_that_does_not_fit_is_asked_for_again_and_given_up_in_the_end(either: McpBench) -> None:
    age = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    either.model.will_reply(
        call("mcp__asking__ask", message="How old?", schema=age),
        call("mcp__asking__ask", message="How old?", schema=age),
        say("done"),
    )
    events = await either.ask("go", answering(words("old"), words("36"), *[words("old")] * ROUNDS))
    assert given(either, 1) == {"action": "accept", "content": {"age": 36}}
    assert given(either, 2) == {"action": "cancel"}
    assert "“old” is no integer." in all_of(events, QuestionAsked)[1].questions[0].question


async def test_a_question_that_is_skipped_is_declined(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME), say("done"))
    await bench.ask("go", answering(None))
    assert given(bench) == {"action": "decline"}
    lines = connection(bench.servers, "asking").log_lines()
    assert lines[-1].endswith("vibe] question to you: you declined")


async def test_questions_that_come_at_once_are_asked_one_after_the_other(either: McpBench) -> None:
    either.model.will_reply(call("mcp__asking__ask_often", times=3), say("done"))
    events = await either.ask("go", answering(words("a"), None, words("c")))
    kinds = [type(event) for event in events if isinstance(event, QuestionAsked | QuestionAnswered)]
    assert kinds == [QuestionAsked, QuestionAnswered] * 3
    assert "accept accept decline" in either.model.requests[1].tool_results[0]


async def test_a_call_that_asks_too_often_is_declined(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__ask_often", times=QUESTIONS + 2), say("done"))
    events = await bench.ask("go", answering(*[None] * QUESTIONS))
    assert len(all_of(events, QuestionAsked)) == QUESTIONS
    assert bench.model.requests[1].tool_results[0].count("decline") == QUESTIONS + 2


async def test_where_nobody_is_there_a_question_is_declined_at_once(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME), say("done"))
    events = await bench.ask("go", attended=False)
    assert given(bench) == {"action": "decline"}
    assert not all_of(events, QuestionAsked)


async def test_a_page_is_shown_as_a_link_with_its_host_and_never_opened(bench: McpBench) -> None:
    address = "https://bank.example@evil.example:8443/sign?x=1"
    bench.model.will_reply(
        call("mcp__asking__page", url=address),
        call("mcp__asking__page", url=address),
        say("done"),
    )
    opened = [Answered(question="", selected=(OPENED,))]
    events = await bench.ask("go", answering(opened, [Answered(question="", selected=("No",))]))
    question = all_of(events, QuestionAsked)[0].questions[0]
    assert question.link == address
    assert "open a page at evil.example:8443." in question.question
    assert given(bench, 1) == {"action": "accept"}
    assert given(bench, 2) == {"action": "decline"}


async def test_a_host_that_only_looks_like_a_known_one_is_shown_in_the_letters_of_the_wire(bench: McpBench) -> None:
    cyrillic = "https://\u0430pple.example/sign"
    bench.model.will_reply(call("mcp__asking__page", url=cyrillic), say("done"))
    events = await bench.ask("go", answering([Answered(question="", selected=("No",))]))
    assert "open a page at xn--pple-43d.example." in one(events, QuestionAsked).questions[0].question


@pytest.mark.parametrize("address", ["javascript:alert(1)", "file:///etc/passwd", "https://", "https://a b/", "x"])
async def test_an_address_that_leads_to_no_host_is_declined_without_a_card(bench: McpBench, address: str) -> None:
    bench.model.will_reply(call("mcp__asking__page", url=address), say("done"))
    events = await bench.ask("go")
    assert given(bench) == {"action": "decline"}
    assert not all_of(events, QuestionAsked)


async def test_an_interrupt_ends_the_call_and_takes_the_question_back(either: McpBench) -> None:
    either.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME))

    def interrupt(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            run.send(Interrupt())

    events = await either.ask("go", interrupt)
    assert one(events, QuestionAnswered).by == "interrupt"
    assert one(events, RunFinished).reason == "interrupted"
    assert events[-1] == one(events, RunFinished)
    either.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME), say("done"))
    await either.ask("again", answering(words("Ada")))
    assert either.model.requests[-1].tool_results[-1].count("Ada") == 1


async def test_the_time_of_a_call_rests_while_the_person_thinks(bench: McpBench, url: str) -> None:
    bench.declare(asking_at(url)._replace(tool_timeout=2))
    bench.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME, then=0.3), say("done"))

    def slowly(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            later = Answer(question_id=event.question_id, answers=tuple(words("Ada")))
            asyncio.get_running_loop().call_later(2.5, run.send, later)

    await bench.ask("go", slowly)
    assert given(bench) == {"action": "accept", "content": {"name": "Ada"}}


async def test_what_a_server_asks_outside_of_its_calls_is_declined_and_logged(bench: McpBench) -> None:
    await bench.servers.start(["asking"])
    server = connection(bench.servers, "asking")
    arguments = {"message": "Who?", "schema": NAME}
    answer = await server.request(lambda client: client.call_tool("ask", arguments), timeout=20)
    assert '"action":"decline"' in str(answer.content)
    with pytest.raises(ServerError, match="asked outside of a call; declined"):
        await server.request(lambda client: client.call_tool("think", {"prompt": "Hi"}), timeout=20)


async def test_a_server_gets_nothing_for_a_call_of_another_server(bench: McpBench, url: str) -> None:
    bench.declare(asking_at(url), asking_at(url, name="other"))
    bench.model.will_reply(call("mcp__asking__ask", message="Who?", schema=NAME), say("for the other"), say("done"))
    await bench.servers.start(["asking", "other"])
    other = connection(bench.servers, "other")
    wished: list[asyncio.Task[Any]] = []

    def on_event(event: Event, run: Run) -> None:
        allowing(event, run)
        if isinstance(event, QuestionAsked):
            thinks = other.request(lambda client: client.call_tool("think", {"prompt": "Hi"}), timeout=20)
            wished.append(asyncio.ensure_future(thinks))
            answer = Answer(question_id=event.question_id, answers=tuple(words("Ada")))
            wished[0].add_done_callback(lambda _: run.send(answer, by="person"))

    events = await bench.ask("go", on_event)
    assert "asked outside of a call; declined" in str(wished[0].exception())
    assert not all_of(events, ApprovalRequested)
    assert len(bench.model.requests) == 2


async def test_where_no_value_may_be_sent_a_server_asks_the_model_nothing(bench: McpBench) -> None:
    bench.schema_only = True
    bench.model.will_reply(call("mcp__asking__think", prompt="What is 83749261?"), say("done"))
    events = await bench.ask("go", allowing)
    assert not all_of(events, ApprovalRequested)
    assert [request.last_user_text for request in bench.model.requests] == ["go", "go"]
    assert bench.model.requests[1].tool_results[0].endswith("withheld: no values are sent in this privacy mode")


async def test_the_project_folder_is_the_only_root(either: McpBench, tmp_path: Path) -> None:
    either.model.will_reply(call("mcp__asking__roots"), say("done"))
    await either.ask("go")
    assert given(either) == {"roots": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]}


async def test_a_servers_wish_for_the_model_waits_on_a_card_that_shows_it_whole(either: McpBench) -> None:
    either.prices = {"input_price": 1.0, "output_price": 2.0}
    thinks = call("mcp__asking__think", prompt="What is 2+2?", system="Be brief.", max_tokens=50)
    either.model.will_reply(thinks, say("Four."), say("done"))
    events = await either.ask("go", allowing)
    card = one(events, ApprovalRequested)
    assert card.preview.text == "System:\nBe brief.\n\nUser:\nWhat is 2+2?"
    assert card.remember_as is None
    sent = either.model.requests[1]
    assert [message["role"] for message in sent.body["messages"]] == ["system", "user"]
    assert sent.body["max_tokens"] == 50
    assert "tools" not in sent.body
    got = given(either, 2)
    assert (got["content"]["text"], got["role"], got["stopReason"]) == ("Four.", "assistant", "endTurn")
    step = next(event for event in all_of(events, ToolFinished) if event.name == "sampling")
    assert (step.outcome, step.display) == ("ok", {"text/markdown": "Four."})


async def test_words_of_the_model_for_a_server_are_counted_and_paid_by_the_run(bench: McpBench) -> None:
    bench.prices = {"input_price": 1.0, "output_price": 2.0}
    thinks = answer(calls=[call("mcp__asking__think", prompt="Hi")], usage=Tokens(prompt=100, completion=10))
    bench.model.will_reply(
        thinks,
        say("Hello.", usage=Tokens(prompt=20, completion=3)),
        say("done", usage=Tokens(prompt=200, completion=1)),
    )
    finished = one(await bench.ask("go", allowing), RunFinished)
    assert (finished.usage.prompt_tokens, finished.usage.completion_tokens) == (320, 14)
    assert finished.cost == pytest.approx((320 + 2 * 14) / 1_000_000)
    assert finished.turns == 2


async def test_a_no_to_a_servers_wish_for_the_model_reaches_it_and_costs_nothing(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__think", prompt="Hi"), say("done"))

    def reject(event: Event, run: Run) -> None:
        if isinstance(event, ApprovalRequested):
            run.send(Reject(approval_id=event.approval_id, message="no"))

    events = await bench.ask("go", reject)
    assert "The user declined" in bench.model.requests[1].tool_results[0]
    assert not one(events, ApprovalResolved).allowed
    assert len(bench.model.requests) == 2


async def test_sampling_is_not_offered_to_a_server_it_is_not_declared_for(bench: McpBench, url: str) -> None:
    bench.declare(asking_at(url, sampling=False))
    bench.model.will_reply(call("mcp__asking__think", prompt="Hi"), say("done"))
    events = await bench.ask("go", allowing)
    assert not all_of(events, ApprovalRequested)
    assert one(events, ToolFinished).outcome == "error"


async def test_where_nobody_is_there_the_model_is_not_asked_for_a_server(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__think", prompt="Hi"), say("done"))
    events = await bench.ask("go", attended=False)
    assert not all_of(events, ApprovalRequested)
    assert len(bench.model.requests) == 2


async def test_an_answer_for_a_server_is_bounded_in_tokens_and_a_run_in_their_number(bench: McpBench) -> None:
    thinks = call("mcp__asking__think", prompt="Hi", max_tokens=1_000_000)
    for _ in range(SAMPLES):
        bench.model.will_reply(thinks, say("Hello."))
    bench.model.will_reply(thinks, say("done"))
    events = await bench.ask("go", allowing)
    assert bench.model.requests[1].body["max_tokens"] == SAMPLE_TOKENS
    assert len(all_of(events, ApprovalRequested)) == SAMPLES
    assert any(f"more than {SAMPLES} times" in notice.text for notice in all_of(events, Notice))


async def test_the_price_limit_of_the_run_holds_for_servers_too(bench: McpBench) -> None:
    bench.prices = {"input_price": 1000.0, "output_price": 1000.0}
    bench.price_limit = 0.000_001
    bench.model.will_reply(call("mcp__asking__think", prompt="Hi"))
    events = await bench.ask("go", allowing)
    assert not all_of(events, ApprovalRequested)
    assert one(events, RunFinished).reason == "price_limit"
    assert len(bench.model.requests) == 1


async def test_a_line_for_the_log_is_kept_for_mcp_log(bench: McpBench) -> None:
    bench.model.will_reply(call("mcp__asking__say", text="It is late."), say("done"))
    events = await bench.ask("go")
    assert any("warning] It is late." in line for line in connection(bench.servers, "asking").log_lines())
    assert not any("It is late." in str(event) for event in all_of(events, Notice))


async def test_a_tool_that_came_is_offered_and_named_once(bench: McpBench) -> None:
    bench.declare(asking())
    bench.model.will_reply(
        call("mcp__asking__grow", name="newcomer"), call("mcp__asking__say", text="x"), say("done"), say("done")
    )
    first = await bench.ask("go")
    started = [event.name for event in all_of(first, ToolStarted)]
    assert started == ["mcp__asking__grow", "mcp__asking__say"]
    servers = connection(bench.servers, "asking")
    await until(lambda: "newcomer" in [tool.name for tool in servers.tools], "the new tool is listed")
    second = await bench.ask("again")
    told = [notice.text for notice in (*all_of(first, Notice), *all_of(second, Notice)) if "newcomer" in notice.text]
    assert told == ["The MCP server asking has new tools: `newcomer`."]
    assert "mcp__asking__newcomer" in [tool["function"]["name"] for tool in bench.model.requests[-1].body["tools"]]
