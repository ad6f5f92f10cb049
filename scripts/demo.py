"""`make demo`: the main job without a key and without a network.

Executes ``notebooks/quickstart.ipynb`` with the scripted tour model. Nobody is there to click, so a settings folder of
its own allows ``run_code`` beforehand. Leaves the executed notebook and its HTML in ``artifacts/``.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat as untyped_nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

nbformat: Any = untyped_nbformat
ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"
ARTIFACTS = ROOT / "artifacts"
CELL_TIMEOUT = 120
"""Seconds a cell may take."""
ALLOWED = '[tools.run_code]\npermission = "always"\n'


def main() -> int:
    """Run it, and say what the agent said and where everything is."""
    print(f"Running {NOTEBOOK.relative_to(ROOT)} with the tour model: a script on this machine, no key, no network.")
    with tempfile.TemporaryDirectory() as home:
        Path(home, "config.toml").write_text(ALLOWED, encoding="utf-8")
        os.environ.update(VIBE_HOME=home, IPYTHONDIR=str(Path(home, "ipython")))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        resources = {"metadata": {"path": str(NOTEBOOK.parent)}}
        quiet = ["--log-level=ERROR"]
        NotebookClient(notebook, timeout=CELL_TIMEOUT, resources=resources, extra_arguments=quiet).execute()
    ARTIFACTS.mkdir(exist_ok=True)
    executed = ARTIFACTS / "quickstart.ipynb"
    page = executed.with_suffix(".html")
    nbformat.write(notebook, executed)
    html, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    page.write_text(html, encoding="utf-8")
    for cell in notebook.cells:
        if cell.source.startswith("%%vibe"):
            print("\n" + cell.source)
            print("\n".join(_plain(output) for output in cell.outputs))
    print(f"\nThe executed notebook: {executed.relative_to(ROOT)}\nThe same as a page:    {page.relative_to(ROOT)}")
    return 0


def _plain(output: dict[str, Any]) -> str:
    return output.get("data", {}).get("text/plain", "") or output.get("text", "")


if __name__ == "__main__":
    sys.exit(main())
