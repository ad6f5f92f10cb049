"""The same notebook read twice: as the front end that shows it has it, and as its file has it."""

import json
from typing import Any, Final

import nbformat

Json = dict[str, Any]
LONG = "".join(f"line {number:06}\n" for number in range(200_000))
"""2.4 MB: more than one output may bring along."""
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
HUGE = "A" * 2_100_000
"""A picture that is named only."""
ASKING: Final = "asking-1"
SOURCE: Final = "from tests.notebook.reads import ask\nask()"
CELLS: Final = ["title-01", "streams1", "figure01", "failed01", "table-01", "neverrun", "raw-0001", "long-src"]

_WAYS: Final[list[Json]] = [
    {"cells": ["#1-#8"], "outputs": "brief"},
    {"cells": ["#1-#8"], "offset": 2},
    {"query": "PRINT"},
    {"query": "print"},
    {"query": "nowhere in it"},
    {"query": r"value_3\d\b"},
    {"query": "("},
    {"cells": ["#1-#8"], "state": "never"},
    {"cells": ["#2-#4", "#8"]},
    {"cells": ["#2-#4"], "outputs": "images"},
    *({"cells": [cell], "outputs": "full"} for cell in CELLS),
    *({"cells": [cell], "outputs": "images"} for cell in CELLS),
    {"cells": ["streams1"], "outputs": "full", "offset": 7_600},
    {"cells": ["#3"]},
    {"cells": ["[3]"]},
    {"cells": ["#99"]},
    {"cells": ["long-src"], "offset": 5_000},
    {"cells": ["stre"]},
    {"cells": ["str"]},
    {"cells": ["streams9"]},
]
CALLS: Final[list[tuple[str, Json]]] = [("read_notebook", way) for way in _WAYS]


def notebook() -> nbformat.NotebookNode:
    """Cells and outputs of each kind; the last cell asks."""
    make = nbformat.v4
    streams = [
        make.new_output("stream", name="stdout", text=LONG),
        # No \r: JupyterLab writes over the line as it reads the file, and keeps only what is then seen.
        make.new_output("stream", name="stderr", text="\x1b[31mdone ä😀\x1b[0m\n"),
    ]
    figure = {"text/plain": "<Figure size 640x480>", "image/png": PICTURE}
    pictures = [
        make.new_output("display_data", data=figure, metadata={"image/png": {"width": 9}}),
        make.new_output("execute_result", data={"text/plain": "[1]", "application/json": [1, None]}, execution_count=3),
        make.new_output("display_data", data={"image/jpeg": HUGE}),
    ]
    failure = make.new_output(
        "error", ename="ValueError", evalue="no", traceback=["Traceback", "\x1b[31mValueError: no"]
    )
    table = {"text/html": "<table>\n<tr><td>1</td></tr>\n</table>", "text/latex": "$x$", "text/plain": ""}
    long_source = "\n".join(f"value_{number} = {number}" for number in range(400))
    cells = [
        make.new_markdown_cell("# Title\n\n$x^2$", id="title-01"),
        make.new_code_cell("print('ä😀')\nprint(1)", id="streams1", outputs=streams, execution_count=2),
        make.new_code_cell("plot()", id="figure01", outputs=pictures, execution_count=3),
        make.new_code_cell("fail()", id="failed01", outputs=[failure], execution_count=4),
        make.new_code_cell(
            "table", id="table-01", outputs=[make.new_output("display_data", data=table)], execution_count=5
        ),
        make.new_code_cell("print('not yet')\n", id="neverrun"),
        make.new_raw_cell("raw text", id="raw-0001"),
        make.new_code_cell(long_source, id="long-src"),
        make.new_code_cell(SOURCE, id=ASKING),
    ]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return make.new_notebook(cells=cells, metadata={"kernelspec": spec})


def answers(printed: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Of what the asking cell printed: call to answer, live and from the file, without the word that it is one."""
    from vibe_jupyter.notebook.file_notebook import FROM_DISK

    live, file = json.loads(printed.strip().splitlines()[-1])
    assert FROM_DISK not in json.dumps(live)
    for (name, arguments), read in zip(CALLS, file, strict=True):
        assert read["is_error"] or FROM_DISK in read["parts"][0]["text"], f"{name} {arguments}"
    return _by_call(live), _by_call(json.loads(json.dumps(file).replace(f"; {FROM_DISK}", "")))


def _by_call(results: list[Json]) -> dict[str, list[str]]:
    return {f"{name} {args}": _lines(result) for (name, args), result in zip(CALLS, results, strict=True)}


def _lines(result: Json) -> list[str]:
    """A result in pieces that can be compared by eye."""
    texts = [line for part in result["parts"] for line in part.get("text", "").split("\n")]
    pictures = [part["data"] for part in result["parts"] if part["type"] == "image"]
    return [*texts, *pictures, f"summary {result.get('summary')}", f"error {result['is_error']}"]


def ask() -> None:
    """In the kernel: make the calls over the bridge and on the file; print the results."""
    import vibe_jupyter
    from tests.notebook import driver
    from vibe_jupyter.notebook.access import CellAccess
    from vibe_jupyter.notebook.bridge import Bridge
    from vibe_jupyter.notebook.open_notebook import OpenNotebook

    # Not installed, this bridge hears no answer.
    deaf = Bridge(driver.shell.kernel, version=vibe_jupyter.__version__, on_page=lambda _client: None)
    on_file = CellAccess(
        OpenNotebook(
            driver.shell,
            bridge=deaf,
            main_thread=driver.main_thread,
            in_place=driver.in_place,
            version=vibe_jupyter.__version__,
        )
    )
    on_file.begin()
    print(json.dumps([driver.serve(_answers(one)) for one in (driver.access, on_file)]))


async def _answers(access: Any) -> list[Json]:
    from tests.notebook import driver
    from vibe_jupyter.errors import ToolError
    from vibe_jupyter.notebook.tools.read_cells import ReadNotebookTool
    from vibe_jupyter.protocol import ToolResult

    tool = ReadNotebookTool(access.reads, sees_images=lambda: True)
    answers: list[Json] = []
    for _, arguments in CALLS:
        try:
            result = await tool.run(tool.arguments.model_validate(arguments), driver.context)
        except ToolError as error:
            result = ToolResult.error(str(error))
        answers.append(result.model_dump(mode="json"))
    return answers
