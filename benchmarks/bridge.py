"""What the bridge costs in a notebook of 1,000 cells with 100 MB of outputs, in a real JupyterLab and Chromium.

Round trips from the kernel to the page and back, while a cell runs: beside an empty one, beside the same in a notebook
of ten cells, and beside what JupyterLab itself needs to insert, move and delete a cell by command.

Run it with ``PYTHONPATH=. python benchmarks/bridge.py``. Other work on the machine counts in full; who may, puts
``nice -n -15`` before it.
"""

import argparse
import base64
import json
import os
import random
import statistics
import struct
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nbformat
from playwright.sync_api import Page

from benchmarks.report import Row as Figure
from benchmarks.report import report, size
from tests.browser.chromium import chromium
from tests.browser.lab import Lab
from tests.browser.server import lab_server

CELLS: Final = size(1_000, 20)
OUTPUTS_MB: Final = size(100, 1)
SMALL: Final = 10  # cells
TRIPS: Final = size(40, 2)
COMMANDS: Final = size(4, 1)  # by hand; each may take seconds
PAUSE: Final = size(0.5, 0.0)  # seconds between two trips; a model needs longer
GOAL: Final = 70.0  # ms, 95 % of the edits of one cell in the large notebook
PRINTED_LINES: Final = 500
TABLE_ROWS: Final = 60
CALM: Final = 100  # times in a row the page must come to its next task at once, before anything is measured
SLOW: Final = 180_000  # ms that one thing may take with such a notebook
TRIPS_OF: Final = {
    "an empty request": "hello",
    "all cells listed": "read",
    "one cell edited": "edit",
    "a cell inserted": "insert",
    "a cell moved": "move",
    "a cell deleted": "delete",
}
BY_HAND: Final = {
    "insert by command, drawn": "notebook:insert-cell-below",
    "move by command, drawn": "notebook:move-cell-up",
    "delete by command, drawn": "notebook:delete-cell",
}

_MAKE: Any = nbformat.v4  # untyped
PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.content?.model?.cells)'
# Counts what the connections to kernels carry.
METER = """
window.wire = { sent: 0, received: 0 };
const size = part => part.byteLength ?? part.length;
window.WebSocket = class extends WebSocket {
    constructor(...given) {
        super(...given);
        this.addEventListener("message", ({ data }) => { window.wire.received += size(data); });
    }
    send(data) {
        window.wire.sent += size(data);
        super.send(data);
    }
};
"""
# What JupyterLab itself takes for the command, and then until it has drawn the result.
COMMANDED = f"""async ([command, trips, stride]) => {{
    const notebook = {PANEL}.content;
    const took = [];
    for (let trip = 0; trip < trips; trip++) {{
        notebook.activeCellIndex = 1 + (trip * stride) % (notebook.widgets.length - 2);
        await new Promise(resolve => setTimeout(resolve, 100));
        const started = performance.now();
        await window.jupyterapp.commands.execute(command);
        await new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
        took.push(performance.now() - started);
    }}
    return took;
}}"""
# JupyterLab goes on drawing cells long after a notebook is open.
SETTLED = """async calm => {
    for (let times = 0; times < calm; times++) {
        const started = performance.now();
        await new Promise(resolve => setTimeout(resolve, 20));
        if (performance.now() - started > 30) times = 0;
    }
}"""
# The cell that asks is always the last.
PRINTED = f"""() => {{
    const cell = [...{PANEL}.content.model.cells].at(-1);
    return cell.executionState === "idle" && cell.executionCount !== null
        && {{ text: cell.outputs.toJSON().map(output => [output.text ?? output.evalue].flat().join("")).join("") }};
}}"""


@dataclass(frozen=True)
class Row:
    """One kind of trip in one notebook."""

    name: str
    times: list[float]
    sent: float = 0.0
    received: float = 0.0
    """Bytes a trip, to the kernel and to the page."""

    @property
    def p95(self) -> float:
        """Milliseconds that 95 % of the trips do not exceed."""
        return statistics.quantiles(self.times, n=20, method="inclusive")[-1]

    def line(self) -> str:
        """As a line of the table."""
        middle = statistics.median(self.times)
        figures = f"{middle:>9.1f}{self.p95:>9.1f}{max(self.times):>9.1f}"
        if self.sent:
            figures += f"{self.received:>12,.0f}{self.sent:>12,.0f}"
        return f"{self.name:<28}{figures}"


def main() -> int:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--trips", type=int, default=TRIPS)
    options.add_argument("--cells", type=int, default=CELLS)
    options.add_argument("--megabytes", type=int, default=OUTPUTS_MB)
    options.add_argument("--pause", type=float, default=PAUSE, help="seconds between two trips")
    options.add_argument("--only", choices=[*TRIPS_OF.values()], action="append")
    given = options.parse_args()
    print(f"nice {os.getpriority(os.PRIO_PROCESS, 0)}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    kinds = {name: kind for name, kind in TRIPS_OF.items() if not given.only or kind in given.only}
    with tempfile.TemporaryDirectory() as home, lab_server(_without_autosave(home)) as server, chromium() as browser:
        page = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
        page.add_init_script(METER)
        lab = Lab(page, server)
        rows: list[Row] = []
        for cells, megabytes in ((given.cells, given.megabytes), (SMALL, 0)):
            _show(lab, notebook(cells, megabytes))
            print(f"\n{cells:,} cells, {megabytes} MB of outputs")
            print(f"{'ms':<28}{'median':>9}{'p95':>9}{'worst':>9}{'to page, B':>12}{'to kernel, B':>12}")
            for name, kind in kinds.items():
                rows.append(_asked(lab, name, f"measure({kind!r}, {given.trips}, {given.pause})"))
                print(rows[-1].line(), flush=True)
            for name, command in BY_HAND.items():
                print(Row(name, page.evaluate(COMMANDED, [command, min(given.trips, COMMANDS), 37])).line(), flush=True)
            lab.close()
    edits = next((row for row in rows if row.name == "one cell edited"), None)
    floor = next((statistics.median(row.times) for row in rows if row.name == "an empty request"), 0.0)
    if edits is None:
        return 0
    return report([Figure("95 % of the edits, more than an empty request", edits.p95 - floor, GOAL, "ms")])


def _without_autosave(home: str) -> Path:
    """A page that writes 100 MB does nothing else for seconds; that is not the bridge's."""
    settings = Path(home, "settings/@jupyterlab/docmanager-extension/plugin.jupyterlab-settings")
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"autosave": False}), encoding="utf-8")
    return Path(home)


def notebook(cells: int, megabytes: int) -> nbformat.NotebookNode:
    """Every fifth cell is text, the others code; half of those have outputs: pictures above all, prints, tables."""
    chance = random.Random(7)
    picture = megabytes * 1_000_000 // max(1, sum(map(_has_picture, range(cells))))
    made = [_cell(number, chance, picture) for number in range(cells)]
    ask = "from benchmarks.bridge_trips import measure"
    last = _MAKE.new_code_cell(f"%load_ext vibe_jupyter\n{ask}", id="driver")
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return _MAKE.new_notebook(cells=[*made, last], metadata={"kernelspec": spec})


def _has_picture(number: int) -> bool:
    return number % 2 == 1 and number % 20 > 5 and number % 5 > 0


def _cell(number: int, chance: random.Random, picture: int) -> nbformat.NotebookNode:
    if number % 5 == 0:
        return _MAKE.new_markdown_cell(f"## Step {number}\n\nWhat is done here, and *why*.", id=f"cell-{number:04}")
    source = "\n".join(f"value_{number}_{line} = compute({line})" for line in range(chance.randint(1, 12)))
    outputs: list[nbformat.NotebookNode] = []
    if picture and number % 20 == 1:
        outputs = [_MAKE.new_output("stream", name="stdout", text="as people print in loops\n" * PRINTED_LINES)]
    elif picture and number % 20 == 3:
        table = f"<table>{'<tr><td>1.0</td><td>two</td><td>3</td></tr>' * TABLE_ROWS}</table>"
        outputs = [_MAKE.new_output("execute_result", data={"text/html": table})]
    elif picture and _has_picture(number):
        data = {"text/plain": "<Figure size 640x480>", "image/png": _picture(chance, picture)}
        outputs = [_MAKE.new_output("display_data", data=data)]
    return _MAKE.new_code_cell(source, id=f"cell-{number:04}", outputs=outputs, execution_count=number)


def _picture(chance: random.Random, size: int) -> str:
    """A PNG of noise, which weighs what it shows."""
    side = int((size * 3 / 4 / 3) ** 0.5)
    rows = b"".join(b"\0" + chance.randbytes(3 * side) for _ in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows, 0)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def _show(lab: Lab, made: nbformat.NotebookNode) -> None:
    path = lab.server.folder / f"cells-{len(made.cells)}.ipynb"
    nbformat.write(made, path)  # pyright: ignore[reportUnknownMemberType]
    lab.page.set_default_timeout(SLOW)
    lab.show(path)
    lab.run(_last(lab.page))
    said = lab.page.wait_for_function(PRINTED).json_value()["text"]
    if said:
        raise SystemExit(said)
    lab.page.evaluate(SETTLED, CALM)


def _asked(lab: Lab, name: str, code: str) -> Row:
    page, last = lab.page, _last(lab.page)
    lab.write(last, code)
    page.evaluate(f"last => {{ {PANEL}.content.model.cells.get(last).clearExecution(); }}", last)
    before: dict[str, Any] = page.evaluate("() => ({ ...window.wire })")
    lab.run(last)
    said = page.wait_for_function(PRINTED).json_value()["text"]
    after: dict[str, Any] = page.evaluate("() => ({ ...window.wire })")
    page.evaluate(SETTLED, CALM)
    if not said.startswith("["):
        raise SystemExit(f"{name}: {said}")
    times: list[float] = json.loads(said)
    wire = {way: (after[way] - before[way]) / len(times) for way in ("sent", "received")}
    return Row(name, times, **wire)


def _last(page: Page) -> int:
    return page.evaluate(f"() => {PANEL}.content.model.cells.length - 1")


if __name__ == "__main__":
    sys.exit(main())
