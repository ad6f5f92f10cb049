"""The notebooks we ship, run from top to bottom with nobody there."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.patience import patient
from tests.tiers import further

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_LIMIT = patient(60)  # seconds
SHOWN_ELSEWHERE = "trust.ipynb"
"""With somebody there, in tests/sandbox/test_trust_notebook.py."""


@pytest.mark.usefixtures("forked_kernels")
@pytest.mark.requirement("project.notebooks.executable")
@pytest.mark.parametrize(
    "path",
    [(further if path.name == SHOWN_ELSEWHERE else pytest.param)(path, id=path.name) for path in NOTEBOOKS],
)
def test_a_notebook_runs_to_its_end_without_a_person_and_without_a_key(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=round(CELL_LIMIT), resources={"metadata": {"path": str(path.parent)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    wishes = [cell for cell in cells if cell.source.startswith("%%vibe")]
    assert wishes
    for cell in wishes:
        assert any("text/html" in output.get("data", {}) for output in cell.outputs), cell.outputs


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_kept_without_outputs_and_in_a_valid_form(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
