"""A cell that the agent wrote says so in its metadata: whose turn, which model, who approved it, and from what."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.page import PageCell
from tests.notebook.test_agent import ClickedPage, end, prompt
from vibe_jupyter.protocol import source_hash
from vibe_jupyter.testing import answer, call, say

pytestmark = pytest.mark.xdist_group("origins")

SALES = "import pandas as pd\nsales = pd.DataFrame({'amount': [4711.5, 815.25, None]})\napi_key = 'k-4711'"
CLEAN = "clean = sales.dropna()\nrows = len(clean), api_key, unknown_yet"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("origins")) as session:
        session.wire.run(SALES)
        yield session


def conversation(session: Session) -> str:
    """Id of the latest."""
    (latest,) = sorted(session.folder.rglob("journal.jsonl"), key=lambda path: path.stat().st_mtime)[-1:]
    return re.search(r'"session_id":"([^"]+)"', latest.read_text(encoding="utf-8"))[1]  # type: ignore[index]


def test_a_cell_says_whose_turn_made_it_who_approved_it_and_what_it_read(
    shared_session: Session, page: ClickedPage
) -> None:
    shared_session.model.will_reply(
        call("read_notebook"),
        call("insert_cell", source=CLEAN),
        call("insert_cell", source="*clean*", cell_type="markdown"),
        say("Done."),
    )
    cell = prompt(page, "%%vibe\nclean it")
    page.allow(cell)
    page.allow(cell, 2)
    end(page, cell)
    made, text = (one.vibe for one in page.cells if one.vibe)
    assert made is not None
    assert text is not None
    approved, inputs = made.pop("approved"), made.pop("inputs")
    assert made == {
        "conversation": conversation(shared_session),
        "run": 1,
        "turn": 2,
        "prompt": cell.id,
        "model": f"scripted-1@{shared_session.model.url.removeprefix('http://').removesuffix('/v1')}",
        "source": source_hash(CLEAN),
    }
    assert approved.pop("by") == "user"
    assert TIME.fullmatch(approved.pop("time"))
    assert not approved
    assert inputs["sales"]["shape"] == "pandas DataFrame 3 × 1"
    assert re.fullmatch("[0-9a-f]{8}", inputs["sales"]["hash"])
    assert inputs["api_key"] == {"shape": "str"}
    assert set(inputs) == {"sales", "api_key"}
    assert (text["turn"], "inputs" in text) == (3, False)


def test_the_hash_of_an_input_is_the_same_in_another_kernel_and_another_for_other_values(
    shared_session: Session, page: ClickedPage, tmp_path: Path
) -> None:
    def read(session: Session, in_page: ClickedPage) -> str:
        session.model.will_reply(call("insert_cell", source="sales.sum()"), say("Done."))
        assert in_page.run("%%vibe --yes=insert_cell\nsum").status == "ok"
        mark = in_page.cells[-1].vibe
        assert mark is not None
        return mark["inputs"]["sales"]["hash"]

    here = read(shared_session, page)
    with running_session(INSTALLED, tmp_path) as other:
        other.wire.run(SALES)
        there = ClickedPage(other.wire)
        assert read(other, there) == here
        other.wire.run("sales.loc[1, 'amount'] = 815.26")
        assert read(other, there) != here


@pytest.mark.parametrize(
    ("options", "rule"), [("--yes=edit_cell", "--yes"), ("", "edit_cell: allowed for this session")]
)
def test_a_cell_that_nobody_was_asked_about_names_the_rule(
    shared_session: Session, page: ClickedPage, options: str, rule: str
) -> None:
    first, second = page.add("a = 1"), page.add("b = 1")
    edits = [call("edit_cell", cell=one.id, old_string="1", new_string="2") for one in (first, second)]
    shared_session.model.will_reply(*edits, say("Done."))
    cell = prompt(page, f"%%vibe {options}\nedit them")
    if not options:
        page.allow(cell, remember="session")
    end(page, cell)
    by = [(one.vibe or {})["approved"] for one in (first, second)]
    assert by[1]["rule"] == rule
    assert by[1]["by"] == "settings"
    assert by[0]["by"] == ("settings" if options else "user")


def test_changes_that_stand_on_one_card_name_the_user_and_undo_takes_their_marks_back(
    shared_session: Session, page: ClickedPage
) -> None:
    fresh, marked = page.add("a = 1"), page.add("b = 1")
    marked.vibe = earlier = {"source": "00000000", "of": "another version"}
    edits = [call("edit_cell", cell=one.id, old_string="1", new_string="2") for one in (fresh, marked)]
    shared_session.model.will_reply(
        call("read_notebook"), answer(calls=[*edits, call("delete_cells", cells=[fresh.id])]), say(".")
    )
    cell = prompt(page, "%%vibe --yes=delete_cells\nedit them")
    page.allow(cell)
    page.allow(cell, 2)
    end(page, cell)
    assert fresh not in page.cells
    assert marked.vibe["approved"]["by"] == "user"
    assert page.run("%vibe undo").status == "ok"
    back = {one.id: one for one in page.cells}
    assert (back[fresh.id].source, back[fresh.id].vibe) == ("a = 1", None)
    assert (back[marked.id].source, back[marked.id].vibe) == ("b = 1", earlier)


def test_no_hash_of_a_value_is_written_where_no_value_may_be_told(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        config = tmp_path / "vibe" / "config.toml"
        config.write_text(config.read_text(encoding="utf-8") + '\n[privacy]\nmode = "schema"\n', encoding="utf-8")
        session.wire.run(SALES)
        page = ClickedPage(session.wire)
        session.model.will_reply(call("insert_cell", source=CLEAN), say("Done."))
        assert page.run("%%vibe --yes=insert_cell\nclean").status == "ok"
        made: PageCell = page.cells[-1]
        assert made.vibe is not None
        assert made.vibe["inputs"] == {"sales": {"shape": "pandas DataFrame 3 × 1"}, "api_key": {"shape": "str"}}
