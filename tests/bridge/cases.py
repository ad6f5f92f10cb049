"""What every front end must answer, in the same words: requests in their order, with the answers."""

import json
from typing import Any

import nbformat

from vibe_jupyter.protocol.cells import source_hash

Json = dict[str, Any]
OLD_MARK: Json = {"source": "00000000"}
NEW_MARK: Json = {"model": "some-1", "inputs": {"a": {"shape": "int"}}, "source": "11111111"}
PICTURE = "iVBOR" + "A" * 5000
SOME_ID = "the id of a message"
LONG = "".join(f"line {number:04}\n" for number in range(200))


def notebook() -> nbformat.NotebookNode:
    """Cells of each kind, with outputs of each kind; the last two ask."""
    make = nbformat.v4
    data = {"text/plain": "<Figure>", "image/png": PICTURE, "application/json": {"a": [1, None]}}
    shown = [
        make.new_output("stream", name="stdout", text=LONG),
        make.new_output("display_data", data=data),
        make.new_output("error", ename="ValueError", evalue="no", traceback=["Traceback", "ValueError: no"]),
    ]
    cells = [
        make.new_markdown_cell("# Title", id="title-01"),
        make.new_code_cell(
            "x = 1",
            id="loaded-1",
            outputs=shown,
            execution_count=3,
            metadata={"tags": ["raises-exception"], "vibe": OLD_MARK},
        ),
        make.new_code_cell("y = 'ä😀'", id="plain-01"),
        make.new_code_cell("z = 3", id="locked-1", metadata={"editable": False, "deletable": False}),
        make.new_code_cell(driver(FIRST), id="driver-1"),
        make.new_code_cell(driver(SECOND), id="driver-2"),
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return make.new_notebook(cells=cells, metadata={"kernelspec": spec})


def driver(cases: "list[tuple[str, Json, Json]]") -> str:
    """Source of a cell that asks and prints the answers."""
    steps = json.dumps([[method, args] for method, args, _ in cases])
    return f"from tests.bridge.kernel_side import play\nplay({steps!r})"


def played(text: str) -> list[Json]:
    """The answers, without what names this one front end."""
    answers: list[Json] = json.loads(text.strip().splitlines()[-1])
    for result in (one["result"] for one in answers if one.get("result", {}).get("request")):
        result["request"] = SOME_ID
    return [{name: one[name] for name in ("ok", "result", "error") if name in one} for one in answers]


def good(**result: Any) -> Json:
    return {"ok": True, "result": result}


def bad(code: str, message: str, **data: Any) -> Json:
    return {"ok": False, "error": {"code": code, "message": message, "data": data}}


def edit(*edits: Json) -> Json:
    return {"edits": list(edits)}


def set_source(cell: str, before: str, source: str, mark: Json | None = None) -> Json:
    return {"op": "set_source", "cell": cell, "expected": source_hash(before), "source": source, "vibe": mark}


def insert(cell: str, after: str | None, source: str, kind: str = "code", mark: Json | None = None) -> Json:
    return {"op": "insert", "id": cell, "after": after, "kind": kind, "source": source, "vibe": mark}


def delete(*cells: tuple[str, str]) -> Json:
    return {"op": "delete", "cells": [{"id": cell, "expected": source_hash(source)} for cell, source in cells]}


def move(*cells: str, after: str | None) -> Json:
    return {"op": "move", "cells": list(cells), "after": after}


def outputs(cell: str, limit: int, index: int | None = None) -> Json:
    return {"cell": cell, "limit": limit, "index": index}


def no_output(cell: str) -> Json:
    return bad("bad_request", f"The cell {cell} has no such output.", cell=cell)


def picture(cell: str, index: int, count: int) -> Json:
    return {"cell": cell, "index": index, "count": count, "side": 1024, "limit": 1_000_000}


ORDER = ["title-01", "loaded-1", "plain-01", "locked-1", "driver-1", "driver-2"]
PLAIN = "y = 'ä😀'"
NO_CELL = bad("unknown_cell", "There is no cell nowhere-1 in this notebook.", cell="nowhere-1")
STALE = bad("stale_cell", "The cell plain-01 has changed.", cell="plain-01", source=PLAIN)

FIRST: list[tuple[str, Json, Json]] = [
    ("dance", {}, bad("bad_request", "This front end knows no request dance.")),
    ("held", {"cell": "nowhere-1"}, NO_CELL),
    ("held", {"cell": "loaded-1"}, good(outputs=[])),
    ("keep", {"cell": "nowhere-1", "model_id": "none"}, NO_CELL),
    ("keep", {"cell": "loaded-1", "model_id": "none", "data": None}, good(stands=False)),
    ("show", {"cell": "nowhere-1", "model_id": "none"}, NO_CELL),
    (
        "show",
        {"cell": "title-01", "model_id": "none", "display_id": None},
        bad("bad_request", "The cell title-01 holds no code.", cell="title-01"),
    ),
    ("show", {"cell": "driver-1", "model_id": "none"}, good()),
    ("find", {"model_id": "none"}, good(cell=None)),
    ("remember", {"conversation": "c1"}, good()),
    ("outputs", outputs("nowhere-1", 10), NO_CELL),
    ("outputs", outputs("plain-01", 10), good(outputs=[])),
    ("outputs", outputs("plain-01", 10, 0), bad("bad_request", "This cell has 0 outputs, and none at 0.")),
    (
        "outputs",
        outputs("loaded-1", 100, 0),
        good(
            outputs=[
                {
                    "output_type": "stream",
                    "name": "stdout",
                    "text": f"{LONG[:50]}\n[1900 characters left out]\n{LONG[-50:]}",
                }
            ]
        ),
    ),
    (
        "outputs",
        outputs("loaded-1", 100, 1),
        good(
            outputs=[
                {
                    "output_type": "display_data",
                    "metadata": {},
                    "data": {
                        "text/plain": "<Figure>\n[image/png of 5005 bytes left out]",
                        "application/json": {"a": [1, None]},
                    },
                }
            ]
        ),
    ),
    (
        "outputs",
        outputs("loaded-1", 10, 2),
        good(
            outputs=[
                {
                    "output_type": "error",
                    "ename": "ValueError",
                    "evalue": "no",
                    "traceback": ["Trace", "[14 characters left out]", "r: no"],
                }
            ]
        ),
    ),
    ("picture", picture("nowhere-1", 0, 1), NO_CELL),
    (
        "picture",
        picture("title-01", 0, 1),
        bad("bad_request", "The cell title-01 has no such output.", cell="title-01"),
    ),
    (
        "picture",
        picture("loaded-1", 3, 3),
        bad("bad_request", "The cell loaded-1 has no such output.", cell="loaded-1"),
    ),
    ("picture", picture("loaded-1", 1, 2), good(image=None)),
    ("picture", picture("plain-01", 0, 1), good(image=None)),
    ("edit", edit(set_source("plain-01", "y = 3", "y = 4")), STALE),
    (
        "edit",
        edit(insert("fresh-01", "title-01", "a"), set_source("nowhere-1", "", "b")),
        NO_CELL,
    ),
    (
        "edit",
        edit(insert("plain-01", None, "a")),
        bad("bad_request", "The id plain-01 cannot be given to a new cell.", cell="plain-01"),
    ),
    (
        "edit",
        edit(set_source("locked-1", "z = 3", "z = 4")),
        bad("read_only", "The cell locked-1 is marked as not editable.", cell="locked-1"),
    ),
    (
        "edit",
        edit(delete(("locked-1", "z = 3"))),
        bad("read_only", "The cell locked-1 is marked as not deletable.", cell="locked-1"),
    ),
    ("edit", edit(move("driver-1", after=None)), bad("not_finished", "The cell driver-1 is running.", cell="driver-1")),
    (
        "edit",
        edit(move("plain-01", after="plain-01")),
        bad("bad_request", "A cell can be moved once, and not behind itself."),
    ),
    (
        "edit",
        edit(set_source("plain-01", PLAIN, "y = 'ö😀'\nprint(y)", NEW_MARK)),
        good(cells=[{"id": "plain-01", "source": "y = 'ö😀'\nprint(y)"}], order=ORDER),
    ),
    (
        "edit",
        edit(
            insert("fresh-01", "title-01", "first", mark=OLD_MARK),
            insert("fresh-02", None, "*top*", "markdown", NEW_MARK),
            set_source("fresh-01", "first", "6 * 7", NEW_MARK),
        ),
        good(
            cells=[{"id": "fresh-02", "source": "*top*"}, {"id": "fresh-01", "source": "6 * 7"}],
            order=["fresh-02", "title-01", "fresh-01", *ORDER[1:]],
        ),
    ),
    (
        "edit",
        edit(move("loaded-1", "fresh-02", after="plain-01")),
        good(cells=[], order=["title-01", "fresh-01", "plain-01", "loaded-1", "fresh-02", *ORDER[3:]]),
    ),
    (
        "edit",
        edit(delete(("fresh-02", "*top*"), ("title-01", "# Title"))),
        good(cells=[], order=["fresh-01", "plain-01", "loaded-1", *ORDER[3:]]),
    ),
    ("run", {"cell": "nowhere-1", "code_hash": ""}, NO_CELL),
    (
        "run",
        {"cell": "fresh-01", "code_hash": source_hash("6 * 8")},
        bad("stale_cell", "The cell fresh-01 has changed.", cell="fresh-01", source="6 * 7"),
    ),
    ("run", {"cell": "fresh-01", "code_hash": source_hash("6 * 7")}, good(started=True, request=SOME_ID)),
    (
        "run",
        {"cell": "fresh-01", "code_hash": source_hash("6 * 7")},
        bad("not_finished", "The cell fresh-01 is queued or running already.", cell="fresh-01"),
    ),
    (
        "edit",
        edit(set_source("loaded-1", "x = 1", "x = 2")),
        good(cells=[{"id": "loaded-1", "source": "x = 2"}], order=["fresh-01", "plain-01", "loaded-1", *ORDER[3:]]),
    ),
]


def described(cell: str, source: str, *rest: Any) -> Json:
    count, running, edited, shown = rest
    return {
        "id": cell,
        "kind": "code",
        "source": source,
        "execution_count": count,
        "running": running,
        "edited_since_run": edited,
        "may_raise": False,
        "tags": [],
        "outputs": shown,
        "vibe": None,
    }


def brief(kind: str, mimes: list[str], size: int, text: str) -> Json:
    return {"type": kind, "mimes": mimes, "size": size, "text": text}


LOADED = [
    brief("stream", [], 2000, LONG[:200]),
    brief("display_data", ["application/json", "image/png", "text/plain"], 8 + 5005 + 14, "<Figure>"),
    brief("error", [], 23, "ValueError: no"),
]
SECOND: list[tuple[str, Json, Json]] = [("cells", {}, {})]
"""Its answer is `after_the_run`, since the first driver's own output is in it."""


def after_the_run(path: str) -> list[Json]:
    """All cells but the two that ask, after the run cell has run."""
    return [
        described("fresh-01", "6 * 7", 2, False, False, [brief("execute_result", ["text/plain"], 2, "42")])
        | {"vibe": NEW_MARK},
        described("plain-01", "y = 'ö😀'\nprint(y)", None, False, False, []) | {"vibe": NEW_MARK},
        described("loaded-1", "x = 2", 3, False, True, LOADED) | {"may_raise": True, "tags": ["raises-exception"]},
        described("locked-1", "z = 3", None, False, False, []),
    ]
