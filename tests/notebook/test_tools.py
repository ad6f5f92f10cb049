"""The notebook's tools, as a model calls them: real kernels, a page that answers the bridge."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.notebook.page import Page

OpenPage = Callable[..., Page]
Result = dict[str, Any]


def call_all(page: Page, *calls: tuple[str, dict[str, Any]]) -> list[Result]:
    """One run of several calls."""
    cell = page.run(f"serve_calls(*{calls!r})")
    page.cells.remove(cell)
    return json.loads(cell.text)


def call(page: Page, name: str, **arguments: Any) -> Result:
    return call_all(page, (name, arguments))[0]


def after_reading(page: Page, name: str, **arguments: Any) -> Result:
    """The call, with all cells read before."""
    return call_all(page, ("read_notebook", {}), (name, arguments))[1]


def text(result: Result) -> str:
    return "".join(part.get("text", "") for part in result["parts"])


def error(result: Result) -> str:
    assert result["is_error"], result
    return text(result)


def requests(page: Page, method: str) -> list[dict[str, Any]]:
    return [asked["args"] for asked in page.asked if asked["method"] == method]


@pytest.fixture(autouse=True)
def _a_new_conversation(shared_kernel: Any) -> None:
    shared_kernel.run("access.reads.remembered.forget(); access.begin()")


@pytest.mark.requirement("notebook.read_notebook.listing", "notebook.rule.status-line")
def test_read_notebook_lists_cells_with_all_it_takes_to_address_them(open_page: OpenPage) -> None:
    page = open_page("x = 1", "broken")
    page.add("# Title", kind="markdown")
    ran = page.run("1 / 1")
    page.type_into(ran, "2 / 2")
    result = call(page, "read_notebook", outputs="brief")
    lines = text(result).split("\n")
    assert lines[0] == "work/test.ipynb: 5 cells"
    assert lines[1:3] == [f"#1 {page.cells[0].id[:8]} code never", "x = 1"]
    assert f"#3 {page.cells[2].id[:8]} markdown" in lines
    assert f"#4 {ran.id[:8]} code [{ran.count}] edited" in lines
    assert "-> execute_result text/plain" in text(result)
    assert "->" not in text(call(page, "read_notebook"))
    assert result["summary"] == "5 cells"


@pytest.mark.requirement("notebook.read_notebook.listing")
def test_read_notebook_lists_some_by_words_by_place_and_page_by_page(open_page: OpenPage) -> None:
    page = open_page(*(f"value_{n} = {n}" for n in range(100)))
    usual, first, found, near = call_all(
        page,
        ("read_notebook", {}),
        ("read_notebook", {"limit": 10, "offset": 60}),
        ("read_notebook", {"query": "VALUE_42 ="}),
        ("read_notebook", {"around": "#50", "limit": 4}),
    )
    assert text(usual).split("\n")[0] == "work/test.ipynb: 101 cells; shown 1-60; go on with offset=60"
    assert text(first).split("\n")[0] == "work/test.ipynb: 101 cells; shown 61-70; go on with offset=70"
    assert text(found).split("\n")[0] == "work/test.ipynb: 101 cells; 2 match"  # the prompt is one of them
    assert "value_42" in text(found)
    assert [f"value_{n} =" in text(near) for n in (46, 47, 50, 51)] == [False, True, True, False]


@pytest.mark.requirement("notebook.rule.size")
def test_a_long_listing_is_cut_between_cells_and_says_how_to_go_on(open_page: OpenPage) -> None:
    page = open_page(*(f"# {'long ' * 150}{n}" for n in range(30)))
    result = call(page, "read_notebook")
    assert len(text(result)) <= 8_000
    shown = text(result).count(" code never")
    assert f"go on with offset={shown}" in text(result)
    assert 5 < shown < 30


@pytest.mark.requirement("notebook.rule.ids")
def test_a_prefix_of_an_id_is_enough_and_a_place_only_for_reading(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    page.cells[0].id, page.cells[1].id = "aaaa1111", "aaaa2222"
    by_place, by_prefix, short, double, written = call_all(
        page,
        ("read_cell", {"cell_id": "#2"}),
        ("read_cell", {"cell_id": "aaaa1"}),
        ("read_cell", {"cell_id": "aaa"}),
        ("read_cell", {"cell_id": "aaaa"}),
        ("edit_cell", {"cell_id": "#2", "source": "b = 3"}),
    )
    assert text(by_place).endswith("\nb = 2")
    assert text(by_prefix).endswith("\na = 1")
    assert "too short" in error(short)
    assert "fits 2 cells" in error(double)
    assert "aaaa2222" in error(written)
    assert not requests(page, "edit")


@pytest.mark.requirement("notebook.rule.unknown-id")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_cell", {"cell_id": "{}"}),
        ("read_output", {"cell_id": "{}"}),
        ("edit_cell", {"cell_id": "{}", "source": "x"}),
        ("insert_cell", {"after": "{}", "source": "x"}),
        ("delete_cells", {"ids": ["{}"]}),
        ("move_cells", {"ids": ["{}"], "after": "end"}),
        ("run_cell", {"ids": ["{}"]}),
    ],
)
def test_an_unknown_id_names_the_nearest_cells_and_touches_none(
    open_page: OpenPage, name: str, arguments: dict[str, Any]
) -> None:
    page = open_page("a = 1", "b = 2")
    page.cells[0].id, page.cells[1].id = "cafe0001", "beef0002"
    wrong = json.loads(json.dumps(arguments).replace("{}", "cafe0009"))
    result = after_reading(page, name, **wrong)
    assert "There is no cell 'cafe0009'" in error(result)
    assert "cafe0001 (#1, code: 'a = 1')" in error(result)
    assert not requests(page, "edit") + requests(page, "run")


@pytest.mark.requirement("notebook.read_cell.source")
def test_read_cell_gives_source_hash_state_and_outputs(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run("print('seen')\n6 * 7")
    whole, part = call_all(
        page, ("read_cell", {"cell_id": cell.id, "outputs": True}), ("read_cell", {"cell_id": cell.id, "offset": 1})
    )
    status, *rest = text(whole).split("\n")
    assert status.startswith(f"#1 {cell.id[:8]} code [{cell.count}] fresh; hash ")
    assert rest == ["print('seen')", "6 * 7", "outputs:", "seen", "42"]
    assert text(part).split("\n")[1:] == ["6 * 7"]
    assert "shown 2-2" in text(part)


@pytest.mark.requirement("notebook.read_cell.source")
def test_read_cell_gives_as_many_lines_as_it_is_asked_for_and_says_where_to_go_on(open_page: OpenPage) -> None:
    page = open_page("a = 1\nb = 2\nc = 3\nd = 4")
    cell = page.cells[0].id
    first, middle, last = call_all(
        page,
        ("read_cell", {"cell_id": cell, "limit": 1}),
        ("read_cell", {"cell_id": cell, "offset": 1, "limit": 2}),
        ("read_cell", {"cell_id": cell, "offset": 3, "limit": 9}),
    )
    assert text(first).split("\n")[1:] == ["a = 1"]
    assert "shown 1-1; go on with offset=1" in text(first)
    assert text(middle).split("\n")[1:] == ["b = 2", "c = 3"]
    assert "shown 2-3; go on with offset=3" in text(middle)
    assert text(last).split("\n")[1:] == ["d = 4"]
    assert "go on with" not in text(last)


@pytest.mark.requirement("notebook.read_output.page", "notebook.rule.size")
def test_read_output_pages_through_all_of_it(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run("print(*range(5000))\n'last'")
    first = call(page, "read_output", cell_id=cell.id)
    assert len(text(first)) <= 8_000
    status, body = text(first).split("\n", 1)
    offset = int(status.rpartition("offset=")[2])
    rest, one, none = call_all(
        page,
        ("read_output", {"cell_id": cell.id, "offset": offset}),
        ("read_output", {"cell_id": cell.id, "index": 1}),
        ("read_output", {"cell_id": cell.id, "index": 2}),
    )
    assert (body + text(rest).split("\n", 1)[1])[:20] == "0 1 2 3 4 5 6 7 8 9 "
    assert text(one).split("\n")[1] == "'last'"
    assert "counted from 0" in error(none)


@pytest.mark.requirement("notebook.read_output.images", "notebook.run_cell.final")
def test_a_figure_goes_to_a_model_that_sees_images(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run(
        "from IPython.display import Image\nImport = None\nimport base64\n"
        "Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))"
    )
    result = call(page, "read_output", cell_id=cell.id)
    assert [part["type"] for part in result["parts"]] == ["text", "image"]
    assert "[image/png shown to the user]" in text(result)
    ran = after_reading(page, "run_cell", ids=[cell.id])
    assert [part["type"] for part in ran["parts"]] == ["text", "image"]


def test_a_result_that_is_html_alone_is_read_as_its_text(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run("from IPython.display import HTML\nHTML('<table><tr><th>sum<td>4</table><script>draw()</script>')")
    assert text(call(page, "read_output", cell_id=cell.id)).split("\n")[1:] == ["sum | 4"]


@pytest.mark.requirement("notebook.edit_cell.replace", "notebook.rule.read-back", "notebook.rule.one-request")
def test_edit_cell_replaces_a_string_and_shows_the_diff(open_page: OpenPage) -> None:
    page = open_page("a = 1\nb = 2\nc = a")
    cell = page.cells[0]
    result = after_reading(page, "edit_cell", cell_id=cell.id[:6], old_string="b = 2", new_string="b = 3")
    assert cell.source == "a = 1\nb = 3\nc = a"
    assert text(result).startswith(f"edited #1 {cell.id}, now hash ")
    assert result["preview"] == {
        "kind": "diff",
        "text": "@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n c = a",
        "language": "",
        "edits": None,
        "made_from": "",
        "note": "",
    }
    assert (result["headline"]["asking"], result["headline"]["target"]) == ("Edit cell", "#1")
    assert len(requests(page, "edit")) == 1


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_edit_cell_replaces_every_occurrence_when_it_is_told_to(open_page: OpenPage) -> None:
    page = open_page("a = 1\nb = a\nc = b")
    cell = page.cells[0]
    arguments = {"cell_id": cell.id, "old_string": "a", "new_string": "one\nmore"}
    refused, done = call_all(
        page, ("read_notebook", {}), ("edit_cell", arguments), ("edit_cell", {**arguments, "replace_all": True})
    )[1:]
    assert "is 2 times in the cell" in error(refused)
    assert cell.source == "one\nmore = 1\nb = one\nmore\nc = b"
    assert done["summary"] == "+4 −2"


@pytest.mark.requirement("notebook.edit_cell.replace")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"old_string": "zzz", "new_string": ""}, "is not in the cell"),
        ({"old_string": "a", "new_string": "b"}, "is 2 times in the cell"),
        ({"old_string": "a"}, "give either old_string and new_string, or source"),
        ({"source": "x", "old_string": "a", "new_string": "b"}, "give either"),
        ({}, "give either"),
        ({"source": "a = a"}, "already has this source"),
    ],
)
def test_an_edit_that_cannot_be_done_writes_nothing(open_page: OpenPage, arguments: dict[str, Any], says: str) -> None:
    page = open_page("a = a")
    result = after_reading(page, "edit_cell", cell_id=page.cells[0].id, **arguments)
    assert says in error(result)
    assert page.cells[0].source == "a = a"


@pytest.mark.requirement("notebook.rule.expect-hash", "notebook.delete_cells.many")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("edit_cell", {"cell_id": "{}", "source": "agent = 1"}), ("delete_cells", {"ids": ["{}"]})],
)
def test_what_the_person_changed_since_it_was_read_is_not_written(
    open_page: OpenPage, name: str, arguments: dict[str, Any], late: bool
) -> None:
    """Before the call, and late: while it is under way."""
    page = open_page("theirs = 1")
    cell = page.cells[0]
    call(page, "read_notebook")
    if late:
        page.before = lambda method: page.type_into(cell, "theirs = 2") if method == "edit" else None
    else:
        page.type_into(cell, "theirs = 2")
    result = call(page, name, **json.loads(json.dumps(arguments).replace("{}", cell.id)))
    assert "changed since you read it" in error(result)
    assert error(result).endswith("theirs = 2")
    assert [one.source for one in page.cells] == ["theirs = 2"]


@pytest.mark.requirement("notebook.rule.expect-hash")
def test_a_cell_never_read_is_not_written_and_the_refusal_is_a_reading(open_page: OpenPage) -> None:
    page = open_page("unread = 1")
    cell = page.cells[0]
    first, second = call_all(page, *[("edit_cell", {"cell_id": cell.id, "source": "new = 1"})] * 2)
    assert "was not read yet" in error(first)
    assert error(first).endswith("unread = 1")
    assert not second["is_error"]
    assert cell.source == "new = 1"


@pytest.mark.requirement("notebook.rule.expect-hash")
def test_a_cell_shown_only_in_part_is_not_read(open_page: OpenPage) -> None:
    page = open_page("\n".join(f"line_{n} = {n}" for n in range(60)))
    result = after_reading(page, "edit_cell", cell_id=page.cells[0].id, source="short")
    assert "was not read yet" in error(result)


@pytest.mark.requirement("notebook.insert_cell.place")
def test_insert_cell_puts_cells_where_they_belong(open_page: OpenPage) -> None:
    page = open_page("first", "last")
    top, end = page.cells[0].id, page.cells[1].id
    results = call_all(
        page,
        ("insert_cell", {"source": "behind first", "after": top}),
        ("insert_cell", {"source": "# Top", "after": "top", "cell_type": "markdown"}),
        ("insert_cell", {"source": "behind last", "after": end}),
        ("insert_cell", {"source": "at the end", "after": "end"}),
    )
    assert not any(result["is_error"] for result in results)
    sources = ["# Top", "first", "behind first", "last", "behind last", "at the end"]
    assert [cell.source for cell in page.cells if cell.source in sources] == sources
    assert results[0]["preview"] == {
        "kind": "code",
        "text": "behind first",
        "language": "python",
        "edits": "source",
        "made_from": "",
        "note": "",
    }
    assert page.cells[0].kind == "markdown"
    assert all(cell.count is None for cell in page.cells)


@pytest.mark.requirement("notebook.insert_cell.place")
def test_cells_put_below_the_prompt_stand_in_the_order_in_which_they_came(open_page: OpenPage) -> None:
    page = open_page("above")
    prompt = page.add("serve_calls(('insert_cell', {'source': 'one'}), ('insert_cell', {'source': 'two'}))")
    page.add("below")
    page.press(prompt)
    page.until(lambda: bool(prompt.status), "the run")
    assert [cell.source for cell in page.cells if cell is not prompt] == ["above", "one", "two", "below"]
    assert json.loads(prompt.text)[0]["headline"]["asking"] == "Insert a new cell below"


@pytest.mark.requirement("notebook.insert_cell.place", "notebook.run_cell.final")
def test_a_cell_is_inserted_and_run_with_one_call(open_page: OpenPage) -> None:
    page = open_page("base = 40")
    result = call(page, "insert_cell", source="made = 42\nprint(made)", after=page.cells[0].id, run=True)
    cell = page.cells[1]
    status, *rest = text(result).split("\n")
    assert status.startswith(f"inserted #2 {cell.id}; ok in ")
    assert status.endswith(f"execution count {cell.count}")
    assert rest == ["42", "names created: made"]
    assert cell.text == "42\n"
    assert (result["headline"]["verb"], result["summary"]) == ("Inserted and ran a new cell below", "1 line")
    page.run("del made")


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_a_cell_is_edited_and_run_with_one_call(open_page: OpenPage) -> None:
    page = open_page("print('bill_len')")
    result = after_reading(
        page, "edit_cell", cell_id=page.cells[0].id, old_string="bill_len", new_string="bill_length_mm", run=True
    )
    assert "; ok in " in text(result)
    assert page.cells[0].text == "bill_length_mm\n"


@pytest.mark.requirement("notebook.delete_cells.many", "notebook.rule.one-request")
def test_several_cells_are_deleted_with_one_request(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    ids = [page.cells[0].id, page.cells[2].id]
    result = after_reading(page, "delete_cells", ids=ids)
    assert text(result) == f"deleted {ids[0]}, {ids[1]}"
    assert [cell.source for cell in page.cells] == ["b = 2"]
    assert [len(asked["edits"]) for asked in requests(page, "edit")] == [1]
    assert "-a = 1" in result["preview"]["text"]


@pytest.mark.requirement("notebook.move_cells.after")
def test_moved_cells_keep_their_order_ids_and_outputs(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    ran = page.run("print('kept')")
    ids = [cell.id for cell in page.cells]
    result = after_reading(page, "move_cells", ids=[ids[3], ids[1]], after="top")
    assert [cell.id for cell in page.cells] == [ids[3], ids[1], ids[0], ids[2]]
    assert ran.text == "kept\n"
    assert "to the top" in text(result)
    inside = call(page, "move_cells", ids=[ids[0]], after=ids[0])
    assert "one of the cells to move" in error(inside)


@pytest.mark.requirement("notebook.run_cell.order", "notebook.run_cell.final")
def test_cells_run_in_the_given_order_to_the_first_error(open_page: OpenPage) -> None:
    page = open_page("order = ['a']", "order.append('b'); 1 / 0", "order.append('c')")
    ids = [cell.id for cell in page.cells]
    result = after_reading(page, "run_cell", ids=ids)
    assert error(result).split("\n")[0] == (
        "ran 2 of 3 cells, 1 ok; #2 error: ZeroDivisionError: division by zero; stopped there"
    )
    assert page.run("print(order)").text == "['a', 'b']\n"
    on = after_reading(page, "run_cell", ids=ids, stop_on_error=False)
    assert error(on).startswith("ran 3 of 3 cells, 2 ok")
    assert page.run("print(order)").text == "['a', 'b', 'c']\n"
    assert [cell["status"] for cell in on["details"]["cells"]] == ["ok", "error", "ok"]


@pytest.mark.requirement("notebook.run_cell.order")
def test_an_interrupt_between_two_cells_of_one_call_leaves_the_second_unrun(open_page: OpenPage) -> None:
    page = open_page("first = 1", "second = 2")
    page.run(
        "import dataclasses, tests.notebook.driver as driver\n"
        "driver.context = dataclasses.replace(context, cancelled=lambda: 'first' in globals())"
    )
    try:
        result = after_reading(page, "run_cell", ids=[cell.id for cell in page.cells[:2]])
        assert error(result).startswith("ran 1 of 2 cells, 1 ok")
        assert page.cells[1].count is None
        assert [asked["cell"] for asked in requests(page, "run")] == [page.cells[0].id]
    finally:
        page.run("driver.context = context; del first")


@pytest.mark.requirement("notebook.run_cell.order")
def test_an_interrupt_in_a_cell_leaves_the_next_unrun_also_where_errors_stop_nothing(open_page: OpenPage) -> None:
    page = open_page("import signal, time; signal.raise_signal(signal.SIGINT); time.sleep(60)", "second = 2")
    ids = [cell.id for cell in page.cells[:2]]
    calls = (("read_notebook", {}), ("run_cell", {"ids": ids, "stop_on_error": False}))
    page.run(
        "import dataclasses, tests.notebook.driver as driver\n"
        "driver.context = dataclasses.replace(context, cancelled=lambda: False)"  # the run does not know of it yet
    )
    try:
        outer = page.run(
            f"access.begin()\nfuture = asyncio.run_coroutine_threadsafe(driver._all({calls!r}), engine)\n"
            "main_thread.serve(future, interrupt=lambda: None)\naccess.end()\nprint(json.dumps(future.result(0)))"
        )
        assert error(json.loads(outer.text)[1]).startswith("ran 1 of 2 cells")
        assert [asked["cell"] for asked in requests(page, "run")] == ids[:1]
    finally:
        page.run("driver.context = context")


@pytest.mark.parametrize("source", ["x = 1\n%vibe --model=small count", "y = %vibe count"])
def test_cells_with_commands_to_the_agent_are_not_run(open_page: OpenPage, source: str) -> None:
    page = open_page(source, "z = 3")
    prompt, other = page.cells
    refused = [
        after_reading(page, "run_cell", ids=[other.id, prompt.id]),
        after_reading(page, "edit_cell", cell_id=prompt.id, source="x = 2", run=True),
        after_reading(page, "edit_cell", cell_id=other.id, source=source, run=True),
        call(page, "insert_cell", source=source, run=True),
    ]
    assert all("is a prompt to the agent (%vibe), and a run cannot start another" in error(one) for one in refused)
    assert [cell.source for cell in page.cells] == [source, "z = 3"]
    assert (other.count, requests(page, "run")) == (None, [])
    edited = after_reading(page, "edit_cell", cell_id=other.id, source="z = '%%vibe'", run=True)
    assert not edited["is_error"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_cell", {"ids": ["OTHER", "PROMPT"]}),
        ("edit_cell", {"cell_id": "PROMPT", "source": "x = 2"}),
        ("edit_cell", {"cell_id": "PROMPT", "old_string": "rows", "new_string": "columns", "run": True}),
        ("delete_cells", {"ids": ["OTHER", "PROMPT"]}),
        ("move_cells", {"ids": ["PROMPT"], "after": "end"}),
    ],
)
@pytest.mark.parametrize("asked", [True, False])
def test_a_prompt_of_the_users_stays_as_it_is_with_what_it_shows(
    open_page: OpenPage, name: str, arguments: dict[str, Any], asked: bool
) -> None:
    page = open_page("\n %%vibe --model=small\nCount the rows.", "z = 3", "%%vibes\nother magic")
    prompt, other, _ = page.cells
    prompt.outputs.append({"output_type": "stream", "name": "stdout", "text": "the transcript"})
    before = [cell.source for cell in page.cells]
    given = json.loads(json.dumps(arguments).replace("OTHER", other.id).replace("PROMPT", prompt.id))
    said = error(after_reading(page, name, **given, asked=asked))
    assert said.startswith(f"Nothing was done: cell 1 ({prompt.id}) is a prompt of the user's (%%vibe)")
    assert said.endswith("use other cells, or ask the user.")
    assert [cell.source for cell in page.cells] == before
    assert (prompt.text, other.count) == ("the transcript", None)
    assert not requests(page, "run") + requests(page, "edit")


@pytest.mark.requirement("notebook.run_cell.timeout", "notebook.run_cell.final")
def test_a_cell_run_with_a_limit_reports_timeout(open_page: OpenPage) -> None:
    page = open_page("import time; time.sleep(60)")
    result = after_reading(page, "run_cell", ids=[page.cells[0].id], timeout=0.3)
    assert error(result).startswith("timeout after 0.3 s")


def test_what_runs_is_what_was_shown(open_page: OpenPage) -> None:
    page = open_page("shown = 1")
    cell = page.cells[0]
    page.before = lambda method: page.type_into(cell, "changed = 1") if method == "run" else None
    result = after_reading(page, "run_cell", ids=[cell.id])
    assert "changed since you read it" in error(result)
    assert result["preview"]["text"] == "shown = 1"
    assert not cell.request


@pytest.mark.parametrize("asked", [True, False])
def test_what_the_person_changed_since_it_was_read_is_not_run_with_or_without_a_card(
    open_page: OpenPage, asked: bool
) -> None:
    page = open_page("shown = 1")
    cell = page.cells[0]
    call(page, "read_notebook")
    page.type_into(cell, "changed = 1")
    result = call(page, "run_cell", ids=[cell.id], asked=asked)
    assert "changed since you read it" in error(result)
    assert not cell.request


def test_a_cell_that_vanished_is_named(open_page: OpenPage) -> None:
    page = open_page("here = 1")
    cell = page.cells[0]
    page.before = lambda method: page.cells.remove(cell) if method == "edit" and cell in page.cells else None
    result = after_reading(page, "edit_cell", cell_id=cell.id, source="gone = 1")
    assert f"There is no cell {cell.id}" in error(result)


def test_a_cell_the_person_just_started_runs_once(open_page: OpenPage) -> None:
    page = open_page("print('once')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "run" else None
    result = after_reading(page, "run_cell", ids=[cell.id])
    assert text(result).startswith("ok in ")
    assert cell.text == "once\n"


def test_a_cell_that_is_queued_already_is_not_run_twice(open_page: OpenPage) -> None:
    page = open_page("print('once')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    outer = page.add(f"serve_calls(('read_notebook', {{}}), ('run_cell', {{'ids': [{cell.id!r}]}}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "the user started cell 1" in error(json.loads(outer.text)[1])
    assert cell.text == "once\n"


def test_a_cell_the_agent_was_refused_to_run_is_the_persons_to_run(open_page: OpenPage) -> None:
    page = open_page("print('mine')")
    cell, asked = page.cells[0], list[str]()

    def act(method: str) -> None:
        asked.append(method)
        if method == "run":
            page.type_into(cell, "other = 1")
        elif method == "cells" and "run" in asked and not cell.request:
            page.type_into(cell, "print('mine')")
            page.press(cell)

    page.before = act
    run = ("run_cell", {"ids": [cell.id]})
    outer = page.add(f"serve_calls(('read_notebook', {{}}), {run!r}, ('read_notebook', {{}}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "was changed" in error(json.loads(outer.text)[1])
    assert (cell.status, cell.text) == ("ok", "mine\n")


@pytest.mark.parametrize(
    ("name", "arguments"), [("delete_cells", {"ids": ["ID"]}), ("move_cells", {"ids": ["ID"], "after": "top"})]
)
def test_a_cell_the_person_started_stays_where_it_is(open_page: OpenPage, name: str, arguments: dict[str, Any]) -> None:
    page = open_page("first = 1", "print('once')")
    cell = page.cells[1]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    arguments = json.loads(json.dumps(arguments).replace("ID", cell.id))
    outer = page.add(f"serve_calls(('read_notebook', {{}}), ({name!r}, {arguments!r}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "the user started cell 2" in error(json.loads(outer.text)[1])
    assert page.cells[1] is cell


def test_an_edit_of_a_cell_the_person_started_says_what_will_run(open_page: OpenPage) -> None:
    page = open_page("print('before')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    change = {"cell_id": cell.id, "source": "print('after')"}
    calls = (("read_notebook", {}), ("edit_cell", {**change, "run": True}), ("edit_cell", change))
    outer = page.add(f"serve_calls(*{calls!r})")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    _, with_run, without = json.loads(outer.text)
    assert "the user started cell 1" in error(with_run)
    assert "runs as it was" in text(without)
    assert "you started it before" in without["summary"]
    assert (cell.source, cell.text) == ("print('after')", "before\n")


def test_a_cell_started_between_its_edit_and_its_run_is_named_as_edited(open_page: OpenPage) -> None:
    page = open_page("print('before')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "edit" else None
    outer = page.add(
        f"serve_calls(('read_notebook', {{}}), ('edit_cell', {{'cell_id': {cell.id!r}, 'source': '1', 'run': True}}))"
    )
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    said = error(json.loads(outer.text)[1])
    assert said.startswith(f"edited #1 {cell.id}")
    assert "; not run: the user started cell 1" in said


def test_a_notebook_that_is_read_only_says_so(open_page: OpenPage) -> None:
    page = open_page("kept = 1")
    page.read_only = True
    result = after_reading(page, "edit_cell", cell_id=page.cells[0].id, source="new = 1")
    assert "read-only" in error(result)


@pytest.mark.requirement("notebook.run_cell.final", "notebook.rule.size")
def test_long_output_is_cut_and_names_the_way_to_all_of_it(open_page: OpenPage) -> None:
    page = open_page("print(*range(9000))")
    result = after_reading(page, "run_cell", ids=[page.cells[0].id])
    assert len(text(result)) <= 8_000
    assert f"read_output(cell_id='{page.cells[0].id}')" in text(result)
    assert "\n0 1 2 3 " in text(result)
    assert " 8997 8998 8999" in text(result)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("edit_cell", {"cell_id": "{}", "source": "x"}), ("delete_cells", {"ids": ["{}"]}), ("run_cell", {"ids": ["{}"]})],
)
def test_the_prompts_own_cell_is_left_alone(open_page: OpenPage, name: str, arguments: dict[str, Any]) -> None:
    page = open_page()
    prompt = page.add("")
    wrong = json.loads(json.dumps(arguments).replace("{}", prompt.id))
    prompt.source = f"serve_calls(('read_notebook', {{}}), ({name!r}, {wrong!r}))"
    page.press(prompt)
    page.until(lambda: bool(prompt.status), "the run")
    assert "the prompt's own cell" in error(json.loads(prompt.text)[1])
    assert page.cells == [prompt]


def test_line_ends_are_those_of_notebooks(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    edited, inserted = call_all(
        page,
        ("read_notebook", {}),
        ("edit_cell", {"cell_id": page.cells[0].id, "source": "a = 1\r\nb = 2\r"}),
        ("insert_cell", {"source": "c = 3\r\nd = 4", "after": page.cells[0].id}),
    )[1:]
    assert not edited["is_error"]
    assert not inserted["is_error"]
    assert [cell.source for cell in page.cells] == ["a = 1\nb = 2\n", "c = 3\nd = 4"]
