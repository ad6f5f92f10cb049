"""Calls as models send them: what is clearly meant is done, what is wrong is answered with what would be right."""

import json
from collections.abc import Sequence
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tests.agent.conftest import Bench
from vibe_jupyter.protocol import (
    ApprovalRequested,
    Approve,
    Headline,
    Level,
    Preview,
    Resource,
    ToolFinished,
    ToolResult,
    ToolStarted,
)
from vibe_jupyter.testing import Call, answer, call, say
from vibe_jupyter.tools.contract import UNLISTED, StaticToolset, Tool, ToolContext


class Step(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    state: Literal["open", "done"] = "open"
    id: str = Field(default="", json_schema_extra=UNLISTED)


class PlanArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    names: list[str] = []
    count: int = 1
    dry: bool = False
    note: str = ""
    limit: int | None = None
    steps: list[Step] = []
    first: Step | None = None


class Plan(Tool[PlanArguments]):
    """Runs with whatever it is given, and keeps it."""

    name = "make_plan"
    description = "Makes a plan."
    arguments = PlanArguments

    def __init__(self, level: Level = "always") -> None:
        self.level = level
        self.ran: list[PlanArguments] = []

    def headline(self, args: PlanArguments) -> Headline:
        return Headline(verb="Planned", doing="Planning", asking="Plan", target=", ".join(args.names))

    def preview(self, args: PlanArguments) -> Preview:
        return Preview(kind="text", text=args.note, edits="note")

    def touches(self, args: PlanArguments) -> Sequence[Resource]:
        return [Resource(kind="code", value=args.note, access="execute")]

    async def run(self, args: PlanArguments, context: ToolContext) -> ToolResult:
        self.ran.append(args)
        return ToolResult.text("made")


async def outcome(bench: Bench, *calls: Call) -> tuple[list[PlanArguments], list[str]]:
    """What the tool ran with, and what the model was answered."""
    plan = Plan()
    bench.tools = StaticToolset([plan, bench.quiet])
    bench.model.will_reply(answer(calls=list(calls)), say("done"))
    await bench.ask("go")
    return plan.ran, bench.model.requests[1].tool_results


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"names": None, "count": None, "dry": None, "note": None, "steps": None}, {}),
        ({"limit": None, "first": None}, {}),
        ({"names": "one"}, {"names": ["one"]}),
        ({"names": '["one", "two"]'}, {"names": ["one", "two"]}),
        ({"names": "[1] or so"}, {"names": ["[1] or so"]}),
        ({"count": "3", "dry": "true"}, {"count": 3, "dry": True}),
        ({"names": "a", "dry": "True", "limit": "null"}, {"names": ["a"], "dry": True}),
        ({"steps": {"text": "a"}}, {"steps": [{"text": "a"}]}),
        ({"steps": '{"text": "a", "id": "7"}'}, {"steps": [{"text": "a", "id": "7"}]}),
        ({"steps": '[{"text": "a"}, {"text": "b", "state": null}]'}, {"steps": [{"text": "a"}, {"text": "b"}]}),
        ({"steps": ['{"text": "a"}']}, {"steps": [{"text": "a"}]}),
        ({"first": '{"text": "{}"}'}, {"first": {"text": "{}"}}),
        (json.dumps(json.dumps({"count": 2})), {"count": 2}),
    ],
)
async def test_what_an_argument_clearly_means_is_understood(bench: Bench, arguments: object, meant: object) -> None:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    ran, results = await outcome(bench, Call("make_plan", text))
    assert (ran, results) == ([PlanArguments.model_validate(meant)], ["made"])


@pytest.mark.parametrize(
    "name", ["functions.make_plan", "Make_Plan", "tools.MAKE_PLAN", " make_plan", "function/make_plan"]
)
async def test_a_prefix_and_the_case_of_a_tools_name_do_not_matter(bench: Bench, name: str) -> None:
    ran, results = await outcome(bench, call(name, count=2))
    assert (ran, results) == ([PlanArguments(count=2)], ["made"])


@pytest.mark.requirement("agent.loop.unknown-tool")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("make", " Did you mean make_plan?"),
        ("functions.make_plans", " Did you mean make_plan?"),
        ("silent", ""),
        ("", ""),
    ],
)
async def test_a_near_name_of_a_tool_is_named_and_not_called(bench: Bench, name: str, hint: str) -> None:
    ran, results = await outcome(bench, call(name))
    assert (ran, results) == ([], [f"There is no tool {name!r}.{hint} The tools are: make_plan, quiet."])


async def test_the_tool_that_takes_just_these_arguments_is_named(bench: Bench) -> None:
    ran, (result,) = await outcome(bench, call("silent", count=2))
    assert ran == []
    assert result.startswith("There is no tool 'silent'. Did you mean make_plan?")


TAKES = (
    "make_plan takes names: list of string, count: integer, dry: boolean, note: string, limit: integer, "
    "steps: list of object with text, state, first: object with text, state."
)


@pytest.mark.requirement("agent.loop.invalid-arguments")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            {"name": ["a"]},
            "there is no argument 'name', did you mean 'names'? (names, count, dry, note, limit, steps, first)",
        ),
        ({"zzz": 1}, "there is no argument 'zzz' (names, count, dry, note, limit, steps, first)"),
        (
            {"steps": [{"content": "a"}]},
            "steps.0.text: Field required; steps.0: there is no argument 'content' (text, state)",
        ),
        ({"count": "many"}, "count: Input should be a valid integer"),
        ({"steps": [{"text": "a", "state": "shut"}]}, "steps.0.state: Input should be 'open' or 'done'"),
        ({"note": ["a"]}, "note: Input should be a valid string"),
    ],
)
async def test_what_is_wrong_is_named_by_its_place_with_what_the_tool_takes(
    bench: Bench, arguments: dict[str, object], problem: str
) -> None:
    ran, (result,) = await outcome(bench, Call("make_plan", json.dumps(arguments)))
    assert ran == []
    assert result.startswith(f"Wrong arguments for make_plan: {problem}")
    assert result.endswith(f". Nothing was run. {TAKES}")


async def test_a_broken_object_is_answered_with_what_the_tool_takes(bench: Bench) -> None:
    ran, (result,) = await outcome(bench, Call("make_plan", '{"count": 1'))
    assert ran == []
    assert result.endswith(f"Nothing was run; send the call again. {TAKES}")


async def test_a_card_shows_and_binds_the_arguments_as_they_were_understood(bench: Bench) -> None:
    plan = Plan("ask")
    bench.tools = StaticToolset([plan])
    sent = '{"names": "one", "note": null, "count": "2"}'
    bench.model.will_reply(answer(calls=[Call("functions.make_plan", sent)]), say("done"))
    events = await bench.ask("go", decide=lambda card: Approve(approval_id=card.approval_id, edited="as edited"))
    (card,) = [event for event in events if isinstance(event, ApprovalRequested)]
    assert json.loads(card.call.arguments) == {"names": ["one"], "count": 2}
    assert plan.ran == [PlanArguments(names=["one"], count=2, note="as edited")]
    assert {event.name for event in events if isinstance(event, ToolStarted | ToolFinished)} == {"make_plan"}
    assert 'what ran: {"names": ["one"], "count": 2, "note": "as edited"}' in bench.model.requests[1].tool_results[0]


async def test_the_history_keeps_the_call_as_the_model_sent_it(bench: Bench) -> None:
    await outcome(bench, Call("functions.make_plan", '{"names": "one"}'))
    (asked, told) = bench.model.requests[1].messages[-2:]
    assert asked["tool_calls"][0]["function"]["arguments"] == '{"names": "one"}'
    assert told["content"] == "made"


class Failing(Tool[PlanArguments]):
    """Fails in the way its argument says, with a long trace."""

    name = "fail_so"
    description = "Fails."
    level: Level = "always"
    arguments = PlanArguments

    def __init__(self) -> None:
        self.count = 0

    def headline(self, args: PlanArguments) -> Headline:
        return Headline(verb="Failed", doing="Failing", asking="Fail", target="")

    def preview(self, args: PlanArguments) -> Preview:
        return Preview(kind="text", text="")

    def touches(self, args: PlanArguments) -> Sequence[Resource]:
        return ()

    async def run(self, args: PlanArguments, context: ToolContext) -> ToolResult:
        self.count += 1
        if args.dry:
            return ToolResult.text("well\nas ever")
        where = self.count if args.note == "elsewhere" else 1
        return ToolResult.error(f"error: {args.note}\n<object at 0x{self.count}>, {self.count}.5 s\nline {where}")


async def test_an_equal_call_that_fails_in_the_same_way_again_is_answered_in_one_line(bench: Bench) -> None:
    bench.tools = StaticToolset([Failing()])
    same, other = Call("fail_so", '{"note": "a"}'), Call("fail_so", '{"note": "elsewhere"}')
    well = Call("fail_so", '{"dry": true}')
    bench.model.will_reply(*(answer(calls=[one]) for one in (same, other, same, other, well, well)), say("done"))
    await bench.ask("go")
    results = bench.model.requests[-1].tool_results
    again = "error: a (the same call failed in the same way before; change something before you send it again)"
    assert results[2] == again
    assert [result.count("\n") for result in results] == [2, 2, 0, 2, 1, 1]
