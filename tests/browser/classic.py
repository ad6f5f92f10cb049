"""Notebook 7 as a user uses it: one notebook to a tab."""

from pathlib import Path

from tests.browser.lab import Lab

NOTEBOOKS_OWN = (
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
)
"""Exceptions of Notebook 7.6 as its page is loaded, with and without our extension."""


class Classic(Lab):
    """One page of Notebook 7, on the server of a JupyterLab."""

    def open(self, *cells: str) -> Path:
        path = self.write_notebook(*cells)
        self.show(path)
        return path

    def _load(self, path: Path) -> None:
        self.page.goto(f"{self.server.url}/notebooks/{path.name}", wait_until="domcontentloaded")

    @property
    def own_complaints(self) -> list[str]:
        """What may be for us to fix."""
        return [words for words in self.complaints if words not in NOTEBOOKS_OWN]

    def close(self) -> None:
        """Leave the notebook unsaved, and end its kernel."""
        self.page.goto("about:blank")
        self.server.end_kernels()
