"""Notebooks with and without hidden state, verified: the cells that are told are those that differ when run again.

Half of them were made, with a state that was planted; half have the order of runs of public notebooks. Which cells
differ is found in another way, by running them in a new shell of this process.
"""

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import nbformat

from tests.notebook.notebook_runs import RECORDED, LiveNotebook, recorded_notebook
from tests.notebook.planted_state import PLANTED
from vibe_jupyter.headless import NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.fresh_run import FreshRun
from vibe_jupyter.headless.notebook_run import KernelProcess
from vibe_jupyter.notebook.verification import CellVerdict

COUNT = 100
_ONLY_HERE = "%%doubled"
"""A magic that a kernel does not have."""
Ran = tuple[LiveNotebook, str]
"""A notebook as it was left, and what it is called."""


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    made = [name for name, (sources, _) in PLANTED.items() if _ONLY_HERE not in "".join(sources)]
    lines = [line for line in RECORDED.read_text(encoding="utf-8").split("\n") if line and not line.startswith("#")]
    counts = Counter[str]()
    for number in range(count):
        name = chosen.choice(made) if number % 2 else chosen.choice(lines)
        notebook = _planted(name) if number % 2 else recorded_notebook(name)
        expected = notebook.differing_from_top()
        told = [one.cell for one in _verified(notebook) if one.kind in ("differs", "error")]
        half = "planted" if number % 2 else "recorded"
        counts += Counter(
            {f"{half} right": len(set(told) & set(expected)), half: len(expected), f"{half} told": len(told)}
        )
        if told != expected:
            yield f"try {number}, {name}: told {told}, differing are {expected}"
    for half in ("planted", "recorded"):
        right, differing, all_told = counts[f"{half} right"], counts[half], counts[f"{half} told"]
        recall, precision = right / max(differing, 1), right / max(all_told, 1)
        print(f"{half}: {differing} cells differ, recall {recall:.3f}, precision {precision:.3f}")


def _planted(name: str) -> LiveNotebook:
    sources, deeds = PLANTED[name]
    notebook = LiveNotebook(sources)
    for deed in deeds:
        notebook.do(deed)
    return notebook


def _verified(notebook: LiveNotebook) -> list[CellVerdict]:
    """Run it in a kernel as it was run here, then verify what that kernel left."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "notebook.ipynb")
        ids = list(dict.fromkeys([cell.id for cell in notebook.cells] + [cell_id for cell_id, _ in notebook.runs]))
        cells = [nbformat.v4.new_code_cell("", id=cell_id) for cell_id in ids]
        document = HeadlessDocument(nbformat.v4.new_notebook(cells=cells))
        kernel = KernelProcess(None, place)
        try:
            live = NotebookRun(document, kernel, path=place.name, say=str)
            for cell_id, source in notebook.runs:
                document.cell(cell_id)["source"] = source
                live.run_cell(cell_id)
        finally:
            kernel.close()
        left = {cell.id: cell.source for cell in notebook.cells}
        document.cells[:] = [{**document.cell(cell_id), "source": source} for cell_id, source in left.items()]
        kernel = KernelProcess(None, place)
        try:
            return list(FreshRun(document, NotebookRun(document, kernel, path=place.name, say=str), None).verdicts())
        finally:
            kernel.close()
