"""A plan in the notebook: a Markdown cell below the prompt that the user may change before they accept it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.notebook.page import Page

PLANNING = """
from pathlib import Path
from dataclasses import replace
from vibe_jupyter.app.agents import PlanAcceptance
from vibe_jupyter.config import BUILT_IN_AGENTS, Profiles, Settings
from vibe_jupyter.notebook.tools.exit_plan_mode import ExitPlanModeTool, PlanDocument
from vibe_jupyter.protocol import Answered, SetSource

acceptance = PlanAcceptance()
acceptance.begin(Profiles(BUILT_IN_AGENTS, Settings()))
document = PlanDocument(access, Path("plans"), has_page=lambda: bridge.known_panel is not None)
planning = ExitPlanModeTool(document, acceptance)

def plan(text, *selected, other="", typed=None):
    async def answer(questions, asker):
        offers[:] = [option.label for option in questions[0].options]
        if typed is not None:
            cell = next(one for one in (await access.reads.listing()).cells if one.kind == "markdown")
            await access.edit(SetSource(cell=cell.id, expected=cell.hash, source=typed))
        return (Answered(question="", selected=selected, other=other),)
    offers = []
    serve(access.reads.glance())  # as before each prompt
    args = planning.arguments(plan=text)
    result = serve(planning.run(args, context._replace(ask=answer)))
    print(json.dumps([result.parts[0].text, offers, getattr(acceptance.take(), "agent", None)]))
"""


@pytest.fixture
def page(open_page: Callable[..., Page], shared_kernel: Any) -> Page:
    shared_kernel.run(f"access.reads.remembered.forget(); access.begin()\n{PLANNING}")
    return open_page("x = 1")


def planned(page: Page, code: str) -> list[Any]:
    """What the model reads, who could be chosen, and who was."""
    cell = page.run(code)
    page.cells.remove(cell)
    return json.loads(cell.text)


def markdown_cells(page: Page) -> list[str]:
    return [cell.source for cell in page.cells if cell.kind == "markdown"]


def test_a_plan_is_one_cell_that_is_written_again_until_it_is_accepted(page: Page) -> None:
    text, offers, accepted = planned(page, "plan('# Goal', other='in euro')")
    assert markdown_cells(page) == ["# Goal"]
    assert text.startswith("plan: the Markdown cell ")
    assert "accepted: no. The user says: in euro\n" in text
    assert (offers, accepted) == (["default", "accept-edits"], None)
    text, _, accepted = planned(page, "plan('# Goal in euro', 'default')")
    assert markdown_cells(page) == ["# Goal in euro"]
    assert text.endswith("accepted: yes; the agent default carries it out")
    assert accepted == "default"


def test_a_plan_counts_as_the_user_left_it(page: Page) -> None:
    text, _, accepted = planned(page, "plan('- [ ] all', 'accept-edits', typed='- [ ] only the half')")
    assert text.endswith("the agent accept-edits carries it out, as the user changed it:\n- [ ] only the half")
    assert accepted == "accept-edits"
    assert markdown_cells(page) == ["- [ ] only the half"]


def test_words_beside_a_choice_are_no_yes(page: Page) -> None:
    text, _, accepted = planned(page, "plan('# Goal', 'default', other='but not yet')")
    assert "accepted: no. The user says: but not yet" in text
    assert accepted is None


def test_a_plan_whose_cell_the_user_deleted_gets_a_new_one(page: Page) -> None:
    planned(page, "plan('# One', other='again')")
    page.cells[:] = [cell for cell in page.cells if cell.kind != "markdown"]
    planned(page, "plan('# Two', other='again')")
    assert markdown_cells(page) == ["# Two"]


def test_without_a_page_a_plan_is_a_file(page: Page, shared_kernel: Any) -> None:
    shared_kernel.run(
        "planning = ExitPlanModeTool(PlanDocument(access, Path('plans'), has_page=lambda: False), acceptance)"
    )
    text, *_ = planned(page, "plan('# Goal', 'default')")
    assert markdown_cells(page) == []
    path = text.removeprefix("plan: ").partition("\n")[0]
    assert shared_kernel.run(f"print(Path({path!r}).read_text())").text == "# Goal\n"
