"""`[privacy] mode = "schema"`: no value of the user's data is in any request, whatever way it could go."""

import base64
import random
import re
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.app.planted_values import BINDS, FAILS, IMPORTS, SHOWS, PlantedValues, plant
from tests.app.prompt_sessions import file
from tests.kernel.matrix import WITH_PANDAS
from tests.kernel.test_execution import PIXEL
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import serve
from tests.mcp_server.outsider import Outsider, over_http, text
from tests.notebook.page import Page, PageCell
from tests.notebook.test_agent import ClickedPage
from tests.notebook.test_background import leave
from tests.sweeps.withheld_values import sweep
from tests.tiers import further
from vibe_jupyter.testing import Call, answer, call, say

pytestmark = pytest.mark.xdist_group("privacy")

ALIAS = 'alias = "scripted"'
MODE = '\n[privacy]\nmode = "schema"\n'
YES = "--yes=run_code,run_cells,insert_cell,edit_cell,bash,search_replace,write_file,verify_notebook,task,memory"


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(WITH_PANDAS, tmp_path_factory.mktemp("privacy")) as session:
        config = session.folder / "vibe" / "config.toml"
        seeing = config.read_text(encoding="utf-8").replace(ALIAS, f"{ALIAS}\nsupports_images = true")
        config.write_text(seeing + MODE, encoding="utf-8")
        session.wire.run(IMPORTS)
        yield session


@pytest.fixture(scope="module")
def data() -> PlantedValues:
    return plant(random.Random(1))


@pytest.fixture
def session(shared_session: Session, data: PlantedValues) -> Session:
    data.write(shared_session.folder)
    shared_session.wire.run("%vibe reset")
    shared_session.model.requests.clear()
    return shared_session


def results(session: Session) -> str:
    """All that the calls of the latest run gave."""
    return "\n".join(session.model.requests[-1].tool_results)


def ask(page: Page, session: Session, *calls: Call, words: str = "look") -> PageCell:
    """A prompt whose model reads the notebook and then makes these calls, all in one answer."""
    session.model.will_reply(call("read_notebook"), answer(calls=calls), say("Done."))
    cell = page.run(f"%%vibe {YES}\n{words}")
    assert cell.status == "ok", cell.text
    return cell


def test_variables_are_told_by_names_types_and_counts(session: Session, data: PlantedValues) -> None:
    session.wire.run("\n".join(BINDS.values()))
    mentions = " ".join(f"@{name}" for name in BINDS)
    paths = ["frame.city", "rows[0]", "sales_of", "frame['city'].iloc[0]", "nowhere", "Owner", "shown"]
    session.model.will_reply(
        answer(
            calls=[
                call("inspect"),
                call("inspect", names=list(BINDS)[:12]),
                call("inspect", names=[*list(BINDS)[12:]]),
                call("inspect", names=["frame"], columns=["city", "sales"], rows=3),
                call("inspect", names=["flags"], columns=["town"]),
                *(call("inspect", names=[path]) for path in paths),
            ]
        ),
        say("Done."),
    )
    session.run(f"%vibe {mentions} look at them")
    assert data.sent(session.model.requests) == []
    report = session.model.requests[0].last_user_text
    assert "\narray: numpy.ndarray 6 float64\n" in report
    assert "\nflags: pandas DataFrame 6 × 6 (6 labels withheld)\n" in report
    assert "@by_city: pandas DataFrame 6 × 4\ncolumn | type | nulls | different values\nowner | " in report
    told = session.model.requests[1].tool_results
    assert "frame: pandas DataFrame 6 × 5\ncolumn | type | nulls | different values\ncity | " in told[1]
    assert "sales | int64 | 0 |" in told[3]
    assert "rows: list of 6 items (dict)" in report


@pytest.mark.parametrize("explores", [pytest.param(True, id="in-a-copy"), further(False, id="in-the-kernel")])
def test_code_is_told_by_how_it_ended_and_how_much_it_showed(
    session: Session, data: PlantedValues, *, explores: bool
) -> None:
    calls = [call("run_code", code=code, keep=not explores) for code in (*SHOWS, *FAILS)]
    session.model.will_reply(answer(calls=calls), say("Done."))
    session.wire.run("frame = pandas.read_csv('data.csv')")
    cell = session.run(f"%vibe {YES} run it")
    assert data.sent(session.model.requests) == []
    assert len(session.model.requests) == 2, cell.text
    told = session.model.requests[1].tool_results
    assert re.match(r"ok in .*\n\[8 lines shown to the user; withheld: ", told[0])
    assert any(result.startswith("error: ValueError: could not convert string to float: …") for result in told)
    assert "(line 1)" in results(session)


def test_a_name_of_the_code_is_told_of_an_error(session: Session) -> None:
    session.wire.run("frame = pandas.read_csv('data.csv')")
    session.model.will_reply(
        call("run_code", code="x = 1\nframe['town'].mean()"), call("run_code", code="town"), say(".")
    )
    session.run(f"%vibe {YES} run it")
    first, second = session.model.requests[-1].tool_results
    assert "error: KeyError: 'town' (line 2)" in first
    assert "error: NameError: name 'town' is not defined (line 1)" in second


def test_what_code_shows_is_for_the_user_all_the_same(session: Session, data: PlantedValues) -> None:
    session.model.will_reply(call("run_code", code="print(open('data.csv').read())", keep=True), say("Done."))
    cell = session.run(f"%vibe {YES} show it")
    assert data.in_text(session.html(cell)) != []
    assert "no values sent" in session.html(cell)


def test_cells_and_their_outputs_are_told_without_values(session: Session, data: PlantedValues) -> None:
    page = Page(session.wire, "a = 1")
    for code in (*SHOWS[:6], *FAILS[:6]):
        page.run(code)
    first = page.cells[0].id
    cell = ask(
        page,
        session,
        call("read_notebook", outputs="full"),
        call("read_notebook", outputs="images"),
        call("read_notebook", query="data"),
        call("insert_cell", after=first, source=f"{BINDS['figure']}\nfigure", run=True),
        call("insert_cell", after=first, source=SHOWS[0], run=True),
        call("insert_cell", after=first, source=FAILS[1], run=True),
        call("edit_cell", cell=first, source=SHOWS[1], run=True),
        call("run_cells", cells=[one.id for one in page.cells[1:4]]),
        call("run_cells", cells=[page.cells[7].id, first]),
        words="@data.csv and @#2 and @[3] and the cells above",
    )
    assert data.sent(session.model.requests) == []
    assert "error ValueError" in results(session) or "ValueError" in results(session)
    assert cell.status == "ok"
    page.run(FAILS[2])
    page.type_into(page.cells[0], "a = 2")
    session.model.will_reply(say("Seen."))
    page.run("%%vibe\nwhat did I do?")
    assert "failed" in session.model.requests[-1].last_user_text
    assert data.sent(session.model.requests) == []


def test_verification_tells_which_cells_differ_and_no_value(session: Session, data: PlantedValues) -> None:
    page = Page(session.wire)
    page.run("seen = open('data.csv').read()")
    page.run("print(seen)")
    page.run("seen = seen.upper()")
    page.run("print(seen)")
    page.type_into(page.cells[1], "print(seen.lower())")
    page.run("raise ValueError(open('data.csv').read())")
    ask(page, session, call("verify_notebook"))
    assert data.sent(session.model.requests) == []
    assert "its output differs" in results(session) or "an error" in results(session)


def test_files_are_told_only_where_they_hold_code(session: Session, data: PlantedValues) -> None:
    session.folder.joinpath("shot.png").write_bytes(base64.b64decode(PIXEL))
    with file(session.folder / "tools.py", "def clean(rows):\n    return rows\n"):
        session.folder.joinpath("linked.py").unlink(missing_ok=True)
        session.folder.joinpath("linked.py").symlink_to(session.folder / "data.csv")
        session.model.will_reply(
            answer(
                calls=[
                    call("read_file", path="tools.py"),
                    call("grep", pattern="rows", path="tools.py"),
                    *(
                        call("read_file", path=name)
                        for name in ("data.csv", "notes.md", "data.json", "linked.py", "shot.png")
                    ),
                    call("grep", pattern="."),
                    call("grep", pattern=".", path="data.csv"),
                    call("search_replace", file_path="data.csv", old_string="city,ownr", new_string="x"),
                    call("search_replace", file_path="notes.md", old_string="# Notes", new_string="# More"),
                    call("bash", command="cat data.csv"),
                    call("bash", command="cat data.csv >&2; exit 3"),
                    call("bash", command="cat data.csv; sleep 30", background=True),
                    call("checkpoint", operation="list"),
                ]
            ),
            say("Done."),
        )
        session.run(f"%vibe {YES} @data.csv and @notes.md and @data.json and @linked.py and @shot.png and @tools.py")
        session.folder.joinpath("linked.py").unlink()
    assert data.sent(session.model.requests) == []
    told = session.model.requests[1].tool_results
    assert "def clean(rows):" in told[0]
    assert "def clean(rows):" in told[1]
    assert "def clean(rows):" in session.model.requests[0].last_user_text
    assert told[2].startswith("ok; ")
    assert told[2].endswith("withheld: no values are sent in this privacy mode")
    session.model.will_reply(say("Seen."))
    session.run("%vibe and now?")
    assert "<background>" in session.model.requests[-1].last_user_text
    assert data.sent(session.model.requests) == []
    session.run("%vibe reset")


def test_other_tools_sub_agents_and_what_was_remembered_tell_no_value(session: Session, data: PlantedValues) -> None:
    page = Page(session.wire)
    page.run(
        "import vibe_jupyter\n@vibe_jupyter.tool\ndef telling() -> str:\n    '''Tells.'''\n"
        "    return open('data.csv').read()"
    )
    page.run(
        "@vibe_jupyter.tool\ndef failing() -> str:\n    '''Fails.'''\n    raise ValueError(open('data.csv').read())"
    )
    page.run(
        "from vibe_jupyter.tools import InvokeContext\n"
        "@vibe_jupyter.tool\nasync def handing(ctx: InvokeContext) -> str:\n"
        "    '''Hands over.'''\n    return (await ctx.delegate('explore', open('data.csv').read())).response"
    )
    session.model.will_reply(
        answer(calls=[*map(call, ("telling", "failing", "handing")), call("task", agent="explore", task="look")]),
        answer(calls=[call("inspect"), call("read_file", path="data.csv"), call("run_code", code=SHOWS[0])]),
        say("Looked."),
        say("Done."),
    )
    page.run(f"%%vibe {YES},telling,failing,handing\nlook")
    assert len(session.model.requests) == 4
    assert data.sent(session.model.requests) == []
    assert "Looked." in results(session)


def test_the_last_error_is_told_without_values(session: Session, data: PlantedValues) -> None:
    session.wire.run("frame = pandas.read_csv('data.csv')\ndef find(rows, city):\n    return {}[rows[city][0]]")
    session.wire.cell(session.wire.send("find(frame, 'city')"))
    session.model.will_reply(say("I see."))
    session.run("%vibe fix")
    asked = session.model.requests[-1].last_user_text
    assert data.sent(session.model.requests) == []
    assert "KeyError: …" in asked
    assert "return {}[rows[city][0]]" in asked
    assert "rows: pandas DataFrame 6 × 5" in asked


def test_the_journal_holds_no_value(session: Session, data: PlantedValues) -> None:
    page = Page(session.wire, SHOWS[0])
    ask(
        page,
        session,
        call("run_code", code=SHOWS[1]),
        call("run_code", code=FAILS[1]),
        call("run_cells", cells=[page.cells[0].id]),
        call("bash", command="cat data.csv"),
        call("read_file", path="notes.md"),
        call("search_replace", file_path="notes.md", old_string="# Notes", new_string="# More"),
    )
    journals = [path.read_text(encoding="utf-8") for path in (session.folder / "vibe").rglob("journal.jsonl")]
    assert len(journals) > 0
    assert [value for text in journals for value in data.in_text(text)] == []


def test_a_conversation_goes_on_only_in_the_mode_that_it_was_held_in(session: Session, data: PlantedValues) -> None:
    config = session.folder / "vibe" / "config.toml"
    closed = config.read_text(encoding="utf-8")
    config.write_text(closed.replace(MODE, ""), encoding="utf-8")
    try:
        session.model.will_reply(call("run_code", code=SHOWS[0]), say("Done."))
        session.run(f"%vibe {YES} openly")
        assert data.sent(session.model.requests) != []
    finally:
        config.write_text(closed, encoding="utf-8")
    session.model.requests.clear()
    refused = session.wire.cell(session.wire.send("%vibe compact"))
    assert "another privacy mode" in refused.text + refused.error
    session.model.will_reply(say("Hello."))
    session.run("%vibe go on")
    assert data.sent(session.model.requests) == []
    assert len(session.model.requests[0].messages) == 2
    said = session.wire.cell(session.wire.send("%vibe resume openly"))
    assert "was held with values of your data" in said.text + said.error
    session.model.will_reply(say("Hello."))
    session.run("%vibe go on")
    assert data.sent(session.model.requests) == []


def test_the_user_is_told_the_mode(session: Session) -> None:
    assert "Privacy: no values of your data are sent" in session.run("%vibe status").text
    session.model.will_reply(say("Hello."))
    session.run("%vibe hello")
    assert "no values of the user's data are sent to you" in session.model.requests[0].messages[0]["content"]


@pytest.mark.attack("untrusted folders", always=True)
def test_a_projects_settings_do_not_open_it(session: Session, data: PlantedValues) -> None:
    with file(session.folder / ".vibe" / "config.toml", '[privacy]\nmode = "open"\n'):
        session.wire.run("word = open('data.csv').read()")
        session.model.will_reply(call("inspect", names=["word"]), say("Done."))
        session.run("%vibe look at @word")
    assert data.sent(session.model.requests) == []


def test_an_external_client_gets_no_value_either(session: Session, data: PlantedValues) -> None:
    served = serve(session)
    served.run("word = open('data.csv').read()")
    outsider = Outsider(over_http(served.url, served.token))
    try:
        told = [outsider.call("inspect", names=["word"])]
        # Progress is told at intervals: what was printed has to be older than one.
        lasting = f"{SHOWS[0]}; import time; time.sleep(1)\n1 / 0"
        running = outsider.start("run_code", code=lasting, keep=True)
        served.allow()
        told.append(running.result(WAIT))
    finally:
        outsider.close()
        session.wire.run("%vibe reset")
    said = "\n".join([*map(text, told), *outsider.told])
    assert "word: str" in said
    assert "ZeroDivisionError: division by zero (line 2)" in said
    assert data.in_text(said) == []


def test_cells_in_the_background_are_told_without_values(session: Session, data: PlantedValues) -> None:
    page = ClickedPage(session.wire)
    leave(page, session, SHOWS[0], FAILS[1])
    page.until(lambda: bool(page.cells[1].status), "the end of the second cell")
    session.model.will_reply(say("Seen."))
    page.run("%%vibe\nand?")
    report = session.model.requests[-1].last_user_text
    assert "<background>" in report
    assert "error: ValueError" in report
    assert data.sent(session.model.requests) == []


def test_a_compacted_conversation_begins_with_a_report_without_values(session: Session, data: PlantedValues) -> None:
    session.wire.run("word = open('data.csv').read()")
    session.model.will_reply(call("run_code", code=SHOWS[0]), say("Done."))
    session.run(f"%vibe {YES} look")
    session.model.will_reply(say("They looked at a word."), say("Yes."))
    session.run("%vibe compact")
    session.run("%vibe @word and on")
    assert "They looked at a word." in session.model.requests[-1].body["messages"][1]["content"]
    assert data.sent(session.model.requests) == []


@pytest.mark.parametrize("seed", [0, *map(further, range(1, 4))])
def test_none_of_the_values_of_twenty_data_sets_is_sent_or_kept(seed: int) -> None:
    assert list(sweep(5, seed)) == []
