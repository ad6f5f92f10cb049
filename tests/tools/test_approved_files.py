"""What was shown on the card is what is written, through a whole run."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.agent.conftest import Bench
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import ApprovalRequested, Approve, Reject, ToolFinished
from vibe_jupyter.testing import ScriptedModel, call, say
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.tools.write_file import WriteFileTool


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
async def bench(project: Path, model: ScriptedModel) -> AsyncIterator[Bench]:
    bench = Bench(project, model)
    files = FileAccess(Workspace(project))
    bench.tools = StaticToolset([WriteFileTool(files), SearchReplaceTool(files)])
    yield bench
    await bench.client.close()
    bench.journal.close()


EDIT = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"
CALLS = {
    "write_file": {"path": "a.txt", "content": "new\n", "overwrite": True},
    "search_replace": {"file_path": "a.txt", "content": EDIT},
}


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.parametrize("name", CALLS)
async def test_a_file_changed_while_the_card_waits_is_shown_anew_before_it_is_written(
    project: Path, bench: Bench, model: ScriptedModel, name: str
):
    place = project / "a.txt"
    place.write_text("old\n" + "same\n" * 20 + "tail\n", encoding="utf-8")
    model.will_reply(call(name, **CALLS[name]), say("Done."))
    shown: list[ApprovalRequested] = []

    def decide(request: ApprovalRequested) -> Approve:
        shown.append(request)
        if len(shown) == 1:  # far from what the edit's card shows
            place.write_text("old\n" + "same\n" * 20 + "mine\n", encoding="utf-8")
        return Approve(approval_id=request.approval_id)

    events = await bench.ask("Write.", decide=decide)

    assert len(shown) == 2
    assert shown[0].digest != shown[1].digest
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["ok"]
    text = place.read_text(encoding="utf-8")
    assert text == ("new\n" if name == "write_file" else "new\n" + "same\n" * 20 + "mine\n")


async def test_an_edit_that_cannot_be_done_asks_nobody(project: Path, bench: Bench, model: ScriptedModel):
    (project / "a.txt").write_text("other\n", encoding="utf-8")
    model.will_reply(call("search_replace", **CALLS["search_replace"]), say("Done."))

    events = await bench.ask("Edit.", decide=lambda request: pytest.fail("it asked"))

    assert not [event for event in events if isinstance(event, ApprovalRequested)]
    assert "was not found" in model.requests[1].messages[-1]["content"]


async def test_a_new_file_edited_on_the_card_is_written_as_edited(project: Path, bench: Bench, model: ScriptedModel):
    model.will_reply(call("write_file", path="a.txt", content="theirs"), say("Done."))

    await bench.ask("Write.", decide=lambda request: Approve(approval_id=request.approval_id, edited="mine"))

    assert (project / "a.txt").read_text(encoding="utf-8") == "mine"


async def test_an_edit_that_lost_its_place_while_the_card_waited_asks_nobody_again(
    project: Path, bench: Bench, model: ScriptedModel
):
    place = project / "a.txt"
    place.write_text("old\n", encoding="utf-8")
    model.will_reply(call("search_replace", **CALLS["search_replace"]), say("Done."))

    def decide(request: ApprovalRequested) -> Approve:
        place.write_text("other\n", encoding="utf-8")
        return Approve(approval_id=request.approval_id)

    events = await bench.ask("Edit.", decide=decide)

    assert sum(isinstance(event, ApprovalRequested) for event in events) == 1
    assert "was not found" in model.requests[1].messages[-1]["content"]
    assert place.read_text(encoding="utf-8") == "other\n"


@pytest.mark.attack("swapped places", always=True)
async def test_a_place_that_leads_outside_by_now_is_asked_about_as_such(
    project: Path, tmp_path_factory: pytest.TempPathFactory, bench: Bench, model: ScriptedModel
):
    outside = tmp_path_factory.mktemp("outside") / "a.txt"
    outside.write_text("theirs\n", encoding="utf-8")
    place = project / "a.txt"
    place.write_text("old\n", encoding="utf-8")
    model.will_reply(call("write_file", **CALLS["write_file"]), say("Done."))
    shown: list[ApprovalRequested] = []

    def decide(request: ApprovalRequested) -> Approve | Reject:
        shown.append(request)
        if len(shown) > 1:
            return Reject(approval_id=request.approval_id)
        place.unlink()
        place.symlink_to(outside)
        return Approve(approval_id=request.approval_id)

    await bench.ask("Write.", decide=decide)

    assert [request.remember_as for request in shown] == ["write_file", None]
    assert "outside the project" in shown[1].reason
    assert outside.read_text(encoding="utf-8") == "theirs\n"
