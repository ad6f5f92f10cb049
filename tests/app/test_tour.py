"""The tour on data of the person's own."""

import pytest

from tests.app.conftest import Session

pytestmark = pytest.mark.xdist_group("app")

DATA = """\
import pandas as pd
frame = pd.DataFrame({"Groß \N{PARTY POPPER} 'q'": ["a", "b"] * 50, "Höhe \N{PARTY POPPER} \\"z\\"": [1.0, 9.0] * 50})
"""


def test_the_tour_computes_also_where_columns_have_names_beyond_ascii(session: Session) -> None:
    session.run(DATA)
    cell = session.run("%%vibe --model tour --yes=run_code\nLook.")
    assert 'Höhe \N{PARTY POPPER} "z"` tells the groups apart best: 100.0 %' in str(
        cell.outputs[-1]["content"]["data"]["text/plain"]
    )
