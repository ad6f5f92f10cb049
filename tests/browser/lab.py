"""JupyterLab as a user uses it: notebooks, cells, outputs, keys."""

import json
import os
import secrets
from pathlib import Path
from typing import Any, Literal

import nbformat
from playwright.sync_api import ConsoleMessage, Locator, Page

from tests.browser.ready import WAIT, wait_until, wait_until_ready
from tests.browser.server import REPOSITORY, LabServer

ARTIFACTS = REPOSITORY / "artifacts" / "browser"
"""Pictures for people to look at."""
TAKES_PICTURES = bool(os.environ.get("PICTURES"))
"""Whether they are taken: `PICTURES=1 make test`."""

NOT_OURS = (
    "Could not restore the debugger state",
    "Canceled future for",
    "Cannot read properties of null (reading 'promise')",  # of a rate limiter that is asked after its end
)
"""What JupyterLab itself complains of when a notebook is closed early."""

_PANEL = '[...window.jupyterapp.shell.widgets("main")].find(widget => widget.content?.model?.cells)'

KERNEL_AS_NEW = """
if "vibe_jupyter" in get_ipython().extension_manager.loaded:
    get_ipython().run_line_magic("vibe", "reset")
get_ipython().reset(new_session=True)
"""

ANSWERS = "panel => panel.sessionContext.session.kernel.requestComplete({ code: '', cursor_pos: 0 }).then(() => null)"
"""Asks the kernel, after all that the page had for it before, and waits for the answer."""

_AS_NEW = f"""sources => {{
    const panel = {_PANEL};
    const notebook = panel.content;
    const model = notebook.model.sharedModel;
    model.transact(() => {{
        model.deleteCellRange(0, model.cells.length);
        model.insertCells(0, sources.map(source => ({{ cell_type: "code", source, metadata: {{}}, outputs: [] }})));
        for (const key of Object.keys(model.metadata)) {{
            if (!["kernelspec", "language_info"].includes(key)) model.deleteMetadata(key);
        }}
    }});
    model.clearUndoHistory();
    notebook.activeCellIndex = 0;
    notebook.deselectAll();
    notebook.mode = "command";
    document.activeElement?.blur?.();
    notebook.node.querySelector(".jp-WindowedPanel-outer")?.scrollTo(0, 0);
    return panel.sessionContext.session.kernel.requestExecute({{ code: {json.dumps(KERNEL_AS_NEW)},
        store_history: false }})
        .done.then(reply => reply.content.status);
}}"""


class Lab:
    """One page of JupyterLab with one notebook in front."""

    def __init__(self, page: Page, server: LabServer) -> None:
        self.page = page
        self.server = server
        self.complaints: list[str] = []
        """Errors the page wrote to its console, and exceptions nobody caught."""
        self._kept_open: Path | None = None
        page.set_default_timeout(WAIT)
        page.on("console", self._listen)
        page.on("pageerror", lambda error: self._complain(str(error)))

    @property
    def has_kept_open(self) -> bool:
        """Whether the notebook of `open_again` is still open."""
        return self._kept_open is not None

    def open(self, *cells: str) -> Path:
        """A new notebook of these code cells, shown and its kernel idle."""
        if self.has_kept_open:
            self.close()
        return self._open_new(*cells)

    def open_file(self, path: Path) -> None:
        """Open a notebook in the page as it is; the page is loaded where it is not yet."""
        if self.has_kept_open:
            self.close()
        self._show_file(path)

    def _open_new(self, *cells: str) -> Path:
        path = self.write_notebook(*cells)
        self._show_file(path)
        return path

    def _show_file(self, path: Path) -> None:
        if not self.page.url.startswith(self.server.url):
            self.show(path)
            return
        self.page.evaluate(
            "path => { void window.jupyterapp.commands.execute('docmanager:open', { path }); }", path.name
        )
        wait_until_ready(self.page, path.name, load_anew=lambda: self._load_anew(path))

    def open_again(self, *cells: str) -> Path:
        """As `open`, or the notebook that the last test opened so, with these cells alone and its kernel like new.

        A new notebook and its kernel cost 2 s of CPU. A test that stops the kernel, sets its environment or reads the
        file takes `open`.
        """
        if self._kept_open is None or not self._is_idle(self._kept_open):
            if self.page.url.startswith(self.server.url):
                self.close()
            self._kept_open = self._open_new(*cells)
        else:
            assert self.page.evaluate(_AS_NEW, list(cells)) == "ok"
        return self._kept_open

    def write_notebook(self, *cells: str) -> Path:
        """A new file of these code cells, not opened."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.server.folder / f"{secrets.token_hex(4)}.ipynb"
        nbformat.write(notebook, path)
        return path

    def show(self, path: Path, *, runs: bool = False) -> None:
        """Reload the page with this notebook, in the midst of a run or while its kernel is idle."""
        self._load(path)
        wait_until_ready(self.page, path.name, load_anew=lambda: self._load_anew(path), runs=runs)

    def close(self) -> None:
        """Close everything that is open, unsaved, and end its kernels."""
        self._kept_open = None
        self.page.evaluate(
            """() => {
                const widgets = window.jupyterapp?.shell.widgets("main") ?? [];  // nothing was opened yet
                for (const widget of [...widgets]) {
                    if (widget.context) widget.context.model.dirty = false;
                    widget.dispose();
                }
            }"""
        )
        self.server.end_kernels()

    def run(self, *positions: int) -> None:
        """Run these cells as Shift-Enter does; returns at once."""
        for position in positions:
            self.page.evaluate(
                f"""position => {{
                    const notebook = {_PANEL}.content;
                    notebook.activeCellIndex = position;
                    notebook.deselectAll();
                    void window.jupyterapp.commands.execute("notebook:run-cell");
                }}""",
                position,
            )

    def cell(self, position: int) -> Locator:
        """A cell of the notebook in front."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell").nth(position)

    def output(self, position: int) -> Locator:
        """The output of a cell."""
        return self.cell(position).locator(".jp-Cell-outputArea")

    def outputs(self, position: int) -> list[dict[str, Any]]:
        """The outputs of a cell as the notebook would save them."""
        return self.page.evaluate(f"position => {_PANEL}.content.model.cells.get(position).outputs.toJSON()", position)

    def write(self, position: int, source: str) -> None:
        """Type a cell's source."""
        self.page.evaluate(
            f"([position, source]) => {_PANEL}.content.model.cells.get(position).sharedModel.setSource(source)",
            [position, source],
        )

    def count(self, position: int) -> int | None:
        """The execution count of a cell; None before it ran."""
        return self.page.evaluate(f"position => {_PANEL}.content.model.cells.get(position).executionCount", position)

    def wait_for_count_above(self, position: int, count: int | None) -> None:
        """Wait until a cell has run to its end once more, given the count it had before."""
        wait_until(
            self.page,
            f"""([position, count]) => {{
                const cell = {_PANEL}.content.model.cells.get(position);
                return (cell.executionCount ?? 0) > (count ?? 0) && cell.executionState !== "running";
            }}""",
            arg=[position, count],
        )

    def wait_until_idle(self) -> None:
        """Wait until the kernel has nothing to do."""
        wait_until(self.page, f"() => {_PANEL}.sessionContext.session.kernel.status === 'idle'")

    def wait_for_kernel(self) -> None:
        """Wait until a kernel that was restarted has answered.

        How it is, the page may never hear: what the kernel published at its start came before the subscription.
        """
        self.page.evaluate(f"() => ({ANSWERS})({_PANEL})")

    def interrupt(self) -> None:
        """Press ■ in the toolbar."""
        self.page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) [data-command="notebook:interrupt-kernel"]').click()

    def theme(self, name: Literal["light", "dark"]) -> None:
        """Change the colours of the page."""
        wanted = f"JupyterLab {name.capitalize()}"
        self.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", wanted)
        wait_until(
            self.page,
            "light => document.body.dataset.jpThemeLight === light && !document.getElementById('jupyterlab-splash')",
            arg=json.dumps(name == "light"),
        )

    def save(self) -> Path:
        """Write the notebook to disk, and say where."""
        name: str = self.page.evaluate(
            f"async () => {{ const panel = {_PANEL}; await panel.context.save(); return panel.context.path; }}"
        )
        return self.server.folder / name

    def picture(self, place: Locator, name: str) -> None:
        """Keep a picture for people to look at, where they asked for some."""
        if TAKES_PICTURES:
            ARTIFACTS.mkdir(parents=True, exist_ok=True)
            place.screenshot(path=ARTIFACTS / f"{name}.png")

    def pictures(self, place: Locator, name: str) -> None:
        """As `picture`, one in each theme: to change it costs as much as a short test."""
        if TAKES_PICTURES:
            for theme in ("dark", "light"):
                self.theme(theme)
                self.picture(place, f"{name}-{theme}")

    def _is_idle(self, path: Path) -> bool:
        """Whether the notebook is the one in front, with a kernel that waits."""
        return self.page.evaluate(
            f"""path => {{
                const panel = window.jupyterapp && {_PANEL};
                return panel?.context.path === path && panel.sessionContext.session?.kernel?.status === "idle";
            }}""",
            path.name,
        )

    def _load(self, path: Path) -> None:
        self.page.goto(f"{self.server.url}/lab/tree/{path.name}?reset", wait_until="domcontentloaded")

    def _load_anew(self, path: Path) -> None:
        """As a user does with a page that did not start; what that one said counts no more."""
        self._load(path)
        self.complaints.clear()

    def _listen(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._complain(message.text)

    def _complain(self, words: str) -> None:
        if not any(known in words for known in NOT_OURS):
            self.complaints.append(words)
