"""The agent's plan in the run: one part, changed in place, in the live view and in what is kept."""

from tests.ui.dom import parse
from tests.ui.runs import STARTED, finished, inspected, kept, live, planned, transcript
from tests.ui.scenes import SCENES
from vibe_jupyter.protocol import ToolCallDelta
from vibe_jupyter.ui.kept_html import is_kept_form


def test_the_plan_stands_where_it_was_first_made_and_changes_there() -> None:
    first = [STARTED, *planned("p1", Look="in progress", Plot="to do"), *inspected()]
    run = transcript(first)
    before = [part.id for part in run.parts()]
    for event in planned("p2", Look="done", Plot="in progress"):
        patches = run.apply(event)
    assert [patch["id"] for patch in patches] == ["plan"]
    assert [part.id for part in run.parts()] == before
    (plan,) = parse(live([*first, *planned("p2", Look="done", Plot="in progress")])).find("section")
    assert [item.text for item in plan.find("li")] == ["done: Look", "in progress: Plot"]
    assert "1 of 2 done" in plan.text


def test_a_plan_is_no_step_and_an_empty_one_is_not_begun() -> None:
    root = parse(live([STARTED, ToolCallDelta(position=0, name="todo", arguments="{"), *planned("p1")]))
    assert [element for name in ("section", "details") for element in root.find(name)] == []
    assert "· 2 steps ·" in str(kept([*SCENES["plan"], finished()])["text/plain"])


def test_what_is_kept_says_how_far_the_plan_was() -> None:
    html = str(kept([*SCENES["plan"], finished()])["text/html"])
    text = parse(html).text
    assert "Plan 1 of 4 done" in text
    assert "✓ Look" in text
    assert "◉ Plot · in progress" in text
    assert "⊘ Fit · cancelled" in text
    assert text.index("Plan") < text.index("2 steps")
    assert is_kept_form(html)
