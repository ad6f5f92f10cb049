"""Two notebooks with a kernel each, and an agent in both."""

import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.notebook_page import PROMPT, NotebookPage, open_beside, open_prompt
from vibe_jupyter.testing import ScriptedAnswer, ScriptedModel, answer, call, say

pytestmark = pytest.mark.browser


@pytest.fixture
def models() -> Iterator[tuple[ScriptedModel, ScriptedModel]]:
    """A model for each notebook."""
    with ScriptedModel() as one, ScriptedModel() as other:
        yield one, other


def changes(book: NotebookPage, name: str) -> list[ScriptedAnswer]:
    """What each model does to the third cell, and below the prompt."""
    return [
        answer(calls=[call("edit_cell", cell=book.ids[2], old_string="?", new_string=repr(name))]),
        answer(calls=[call("insert_cell", source=f"print({name!r}, theirs)", run=True)]),
        answer(calls=[call("run_cells", cells=[book.ids[2]])]),
        say(f"{name} is done."),
    ]


@pytest.mark.matrix
@pytest.mark.requirement("notebook.rule.own-notebook")
def test_clicks_and_edits_of_two_runs_at_once_stay_apart(lab: Lab, models: tuple[ScriptedModel, ScriptedModel]) -> None:
    cell = "theirs = ?\nprint('cell of', theirs)"
    one, other = open_prompt(lab, models[0], cell), open_beside(lab, models[1], cell)
    for book, model, name in ((one, models[0], "one"), (other, models[1], "other")):
        model.will_reply(call("read_notebook"), *changes(book, name))
        book.run(0, PROMPT)
        expect(book.card("Edit cell #3")).to_be_visible()
    one.front()
    one.allow("Edit cell #3")
    expect(one.card("Insert and run a new cell below")).to_be_visible()
    other.front()
    expect(other.card("Edit cell #3")).to_be_visible()
    assert (one.sources()[2], other.sources()[2]) == (cell.replace("?", "'one'"), cell)
    other.allow("Edit cell #3")
    other.allow("Insert and run a new cell below")
    other.allow("Run cell #4")
    other.over()
    assert len(one.sources()) == 3
    one.front()
    one.card("Insert and run a new cell below").get_by_role("button", name="Deny").click()
    lab.page.keyboard.press("Enter")
    one.allow("Run cell #3")
    one.over()
    assert one.sources()[2:] == [cell.replace("?", "'one'")]
    assert one.text(2) == "cell of one\n"
    assert other.sources()[2:] == ["print('other', theirs)", cell.replace("?", "'other'")]
    assert other.text(3) == "cell of other\n"
    assert other.cells()[2]["outputs"][0]["ename"] == "NameError"


@pytest.mark.matrix
def test_a_run_goes_on_in_a_tab_that_is_hidden_and_its_card_waits_there(
    lab: Lab, models: tuple[ScriptedModel, ScriptedModel]
) -> None:
    go_on = threading.Event()
    one = open_prompt(
        lab,
        models[0],
        "theirs = ?\nprint('cell of', theirs)",
        "'last'",
        options="--yes=edit_cell,insert_cell,run_cells",
    )
    other = open_beside(lab, models[1], "print('untouched')")
    edit, insert, run, end = changes(one, "one")
    models[0].will_reply(
        answer("Begun", [call("read_notebook")], hold=go_on),
        *(edit, run, insert),
        call("delete_cells", cells=[one.ids[3]]),
        end,
    )
    one.run(0, PROMPT)
    expect(one.view).to_contain_text("Begun")
    other.front(2)
    go_on.set()
    expect(one.view.locator("[role=group]")).to_be_attached()  # hidden, so without a name
    assert (one.text(3), one.text(2)) == ("cell of one\n", "one one\n")
    expect(other.cell(2)).to_contain_class("jp-mod-active")
    assert other.sources()[2:] == ["print('untouched')"]
    assert other.counts() == [None] * 3
    one.front()
    one.allow("Delete cell")
    one.over()
    assert one.sources()[2:] == ["print('one', theirs)", "theirs = 'one'\nprint('cell of', theirs)"]
    expect(one.output(3)).to_have_text("cell of one")


@pytest.mark.matrix
def test_a_run_whose_tab_was_hidden_before_its_view_was_drawn_asks_with_a_card(
    lab: Lab, models: tuple[ScriptedModel, ScriptedModel]
) -> None:
    one = open_prompt(lab, models[0], "print('ran')")
    other = open_beside(lab, models[1])
    models[0].will_reply(call("run_cells", cells=[one.ids[2]]), say("Done."))
    one.run(0, PROMPT)
    other.front(0)
    models[0].wait_for_request(1)
    expect(one.view.locator("[role=group]")).to_be_attached()  # hidden, so without a name
    one.front()
    one.allow("Run cell #3")
    one.over()
    assert one.text(2) == "ran\n"
