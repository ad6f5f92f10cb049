"""`make demo`: the main job without a key and without a network.

Runs ``notebooks/quickstart.ipynb`` with ``vibe-jupyter run`` and the scripted tour model: the agent reads the
notebook, fixes the cell that fails, computes, and puts in a cell with a plot. Nobody is there to click, so what it does
is allowed in advance. Leaves the executed notebook and its HTML in ``artifacts/``.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat as untyped_nbformat
from nbconvert import HTMLExporter

from vibe_jupyter.cli import main as vibe_jupyter

nbformat: Any = untyped_nbformat
ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"
ARTIFACTS = ROOT / "artifacts"
ALLOWED = "run_code,edit_cell,insert_cell,run_cells"


def main() -> int:
    """Run it, and say where everything is."""
    print(f"Running {NOTEBOOK.relative_to(ROOT)} with the tour model: a script on this machine, no key, no network.")
    ARTIFACTS.mkdir(exist_ok=True)
    executed = ARTIFACTS / "quickstart.ipynb"
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(VIBE_HOME=home, IPYTHONDIR=str(Path(home, "ipython")))
        code = vibe_jupyter(["run", str(NOTEBOOK), "--yes", ALLOWED, "--save-as", str(executed)])
    if code != 0:
        return code
    page = executed.with_suffix(".html")
    html, _ = HTMLExporter(embed_images=True).from_notebook_node(nbformat.read(executed, as_version=4))
    page.write_text(html, encoding="utf-8")
    print(f"\nThe executed notebook: {executed.relative_to(ROOT)}\nThe same as a page:    {page.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
