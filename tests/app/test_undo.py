"""`%vibe undo`: cells and files of a run are as they were, and the model hears of it."""

import json
import os
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.page import Page, PageCell
from vibe_jupyter.app.undo import RUNS_KEPT
from vibe_jupyter.testing import Call, answer, call, say

pytestmark = pytest.mark.xdist_group("undo")
ALLOWED = "--yes=edit_cell,insert_cell,delete_cells,move_cells,write_file,search_replace"


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("undo")) as session:
        yield session


@pytest.fixture
def session(shared_session: Session) -> Session:
    shared_session.wire.run("%vibe reset")
    shared_session.model.requests.clear()
    return shared_session


def change(session: Session, page: Page, *calls: Call, words: str = "change it") -> PageCell:
    """Have the model read the notebook and then make these calls, all in one answer."""
    session.model.will_reply(call("read_notebook"), answer(calls=calls), say("Changed."))
    cell = page.run(f"%%vibe {ALLOWED}\n{words}")
    assert cell.status == "ok"
    return cell


def undo(page: Page, words: str = "") -> str:
    return page.run(f"%vibe undo {words}").text


def sources(page: Page) -> list[str]:
    """Of all cells but those that talk to the agent."""
    return [cell.source for cell in page.cells if "%vibe" not in cell.source]


def test_undo_brings_back_the_cells_and_files_of_the_last_run(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2", "c = 3", "d = 4")
    first, second, third, fourth = (cell.id for cell in page.cells)
    kept, new = session.folder / "kept.csv", session.folder / "new.csv"
    kept.write_bytes(b"x\r\n\xe4\r\n")
    (session.folder / "notes.txt").write_text("one\ntwo\n", encoding="utf-8")
    before: list[str] = []

    def note(method: str) -> None:
        if method == "edit":
            before.append("".join(one.read_text() for one in session.folder.rglob("undo/*/changes.jsonl")))

    page.before = note
    change(
        session,
        page,
        call("edit_cell", cell=first, source="a = 10"),
        call("insert_cell", after=first, source="between = 1"),
        call("delete_cells", cells=[second]),
        call("move_cells", cells=[fourth], after="top"),
        call("search_replace", file_path="notes.txt", old_string="two", new_string="2"),
        call("write_file", path="new.csv", content="y\n"),
        call("write_file", path="kept.csv", content="z\n", overwrite=True),
    )
    page.before = lambda method: None
    assert sources(page) == ["d = 4", "a = 10", "between = 1", "c = 3"]
    assert kept.read_bytes() == b"z\n"
    assert new.exists()
    assert '"source":"a = 1"' in before[0], "what was there is on disk before the page is asked to change it"

    said = undo(page)

    assert sources(page) == ["a = 1", "b = 2", "c = 3", "d = 4"]
    assert [cell.id for cell in page.cells[:4]] == [first, second, third, fourth]
    assert kept.read_bytes() == b"x\r\n\xe4\r\n"
    assert (session.folder / "notes.txt").read_text(encoding="utf-8") == "one\ntwo\n"
    assert not new.exists()
    assert "new.csv (removed)" in said
    assert "Outputs still show the last run." in said
    assert "Nothing to undo." in undo(page)
    assert "undone" in undo(page, "list")

    session.model.will_reply(say("I see."), say("Yes."))
    page.run("%%vibe\ngo on")
    page.run("%%vibe\nand on")
    told = [request.last_user_text for request in session.model.requests[-2:]]
    assert "The user undid what your run for the prompt 'change it' changed" in told[0]
    assert "kept.csv (edited)" in told[0]
    assert "undid" not in told[1]


def test_later_work_of_the_user_is_named_before_it_is_lost(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2")
    ids = [cell.id for cell in page.cells]
    (session.folder / "own.txt").unlink(missing_ok=True)
    change(
        session,
        page,
        call("edit_cell", cell=ids[0], source="a = 10"),
        call("edit_cell", cell=ids[1], source="b = 20"),
        call("write_file", path="own.txt", content="theirs"),
    )
    page.type_into(page.cells[1], "b = 'mine'")
    (session.folder / "own.txt").write_text("mine", encoding="utf-8")

    page.typed = ["n"]
    assert "Nothing was undone." in undo(page)
    assert "cell 2, own.txt changed since the run" in page.prompts[-1]["content"]["prompt"]
    assert sources(page) == ["a = 10", "b = 'mine'"]

    undo(page, "1 yes")
    assert sources(page) == ["a = 1", "b = 2"]
    assert not (session.folder / "own.txt").exists()


def test_what_cannot_be_restored_is_said_by_name(session: Session) -> None:
    page = Page(session.wire, "print('shown')", "b = 2")
    page.press(page.cells[0])
    page.until(lambda: bool(page.cells[0].status), "the end of the cell")
    number, ids = page.cells[0].count, [cell.id for cell in page.cells]
    change(session, page, call("edit_cell", cell=ids[1], source="b = 20"), call("delete_cells", cells=[ids[0]]))
    page.cells.remove(page.named(ids[1]))

    said = undo(page)

    assert sources(page) == ["print('shown')"]
    assert f"the output of [{number}]: run it again" in said
    assert "cell 2: it was deleted since" in said


def test_variables_that_code_of_a_run_changed_are_restored_and_what_is_not_is_named(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    session.wire.run(
        "import sqlite3\nparts = {'a': [1]}; alias = parts['a']; gone = 7; base = sqlite3.connect(':memory:')"
    )
    code = "parts['a'].append(2)\nmade = 5\ndel gone\nbase.execute('create table t (x)')"
    session.model.will_reply(call("run_code", code=code, keep=True), say("Done."))
    assert page.run("%%vibe --yes=run_code\nchange them").status == "ok"
    state = "print(parts, alias, 'made' in globals(), globals().get('gone'))"
    assert session.wire.run(state).text == "{'a': [1, 2]} [1, 2] True None\n"
    assert "variable parts" in undo(page, "list")

    said = undo(page)

    assert session.wire.run(state).text == "{'a': [1]} [1] False 7\n"
    assert all(name in said for name in ("parts", "made", "gone"))
    assert "Not restored: base: sqlite3.Connection cannot be kept." in said
    session.model.will_reply(say("I see."))
    page.run("%%vibe\ngo on")
    assert "variable parts" in session.model.requests[-1].last_user_text
    session.wire.run("base.close()")


def test_what_the_user_deletes_after_a_run_that_only_read_it_gives_its_memory_back(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    session.wire.run(
        "import gc, weakref\n"
        "class Table: ...\n"
        "read, unread, replaced = Table(), Table(), Table()\n"
        "watched = [weakref.ref(one) for one in (read, unread, replaced)]"
    )
    session.model.will_reply(call("run_code", code="kind = type(read)\nreplaced = None", keep=True), say("Done."))
    page.run("%%vibe --yes=run_code\nlook at it")

    freed = "del read, unread\ngc.collect()\nprint([one() is None for one in watched])"
    assert session.wire.run(freed).text == "[True, True, False]\n"
    undo(page)
    assert session.wire.run("print(type(replaced).__name__, 'kind' in globals())").text == "Table False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not say how much memory is free")
def test_where_memory_is_short_earlier_runs_are_let_go_and_named_as_not_kept(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    session.model.will_reply(call("run_code", code="warm = 1", keep=True), say("Done."))
    page.run("%%vibe --yes=run_code\nbegin")  # threads take room
    session.wire.run(
        "import resource, numpy as np\n"
        "large = np.ones(100_000_000, dtype='u1')\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "usual = resource.getrlimit(resource.RLIMIT_AS)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size + 600_000_000, usual[1]))"
    )
    for n in range(6):
        session.model.will_reply(
            call("run_code", code=f"large = np.ones_like(large)\nlarge[0] = {n}", keep=True), say("Done.")
        )
        page.run("%%vibe --yes=run_code\nreplace it")
        assert "ok in" in session.model.requests[-1].tool_results[-1]
    session.wire.run("resource.setrlimit(resource.RLIMIT_AS, usual)")
    assert "large: variables are kept for the last 5 runs of a kernel, fewer where memory is short" in undo(
        page, "2 yes"
    )
    assert "Undone: large." in undo(page)
    assert session.wire.run("print(large[0])\ndel large").text == "4\n"


def test_variables_are_kept_for_the_last_five_runs_whose_code_changed_some(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    names = [f"value_{number}" for number in range(RUNS_KEPT + 1)]
    session.wire.run(" = ".join([*names, "0"]))
    for name in names:
        session.model.will_reply(call("run_code", code=f"{name} = 1", keep=True), say("Done."))
        page.run("%%vibe --yes=run_code\nchange it")
        session.model.will_reply(say("Nothing to do."))
        page.run("%%vibe\nlook at it")

    said = [undo(page, f"{number} yes") for number in range(1, RUNS_KEPT + 2)]

    assert f"value_0: variables are kept for the last {RUNS_KEPT} runs" in said[0]
    assert [f"Undone: {name}." in text for name, text in zip(names, said, strict=True)] == [False] + [True] * RUNS_KEPT
    assert session.wire.run(f"print(*map(int, ({', '.join(names)})))").text == "1" + " 0" * RUNS_KEPT + "\n"


def test_files_that_code_of_a_run_wrote_are_named_and_stay(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    (session.folder / "before.txt").write_text("x", encoding="utf-8")
    os.utime(session.folder / "before.txt", (1, 1))
    code = "import os\nos.mkdir('plots')\nopen('plots/march.png', 'wb').close()\nmade_now = 1"
    session.model.will_reply(
        call("run_code", code=code, keep=True), call("write_file", path="by_tool.csv", content="y\n"), say("Done.")
    )
    assert page.run("%%vibe --yes=run_code,write_file\nplot it").status == "ok"
    (session.folder / "after.txt").write_text("x", encoding="utf-8")

    said = undo(page)

    assert "Not restored: plots/march.png: written during the run, by code or a command." in said
    assert (session.folder / "plots" / "march.png").exists()
    assert not (session.folder / "by_tool.csv").exists()


def test_a_run_whose_code_wrote_files_and_changed_nothing_else_is_said_to_have_written_them(session: Session) -> None:
    page = Page(session.wire, "own_cell = 1")
    code = "open('overwritten.csv', 'w').close()"
    session.model.will_reply(call("run_code", code=code, keep=True), say("Done."))
    assert page.run("%%vibe --yes=run_code\nsave it").status == "ok"
    said = undo(page)
    assert "Nothing to undo." in said
    assert "Not restored: overwritten.csv: written during the run, by code or a command." in said


def test_cells_that_were_deleted_and_moved_are_where_they_were(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2", "c = 3", "d = 4")
    ids = [cell.id for cell in page.cells]
    delete, move = call("delete_cells", cells=[ids[2]]), call("move_cells", cells=[ids[1]], after=ids[3])
    change(session, page, call("edit_cell", cell=ids[1], source="b = 20"), delete, move)
    assert sources(page) == ["a = 1", "d = 4", "b = 20"]
    undo(page)
    assert sources(page) == ["a = 1", "b = 2", "c = 3", "d = 4"]


def test_a_deleted_cell_stands_below_one_that_is_moved_back(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2", "c = 3", "d = 4")
    ids = [cell.id for cell in page.cells]
    change(session, page, call("move_cells", cells=[ids[0]], after=ids[3]), call("delete_cells", cells=[ids[1]]))
    assert sources(page) == ["c = 3", "d = 4", "a = 1"]
    undo(page)
    assert sources(page) == ["a = 1", "b = 2", "c = 3", "d = 4"]


def test_an_earlier_run_is_undone_by_its_number(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2")
    ids = [cell.id for cell in page.cells]
    for number, name in enumerate(ids, 1):
        edit = call("edit_cell", cell=name, source=f"n = {number}")
        change(session, page, edit, words=f"change cell {number}")
    listed = undo(page, "list")
    assert "  1  change cell 1" in listed
    assert "  2  change cell 2" in listed

    undo(page, "1")
    assert sources(page) == ["a = 1", "n = 2"]
    assert "Run 1 was undone already." in undo(page, "1")
    assert "There is no run 7 to undo." in undo(page, "7")


def test_what_is_kept_goes_with_the_conversation(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    change(session, page, call("write_file", path="made.txt", content="x"))
    folder = max(session.folder.rglob("undo"), key=lambda one: one.stat().st_mtime_ns).parent
    named = json.loads((folder / "journal.jsonl").read_text(encoding="utf-8").split("\n")[0])["header"]["session_id"]
    page.run("%vibe reset")
    page.run(f"%vibe delete {named} yes")
    assert not os.path.exists(folder)


def test_the_kept_form_names_what_a_run_changed_as_links(session: Session) -> None:
    page = Page(session.wire, "a = 1", "b = 2")
    page.press(page.cells[0])
    page.until(lambda: bool(page.cells[0].status), "the end of the cell")
    number, ids = page.cells[0].count, [cell.id for cell in page.cells]
    cell = change(
        session,
        page,
        call("edit_cell", cell=ids[0], source="a = 10"),
        call("insert_cell", after=ids[0], source="new = 1"),
        call("write_file", path="data/<b>.csv", content="x"),
        call("delete_cells", cells=[ids[1]]),
    )
    kept = cell.outputs[-1]["data"]
    new = next(one.id for one in page.cells if one.source == "new = 1")
    assert f'<a href="#cell-id={ids[0]}"><code>[{number}]</code></a>' in kept["text/html"]
    assert f'<a href="#cell-id={new}"><code>cell 2</code></a>' in kept["text/html"]
    assert '<a href="data/%3Cb%3E.csv"><code>data/&lt;b&gt;.csv</code></a>' in kept["text/html"]
    changed = f"Changed: [{number}] edited, cell 2 new, cell 3 deleted, data/<b>.csv new file"
    assert changed in kept["text/plain"]


def test_the_output_of_a_run_says_what_undoes_it_where_it_changed_something(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    edited = change(session, page, call("edit_cell", cell=page.cells[0].id, source="a = 10"))
    session.model.will_reply(say("Nothing to do."))
    idle = page.run("%%vibe\nlook")
    said, nothing = (cell.outputs[-1]["metadata"]["vibe_jupyter"] for cell in (edited, idle))
    assert said["undo"] == {"conversation": page.metadata["conversation"], "run": 1}
    assert sorted(nothing) == ["author", "prompt", "reason"]
    author = f"scripted@{session.model.url.split('/')[2]}"
    assert nothing["author"] == {"model": author, "conversation": page.metadata["conversation"], "run": 2}


def limit_files_to(session: Session, size: str) -> None:
    """The system lets the kernel write no file beyond so many bytes, as if the disk were full."""
    session.wire.run(f"import resource as r; r.setrlimit(r.RLIMIT_FSIZE, ({size}, r.RLIM_INFINITY)); del r")


def test_a_file_that_a_full_disk_kept_from_being_put_back_is_put_back_by_the_next_undo(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    notes = session.folder / "long.txt"
    notes.write_text("mine\n" * 10, encoding="utf-8")
    edit = call("edit_cell", cell=page.cells[0].id, source="a = 10")
    change(session, page, edit, call("write_file", path="long.txt", content="theirs", overwrite=True))

    limit_files_to(session, "8")
    try:
        first = undo(page)
        second = undo(page)
    finally:
        limit_files_to(session, "r.RLIM_INFINITY")
    assert "Undone: cell 1. Not restored: long.txt: File too large (%vibe undo 1 tries again)." in first
    assert "Nothing was undone. Not restored: long.txt" in second
    assert "undone" not in undo(page, "list")

    assert "Undone: long.txt." in undo(page)
    assert notes.read_text(encoding="utf-8") == "mine\n" * 10
    assert sources(page) == ["a = 1"]


def test_an_undo_that_cannot_be_noted_says_what_it_did(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    edit = call("edit_cell", cell=page.cells[0].id, source="a = 10")
    change(session, page, edit, call("write_file", path="made_by_it.txt", content="x"))

    limit_files_to(session, "8")
    try:
        said = undo(page)
    finally:
        limit_files_to(session, "r.RLIM_INFINITY")
    assert "Undone: cell 1, made_by_it.txt (removed). Not restored: the note of it" in said
    assert not (session.folder / "made_by_it.txt").exists()


def hold_edits(page: Page) -> list[Callable[[], None]]:
    """From the next edit on the page is busy; gives what it does when it is not any more."""
    late: list[Callable[[], None]] = []

    def busy(method: str) -> None:
        if method == "edit":
            page.answers, args = False, page.asked[-1]["args"]
            late.append(lambda: page._answer_edit({}, **args))

    page.before = busy
    return late


def free(page: Page, late: list[Callable[[], None]]) -> None:
    page.before, page.answers = lambda method: None, True
    for one in late:
        one()


def test_an_edit_that_a_busy_page_made_late_is_undone(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    edit = call("edit_cell", cell=page.cells[0].id, source="a = 10")
    late = hold_edits(page)
    session.model.will_reply(call("read_notebook"), edit, say("It may be changed."))
    page.run(f"%%vibe {ALLOWED}\nchange it")
    assert "may have been made, or be made yet" in session.model.requests[-1].tool_results[-1]
    free(page, late)
    assert sources(page) == ["a = 10"]

    assert "Undone: cell 1." in undo(page)
    assert sources(page) == ["a = 1"]


def test_an_undo_that_a_busy_page_may_make_late_does_not_say_that_nothing_was_undone(session: Session) -> None:
    page = Page(session.wire, "a = 1")
    new = session.folder / "late.txt"
    edit = call("edit_cell", cell=page.cells[0].id, source="a = 10")
    change(session, page, edit, call("write_file", path="late.txt", content="x"))
    late = hold_edits(page)

    said = undo(page)

    assert "its cells may change yet. Files and variables are as they were; %vibe undo 1 does the rest." in said
    assert new.exists()
    free(page, late)
    assert sources(page) == ["a = 1"]
    assert "Undone: late.txt (removed)." in undo(page)
