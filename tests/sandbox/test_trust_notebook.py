"""`notebooks/trust.ipynb` with somebody there: what its text says comes true, also on the card."""

import html
import re
from pathlib import Path

import nbformat
import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import WITH_PANDAS
from tests.kernel.wire import Cell
from tests.sandbox.test_exploring_runs import ON
from tests.sandbox.test_foresight import IN_NO_HURRY
from vibe_jupyter.sandbox.availability import machine_refusal

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("exploring"),
]
NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "trust.ipynb"
FORETOLD = re.compile(r"\*(in a trial run: .*?)\*")


def shown(cell: Cell) -> str:
    """What it printed, and its value."""
    values = [message["content"].get("data", {}).get("text/plain", "") for message in cell.outputs]
    return cell.text + "".join(values)


def run(session: Session, source: str) -> tuple[str, str]:
    """Run a cell; the card on which it waits is approved. What it shows, and the card."""
    request = session.wire.send(source)
    card = ""
    if source.startswith("%%vibe\nKeep"):
        view = session.view(request)
        approval = view.card()
        card = html.unescape(view.wait_for(approval))
        view.command(type="approve", approval_id=approval)
    elif source.startswith("%%vibe"):
        session.view(request)
    cell = session.wire.cell(request)
    assert not cell.error
    return session.html(cell) if source.startswith("%%vibe") else shown(cell), card


def test_the_notebook_on_trust_shows_what_it_says(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    foretold = [words for cell in notebook.cells for words in FORETOLD.findall(cell.source)]
    with running_session(WITH_PANDAS, tmp_path) as session:
        session.wire.run(f"{ON}\n{IN_NO_HURRY}\nos.chdir({str(NOTEBOOK.parent)!r})")
        ran = [run(session, cell.source) for cell in notebook.cells if cell.cell_type == "code"]
    texts, cards = zip(*ran, strict=True)
    _, _, _, looked, rows, kept, _, with_kilograms, undone, as_before, _, verified, _ = texts
    assert "in a copy of your kernel: nothing was changed" in looked
    assert rows.endswith("344")
    assert [words for words in foretold if words not in "".join(cards)] == []
    assert foretold
    assert "denied" not in kept
    assert "'kg'" in with_kilograms
    assert undone.startswith("Undone: penguins.")
    assert "'kg'" not in as_before
    assert "'body_mass_g'" in as_before
    assert "1 different, 1 failed" in verified
