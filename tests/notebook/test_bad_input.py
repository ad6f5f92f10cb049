"""What a model may get wrong, and what may be gone or broken when it asks: each is said, with what to do next."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.wire import Wire
from tests.notebook.page import Page, Refused
from tests.notebook.test_tools import after_reading, call, error, requests, text

ROOT = Path(__file__).parents[2]

OpenPage = Callable[..., Page]
WRITES = [
    ("edit_cell", {"cell": "{}", "source": "x"}),
    ("insert_cell", {"after": "{}", "source": "x"}),
    ("delete_cells", {"cells": ["{}"]}),
    ("move_cells", {"cells": ["{}"], "after": "end"}),
    ("move_cells", {"cells": ["safe0001"], "after": "{}"}),
    ("run_cells", {"cells": ["{}"]}),
]
"""Calls that change or run cells; `{}` is the id."""


@pytest.fixture(autouse=True)
def _a_new_conversation(shared_kernel: Wire) -> None:
    shared_kernel.run("access.reads.remembered.forget(); access.begin()")


def with_id(arguments: dict[str, Any], cell: str) -> dict[str, Any]:
    return json.loads(json.dumps(arguments).replace("{}", cell))


@pytest.mark.requirement("notebook.rule.ids")
@pytest.mark.parametrize(
    ("written", "says"),
    [("[2]", "No cell carries [2]"), ("aaaa", "fits 2 cells"), ("aaa", "too short"), ("#9", "There is no cell #9")],
)
@pytest.mark.parametrize(("name", "arguments"), WRITES)
def test_a_write_by_an_id_that_names_no_one_cell_touches_none(
    open_page: OpenPage, name: str, arguments: dict[str, Any], written: str, says: str
) -> None:
    page = open_page("a = 1", "b = 2", "c = 3")
    for cell, name_of_it in zip(page.cells, ("aaaa1111", "aaaa2222", "safe0001"), strict=True):
        cell.id = name_of_it
    refusal = error(after_reading(page, name, **with_id(arguments, written)))
    assert says in refusal
    assert written == "#9" or "aaaa2" in refusal or "read_notebook lists" in refusal
    assert not requests(page, "edit") + requests(page, "run")
    assert [cell.source for cell in page.cells] == ["a = 1", "b = 2", "c = 3"]


@pytest.mark.parametrize(("name", "arguments"), [one for one in WRITES if one[1].get("after") != "{}"])
def test_a_cell_that_vanished_is_named_and_nothing_is_done(
    open_page: OpenPage, name: str, arguments: dict[str, Any]
) -> None:
    page = open_page("here = 1", "safe = 1")
    page.cells[1].id = "safe0001"
    cell = page.cells[0]

    def vanish(method: str) -> None:
        if method in ("edit", "run") and cell in page.cells:
            page.cells.remove(cell)

    page.before = vanish
    refusal = error(after_reading(page, name, **with_id(arguments, cell.id)))
    assert f"There is no cell {cell.id}" in refusal
    assert "read_notebook" in refusal
    assert [one.source for one in page.cells] == ["safe = 1"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("read_notebook", {}), ("read_notebook", {"cells": ["here0001"]}), ("run_cells", {"cells": ["here0001"]})],
)
def test_a_notebook_that_was_closed_is_said_to_be(open_page: OpenPage, name: str, arguments: dict[str, Any]) -> None:
    page = open_page("here = 1")
    page.cells[0].id = "here0001"

    def close(method: str) -> None:
        page.answers = method == "hello" and page.answers

    page.before = close
    refusal = error(after_reading(page, name, **arguments))
    assert "the notebook was closed" in refusal
    assert "Ask the user to open it" in refusal


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("0.0.9", f"`pip install {ROOT}` where JupyterLab runs, and reload the page"),
        ("", f"`pip install {ROOT}` where JupyterLab runs, and reload the page"),
        ("9.9.1", "install vibe-jupyter 9.9.1 in the kernel's environment, and restart the kernel"),
    ],
)
def test_halves_of_different_versions_work_and_say_what_to_install_where(
    open_page: OpenPage, version: str, remedy: str
) -> None:
    page = open_page("a = 1")
    hello = page._answer_hello
    page._answer_hello = lambda message, **args: {**hello(message, **args), "version": version}  # type: ignore[method-assign]
    listing = text(call(page, "read_notebook")).split("\n")[0]
    assert f"The notebook extension is version {version or 'unknown'}, this kernel's package 0.1.0." in listing
    assert remedy in listing

    def knows_no_such_request(*_: object, **__: object) -> dict[str, Any]:
        raise Refused("bad_request", "This front end knows no request run.")

    page._answer_run = knows_no_such_request  # type: ignore[method-assign]
    refusal = error(after_reading(page, "run_cells", cells=[page.cells[0].id]))
    assert refusal.startswith("This front end knows no request run.")
    assert remedy in refusal


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "it is empty"),
        (b"\xff\xfe", "it is not a notebook: byte 0 is not valid UTF-8"),
        (b"{", "it is not valid JSON (line 1, column 2"),
        (b"[" * 200_000, "nested too deeply"),
        (b"[1]", "it is JSON, but not a notebook"),
        (b'{"nbformat": 4, "cells": 1}', "it has no list of cells"),
        (b'{"nbformat": 3, "worksheets": []}', "jupyter nbconvert --to notebook --inplace"),
        (b'{"nbformat": 5, "cells": []}', "Install a newer one"),
    ],
)
def test_without_a_page_a_file_that_is_no_notebook_is_said_to_be_none(
    open_page: OpenPage, shared_kernel: Wire, tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "saved.ipynb"
    path.write_bytes(content)
    page = open_page()
    page.answers = False
    shared_kernel.run(f"import os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}; without_a_page()")
    refusal = error(call(page, "read_notebook"))
    assert refusal.startswith(f"The notebook file {path} cannot be read: it ")
    assert says in refusal


def test_without_a_page_odd_cells_are_listed_as_far_as_they_go(
    open_page: OpenPage, shared_kernel: Wire, tmp_path: Path
) -> None:
    path = tmp_path / "saved.ipynb"
    odd = [{"output_type": "stream"}, {"output_type": "error"}, {"data": 3}, "no output", {}]
    cells = [{"cell_type": "code", "source": ["a\n", 1], "outputs": odd, "execution_count": 1}, {}, {"source": None}]
    path.write_text(json.dumps({"nbformat": 4, "cells": cells}), encoding="utf-8")
    page = open_page()
    page.answers = False
    shared_kernel.run(f"import os; os.environ['JPY_SESSION_NAME'] = {str(path)!r}; without_a_page()")
    assert "#1 cell-1 [1] failed\na\n1" in text(call(page, "read_notebook", outputs="brief"))
    assert "outputs:\n" in text(call(page, "read_notebook", cells=["cell-1"], outputs="full"))
