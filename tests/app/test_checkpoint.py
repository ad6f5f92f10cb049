"""`checkpoint`: states of cells and files before each run, compared and restored by the agent."""

import os
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.app.test_undo import change, sources, undo
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage, end, prompt
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("undo")


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("checkpoint")) as session:
        yield session


@pytest.fixture
def session(shared_session: Session) -> Session:
    shared_session.wire.run("%vibe reset")
    shared_session.model.requests.clear()
    return shared_session


def results(session: Session, count: int) -> list[str]:
    """What the last calls gave, in order."""
    return [request.tool_results[-1] for request in session.model.requests[-count:]]


@pytest.mark.requirement("notebook.checkpoint.ops")
def test_states_are_listed_and_compared_unasked_and_restored_when_the_user_allows_it(session: Session) -> None:
    page = ClickedPage(session.wire, "a = 1", "b = 2")
    first, second = (cell.id for cell in page.cells)
    notes = session.folder / "notes.txt"
    notes.write_text("one\n", encoding="utf-8")
    edits = (call("edit_cell", cell=first, source="a = 10"), call("delete_cells", cells=[second]))
    change(session, page, *edits, call("write_file", path="notes.txt", content="two\n", overwrite=True), words="first")
    change(session, page, call("edit_cell", cell=first, source="a = 100"), words="second")

    session.model.will_reply(
        call("checkpoint"),
        call("checkpoint", action="diff", run=1),
        call("checkpoint", action="diff"),
        call("checkpoint", action="diff", run=7),
        call("checkpoint", action="restore", run=1),
        call("checkpoint", action="restore", run=1),
        say("It is as it was."),
    )
    cell = prompt(page, "%%vibe\ntake it all back")
    card = page.deny(cell)
    page.until(lambda: len(page.cards(cell)) > 0, "the first card")
    assert sources(page) == ["a = 100"]
    assert notes.read_text(encoding="utf-8") == "two\n"
    page.allow(cell, 2)
    end(page, cell)

    listed, whole, last, unknown, denied, restored = results(session, 6)
    assert [line.split(" (")[0] for line in listed.split("\n")] == ["1 before 'first'", "2 before 'second'"]
    assert whole.startswith("cell 1:\n")
    assert "-a = 1\n+a = 100" in whole
    assert "file notes.txt:\n" in whole
    assert "-one\n+two" in whole
    assert "-a = 10\n+a = 100" in last
    assert "notes.txt" not in last
    assert "No run 7 changed something." in unknown
    assert "restored: " not in denied
    assert card.startswith("Restore cells, files and variables as before run 1")
    assert "a = 100" in card
    assert "notes.txt" in card
    assert restored.startswith("restored: ")
    assert sources(page) == ["a = 1", "b = 2"]
    assert notes.read_text(encoding="utf-8") == "one\n"

    undo(page)
    assert sources(page) == ["a = 100"]
    assert notes.read_text(encoding="utf-8") == "two\n"


def test_variables_are_as_before_a_run_and_undo_takes_that_back(session: Session) -> None:
    page = ClickedPage(session.wire, "own_cell = 1")
    session.wire.run("parts = {'a': [1]}; alias = parts['a']; base = open('base.txt', 'w')")
    mine = session.folder / "mine.txt"
    mine.write_text("not the agent's\n", encoding="utf-8")
    os.utime(mine, times=(0, 0))  # long before the runs
    state = "print(parts, alias, 'made' in globals())"
    writes = "open('by_code.csv', 'w').close()"
    for code in ("parts['a'].append(2); made = 5; base.flush()", f"parts['b'] = made; alias.append(3); {writes}"):
        session.model.will_reply(call("run_code", code=code, keep=True), say("Done."))
        assert page.run("%%vibe --yes=run_code\nchange them").status == "ok"
    changed = session.wire.run(state).text
    assert changed == "{'a': [1, 2, 3], 'b': 5} [1, 2, 3] True\n"

    session.model.will_reply(
        call("checkpoint", action="diff", run=1), call("checkpoint", action="restore", run=1), say("As it was.")
    )
    cell = prompt(page, "%%vibe\ntake it back")
    card = page.allow(cell)
    end(page, cell)

    assert "variables: made, alias, parts" in card
    assert session.wire.run(state).text == "{'a': [1]} [1] False\n"
    compared, told = results(session, 2)
    stays = "by_code.csv: written during these runs, by code or a command"
    assert f"cannot be restored: {stays}" in compared
    assert stays in card
    assert "not restored: " in told
    assert stays in told
    assert "base: " in told
    undo(page)
    assert session.wire.run(state).text == changed
    session.wire.run("base.close()")


def test_what_a_protected_file_held_is_not_shown(session: Session) -> None:
    page = ClickedPage(session.wire, "a = 1")
    protected = session.folder / ".env"
    protected.write_text("COLOUR=unseen-before\n", encoding="utf-8")
    session.model.will_reply(
        call("write_file", path=".env", content="COLOUR=unseen-after\n", overwrite=True),
        say("Written."),
        call("checkpoint", action="diff"),
        say("Seen."),
    )
    cell = prompt(page, "%%vibe\nwrite it")
    page.allow(cell)
    end(page, cell)
    end(page, prompt(page, "%%vibe\nlook back"))
    (told,) = results(session, 1)
    assert told == "file .env: changed; what it holds is not shown"


def test_nothing_is_restored_where_nothing_was_changed(session: Session) -> None:
    page = ClickedPage(session.wire, "a = 1")
    session.model.will_reply(call("checkpoint"), call("checkpoint", action="restore"), say("Nothing."))
    end(page, prompt(page, "%%vibe\nlook back"))
    assert results(session, 2) == ["No run of this conversation changed a cell or file."] * 2
