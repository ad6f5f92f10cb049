"""The same requests get the same answers from JupyterLab, from Notebook 7 and from the headless front end."""

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.bridge import cases
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.patience import patient
from vibe_jupyter.headless import NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.notebook_run import Channel, KernelProcess, Message

REPOSITORY = Path(__file__).parents[2]
WAIT = patient(30.0)
"""Seconds one cell may take."""
Ran = Callable[[], tuple[str, str]]


class NoReply(KernelProcess):
    """A kernel whose reply for the cell that is run over the bridge never comes: the run's end on iopub is enough."""

    held = ""
    """Of which request."""

    def execute(self, code: str, cell: str) -> str:
        number = super().execute(code, cell)
        if not cell.startswith("driver"):
            self.held = number
        return number

    def next(self, seconds: float) -> tuple[Channel, Message] | None:
        arrived = super().next(seconds)
        late = arrived is not None and arrived[0] == "shell" and arrived[1]["parent_header"]["msg_id"] == self.held
        return None if late else arrived


def headless(folder: Path, process: type[KernelProcess]) -> tuple[str, str]:
    """What the two asking cells printed."""
    path = folder / "cases.ipynb"
    nbformat.write(cases.notebook(), path)
    document = HeadlessDocument(NotebookFile(path).notebook)
    kernel = process("python3", path)
    try:
        run = NotebookRun(document, kernel, path=path.name, say=str)
        for cell in ("driver-1", "driver-2"):
            outcome = run.run_cell(cell, timeout=WAIT)
            assert outcome.status == "ok", outcome.error
    finally:
        kernel.close()
    first, second = ("".join(output["text"] for output in document.cell(f"driver-{n}")["outputs"]) for n in (1, 2))
    return first, second


def in_page(lab: Lab, show: Callable[[Path], None]) -> tuple[str, str]:
    """The same, in a real page."""
    path = lab.server.folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(cases.notebook(), path)
    show(path)
    lab.run(4)
    first = wait_until(lab.page, PRINTED, arg="driver-1").json_value()
    wait_until(lab.page, ENDED, arg="fresh-01")
    lab.page.evaluate(RUN, "driver-2")
    return first, wait_until(lab.page, PRINTED, arg="driver-2").json_value()


PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.content?.model?.cells)'
IDLE = f"() => window.jupyterapp && {PANEL}?.sessionContext.session?.kernel?.status === 'idle'"
CELL = f"[...{PANEL}.content.model.cells].find(cell => cell.id === id)"
ENDED = f"id => {CELL}.executionState === 'idle' && {CELL}.executionCount !== null"
PRINTED = f"""id => {{
    const cell = {CELL};
    return ({ENDED})(id) && cell.outputs.toJSON().map(output => [output.text].flat().join("")).join("");
}}"""
RUN = f"""id => {{
    const notebook = {PANEL}.content;
    notebook.activeCellIndex = notebook.widgets.findIndex(cell => cell.model.id === id);
    void window.jupyterapp.commands.execute("notebook:run-cell");
}}"""


def check(first: str, second: str) -> None:
    """Both transcripts are what the cases say."""
    answers = cases.played(first)
    for (method, args, expected), answer in zip(cases.FIRST, answers, strict=True):
        assert answer == expected, f"{method} {json.dumps(args)[:200]}"
    (listing,) = cases.played(second)
    cells: list[Any] = [cell for cell in listing["result"]["cells"] if not cell["id"].startswith("driver")]
    assert cells == cases.after_the_run("")
    assert listing["result"]["dirty"] is True


@pytest.mark.parametrize("process", [KernelProcess, NoReply])
def test_the_headless_front_end_answers_as_the_cases_say(
    process: type[KernelProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    check(*headless(tmp_path, process))


@pytest.mark.matrix
@pytest.mark.browser
def test_jupyterlab_answers_as_the_cases_say(lab: Lab) -> None:
    check(*in_page(lab, lab.show))


@pytest.mark.browser
@pytest.mark.matrix
def test_notebook_7_answers_as_the_cases_say(lab: Lab) -> None:
    page = lab.page.context.new_page()
    classic = Lab(page, lab.server)

    def show(path: Path) -> None:
        page.goto(f"{lab.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")
        wait_until(page, IDLE)

    try:
        check(*in_page(classic, show))
        assert page.evaluate("() => window.jupyterapp.name") == "Jupyter Notebook"
    finally:
        page.close()
