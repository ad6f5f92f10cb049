"""Results that have their content only as HTML: the model reads their text."""

import pytest

from tests.app.conftest import Session
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")

STYLER = "import pandas\npandas.DataFrame({'kind': ['a', 'b'], 'sum': [1.25, 2]}).style.format(precision=1)"
OWN = """
class Badge:
    def _repr_html_(self):
        return "<div class='badge'><b>passed</b> 3 of 4</div>"
Badge()
"""
CHART = """
class Figure:
    def _repr_mimebundle_(self, include=None, exclude=None):
        drawing = "<div id='1'></div><script>Plotly.newPlot('1', " + "[1.5]," * 5_000 + ")</script>"
        return {"text/html": drawing, "application/vnd.plotly.v1+json": {"data": []}}
Figure()
"""


def result_of(session: Session, code: str) -> list[str]:
    session.model.will_reply(call("run_code", code=code), say("Seen."))
    session.run("%vibe --yes=run_code look")
    return session.model.requests[-1].tool_results[-1].split("\n")


@pytest.mark.matrix
def test_a_styled_frame_is_read_as_a_table(session: Session) -> None:
    assert [line.strip() for line in result_of(session, STYLER)[1:4]] == ["| kind | sum", "0 | a | 1.2", "1 | b | 2.0"]


def test_an_object_that_shows_itself_as_html_alone_is_read_as_its_text(session: Session) -> None:
    assert result_of(session, OWN)[1] == "passed 3 of 4"


def test_html_that_only_draws_is_named_and_not_quoted(session: Session) -> None:
    line = result_of(session, CHART)[1]

    assert "text/html of 30,056 characters without text, application/vnd.plotly.v1+json; shown to the user]" in line
    assert len(line) < 300
