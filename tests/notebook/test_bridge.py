"""When the page is slow, doubled, reloaded, closed or never there."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.kernel.wire import Wire
from tests.notebook.page import Page
from tests.notebook.test_tools import after_reading, call, call_all, error, requests, text
from tests.patience import patient
from vibe_jupyter.notebook.bridge import KNOWN_WAIT

OpenPage = Callable[..., Page]
PROMPT_BACK = patient(10.0)
"""Seconds, far fewer than what is interrupted would take, and enough for any machine."""


@pytest.fixture(autouse=True)
def _a_new_conversation(shared_kernel: Wire) -> None:
    shared_kernel.run("access.reads.remembered.forget(); access.begin()")


class TwoPages(Page):
    """The same notebook in a second tab, which did not run the cell and hides the one that did."""

    def _answer_hello(self, message: dict[str, Any], version: str) -> dict[str, Any]:
        ours = {**super()._answer_hello(message, version), "visible": False}
        other = {**ours, "ran": False, "visible": True, "path": "other.ipynb"}
        reply = {"id": message["content"]["id"], "client": "another", "panel": "p", "ok": True, "result": other}
        self.tell("vibe_bridge_reply", reply)
        return ours


@pytest.mark.requirement("notebook.rule.own-notebook")
def test_the_tab_that_ran_the_cell_is_asked_and_no_other(shared_kernel: Wire) -> None:
    page = TwoPages(shared_kernel, "a = 1")
    result = call(page, "read_notebook")
    assert text(result).startswith("work/test.ipynb: ")
    asked = [one["to"] for one in page.asked if one["method"] != "hello"]
    assert asked == [{"client": page.client, "panel": page.panel}]


def test_the_page_is_asked_for_once_in_a_run(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    call_all(page, ("read_notebook", {}), ("read_notebook", {"cells": ["#1"]}), ("read_notebook", {"cells": ["#1"]}))
    assert len(requests(page, "hello")) == 1


def test_a_page_loaded_anew_is_found_and_a_read_is_asked_again(open_page: OpenPage) -> None:
    page = open_page("a = 1")

    def reload(method: str) -> None:
        if method == "cells" and page.panel == "panel-1":
            page.panel = "panel-2"

    page.before = reload
    result = call(page, "read_notebook")
    assert text(result).startswith("work/test.ipynb: ")


def test_an_edit_whose_answer_was_lost_is_looked_up_in_the_document(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    cell = page.cells[0]

    def reload(method: str) -> None:
        if method == "edit":
            cell.source, page.panel = "a = 2", "panel-2"

    page.before = reload
    result = after_reading(page, "edit_cell", cell=cell.id, source="a = 2")
    assert text(result).startswith("edited #1 ")
    assert not result["is_error"]


@pytest.mark.requirement("notebook.rule.read-back")
def test_an_edit_that_is_not_found_there_is_called_queued(open_page: OpenPage) -> None:
    page = open_page("a = 1")

    def reload(method: str) -> None:
        if method == "edit":
            page.panel = "panel-2"

    page.before = reload
    result = after_reading(page, "edit_cell", cell=page.cells[0].id, source="a = 2")
    assert text(result).startswith("queued: ")


def test_a_notebook_closed_in_the_middle_says_so(open_page: OpenPage) -> None:
    page = open_page("a = 1")

    def close(method: str) -> None:
        if method == "edit":
            page.answers = False

    page.before = close
    result = after_reading(page, "edit_cell", cell=page.cells[0].id, source="a = 2")
    assert "No page with the notebook extension answers" in error(result)


def test_an_answer_in_another_form_names_the_doctor(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    page._answer_cells = lambda _message: {"cells": "many"}  # type: ignore[method-assign]
    assert "vibe-jupyter doctor" in error(call(page, "read_notebook"))


def test_a_page_of_another_version_is_told_of(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    answer = page._answer_hello
    page._answer_hello = lambda message, version: {**answer(message, version), "version": "9.9.0"}  # type: ignore[method-assign]
    result = call(page, "read_notebook")
    assert "The notebook extension is version 9.9.0" in text(result)
    assert "install vibe-jupyter 9.9.0 in the kernel's environment" in text(result)


def test_words_of_others_on_the_channel_are_ignored(open_page: OpenPage) -> None:
    page = open_page("a = 1")
    page.before = lambda method: page.tell("vibe_bridge_reply", {"id": page.asked[-1]["id"], "odd": True})
    page.tell("vibe_bridge_reply", {"nothing": 1})
    page.tell("vibe_bridge_event", {"event": "unheard of"})
    assert text(call(page, "read_notebook")).startswith("work/test.ipynb: ")


@pytest.fixture
def on_disk(shared_kernel: Wire, tmp_path: Path) -> Path:
    """A notebook file that the server says is this kernel's."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_markdown_cell("# Title", id="markdown"),
            nbformat.v4.new_code_cell("print('saved')", id="saved-cell", execution_count=3),
        ]
    )
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="seen\n")]
    path = tmp_path / "saved.ipynb"
    nbformat.write(notebook, path)
    shared_kernel.run(f"import os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}; without_a_page()")
    return path


@pytest.mark.requirement("notebook.rule.no-extension")
def test_without_a_page_the_file_is_read_and_said_to_be(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.answers = False
    listing, cell, output = call_all(
        page,
        ("read_notebook", {"outputs": "brief"}),
        ("read_notebook", {"cells": ["saved"]}),
        ("read_notebook", {"cells": ["#2"], "outputs": "full"}),
    )
    assert text(listing).split("\n")[0] == "saved.ipynb: 2 cells; read from disk, may be older than the screen"
    assert "#2 save [3] fresh" in text(listing)
    assert text(cell).endswith("\nprint('saved')")
    assert text(output).split("\n")[2:] == ["print('saved')", "outputs:", "seen"]


def test_without_a_page_a_file_that_was_saved_meanwhile_is_read_again(
    open_page: OpenPage, on_disk: Path, tmp_path: Path
) -> None:
    page = open_page()
    page.answers = False
    notebook = nbformat.read(on_disk, as_version=4)
    longer = tmp_path / "longer.ipynb"
    notebook.cells[1].source = f"import os; os.replace({str(longer)!r}, {str(on_disk)!r})"
    nbformat.write(notebook, on_disk)
    notebook.cells.append(nbformat.v4.new_code_cell("added = 1"))
    nbformat.write(notebook, longer)
    before, _, after = call_all(
        page, ("read_notebook", {}), ("run_cells", {"cells": ["saved-cell"]}), ("read_notebook", {})
    )
    assert text(before).startswith("saved.ipynb: 2 cells; ")
    assert text(after).startswith("saved.ipynb: 3 cells; ")


@pytest.mark.requirement("notebook.rule.no-extension")
def test_without_a_page_an_edit_is_refused_with_what_to_install(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.answers = False
    before = on_disk.read_bytes()
    for name, arguments in (
        ("edit_cell", {"cell": "saved-cell", "source": "x"}),
        ("delete_cells", {"cells": ["saved-cell"]}),
        ("move_cells", {"cells": ["saved-cell"], "after": "top"}),
    ):
        refused = error(after_reading(page, name, **arguments))
        assert f"`pip install {Path(__file__).parents[2]}`" in refused
        assert "vibe-jupyter doctor" in refused
    assert on_disk.read_bytes() == before


@pytest.mark.requirement("notebook.rule.no-extension")
def test_without_a_page_one_new_cell_is_offered_and_more_are_refused(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.answers = False
    prompt = page.add("serve_calls(('insert_cell', {'source': 'one'}), ('insert_cell', {'source': 'two'}))")
    page.press(prompt)
    page.until(lambda: bool(prompt.status), "the run")
    first, second = json.loads(prompt.text)
    assert text(first).startswith("queued: the cell appears below the prompt")
    assert prompt.reply is not None
    assert [(one["source"], one["text"]) for one in prompt.reply["payload"]] == [("set_next_input", "one")]
    assert error(second).startswith("Not inserted: no page with the vibe-jupyter extension answers")


def test_without_a_page_a_cell_runs_in_the_prompts_own_output(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.answers = False
    result = call(page, "run_cells", cells=["saved-cell"])
    assert text(result).split("\n")[1:] == [
        "saved",
        "Its output is shown in the prompt's cell, not under the cell itself.",
    ]
    counts = [cell.count for cell in page.cells]
    assert len(set(counts)) == len(counts)


def test_a_broken_file_is_named(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.answers = False
    on_disk.write_text("{", encoding="utf-8")
    assert f"The notebook file {on_disk} cannot be read" in error(call(page, "read_notebook"))


def test_where_there_is_no_notebook_at_all_the_answer_says_why(open_page: OpenPage, shared_kernel: Wire) -> None:
    shared_kernel.run("import os; _ = os.environ.pop('JPY_SESSION_NAME', None); without_a_page()")
    page = open_page()
    page.answers = False
    assert "This kernel's notebook was not found" in error(call(page, "read_notebook"))


def test_the_stop_button_ends_a_wait_for_a_page_that_is_silent(open_page: OpenPage) -> None:
    page = open_page("print('never')")
    page.sends_requests = False
    outer = page.add("print(serve(run_in_place('#1')))")
    page.press(outer)
    page.until(lambda: bool(requests(page, "run")), "the request to run the cell")
    began = time.monotonic()
    page.wire.interrupt()
    page.until(lambda: bool(outer.status), "the prompt")
    assert time.monotonic() - began < PROMPT_BACK
    assert outer.text == "interrupted\n"
    assert page.run("print('fine')").text == "fine\n"


def test_a_page_that_is_gone_is_waited_for_once(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page()
    page.wire.run("bridge._known = True")
    page.answers = False
    began = time.monotonic()
    call_all(page, *[("read_notebook", {})] * 5)
    assert time.monotonic() - began < 2 * KNOWN_WAIT
    assert len(requests(page, "hello")) == 1


def test_a_page_that_opens_in_the_middle_of_a_run_is_used_from_then_on(open_page: OpenPage, on_disk: Path) -> None:
    page = open_page("live = 1")
    page.answers = False
    prompt = page.add(
        "async def twice():\n    first = await call('read_notebook')\n    print(first.parts[0].text, flush=True)\n"
        "    while bridge._asked:\n        await asyncio.sleep(0.01)\n"
        "    print((await call('read_notebook')).parts[0].text)\n_ = serve(twice())"
    )
    page.press(prompt)
    page.until(lambda: "read from disk" in prompt.text, "the first listing")
    page.answers = True
    page.tell("vibe_bridge_event", {"id": "x", "event": "hello"})
    page.until(lambda: bool(prompt.status), "the run")
    assert "work/test.ipynb: 2 cells" in prompt.text
