"""A notebook reads the same from the front end that shows it and from its file."""

from pathlib import Path

import nbformat
import pytest

from tests.notebook import reads
from tests.patience import patient
from vibe_jupyter.headless import NotebookRun
from vibe_jupyter.headless.document import HeadlessDocument
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.notebook_run import KernelProcess

REPOSITORY = Path(__file__).parents[2]
WAIT = patient(60.0)
"""Seconds the asking cell may take."""


@pytest.mark.usefixtures("forked_kernels")
def test_the_headless_front_end_and_the_file_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    path = tmp_path / "reads.ipynb"
    nbformat.write(reads.notebook(), path)
    document = HeadlessDocument(NotebookFile(path).notebook)
    kernel = KernelProcess("python3", path)
    try:
        outcome = NotebookRun(document, kernel, path=path.name, say=str).run_cell(reads.ASKING, timeout=WAIT)
    finally:
        kernel.close()
    assert outcome.status == "ok", outcome.error
    live, file = reads.answers("".join(output["text"] for output in document.cell(reads.ASKING)["outputs"]))
    assert file == live
