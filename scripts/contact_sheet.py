"""`make screenshots`: ten states of the interface from a real JupyterLab, light and dark, on pages of two widths.

Leaves each picture and a sheet of them in ``artifacts/states``. A folder of drawings with the names ``01-light.png`` to
``10-dark.png``, given as argument, puts the drawing of each state beside it.
"""

import sys
import tempfile
import threading
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tests.browser.arming import armed
from tests.browser.chromium import chromium
from tests.browser.lab import Lab
from tests.browser.notebook_page import LOAD, PROMPT, NotebookPage, open_prompt
from tests.browser.server import lab_server
from vibe_jupyter.testing import ScriptedModel, answer, call, say

ROOT: Final = Path(__file__).resolve().parent.parent
SHEET: Final = ROOT / "artifacts" / "states"
WIDTHS: Final = (1280, 1600)
HEIGHT: Final = 900
"""Pixels of the page."""
SHOWN: Final = 560
"""Pixels of one picture on the sheet."""
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
FIGURE: Final = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(5, 2.4))
plt.scatter([38, 39, 47, 46, 49], [3.7, 3.6, 5.1, 5.0, 3.8])
plt.show()"""
CELLS: Final = (
    "rows = [{'bill_len': 39.1}, {'bill_len': 47.5}]",
    "mean = sum(row['bill_len'] for row in rows) / len(rows)\nprint(mean)",
)
FOUND: Final = """\
**Gentoo bills are nearly as long as Chinstraps', but the birds are 1.3 kg heavier.**

| species | n | mean (mm) |
|---|--:|--:|
| Adelie | 146 | 38.8 |
| Gentoo | 119 | 47.6 |
"""
PLAN: Final = (("Look at the data", "completed"), ("Fix the failing cell", "in_progress"), ("Compare bills", "pending"))
TO_DO: Final = [{"id": str(at), "content": text, "status": state} for at, (text, state) in enumerate(PLAN)]


class Stage(NamedTuple):
    """Where a state is played."""

    lab: Lab
    model: ScriptedModel
    home: Path
    """An empty folder for settings."""
    go_on: threading.Event
    """Lets the model end what it is saying."""

    def run(self, *sources: str, options: str = "") -> NotebookPage:
        """A notebook whose prompt runs."""
        book = open_prompt(self.lab, self.model, *sources, options=options)
        book.run(LOAD, PROMPT)
        return book


def in_progress(stage: Stage) -> None:
    """A plan, steps, a figure in its step, and an answer that is being written."""
    stage.model.will_reply(
        call("todo", todos=TO_DO),
        call("read_notebook"),
        call("run_code", code=FIGURE, keep=True, reason="bill length against weight"),
        answer(FOUND, [], hold=stage.go_on),
    )
    stage.run(*CELLS, options="--yes=run_code").view.get_by_text("bill length against weight").wait_for()
    stage.lab.output(PROMPT).locator('img:not([width="16"])').wait_for()


def one_edit(stage: Stage) -> None:
    """A card with the diff of a cell."""
    book = open_prompt(stage.lab, stage.model, *CELLS)
    edit = call("edit_cell", cell=book.ids[3], old_string="['bill_len']", new_string="['bill_length_mm']", run=True)
    stage.model.will_reply(call("read_notebook"), edit)
    book.run(LOAD, PROMPT)
    book.card("^Approval: Edit").wait_for()


def several_edits(stage: Stage) -> None:
    """A card with a check box for each change, one of them open."""
    book = open_prompt(stage.lab, stage.model, *CELLS)
    changes = [
        call("edit_cell", cell=book.ids[2], old_string="39.1", new_string="39.2"),
        call("edit_cell", cell=book.ids[3], old_string="print(mean)", new_string="print(round(mean, 1))"),
        call("write_file", path="clean.py", content="def clean(rows):\n    return rows\n"),
    ]
    stage.model.will_reply(call("read_notebook"), answer(calls=changes))
    book.run(LOAD, PROMPT)
    card = book.card("^Review 3 changes")
    card.locator("summary b").nth(1).click()


def high_risk(stage: Stage) -> None:
    """A command of several parts that can't be undone."""
    data = stage.lab.server.folder / "raw"
    data.mkdir(exist_ok=True)
    (data / "2007.csv").write_text("bill_len\n39.1\n", encoding="utf-8")
    stage.model.will_reply(call("bash", command="cd raw && ls; rm -rf ../raw; git push --force origin main"))
    stage.run().card("^Approval:").wait_for()


def question(stage: Stage) -> None:
    """A question with options."""
    options = [{"label": "Mean", "description": "39.3 mm"}, {"label": "Median", "description": "robust to outliers"}]
    asked = {"question": "Which centre should the table show?", "header": "Centre", "options": options}
    stage.model.will_reply(call("ask_user_question", questions=[asked]))
    stage.run().card("Question").wait_for()


def ended(stage: Stage) -> None:
    """The end of a run that changed cells, and what can be done about it."""
    _end_run(stage, "--yes=run_code,edit_cell,insert_cell")


def kept(stage: Stage) -> None:
    """What the notebook keeps, its steps open."""
    book = _end_run(stage, "--yes=run_code,edit_cell,insert_cell")
    for name in ("4 steps", "Edited cell", "Ran code"):
        book.output(PROMPT).get_by_text(name, exact=True).click()


def _end_run(stage: Stage, options: str) -> NotebookPage:
    book = open_prompt(stage.lab, stage.model, *CELLS, options=options)
    stage.model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=book.ids[2], old_string="39.1", new_string="39.2"),
        call("insert_cell", after=book.ids[3], source="round(mean, 1)"),
        call("run_code", code="sum(range(10))", keep=True, reason="check the sum"),
        say(FOUND),
    )
    book.run(LOAD, PROMPT)
    book.over(PROMPT)
    book.output(PROMPT).get_by_text("Done").wait_for()
    return book


def starting_points(stage: Stage) -> None:
    """What is offered on an error, the line that edits a cell, and a prompt."""
    stage.lab.open(
        "rows = [{'bill_length_mm': 39.1}]", "rows[0]['bill_len']", "%%vibe\nPlot @rows by island, **large**."
    )
    stage.lab.run(0, 1)
    stage.lab.wait_for_count_above(1, None)
    stage.lab.cell(1).get_by_role("button", name="Fix with Vibe").wait_for()
    stage.lab.cell(1).locator(".cm-content").click()
    stage.lab.page.keyboard.press("ControlOrMeta+k")


def connect(stage: Stage) -> None:
    """The form of a prompt that has no model yet."""
    book = stage.lab
    book.open(f"import os\nos.environ['VIBE_HOME'] = {str(stage.home)!r}\n%load_ext vibe_jupyter", "%%vibe\nsay hello")
    book.run(LOAD, PROMPT)
    book.output(PROMPT).get_by_role("group", name="Connect a model").wait_for()


def side_panel(stage: Stage) -> None:
    """The panel, after a run."""
    book = _end_run(stage, "--yes=run_code,edit_cell,insert_cell")
    book.command_later("vibe-jupyter:side-panel")
    stage.lab.page.locator(".vibe-panel").get_by_role("region", name="This notebook", exact=True).wait_for()


STATES: Final[tuple[tuple[str, Callable[[Stage], None]], ...]] = (
    ("A run in progress", in_progress),
    ("Approving one edit", one_edit),
    ("Reviewing several changes", several_edits),
    ("High risk", high_risk),
    ("A question", question),
    ("The end of a run", ended),
    ("The kept form", kept),
    ("Where runs start", starting_points),
    ("Connecting a model", connect),
    ("The side panel", side_panel),
)


def main() -> int:
    """Take every picture, then the sheet."""
    drawings = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    SHEET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, lab_server(Path(home)) as server, chromium() as browser:
        lab = Lab(browser.new_page(viewport={"width": WIDTHS[0], "height": HEIGHT}), server)
        for number, (title, play) in enumerate(STATES, 1):
            with ScriptedModel() as model, tempfile.TemporaryDirectory() as settings:
                stage = Stage(lab, model, Path(settings), threading.Event())
                play(stage)
                _take(lab, number)
                stage.go_on.set()
                lab.close()
            print(f"{number:2} {title}")
        page = browser.new_page(viewport={"width": (len(WIDTHS) + 1) * (SHOWN + 16), "height": HEIGHT})
        for theme in THEMES:
            sheet = SHEET / f"sheet-{theme}.html"
            sheet.write_text(_sheet(theme, drawings), encoding="utf-8")
            page.goto(sheet.as_uri())
            page.screenshot(path=sheet.with_suffix(".png"), full_page=True)
            print(sheet.with_suffix(".png").relative_to(ROOT))
    return 0


def _take(lab: Lab, number: int) -> None:
    """The page as it stands, in both themes and widths."""
    lab.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    for theme in THEMES:
        lab.theme(theme)
        for width in WIDTHS:
            lab.page.set_viewport_size({"width": width, "height": HEIGHT})
            lab.cell(PROMPT).scroll_into_view_if_needed()
            for card in lab.output(PROMPT).locator(".vibe-run .vibe-card").all():
                armed(card)
            lab.page.screenshot(path=SHEET / f"{number:02}-{theme}-{width}.png")
    lab.page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})


def _sheet(theme: str, drawings: Path | None) -> str:
    rows: list[str] = []
    for number, (title, _) in enumerate(STATES, 1):
        names = [SHEET / f"{number:02}-{theme}-{width}.png" for width in WIDTHS]
        drawn = [drawings.resolve() / f"{number:02}-{theme}.png"] if drawings is not None else []
        pictures = "".join(f'<img src="{one.as_uri()}" width="{SHOWN}" alt="">' for one in [*drawn, *names])
        rows.append(f"<h2>{number}. {escape(title)}</h2><p>{pictures}</p>")
    style = "body{font:14px sans-serif;margin:8px}img{vertical-align:top;margin-right:8px;border:1px solid gray}"
    return f"<!doctype html><title>States, {theme}</title><style>{style}</style>{''.join(rows)}"


if __name__ == "__main__":
    sys.exit(main())
