"""Changes of one answer that need approval are asked together, and each keeps a decision of its own."""

from pathlib import Path

import pytest

from tests.agent.conftest import Bench
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import ApprovalRequested, ApprovalResolved, Approve, Command, Reject, ToolFinished
from vibe_jupyter.testing import Call, answer, call, say
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.tools.write_file import WriteFileTool


@pytest.fixture
def bench(bench: Bench) -> Bench:
    files = FileAccess(Workspace(bench.folder))
    bench.tools = StaticToolset([WriteFileTool(files), SearchReplaceTool(files), bench.risky])
    return bench


def write(name: str, content: str = "x\n", *, overwrite: bool = False) -> Call:
    return call("write_file", path=name, content=content, overwrite=overwrite)


def replace(name: str, old: str, new: str) -> Call:
    return call("search_replace", file_path=name, old_string=old, new_string=new)


def accept(request: ApprovalRequested) -> Command:
    return Approve(approval_id=request.approval_id)


def reviews(events: list[object]) -> list[tuple[str, int | None]]:
    """What each card was about, and how many it stands with."""
    cards = [event for event in events if isinstance(event, ApprovalRequested)]
    return [(card.headline.target, card.review.size if card.review else None) for card in cards]


async def test_several_changes_are_asked_together_and_only_the_accepted_ones_are_made(bench: Bench) -> None:
    bench.model.will_reply(answer(calls=[write("a.txt"), write("b.txt"), write("c.txt")]), say("done"))

    def decide(request: ApprovalRequested) -> Command:
        if request.headline.target == "b.txt":
            return Reject(approval_id=request.approval_id, message="not this one")
        return accept(request)

    events = await bench.ask("go", decide=decide)

    kinds = [type(event) for event in events if isinstance(event, ApprovalRequested | ApprovalResolved | ToolFinished)]
    assert kinds[:3] == [ApprovalRequested] * 3
    assert kinds.index(ToolFinished) == 6, "nothing is done before all was decided"
    assert len({event.review.id for event in events if isinstance(event, ApprovalRequested) and event.review}) == 1
    assert sorted(path.name for path in bench.folder.glob("*.txt")) == ["a.txt", "c.txt"]
    results = bench.model.requests[1].tool_results
    assert "bytes_written" in results[0]
    assert "Their message: not this one" in results[1]
    assert "bytes_written" in results[2]


async def test_a_change_that_depends_on_an_earlier_one_waits_for_its_turn(bench: Bench) -> None:
    calls = [write("a.txt", "one\n"), write("b.txt"), replace("a.txt", "one", "two"), write("c.txt")]
    bench.model.will_reply(answer(calls=calls), say("done"))
    events = await bench.ask("go", decide=accept)

    assert reviews([*events]) == [("a.txt", 2), ("b.txt", 2), ("a.txt", 2), ("c.txt", 2)]
    assert (bench.folder / "a.txt").read_text(encoding="utf-8") == "two\n"


async def test_a_second_change_of_one_file_waits_even_if_it_could_be_made_first(bench: Bench) -> None:
    (bench.folder / "a.txt").write_text("old\n", encoding="utf-8")
    calls = [write("a.txt", "one\n", overwrite=True), write("b.txt"), write("a.txt", "two\n", overwrite=True)]
    bench.model.will_reply(answer(calls=calls), say("done"))
    events = await bench.ask("go", decide=accept)
    assert reviews([*events]) == [("a.txt", 2), ("b.txt", 2), ("a.txt", None)]


async def test_a_change_that_would_do_something_else_by_its_turn_is_asked_again_alone(bench: Bench) -> None:
    (bench.folder / "b.txt").write_text("old\n", encoding="utf-8")
    bench.model.will_reply(answer(calls=[write("a.txt"), replace("b.txt", "old", "new")]), say("done"))

    def decide(request: ApprovalRequested) -> Command:
        if request.headline.target == "a.txt":
            return accept(request)
        if request.review is not None:
            Path(bench.folder / "b.txt").write_text("mine\nold\n", encoding="utf-8")
        return accept(request)

    events = await bench.ask("go", decide=decide)

    assert reviews([*events]) == [("a.txt", 2), ("b.txt", 2), ("b.txt", None)]
    assert (bench.folder / "b.txt").read_text(encoding="utf-8") == "mine\nnew\n"


async def test_what_is_no_change_parts_those_before_from_those_after(bench: Bench) -> None:
    calls = [write("a.txt"), call("risky", text="run"), write("b.txt"), write("c.txt")]
    bench.model.will_reply(answer(calls=calls), say("done"))
    events = await bench.ask("go", decide=accept)
    assert reviews([*events]) == [("a.txt", None), ("run", None), ("b.txt", 2), ("c.txt", 2)]


async def test_a_single_change_has_a_card_of_its_own(bench: Bench) -> None:
    bench.model.will_reply(answer(calls=[write("a.txt")]), say("done"))
    assert reviews([*await bench.ask("go", decide=accept)]) == [("a.txt", None)]
