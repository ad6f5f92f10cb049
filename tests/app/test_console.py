"""`jupyter console` and the like: they name no cell, show each output once, and never renew it."""

from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Cell
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("console")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("console")) as session:
        yield session


def shown(cell: Cell) -> str:
    """What such a console prints of its outputs."""
    return "\n".join(
        output["content"]["data"]["text/plain"] for output in cell.outputs if output["msg_type"] == "display_data"
    )


def test_an_answer_is_shown_at_its_end(session: Session) -> None:
    session.model.will_reply(say("It weighs 4711 g."))

    cell = session.wire.cell(session.wire.send("%%vibe\nHow heavy is it?"))

    assert shown(cell).count("It weighs 4711 g.") == 1
    assert "Done" in shown(cell)


def test_an_answer_after_a_question_on_the_text_prompt_is_shown_too(session: Session) -> None:
    session.model.will_reply(call("run_code", code="6 * 7", keep=True), say("It is 42."))

    cell = session.type_in(session.wire.send("%%vibe\nHow much is it?"), "a")

    assert session.model.requests[-1].tool_results[0].splitlines()[1] == "42"
    assert shown(cell).count("It is 42.") == 1


def test_where_outputs_are_renewed_the_answer_is_there_once(session: Session) -> None:
    session.model.will_reply(say("It weighs 4711 g."))

    cell = session.wire.cell(session.wire.send("%%vibe\nHow heavy is it?"))

    last: dict[str, str] = {}
    for output in cell.outputs:
        content = output["content"]
        last[content["transient"].get("display_id", output["header"]["msg_id"])] = content["data"]["text/plain"]
    assert [text for text in last.values() if text] == [shown(cell).partition("\n")[2]]


def test_a_page_that_names_its_cell_has_the_answer_in_the_place_of_the_view(session: Session) -> None:
    session.model.will_reply(say("It weighs 4711 g."))

    cell = session.wire.cell(session.wire.send("%%vibe\nHow heavy is it?", metadata={"cellId": "named"}))

    assert len({output["content"]["transient"]["display_id"] for output in cell.outputs}) == 1
    assert "It weighs 4711 g." not in shown(cell)
