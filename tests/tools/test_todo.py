"""The agent's list of steps."""

import pytest
from pydantic import ValidationError

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import PLAN_MIME, Allow, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.todo import TodoArgs, TodoOptions, TodoTool

STEPS = [
    {"id": "1", "content": "Read the file", "status": "completed", "priority": "high"},
    {"id": "2", "content": "Plot it", "status": "in_progress", "priority": "low"},
]


def write(*items: object) -> TodoArgs:
    return TodoArgs.model_validate({"action": "write", "todos": list(items)})


READ = TodoArgs(action="read")


@pytest.mark.requirement("tools.todo.args.action", "tools.todo.item.fields")
@pytest.mark.parametrize(
    "wrong",
    [
        {"action": "append"},
        {"action": "write", "todos": [{"id": "1", "content": "x", "status": "done"}]},
        {"action": "write", "todos": [{"id": "1", "content": "x", "priority": "urgent"}]},
        {"action": "write", "todos": [{"id": "1", "content": ""}]},
        {"action": "write", "todos": [{"id": "1"}]},
    ],
)
def test_other_actions_and_values_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TodoArgs.model_validate(wrong)


@pytest.mark.requirement("tools.todo.item.fields")
@pytest.mark.parametrize("status", ["pending", "in_progress", "completed", "cancelled"])
@pytest.mark.parametrize("priority", ["high", "medium", "low"])
async def test_each_status_and_each_priority_is_taken(context: ToolContext, status: str, priority: str) -> None:
    item = {"id": "1", "content": "Plot it", "status": status, "priority": priority}
    assert (await TodoTool().run(write(item), context)).details["todos"] == [item]


@pytest.mark.requirement("tools.todo.write.replaces", "tools.todo.result.fields", "tools.todo.state.turns")
async def test_a_write_replaces_the_list_and_a_read_gives_it(context: ToolContext) -> None:
    todo, other = TodoTool(), TodoTool()
    await todo.run(write({"id": "old", "content": "Gone"}), context)
    written = await todo.run(write(*STEPS), context)
    assert written.details == {"message": "2 items, 1 completed", "todos": STEPS, "total_count": 2}
    assert (await todo.run(READ, context)).details == written.details
    assert (await other.run(READ, context)).details["total_count"] == 0
    todo.forget()
    assert (await todo.run(READ, context)).details["todos"] == []


@pytest.mark.requirement("tools.todo.item.unique", "tools.todo.limit.count")
async def test_ids_are_unique_and_the_list_has_an_end(context: ToolContext) -> None:
    todo = TodoTool()
    await todo.run(write(*STEPS), context)
    with pytest.raises(ToolError, match="more than once: 1"):
        await todo.run(write(STEPS[0], STEPS[0]), context)
    many = [{"id": str(number), "content": "x"} for number in range(101)]
    with pytest.raises(ToolError, match="101 items are more than 100"):
        await todo.run(write(*many), context)
    with pytest.raises(ToolError, match="more than 2"):
        await TodoTool(TodoOptions(max_todos=2)).run(write(*many[:3]), context)
    assert (await todo.run(READ, context)).details["todos"] == STEPS


@pytest.mark.requirement("tools.todo.args.action", "tools.todo.item.fields")
async def test_a_list_of_texts_is_enough_and_none_reads_it(context: ToolContext) -> None:
    todo = TodoTool()
    plain = TodoArgs.model_validate({"todos": [{"content": "Load"}, {"content": "Plot", "status": "in_progress"}]})
    written = await todo.run(plain, context)
    assert text_of(written).splitlines()[2:] == ["[ ] Load", "[~] Plot"]
    assert written.display[PLAN_MIME] == {
        "items": [{"words": "Load", "status": "to do"}, {"words": "Plot", "status": "in progress"}]
    }
    assert (await todo.run(TodoArgs(), context)).details == written.details
    assert (await todo.run(TodoArgs(todos=[]), context)).details["total_count"] == 0


def text_of(result: ToolResult) -> str:
    (part,) = result.parts
    assert isinstance(part, TextPart)
    return part.text


@pytest.mark.requirement("tools.todo.permission.default")
def test_it_never_asks_and_touches_nothing(workspace: Workspace) -> None:
    todo, args = TodoTool(), write(*STEPS)
    assert todo.touches(args) == ()
    assert isinstance(Permissions(workspace).decide(todo, args, RunTerms(attended=False)), Allow)


async def test_the_person_sees_a_plan_and_what_is_being_done(context: ToolContext) -> None:
    result = await TodoTool().run(write(*STEPS), context)
    assert result.display[PLAN_MIME] == {
        "items": [
            {"words": "Read the file (high priority)", "status": "done"},
            {"words": "Plot it (low priority)", "status": "in progress"},
        ]
    }
    assert result.summary == "1 of 2 done"
    assert TodoTool().headline(write(*STEPS)).note == "Plot it"


@pytest.mark.requirement("tools.todo.guidance.one-active")
def test_the_model_is_told_when_and_how() -> None:
    words = TodoTool().description
    assert "three steps or more" in words
    assert "exactly one item in_progress" in words
    assert "only when truly done" in words
