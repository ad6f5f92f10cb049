"""The notebook's tools, as a model calls them: real kernels, a page that answers the bridge."""

import json
import re
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


QUESTION_MARKS = "from vibe_jupyter.magics import question_marks\nget_ipython().input_transformers_cleanup"


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
    assert lines[1:3] == [f"#1 {page.cells[0].id[:4]} never", "x = 1"]
    assert f"#3 {page.cells[2].id[:4]} markdown" in lines
    assert f"#4 {ran.id[:4]} [{ran.count}] edited" in lines
    assert "-> execute_result text/plain" in text(result)
    assert "->" not in text(call(page, "read_notebook"))
    assert result["summary"] == "5 cells"


@pytest.mark.requirement("notebook.read_notebook.listing")
def test_above_60_cells_read_notebook_gives_an_outline_and_sources_from_an_offset_on(open_page: OpenPage) -> None:
    page = open_page(*(f"value_{n} = {n}" for n in range(100)))
    page.cells[0] = type(page.cells[0])("# Values\nof all kinds", kind="markdown")
    page.cells[69] = type(page.cells[0])("## More", kind="markdown")
    failed = page.run("1 / 0")
    usual, later, small = call_all(
        page,
        ("read_notebook", {}),
        ("read_notebook", {"offset": 60}),
        ("read_notebook", {"cells": ["#50-#52", "last"]}),
    )
    lines = text(usual).split("\n")
    assert lines[0] == "work/test.ipynb: 102 cells; in outline: name cells, a query or a state for sources"
    assert lines[1] == "#1-69 # Values · #70-102 ## More"
    assert lines[2] == f"failed: #101 {failed.id[:4]}"
    assert lines[4].endswith("(never) value_1 = 1")
    assert len(lines) == 3 + 102
    assert text(later).split("\n")[1].startswith("#61 ")
    assert "value_60" in text(later)
    assert [line for line in text(small).split("\n") if line.startswith("value_")] == [
        "value_49 = 49",
        "value_50 = 50",
        "value_51 = 51",
    ]
    assert text(small).split("\n")[0] == "work/test.ipynb: 102 cells; 4 match"


@pytest.mark.requirement("notebook.read_notebook.listing")
def test_the_outline_of_a_very_long_notebook_is_its_headings(open_page: OpenPage) -> None:
    page = open_page(*(f"value_{n} = {n}" if n % 20 else f"## Part {n}" for n in range(1_000)))
    for cell in page.cells[::20]:
        cell.kind = "markdown"
    outline = text(call(page, "read_notebook"))
    assert len(outline) <= 8_000
    assert "#981-1001 ## Part 980" in outline
    assert "value_7 " not in outline


@pytest.mark.requirement("notebook.read_notebook.listing")
def test_a_query_shows_the_lines_that_match_with_two_around_them(open_page: OpenPage) -> None:
    page = open_page("\n".join(f"line_{n} = {n}" for n in range(1, 41)), "other = 1", "# LINE_7 of it")
    found, cased, none, wrong = call_all(
        page,
        ("read_notebook", {"query": r"line_(7|10|30)\b"}),
        ("read_notebook", {"query": r"LINE_\d"}),
        ("read_notebook", {"query": "nowhere", "cells": ["#1-#3"]}),
        ("read_notebook", {"query": "line_(7"}),
    )
    lines = text(found).split("\n")
    assert lines[0] == "work/test.ipynb: 4 cells; 2 match"
    assert lines[2:] == [
        *("5- line_5 = 5", "6- line_6 = 6", "7: line_7 = 7", "8- line_8 = 8", "9- line_9 = 9", "10: line_10 = 10"),
        *("11- line_11 = 11", "12- line_12 = 12", "…"),
        *("28- line_28 = 28", "29- line_29 = 29", "30: line_30 = 30", "31- line_31 = 31", "32- line_32 = 32"),
        f"#3 {page.cells[2].id[:4]} never",
        "1: # LINE_7 of it",
    ]
    assert text(cased).split("\n")[1:] == [f"#3 {page.cells[2].id[:4]} never", "1: # LINE_7 of it"]
    assert text(none) == "work/test.ipynb: 4 cells; none match"
    assert error(wrong).startswith("'line_(7' is not a valid regular expression: missing ), unterminated subpattern")


@pytest.mark.requirement("notebook.read_notebook.listing")
def test_a_query_heeds_case_where_it_has_a_capital_that_is_none_of_an_escape(open_page: OpenPage) -> None:
    page = open_page("ab", "AB", "a B")
    expected = {
        **{"ab": "12", "AB": "2", "Ab": "", "a b": "3", "a B": "3"},
        **{r"\Sb": "12", r"\SB": "2", r"a\Wb": "3", r"A\Wb": "", r"^\D+b$": "123", r"\w\D?B": "23", r"b\Z": "123"},
    }
    found = call_all(page, *(("read_notebook", {"query": query}) for query in expected))
    shown = ["".join(re.findall(r"^#(\d) ", text(one), re.M)) for one in found]
    assert dict(zip(expected, shown, strict=True)) == expected


@pytest.mark.parametrize("query", [r"(a|aa)+$", r"(a{1,9}){1,9}(a{1,9}){9}x"])
def test_a_query_that_would_take_for_ever_is_ended(open_page: OpenPage, query: str) -> None:
    page = open_page(f"{'a' * 60}!")
    page.run("import vibe_jupyter.notebook.source_search as search; search.SECONDS = 0.5")
    try:
        assert error(call(page, "read_notebook", query=query)).endswith("simplify the pattern.")
    finally:
        page.run("search.SECONDS = 5.0")


@pytest.mark.requirement("notebook.stale_cells.list")
def test_cells_are_listed_by_their_state(open_page: OpenPage) -> None:
    page = open_page("never = 1")
    failed = page.run("1 / 0")
    edited = page.run("edited = 1")
    page.type_into(edited, "edited = 2")
    for state, source in (
        ("failed", "1 / 0"),
        ("never", "never = 1"),
        ("stale", "edited = 2"),
        ("edited", "edited = 2"),
    ):
        assert source in text(call(page, "read_notebook", state=state)).split("\n")
    assert text(call(page, "read_notebook", state="failed")).split("\n")[1].startswith(f"#2 {failed.id[:4]} ")


@pytest.mark.requirement("notebook.rule.size")
def test_a_long_listing_is_cut_between_cells_and_says_how_to_go_on(open_page: OpenPage) -> None:
    page = open_page(*(f"# {'long ' * 150}{n}" for n in range(30)))
    result = call(page, "read_notebook")
    assert len(text(result)) <= 8_000
    shown = text(result).count(" never")
    assert f"go on with offset={shown}" in text(result)
    assert 5 < shown < 30


@pytest.mark.requirement("notebook.rule.ids")
def test_a_cell_is_named_by_id_place_number_prompt_and_last_in_every_tool(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    ran = page.run("c = 3")
    page.cells[0].id, page.cells[1].id = "aaaa1111", "aaaa2222"
    by_place, by_number, by_address, by_prefix, last, short, double, bare, prompt = call_all(
        page,
        ("read_notebook", {"cells": ["#2"]}),
        ("read_notebook", {"cells": [f"[{ran.count}]"]}),
        ("read_notebook", {"cells": [f"#1 {ran.id[:4]} [7]"]}),
        ("read_notebook", {"cells": ["aaaa1"]}),
        ("read_notebook", {"cells": ["last"]}),
        ("read_notebook", {"cells": ["aaa"]}),
        ("read_notebook", {"cells": ["aaaa"]}),
        ("read_notebook", {"cells": ["2"]}),
        ("read_notebook", {"cells": ["prompt"]}),
    )
    assert text(by_place).endswith("\nb = 2")
    assert text(by_number).endswith("\nc = 3")
    assert text(by_address).endswith("\nc = 3")
    assert f"#3 {ran.id[:4]} [{ran.count}] fresh; 1 lines" in text(by_number)
    assert text(by_prefix).split("\n")[1:] == ["#1 aaaa1 never; 1 lines", "a = 1"]
    assert "serve_calls" in text(last)
    assert "serve_calls" in text(prompt)
    assert "too short" in error(short)
    assert "fits 2 cells; give more of it: aaaa1111, aaaa2222" in error(double)
    assert "say #2 for a place, or [2] for an execution count" in error(bare)


@pytest.mark.parametrize("written", ["In [{}]", "In[{}]", "Out [{}]", "cell [{}]", "Cell #2"])
def test_a_cell_is_also_named_as_jupyter_and_people_write_it(open_page: OpenPage, written: str) -> None:
    page = open_page("a = 1")
    ran = page.run("c = 3")
    named = written.format(ran.count)
    read = call(page, "read_notebook", cells=[named])
    assert text(read).endswith("\nc = 3")
    text(call(page, "edit_cell", cell=named, old_string="3", new_string="4"))
    assert [cell.source for cell in page.cells[:2]] == ["a = 1", "c = 4"]
    assert "too short for an id" in error(call(page, "run_cells", cells=["cell cell"]))


def test_an_id_of_digits_alone_whose_cell_is_gone_is_said_to_be_gone(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    page.cells[0].id = "66991234"
    call(page, "read_notebook")
    page.cells.pop(0)
    refused = error(call(page, "edit_cell", cell="6699", old_string="1", new_string="2"))
    assert refused.startswith("There is no cell '6699'; nothing was done. The nearest: ")
    assert refused.endswith("If it is no id, say #6699 for a place, or [6699] for an execution count.")


@pytest.mark.requirement("notebook.rule.ids")
def test_a_number_that_two_cells_carry_is_refused_with_both(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    page.cells[0].count = page.cells[1].count = 7
    page.cells[0].id, page.cells[1].id = "cafe0001", "beef0002"
    refused = error(after_reading(page, "run_cells", cells=["[7]"]))
    assert "2 cells carry [7]; name one by its id: #1 cafe [7] 'a = 1'; #2 beef [7] 'b = 2'." in refused
    assert not requests(page, "run")


def test_a_number_that_is_gone_leads_to_the_cell_that_was_shown_under_it(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    page.cells[0].count, page.cells[1].count = 7_000, 8_000
    page.cells[0].id = "cafe0001"
    call(page, "read_notebook")
    page.cells[0].count = 9_000
    for name in ("run_cells", "delete_cells", "read_notebook"):
        refused = error(call(page, name, cells=["[7000]"]))
        assert refused.endswith("The cell you were shown under it is #1 cafe [9000].")
    refused = error(call(page, "edit_cell", cell="[7000]", old_string="1", new_string="2"))
    assert refused.endswith("The cell you were shown under it is #1 cafe [9000].")


def test_of_ids_that_look_alike_the_nearest_is_named_first(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    for cell, name in zip(page.cells, ("cafe1199", "beef0002", "cafe1122"), strict=True):
        cell.id = name
    refused = error(after_reading(page, "run_cells", cells=["cafe1123"]))
    assert "The nearest: #3 cafe112 'c = 3'; #1 cafe119 'a = 1'" in refused
    assert "say #8203 for a place" in error(call(page, "run_cells", cells=["8203"]))
    assert "There is no cell '82034202'" in error(call(page, "run_cells", cells=["82034202"]))


@pytest.mark.requirement("notebook.rule.ids")
@pytest.mark.parametrize("reference", ["#1", "[7000]"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_cell", {"cell": "{}", "source": "new = 1"}),
        ("edit_cell", {"cell": "{}", "old_string": "1", "new_string": "2"}),
        ("run_cells", {"cells": ["{}"]}),
        ("delete_cells", {"cells": ["{}"]}),
        ("move_cells", {"cells": ["{}"], "after": "end"}),
    ],
)
def test_a_write_by_place_or_number_holds_while_it_means_what_the_model_was_shown(
    open_page: OpenPage, name: str, arguments: dict[str, Any], reference: str
) -> None:
    page = open_page("a = 1", "b = 1")
    first, second = page.cells
    first.count = 7_000
    given = json.loads(json.dumps(arguments).replace("{}", reference))
    assert "you were not shown it as it is now" in error(call(page, name, **given))  # nothing was read
    call(page, "read_notebook")
    page.cells.reverse()
    first.count, second.count = None, 7_000
    refused = error(call(page, name, **given))
    assert "places and numbers shift" in refused
    assert refused.endswith("this is its source:\nb = 1")
    page.type_into(second, "b = 10")
    assert error(call(page, name, **given)).endswith("this is its source:\nb = 10")
    assert not requests(page, "edit") + requests(page, "run")
    assert not call(page, name, **given)["is_error"]
    assert first.source == "a = 1"
    assert first in page.cells


@pytest.mark.requirement("notebook.rule.ids")
def test_an_equal_cell_that_took_the_place_is_not_written_to(open_page: OpenPage) -> None:
    page = open_page("plot()", "plot()")
    call(page, "read_notebook")
    page.cells.reverse()
    assert "places and numbers shift" in error(call(page, "edit_cell", cell="#1", old_string="plot", new_string="draw"))
    assert not requests(page, "edit")


@pytest.mark.requirement("notebook.rule.ids")
def test_each_result_names_the_cell_with_the_number_it_has_now(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 1")
    first, second = page.cells
    ran, edited, moved, deleted = call_all(
        page,
        ("read_notebook", {}),
        ("run_cells", {"cells": [first.id[:4], second.id[:4]]}),
        ("edit_cell", {"cell": first.id[:4], "source": "a = 2", "run": True}),
        ("move_cells", {"cells": ["#2"], "before": "#1"}),
        ("delete_cells", {"cells": [first.id[:4]]}),
    )[1:]
    counts = [cell["execution_count"] for cell in ran["details"]["cells"]]
    assert text(ran).split("\n")[0] == "ran 2 of 2 cells, 2 ok"
    assert f"#1 {first.id[:4]} [{counts[0]}] (names " in text(ran)
    assert f"#2 {second.id[:4]} [{counts[1]}] (names " in text(ran)
    assert text(edited).startswith(f"edited #1 {first.id[:4]} [{first.count}] ok in ")
    assert first.count not in counts
    assert text(moved) == f"moved, now #1 {second.id[:4]} [{second.count}]"
    assert text(deleted) == f"deleted #2 {first.id[:4]} [{first.count}]"


@pytest.mark.requirement("notebook.rule.unknown-id")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_notebook", {"cells": ["{}"]}),
        ("edit_cell", {"cell": "{}", "source": "x"}),
        ("insert_cell", {"after": "{}", "source": "x"}),
        ("delete_cells", {"cells": ["{}"]}),
        ("move_cells", {"cells": ["{}"], "after": "end"}),
        ("run_cells", {"cells": ["{}"]}),
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
    assert "#1 cafe 'a = 1'" in error(result)
    assert not requests(page, "edit") + requests(page, "run")


@pytest.mark.requirement("notebook.rule.unknown-id")
def test_with_one_unknown_id_nothing_runs_and_the_corrected_list_comes_back(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    page.cells[0].id, page.cells[1].id, page.cells[2].id = "cafe0001", "beef0002", "0e11a003"
    refused = error(after_reading(page, "run_cells", cells=["cafe0001", "beef0003", "zzzzzzzz", "#3"]))
    assert "There is no cell 'beef0003'" in refused
    assert "There is no cell 'zzzzzzzz'" in refused
    assert refused.endswith('Nothing was run. The list with what is nearest: cells=["cafe0001", "beef", "#3"]')
    assert not requests(page, "run")


@pytest.mark.requirement("notebook.read_cell.source")
def test_one_cell_is_read_whole_with_its_outputs(open_page: OpenPage) -> None:
    page = open_page("one = 1", "two = 2")
    cell = page.run("print('seen')\n6 * 7")
    status, title, *rest = text(call(page, "read_notebook", cells=[cell.id], outputs="full")).split("\n")
    assert status == "work/test.ipynb: 4 cells; 1 match"
    assert title == f"#3 {cell.id[:4]} [{cell.count}] fresh; 2 lines"
    assert rest == ["print('seen')", "6 * 7", "outputs:", "seen", "42"]


@pytest.mark.requirement("notebook.read_cell.source", "notebook.rule.size")
def test_a_long_cell_is_read_page_by_page(open_page: OpenPage) -> None:
    source = "\n".join(f"value_{n} = {n}" for n in range(900))
    page = open_page(source)
    part = after_reading(page, "read_notebook", cells=["#1"])
    assert len(text(part)) <= 8_000
    read = text(part).split("\n", 2)[2]
    while "go on with offset=" in text(part).split("\n")[0]:
        offset = int(text(part).split("\n")[0].rpartition("offset=")[2])
        part = call(page, "read_notebook", cells=["#1"], offset=offset)
        read += "\n" + text(part).split("\n", 2)[2]
    assert read == source
    assert not call(page, "edit_cell", cell="#1", source="read = 'whole'")["is_error"]


@pytest.mark.requirement("notebook.read_output.page", "notebook.rule.size")
def test_outputs_are_paged_through_to_their_end(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run("print(*range(5000))\n'last'")
    first = call(page, "read_notebook", cells=[cell.id], outputs="full")
    assert len(text(first)) <= 8_000
    status, _, body = text(first).split("\n", 2)
    offset = int(status.rpartition("offset=")[2])
    rest = text(call(page, "read_notebook", cells=[cell.id], outputs="full", offset=offset))
    body = body.split("outputs:\n")[1]
    while "go on with offset=" in rest.split("\n")[0]:
        body += rest.split("\n", 2)[2]
        offset = int(rest.split("\n")[0].rpartition("offset=")[2])
        rest = text(call(page, "read_notebook", cells=[cell.id], outputs="full", offset=offset))
    assert body + rest.split("\n", 2)[2] == f"{' '.join(map(str, range(5000)))}\n'last'"


@pytest.mark.requirement("notebook.read_output.images", "notebook.run_cell.final")
def test_a_figure_goes_to_a_model_that_sees_images(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run(
        "from IPython.display import Image\nImport = None\nimport base64\n"
        "Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='))"
    )
    result = call(page, "read_notebook", cells=[cell.id], outputs="images")
    assert [part["type"] for part in result["parts"]] == ["text", "image"]
    assert f"[image/png shown to the user; image 1, of #1 {cell.id[:4]} [{cell.count}]]" in text(result)
    assert [part["type"] for part in call(page, "read_notebook", outputs="full")["parts"]] == ["text"]
    ran = after_reading(page, "run_cells", cells=[cell.id])
    assert [part["type"] for part in ran["parts"]] == ["text", "image"]
    assert f"image 1, of #1 {cell.id[:4]} [{cell.count}]" in text(ran)


def test_images_are_sent_once_and_those_that_are_not_are_named_with_the_way_to_them(open_page: OpenPage) -> None:
    page = open_page(
        "import base64, io\nfrom IPython.display import Image, display\nfrom PIL import Image as Drawing\n"
        "def draw(shade):\n    file = io.BytesIO()\n    Drawing.new('L', (9, 9), shade).save(file, 'png')\n"
        "    display(Image(file.getvalue()))\nfor shade in (10, 20, 10, 30, 40):\n    draw(shade)",
        "draw(50)",
    )
    result = after_reading(page, "run_cells", cells=["#1-#2"])
    assert [part["type"] for part in result["parts"]] == ["text", *["image"] * 4]
    short = page.cells[1].id[:4]
    assert [line for line in text(result).split("\n") if line.startswith("[image")] == [
        *(
            f"[image/png shown to the user; image {n}, of #1 {page.cells[0].id[:4]} [{page.cells[0].count}]]"
            for n in (1, 2)
        ),
        "[image/png shown to the user; same as image 1]",
        *(
            f"[image/png shown to the user; image {n}, of #1 {page.cells[0].id[:4]} [{page.cells[0].count}]]"
            for n in (3, 4)
        ),
        f'[image/png shown to the user; not sent, read_notebook(cells=["{short}"], outputs="images") sends it]',
    ]


def test_a_progress_bar_that_is_a_widget_is_not_told_as_if_nothing_had_been_done(open_page: OpenPage) -> None:
    page = open_page("from tqdm.notebook import tqdm\nfor n in tqdm(range(3)):\n    pass")
    began = r"  0%\|\s+\| 0/3 .* \[a widget as it was when it began; what it shows by now is not known\]"
    assert re.search(began, text(after_reading(page, "run_cells", cells=["#1"])))
    assert re.search(began, text(call(page, "read_notebook", cells=["#1"], outputs="full")))


def test_a_result_that_is_html_alone_is_read_as_its_text(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.run("from IPython.display import HTML\nHTML('<table><tr><th>sum<td>4</table><script>draw()</script>')")
    read = text(call(page, "read_notebook", cells=[cell.id], outputs="full"))
    assert read.split("outputs:\n")[1] == "sum | 4"


@pytest.mark.requirement("notebook.edit_cell.replace", "notebook.rule.read-back", "notebook.rule.one-request")
def test_edit_cell_replaces_a_string_and_shows_the_diff(open_page: OpenPage) -> None:
    page = open_page("a = 1\nb = 2\nc = a")
    cell = page.cells[0]
    result = after_reading(page, "edit_cell", cell=cell.id[:6], old_string="b = 2", new_string="b = 3")
    assert cell.source == "a = 1\nb = 3\nc = a"
    assert text(result) == f"edited #1 {cell.id[:4]}"
    assert result["preview"] == {
        "kind": "diff",
        "text": "@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n c = a",
        "language": "python",
        "edits": "new_string",
        "made_from": "",
        "note": "",
    }
    assert (result["headline"]["asking"], result["headline"]["target"]) == ("Edit cell", "#1")
    assert len(requests(page, "edit")) == 1


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_edit_cell_replaces_every_occurrence_when_it_is_told_to(open_page: OpenPage) -> None:
    page = open_page("a = 1\nb = a\nc = b")
    cell = page.cells[0]
    arguments = {"cell": cell.id, "old_string": "a", "new_string": "one\nmore"}
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
        ({"old_string": "zzz", "new_string": ""}, "is not in the cell; nothing in it looks like it"),
        ({"old_string": "a", "new_string": "b"}, "is 2 times in the cell"),
        ({"old_string": "a"}, "give either old_string and new_string, or source"),
        ({"source": "x", "old_string": "a", "new_string": "b"}, "give either"),
        ({}, "give either"),
        ({"source": "a = a"}, "already has this source"),
    ],
)
def test_an_edit_that_cannot_be_done_writes_nothing(open_page: OpenPage, arguments: dict[str, Any], says: str) -> None:
    page = open_page("a = a")
    result = after_reading(page, "edit_cell", cell=page.cells[0].id, **arguments)
    assert says in error(result)
    assert page.cells[0].source == "a = a"


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_a_text_that_is_once_in_a_cell_is_replaced_without_reading_the_cell(open_page: OpenPage) -> None:
    page = open_page("limit = 1\nprint(limit)")
    cell = page.cells[0]
    result = call(page, "edit_cell", cell=cell.id, old_string="limit = 1", new_string="limit = 2")
    assert cell.source == "limit = 2\nprint(limit)"
    assert "-limit = 1\n+limit = 2" in result["preview"]["text"]
    every = {"cell": cell.id, "old_string": "limit", "new_string": "bound", "replace_all": True}
    assert "was not read yet" in error(call(page, "edit_cell", **every))
    page.type_into(cell, "limit = 2\nprint(2 * limit)")
    result = call(page, "edit_cell", cell=cell.id, old_string="limit = 2", new_string="limit = 3")
    assert text(result).split("\n")[1:] == [
        "The user had changed it since you read it; its source now:",
        "limit = 3",
        "print(2 * limit)",
    ]


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_a_picture_is_not_put_into_text_that_was_never_read(open_page: OpenPage) -> None:
    page = open_page()
    cell = page.add("![x](https://example.org/PLACE) and words", kind="markdown")
    change = {"cell": cell.id, "old_string": "PLACE", "new_string": "x.png"}
    assert "was not read yet" in error(call(page, "edit_cell", **change))
    assert not call(page, "edit_cell", **change)["is_error"]
    other = page.add("plain words", kind="markdown")
    assert not call(page, "edit_cell", cell=other.id, old_string="plain", new_string="bold")["is_error"]


@pytest.mark.requirement("notebook.edit_cell.replace")
@pytest.mark.parametrize(
    ("old", "says"),
    [
        ("value_50 = 5O", "lines 47-53 are nearest:\nvalue_47 = 47\n"),
        ("value_50  =  50", "they differ in blank space alone; lines 47-53 are nearest:\nvalue_47 = 47\n"),
        ("value_2 = 2\nvalue_3 = 4", "lines 1-6 are nearest:\nvalue_1 = 1\nvalue_2 = 2\n"),
        ("$" * 40, "nothing in it looks like it: read the cell"),
    ],
)
def test_a_text_that_is_not_in_the_cell_is_answered_with_the_lines_that_are_nearest(
    open_page: OpenPage, old: str, says: str
) -> None:
    page = open_page("\n".join(f"value_{n} = {n}" for n in range(1, 101)))
    said = error(call(page, "edit_cell", cell=page.cells[0].id, old_string=old, new_string="x"))
    assert said.startswith(f"Nothing was done: old_string is not in the cell; {says}")
    assert len(said.split("\n")) <= 9


@pytest.mark.requirement("notebook.edit_cell.replace")
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1\nprint(x", "SyntaxError in line 2: '(' was never closed: print(x"),
        ("for n in x:\nn", "IndentationError in line 2: expected an indented block"),
        ("%time x = 1\nif:", "SyntaxError in line 2: invalid syntax"),
    ],
)
def test_code_with_a_fault_in_its_syntax_is_not_written(open_page: OpenPage, source: str, says: str) -> None:
    page = open_page("x = 0")
    page.run(f"{QUESTION_MARKS}.append(question_marks)")  # as `%load_ext vibe_jupyter` does
    refused = [
        error(after_reading(page, "edit_cell", cell=page.cells[0].id, source=source)),
        error(call(page, "edit_cell", cell=page.cells[0].id, old_string="x = 0", new_string=source)),
        error(call(page, "insert_cell", source=source)),
    ]
    page.run(f"{QUESTION_MARKS}.remove(question_marks)")
    assert all(one.startswith(f"Nothing was done: {says}") for one in refused)
    assert not requests(page, "edit")


@pytest.mark.parametrize(
    "source",
    ["%%bash\nfor (", "%%html\n<b", "!ls {x}\nx = !ls", "x?", "pip install numpy", "await x\nreturn", "%timeit x", ""],
)
def test_what_ipython_takes_is_written(open_page: OpenPage, source: str) -> None:
    page = open_page("x = 0")
    assert not call(page, "insert_cell", source=source, after="end")["is_error"]
    assert not call(page, "insert_cell", source="if:", cell_type="markdown", after="end")["is_error"]
    assert source in [cell.source for cell in page.cells]


@pytest.mark.requirement("notebook.rule.expect-hash", "notebook.delete_cells.many")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("edit_cell", {"cell": "{}", "source": "agent = 1"}), ("delete_cells", {"cells": ["{}"]})],
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
    first, second = call_all(page, *[("edit_cell", {"cell": cell.id, "source": "new = 1"})] * 2)
    assert "was not read yet" in error(first)
    assert error(first).endswith("unread = 1")
    assert not second["is_error"]
    assert cell.source == "new = 1"


@pytest.mark.requirement("notebook.rule.expect-hash")
def test_a_cell_shown_only_in_part_is_not_read(open_page: OpenPage) -> None:
    page = open_page("\n".join(f"line_{n} = {n}" for n in range(60)))
    result = after_reading(page, "edit_cell", cell=page.cells[0].id, source="short = 1")
    assert "was not read yet" in error(result)


@pytest.mark.requirement("notebook.insert_cell.place")
def test_insert_cell_puts_cells_where_they_belong(open_page: OpenPage) -> None:
    page = open_page("first", "last")
    top, end = page.cells[0].id, page.cells[1].id
    results = call_all(
        page,
        ("insert_cell", {"source": "behind_first", "after": top}),
        ("insert_cell", {"source": "# Top", "after": "top", "cell_type": "markdown"}),
        ("insert_cell", {"source": "behind_last", "after": end}),
        ("insert_cell", {"source": "at_the_end", "after": "end"}),
        ("insert_cell", {"source": "before_last", "before": end}),
        ("insert_cell", {"source": "first_of_all", "before": "top"}),
    )
    assert not any(result["is_error"] for result in results)
    sources = ["first_of_all", "# Top", "first", "behind_first", "before_last", "last", "behind_last", "at_the_end"]
    assert [cell.source for cell in page.cells if cell.source in sources] == sources
    assert results[0]["preview"] == {
        "kind": "code",
        "text": "behind_first",
        "language": "python",
        "edits": "source",
        "made_from": "",
        "note": "",
    }
    assert page.cells[1].kind == "markdown"
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
    assert status.startswith(f"inserted #2 {cell.id[:4]} [{cell.count}] ok in ")
    assert rest == ["42", "names created: made"]
    assert cell.text == "42\n"
    assert (result["headline"]["verb"], result["summary"]) == ("Inserted and ran a new cell below", "1 line")
    page.run("del made")


@pytest.mark.requirement("notebook.edit_cell.replace")
def test_a_cell_is_edited_and_run_with_one_call(open_page: OpenPage) -> None:
    page = open_page("print('bill_len')")
    result = after_reading(
        page, "edit_cell", cell=page.cells[0].id, old_string="bill_len", new_string="bill_length_mm", run=True
    )
    assert text(result).startswith(f"edited #1 {page.cells[0].id[:4]} [{page.cells[0].count}] ok in ")
    assert page.cells[0].text == "bill_length_mm\n"


@pytest.mark.requirement("notebook.delete_cells.many", "notebook.rule.one-request")
def test_several_cells_are_deleted_with_one_request(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    ids = [page.cells[0].id, page.cells[2].id]
    result = after_reading(page, "delete_cells", cells=ids)
    assert text(result) == f"deleted #1 {ids[0][:4]}, #3 {ids[1][:4]}"
    assert [cell.source for cell in page.cells] == ["b = 2"]
    assert [len(asked["edits"]) for asked in requests(page, "edit")] == [1]
    assert "-a = 1" in result["preview"]["text"]


@pytest.mark.requirement("notebook.move_cells.after")
def test_moved_cells_keep_their_order_ids_and_outputs(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    ran = page.run("print('kept')")
    ids = [cell.id for cell in page.cells]
    result = after_reading(page, "move_cells", cells=[ids[3], ids[1]], after="top")
    assert [cell.id for cell in page.cells] == [ids[3], ids[1], ids[0], ids[2]]
    assert ran.text == "kept\n"
    assert text(result) == f"moved, now #1 {ids[3][:4]} [{ran.count}], #2 {ids[1][:4]}"
    assert result["headline"]["note"] == "to the top"
    after_reading(page, "move_cells", cells=[ids[3]], after="end")
    assert [cell.id for cell in page.cells] == [ids[1], ids[0], ids[2], ids[3]]
    after_reading(page, "move_cells", cells=[ids[1]], before=ids[3])
    assert [cell.id for cell in page.cells] == [ids[0], ids[2], ids[1], ids[3]]
    inside = call(page, "move_cells", cells=[ids[0]], after=ids[0])
    assert "one of the cells to move" in error(inside)


@pytest.mark.requirement("notebook.run_cell.order", "notebook.run_cell.final")
def test_cells_run_in_the_given_order_to_the_first_error(open_page: OpenPage) -> None:
    page = open_page("order = ['a']", "order.append('b'); 1 / 0", "order.append('c')")
    ids = [cell.id for cell in page.cells]
    result = after_reading(page, "run_cells", cells=ids)
    assert error(result).split("\n")[0] == (
        "ran 2 of 3 cells, 1 ok; #2 error: ZeroDivisionError: division by zero; stopped there"
    )
    assert page.run("print(order)").text == "['a', 'b']\n"
    on = after_reading(page, "run_cells", cells=ids, stop_on_error=False)
    assert error(on).startswith("ran 3 of 3 cells, 2 ok")
    assert page.run("print(order)").text == "['a', 'b', 'c']\n"
    assert [cell["status"] for cell in on["details"]["cells"]] == ["ok", "error", "ok"]


@pytest.mark.requirement("notebook.run_cell.order", "notebook.stale_cells.list")
def test_ranges_what_is_below_and_what_is_stale_are_run_without_text_and_prompts(open_page: OpenPage) -> None:
    page = open_page("ran = []", "ran.append(2)", "%%vibe\nCount them.", "ran.append(4)", "ran.append(5)")
    page.add("text", kind="markdown")
    page.add("mine = 1\n%vibe status")
    by_range, below, stale, none, twice = call_all(
        page,
        ("read_notebook", {}),
        ("run_cells", {"cells": ["#1-#4"]}),
        ("run_cells", {"cells": [f"below:{page.cells[3].id[:4]}", "#1"]}),
        ("run_cells", {"cells": ["stale"]}),
        ("run_cells", {"cells": ["below:last"]}),
        ("run_cells", {"cells": ["#2", "#1-#2", "#2"]}),
    )[1:]
    ids = [cell.id for cell in page.cells]
    assert [cell["cell"] for cell in by_range["details"]["cells"]] == [ids[0], ids[1], ids[3]]
    assert "# cell #2\nran.append(2)" in by_range["preview"]["text"]
    assert [cell["cell"] for cell in below["details"]["cells"]] == [ids[4], ids[0]]
    assert "means no cell that can run" in error(stale)
    assert "means no cell that can run" in error(none)
    assert [cell["cell"] for cell in twice["details"]["cells"]] == [ids[1], ids[0], ids[1]]
    page.type_into(page.cells[4], "ran.append(50)")
    edited = call(page, "run_cells", cells=["stale"])
    assert [cell["cell"] for cell in edited["details"]["cells"]] == [ids[4]]
    page.run("del ran")


@pytest.mark.requirement("notebook.run_cell.order")
def test_with_dependents_the_cells_that_use_what_changed_run_too(open_page: OpenPage) -> None:
    page = open_page(
        "base = 1", "double = 2 * base", "other = 3", "print(double)", "base = 5", "print(base)", "double += 1"
    )
    result = after_reading(page, "run_cells", cells=[page.cells[0].id], dependents=True)
    ids = [cell.id for cell in page.cells]
    # Not what reads `base` after it was bound anew, and what reads `double` still.
    assert [cell["cell"] for cell in result["details"]["cells"]] == [ids[0], ids[1], ids[3], ids[6]]
    assert "double = 2 * base" in result["preview"]["text"]
    page.run("del base, double")


@pytest.mark.requirement("notebook.rule.size")
def test_many_cells_that_print_share_the_room_of_one_result(open_page: OpenPage) -> None:
    page = open_page(*(f"print('{n} ' * 2_000)" if n % 2 else f"quiet = {n}" for n in range(1, 13)))
    result = after_reading(page, "run_cells", cells=["#1-#12"])
    assert 5_000 < len(text(result)) <= 8_000
    assert text(result).count("has all of it") == 6
    assert text(result).split("\n")[-1].count("names c") == 6


@pytest.mark.requirement("notebook.run_cell.order")
def test_an_interrupt_between_two_cells_of_one_call_leaves_the_second_unrun(open_page: OpenPage) -> None:
    page = open_page("first = 1", "second = 2")
    page.run(
        "import tests.notebook.driver as driver\n"
        "driver.context = context._replace(cancelled=lambda: 'first' in globals())"
    )
    try:
        result = after_reading(page, "run_cells", cells=[cell.id for cell in page.cells[:2]])
        assert error(result).startswith("ran 1 of 2 cells, 1 ok")
        assert page.cells[1].count is None
        assert [asked["cell"] for asked in requests(page, "run")] == [page.cells[0].id]
    finally:
        page.run("driver.context = context; del first")


@pytest.mark.requirement("notebook.run_cell.order")
def test_an_interrupt_in_a_cell_leaves_the_next_unrun_also_where_errors_stop_nothing(open_page: OpenPage) -> None:
    page = open_page("import signal, time; signal.raise_signal(signal.SIGINT); time.sleep(60)", "second = 2")
    ids = [cell.id for cell in page.cells[:2]]
    calls = (("read_notebook", {}), ("run_cells", {"cells": ids, "stop_on_error": False}))
    page.run(
        "import tests.notebook.driver as driver\n"
        "driver.context = context._replace(cancelled=lambda: False)"  # the run does not know of it yet
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
        after_reading(page, "run_cells", cells=[other.id, prompt.id]),
        after_reading(page, "edit_cell", cell=prompt.id, source="x = 2", run=True),
        after_reading(page, "edit_cell", cell=other.id, source=source, run=True),
        call(page, "insert_cell", source=source, run=True),
    ]
    assert all("is a prompt to the agent (%vibe), and a run cannot start another" in error(one) for one in refused)
    assert [cell.source for cell in page.cells] == [source, "z = 3"]
    assert (other.count, requests(page, "run")) == (None, [])
    edited = after_reading(page, "edit_cell", cell=other.id, source="z = '%%vibe'", run=True)
    assert not edited["is_error"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run_cells", {"cells": ["OTHER", "PROMPT"]}),
        ("edit_cell", {"cell": "PROMPT", "source": "x = 2"}),
        ("edit_cell", {"cell": "PROMPT", "old_string": "rows", "new_string": "columns", "run": True}),
        ("delete_cells", {"cells": ["OTHER", "PROMPT"]}),
        ("move_cells", {"cells": ["PROMPT"], "after": "end"}),
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
    assert said.startswith(f"Nothing was done: #1 {prompt.id[:4]} is a prompt of the user's (%%vibe)")
    assert said.endswith("use other cells, or ask the user.")
    assert [cell.source for cell in page.cells] == before
    assert (prompt.text, other.count) == ("the transcript", None)
    assert not requests(page, "run") + requests(page, "edit")


@pytest.mark.requirement("notebook.run_cell.timeout", "notebook.run_cell.final")
def test_a_cell_run_with_a_limit_reports_timeout(open_page: OpenPage) -> None:
    page = open_page("import time; time.sleep(60)")
    result = after_reading(page, "run_cells", cells=[page.cells[0].id], timeout=0.3)
    assert error(result).startswith(f"#1 {page.cells[0].id[:4]} [{page.cells[0].count}] timeout after 0.3 s")


def test_what_runs_is_what_was_shown(open_page: OpenPage) -> None:
    page = open_page("shown = 1")
    cell = page.cells[0]
    page.before = lambda method: page.type_into(cell, "changed = 1") if method == "run" else None
    result = after_reading(page, "run_cells", cells=[cell.id])
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
    result = call(page, "run_cells", cells=[cell.id], asked=asked)
    assert "changed since you read it" in error(result)
    assert not cell.request


def test_a_cell_that_vanished_is_named(open_page: OpenPage) -> None:
    page = open_page("here = 1")
    cell = page.cells[0]
    page.before = lambda method: page.cells.remove(cell) if method == "edit" and cell in page.cells else None
    result = after_reading(page, "edit_cell", cell=cell.id, source="gone = 1")
    assert f"There is no cell {cell.id}" in error(result)


def test_a_cell_the_person_just_started_runs_once(open_page: OpenPage) -> None:
    page = open_page("print('once')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "run" else None
    result = after_reading(page, "run_cells", cells=[cell.id])
    assert text(result).startswith(f"#1 {cell.id[:4]} [{cell.count}] ok in ")
    assert cell.text == "once\n"


def test_a_cell_that_is_queued_already_is_not_run_twice(open_page: OpenPage) -> None:
    page = open_page("print('once')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    outer = page.add(f"serve_calls(('read_notebook', {{}}), ('run_cells', {{'cells': [{cell.id!r}]}}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "waits for its turn already, started by the user" in error(json.loads(outer.text)[1])
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
    run = ("run_cells", {"cells": [cell.id]})
    outer = page.add(f"serve_calls(('read_notebook', {{}}), {run!r}, ('read_notebook', {{}}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "was changed" in error(json.loads(outer.text)[1])
    assert (cell.status, cell.text) == ("ok", "mine\n")


@pytest.mark.parametrize(
    ("name", "arguments"), [("delete_cells", {"cells": ["ID"]}), ("move_cells", {"cells": ["ID"], "after": "top"})]
)
def test_a_cell_the_person_started_stays_where_it_is(open_page: OpenPage, name: str, arguments: dict[str, Any]) -> None:
    page = open_page("first = 1", "print('once')")
    cell = page.cells[1]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    arguments = json.loads(json.dumps(arguments).replace("ID", cell.id))
    outer = page.add(f"serve_calls(('read_notebook', {{}}), ({name!r}, {arguments!r}))")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    assert "waits for its turn already, started by the user" in error(json.loads(outer.text)[1])
    assert page.cells[1] is cell


def test_an_edit_of_a_cell_the_person_started_says_what_will_run(open_page: OpenPage) -> None:
    page = open_page("print('before')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "cells" and not cell.request else None
    change = {"cell": cell.id, "source": "print('after')"}
    calls = (("read_notebook", {}), ("edit_cell", {**change, "run": True}), ("edit_cell", change))
    outer = page.add(f"serve_calls(*{calls!r})")
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    _, with_run, without = json.loads(outer.text)
    assert "waits for its turn already, started by the user" in error(with_run)
    assert "runs as it was" in text(without)
    assert "you started it before" in without["summary"]
    assert (cell.source, cell.text) == ("print('after')", "before\n")


def test_a_cell_started_between_its_edit_and_its_run_is_named_as_edited(open_page: OpenPage) -> None:
    page = open_page("print('before')")
    cell = page.cells[0]
    page.before = lambda method: page.press(cell) and None if method == "edit" else None
    outer = page.add(
        f"serve_calls(('read_notebook', {{}}), ('edit_cell', {{'cell': {cell.id!r}, 'source': '1', 'run': True}}))"
    )
    page.press(outer)
    page.until(lambda: bool(cell.status), "the user's own run")
    said = error(json.loads(outer.text)[1])
    assert said.startswith(f"edited #1 {cell.id[:4]}")
    assert f"; not run: #1 {cell.id[:4]}" in said
    assert "waits for its turn already, started by the user" in said


def test_a_notebook_that_is_read_only_says_so(open_page: OpenPage) -> None:
    page = open_page("kept = 1")
    page.read_only = True
    result = after_reading(page, "edit_cell", cell=page.cells[0].id, source="new = 1")
    assert "read-only" in error(result)


@pytest.mark.requirement("notebook.run_cell.final", "notebook.rule.size")
def test_long_output_is_cut_and_names_the_way_to_all_of_it(open_page: OpenPage) -> None:
    page = open_page("print(*range(9000))")
    result = after_reading(page, "run_cells", cells=[page.cells[0].id])
    assert len(text(result)) <= 8_000
    assert f'read_notebook(cells=["{page.cells[0].id[:4]}"], outputs="full") has all of it' in text(result)
    assert "\n0 1 2 3 " in text(result)
    assert " 8997 8998 8999" in text(result)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_cell", {"cell": "{}", "source": "x"}),
        ("delete_cells", {"cells": ["{}"]}),
        ("run_cells", {"cells": ["{}"]}),
    ],
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
        ("edit_cell", {"cell": page.cells[0].id, "source": "a = 1\r\nb = 2\r"}),
        ("insert_cell", {"source": "c = 3\r\nd = 4", "after": page.cells[0].id}),
    )[1:]
    assert not edited["is_error"]
    assert not inserted["is_error"]
    assert [cell.source for cell in page.cells] == ["a = 1\nb = 2\n", "c = 3\nd = 4"]
