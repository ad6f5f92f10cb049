"""Notebook 7 as a person uses it: one notebook to a tab."""

import secrets
from pathlib import Path

import nbformat

from tests.browser.lab import Lab

NOTEBOOKS_OWN = (
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
)
"""Exceptions of Notebook 7.6 as its page is loaded, with and without our extension."""
_READY = """path => {
    const panel = [...(window.jupyterapp?.shell.widgets("main") ?? [])].find(one => one.context?.path === path);
    return panel?.content?.widgets?.length > 0 && panel.sessionContext.session?.kernel?.status === "idle";
}"""


class Classic(Lab):
    """One page of Notebook 7, on the server of a JupyterLab."""

    def open(self, *cells: str) -> Path:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        path = self.server.folder / f"{secrets.token_hex(4)}.ipynb"
        nbformat.write(notebook, path)
        self.show(path)
        return path

    def show(self, path: Path) -> None:
        self.page.goto(f"{self.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")
        self.page.wait_for_function(_READY, arg=path.name)

    @property
    def own_complaints(self) -> list[str]:
        """What may be for us to mend."""
        return [words for words in self.complaints if words not in NOTEBOOKS_OWN]

    def close(self) -> None:
        """Leave the notebook unsaved, and end its kernel."""
        self.page.goto("about:blank")
        self.server.end_kernels()
