"""The tour on data of the user's own."""

from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import WITH_PANDAS
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import ModelRequest, ScriptedAnswer
from vibe_jupyter.tour import next_reply

pytestmark = pytest.mark.xdist_group("app")

DATA = """\
import pandas as pd
frame = pd.DataFrame({"Groß \N{PARTY POPPER} 'q'": ["a", "b"] * 50, "Höhe \N{PARTY POPPER} \\"z\\"": [1.0, 9.0] * 50})
"""


@pytest.mark.matrix
def test_the_tour_computes_also_where_columns_have_names_beyond_ascii(session: Session) -> None:
    session.run(DATA)
    cell = session.run("%%vibe --model tour --yes=run_code\nLook.")
    assert 'Höhe \N{PARTY POPPER} "z"` tells the groups apart best: 100.0 %' in str(
        cell.outputs[-1]["content"]["data"]["text/plain"]
    )


def test_the_tour_says_in_one_sentence_why_the_cell_was_not_mended() -> None:
    inspected = (
        "frame: pandas DataFrame 9 × 2\n"
        "column | type | nulls | values\nkind | str | 0 | a, b\nsize | float64 | 0 | 1 to 2\nfirst "
    )
    refused = (
        "Nothing was done: cell 4 (e332a753) was changed since you read it. "
        "Read it first; this is its source now:\nframe['siz']"
    )
    results = {
        "inspect": inspected,
        "edit_cell": refused,
        "run_code": "ok\nsize  77.8",
        "insert_cell": "inserted #4 x [3] ok in 0.1 s",
    }
    messages = [{"role": "tool", "name": name, "content": content} for name, content in results.items()]
    said = next_reply(ModelRequest({"messages": messages}, {}))
    assert isinstance(said, ScriptedAnswer)
    assert "is as it was: Nothing was done: cell 4 (e332a753) was changed since you read it.\n" in said.text


@pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
def test_the_tour_says_of_its_code_what_happens_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIBE_SANDBOX__EXPLORE", "sandbox")  # other tests are asked
    with running_session(WITH_PANDAS, tmp_path) as session:
        session.run('import pandas as pd\nframe = pd.DataFrame({"kind": ["a", "b"] * 50, "size": [1.0, 9.0] * 50})')
        shown = session.html(session.run("%%vibe --model tour\nLook."))
    assert "in a copy of your kernel: nothing was changed" in shown
    assert "so it runs in a copy of your kernel" in shown
    assert "needs your approval" not in shown
