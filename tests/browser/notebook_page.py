"""One of the notebooks open in the page, with a prompt in its second cell, whichever tab is in front."""

import json
import re
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Locator, TimeoutError, expect

from tests.browser.arming import press
from tests.browser.lab import ANSWERS, WAIT, Lab
from tests.browser.ready import wait_until
from vibe_jupyter.testing import ScriptedModel

LOAD, PROMPT = 0, 1
_PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.context?.path === path)'
_CELLS = f"""path => [...{_PANEL}.content.model.cells].map(cell => ({{
    id: cell.id,
    source: cell.sharedModel.getSource(),
    count: cell.executionCount ?? null,
    state: cell.executionState ?? null,
    outputs: cell.outputs?.toJSON() ?? [],
}}))"""
_OVER = f"""([path, id]) => {{
    const panel = {_PANEL};
    const cell = [...panel.content.model.cells].find(cell => cell.id === id);
    return cell.executionState !== "running" && cell.executionCount !== null
        && panel.sessionContext.session.kernel.status === "idle";
}}"""
_SELECT = f"""([path, position]) => {{
    const panel = {_PANEL};
    window.jupyterapp.shell.activateById(panel.id);
    panel.content.activeCellIndex = position;
    panel.content.deselectAll();
    panel.content.mode = "command";
}}"""


_VARIES = re.compile(
    r'"execution_count": \d+|"model_id": "[0-9a-f]+"|\[\d+\]|\d\d:\d\d|[\d.]+ ?(?:it/s|s|ms|[µμ]s|us|ns)\b'
)


class NotebookPage:
    """A notebook by its path; `front` brings it to the front first."""

    def __init__(self, lab: Lab, path: str) -> None:
        self.lab = lab
        self.page = lab.page
        self.path = path
        self.panel: str = self.page.evaluate(f"path => {_PANEL}.id", path)
        self.ids = [cell["id"] for cell in self.cells()]

    def cells(self) -> list[dict[str, Any]]:
        """All cells as they stand now."""
        return self.page.evaluate(_CELLS, self.path)

    def find(self, cell_id: str) -> int:
        """Where a cell stands now."""
        return [cell["id"] for cell in self.cells()].index(cell_id)

    def sources(self) -> list[str]:
        return [cell["source"] for cell in self.cells()]

    def outputs(self, position: int) -> list[dict[str, Any]]:
        """As nbformat has them."""
        return self.cells()[position]["outputs"]

    def text(self, position: int) -> str:
        """What a cell printed."""
        return "".join("".join(output.get("text", "")) for output in self.outputs(position))

    def counts(self) -> list[int | None]:
        return [cell["count"] for cell in self.cells()]

    def cell(self, position: int) -> Locator:
        return self.page.locator(f'[id="{self.panel}"] .jp-Notebook .jp-Cell').nth(position)

    def output(self, position: int) -> Locator:
        return self.cell(position).locator(".jp-Cell-outputArea")

    @property
    def view(self) -> Locator:
        """The live view of the run."""
        return self.page.locator(f'[id="{self.panel}"] .vibe-run')

    def front(self, position: int = PROMPT) -> None:
        """Bring the notebook to the front, a cell active, in command mode."""
        self.page.evaluate(_SELECT, [self.path, position])
        expect(self.page.locator(f'[id="{self.panel}"]')).to_be_visible()

    def run(self, *positions: int) -> None:
        """Run cells as a user does; returns at once."""
        for position in positions:
            self.front(position)
            self.page.evaluate("() => { void window.jupyterapp.commands.execute('notebook:run-cell'); }")

    def card(self, name: str) -> Locator:
        """A card that begins so."""
        return self.view.get_by_role("group", name=re.compile(name))

    def allow(self, name: str) -> None:
        """Click on a card."""
        press(self.card(name).get_by_role("button", name="Allow once"))

    def over(self, position: int = PROMPT) -> None:
        """Wait until a cell ran to its end and the kernel is idle."""
        try:
            wait_until(self.page, _OVER, arg=[self.path, self.ids[position]], timeout=WAIT)
        except TimeoutError as error:
            status = self.call("panel => panel.sessionContext.session?.kernel?.status")
            raise AssertionError(f"The kernel is {status}, the cells are {self.cells()}") from error

    def wait_for_kernel(self) -> None:
        """As `Lab.wait_for_kernel`."""
        self.call(ANSWERS)

    def wait_for_text(self, position: int, text: str) -> None:
        """Wait until a cell has printed exactly this."""
        said = json.dumps(text)
        self.wait(
            f"panel => panel.content.model.cells.get({position}).outputs.toJSON()"
            f".map(output => [output.text].flat().join('')).join('') === {said}"
        )

    def command(self, name: str) -> None:
        """A command of JupyterLab, for the notebook in front."""
        self.page.evaluate("name => window.jupyterapp.commands.execute(name)", name)

    def command_later(self, name: str) -> None:
        """The same for one that asks something first; returns at once."""
        self.page.evaluate("name => { void window.jupyterapp.commands.execute(name); }", name)

    def call(self, function: str) -> Any:
        """A JavaScript function of the panel."""
        return self.page.evaluate(f"path => ({function})({_PANEL})", self.path)

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript function of the panel says yes."""
        wait_until(self.page, f"path => ({condition})({_PANEL})", arg=self.path)


def open_prompt(lab: Lab, model: ScriptedModel, *sources: str, options: str = "") -> NotebookPage:
    """A notebook, its prompt not yet run, these cells below it."""
    return NotebookPage(lab, lab.open_again(*_cells(model, options, sources)).name)


def open_alone(lab: Lab, model: ScriptedModel, *sources: str, options: str = "") -> NotebookPage:
    """The same with a file and a kernel of its own, for what ends a kernel, or renames or closes a notebook."""
    return NotebookPage(lab, lab.open(*_cells(model, options, sources)).name)


def open_beside(lab: Lab, model: ScriptedModel, *sources: str, options: str = "") -> NotebookPage:
    """The same in a further tab; the others stay open behind it."""
    path = lab.write_notebook(*_cells(model, options, sources))
    lab.page.evaluate("path => { void window.jupyterapp.commands.execute('docmanager:open', { path }); }", path.name)
    wait_until(
        lab.page,
        f"path => {{ const panel = {_PANEL};"
        " return panel?.content.widgets.length && panel.sessionContext.session?.kernel?.status === 'idle'; }",
        arg=path.name,
    )
    return NotebookPage(lab, path.name)


def _cells(model: ScriptedModel, options: str, sources: Sequence[str]) -> list[str]:
    return ["%load_ext vibe_jupyter", f"%%vibe {options} --model scripted@{model.url}\ngo on", *sources]


def timeless(text: str) -> str:
    """Without what differs from one run of the same code to the next: numbers of cells, ids of widgets, times."""
    return _VARIES.sub("", text)


def kept(book: NotebookPage, position: int) -> str:
    """The outputs of a cell as nbformat has them, timeless."""
    return timeless(json.dumps(book.outputs(position), ensure_ascii=False))


def drawn(book: NotebookPage, position: int) -> tuple[str, int, int]:
    """Words, pictures and widgets of a cell as they are seen, timeless."""
    output = book.output(position)
    output.evaluate("node => node.scrollIntoView()")  # what is out of sight is not drawn
    return timeless(output.inner_text()), output.locator("img").count(), output.locator(".jupyter-widgets").count()
