"""Cells that a run leaves to run behind it: the queue, the card, and the run that goes on there."""

import re
from collections.abc import Iterator

import pytest

from tests.app.conftest import APPROVAL, Session, running_session
from tests.kernel.conftest import kernels
from tests.kernel.matrix import INSTALLED, ipykernel
from tests.notebook.page import PageCell
from tests.notebook.test_agent import ClickedPage, end, prompt
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("background")


@pytest.fixture(scope="module", params=kernels()[:2])
def shared_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    target = INSTALLED if request.param == "installed" else ipykernel(request.param)
    with running_session(target, tmp_path_factory.mktemp("background")) as session:
        yield session


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def draw_card(page: ClickedPage, cell: PageCell) -> None:
    """What a page does when the run is over and its card opens."""
    page.until(lambda: "Queued." in str(cell.outputs) and page._comm(cell) in str(cell.outputs), "the card's view")
    page.say(cell, {"type": "alive"})


def leave(page: ClickedPage, session: Session, *sources: str, how: str = "click") -> PageCell:
    """A run that leaves these cells in the background, and is over."""
    cells = [page.add(source) for source in sources]
    session.model.will_reply(call("run_cells", cells=[cell.id for cell in cells], background=how), say("Queued."))
    cell = prompt(page, "%%vibe --yes=run_cells\nfit it")
    page.until(lambda: len(session.model.requests) == 2, "the result of the call")
    assert session.model.requests[1].tool_results[-1].startswith("Queued: ")
    draw_card(page, cell)
    page.until(lambda: bool(cell.status), "the end of the run")
    return cell


def card(page: ClickedPage, cell: PageCell, says: str) -> str:
    """Draw the card in a prompt's output and wait until it says this; its HTML."""
    page.say(cell, {"type": "alive"})
    page.until(
        lambda: any(says in words(html) for html in page._patches(cell)),
        f"a card that says {says!r}: {page._patches(cell)}",
    )
    return next(html for html in reversed(page._patches(cell)) if says in words(html))


def press(page: ClickedPage, cell: PageCell, shown: str, kind: str = "approve") -> None:
    found = APPROVAL.search(shown)
    assert found is not None
    page.say(cell, {"type": "command", "command": {"type": kind, "approval_id": found[1]}})


def background(session: Session) -> str:
    """What the latest request says of cells in the background."""
    said = [str(message["content"]) for message in session.model.requests[-1].messages if message["role"] == "user"]
    return "".join(re.findall(r"<background>.*?</background>", said[-1], re.DOTALL))


def test_a_cell_runs_behind_the_run_as_the_users_own_and_the_run_goes_on_at_a_click(
    shared_session: Session, page: ClickedPage
) -> None:
    cell = leave(page, shared_session, "print('fitted'); score = 0.93")
    assert "Cell #1 is queued." in str(cell.outputs)
    fit = page.cells[0]
    page.until(lambda: bool(fit.status), "the end of the cell")
    assert fit.text == "fitted\n"
    assert fit.count == cell.count + 1
    assert "Queued: #1" in shared_session.model.requests[1].tool_results[-1]

    shown = card(page, cell, "Cell #1 finished after ")
    assert "Continue" in words(shown)
    shared_session.model.will_reply(call("run_code", code="print(score)"), say("It scores 0.93."))
    press(page, cell, shown)
    page.until(lambda: len(shared_session.model.requests) == 4 or bool(page._approvals(cell)[1:]), "a card or an end")
    page.allow(cell, 2)
    page.until(lambda: "It scores 0.93." in str(cell.outputs), "the end of the second run")

    assert len(shared_session.model.requests) == 4
    assert re.search(r"cell #1 \w+ \[\d+\] ok in \d+\.\d s\nfitted\nnames created: score\n", background(shared_session))
    assert shared_session.model.requests[3].tool_results[-1].endswith("0.93")
    assert len([output for output in cell.outputs if output["output_type"] == "display_data"]) == 2


def test_where_the_user_asked_for_it_the_run_goes_on_by_itself(shared_session: Session, page: ClickedPage) -> None:
    cells = [page.add("print('first')"), page.add("print('second')")]
    shared_session.model.will_reply(
        call("run_cells", cells=[cell.id for cell in cells], background="continue"),
        say("Queued."),
        say("Both are done."),
    )
    cell = prompt(page, "%%vibe --yes=run_cells\nfit it and go on")
    page.until(lambda: all(one.status == "ok" for one in cells), "the end of the cells")
    page.until(lambda: "Both are done." in str(cell.outputs), "the end of the second run")
    assert "Cells #1, #2 finished after " in str(cell.outputs)
    assert background(shared_session).count("ok in ") == 2
    assert [one.count for one in cells] == [cell.count + 1, cell.count + 2]


def test_an_error_ends_what_waits_and_the_card_and_the_model_hear_of_it(
    shared_session: Session, page: ClickedPage
) -> None:
    cell = leave(page, shared_session, "print('so far'); 1 / 0", "print('never')")
    page.until(lambda: bool(page.cells[1].status), "the answer to the second")
    card(page, cell, "Cell #1 failed: ZeroDivisionError (")
    assert page.cells[1].text == ""

    shared_session.model.will_reply(say("It divides by zero."))
    end(page, prompt(page, "%%vibe\nwhat happened?"))
    said = background(shared_session)
    assert "error: ZeroDivisionError: division by zero\nso far\n" in said
    assert "] was not run" not in said
    assert re.search(r"cell #2 \w+ was not run: an error or \u25a0 came before it", said)


def test_a_prompt_that_comes_first_takes_the_report_and_the_card_gives_way(
    shared_session: Session, page: ClickedPage
) -> None:
    cell = leave(page, shared_session, "kept = 1")
    shown = card(page, cell, "Cell #1 finished after ")
    shared_session.model.will_reply(say("I see."), say("Nothing new."))
    end(page, prompt(page, "%%vibe\nand?"))
    assert "names created: kept" in background(shared_session)
    page.until(lambda: "Reported with a later prompt." in str(cell.outputs), "the words in its place")

    press(page, cell, shown)
    end(page, prompt(page, "%%vibe\nand now?"))
    assert background(shared_session) == ""
    assert len(shared_session.model.requests) == 4


def test_not_now_leaves_it_to_the_next_prompt(shared_session: Session, page: ClickedPage) -> None:
    cell = leave(page, shared_session, "kept = 2")
    press(page, cell, card(page, cell, "Cell #1 finished after "), "reject")
    page.until(lambda: "the next prompt reports it" in str(cell.outputs), "the words in its place")
    shared_session.model.will_reply(say("I see."))
    end(page, prompt(page, "%%vibe\nand?"))
    assert "ok in " in background(shared_session)


def test_what_the_user_interrupts_goes_on_only_when_they_say_so(shared_session: Session, page: ClickedPage) -> None:
    cell = leave(page, shared_session, "print('begun', flush=True)\nwhile True: pass", how="continue")
    page.until(lambda: "begun" in page.cells[0].text, "the cell")
    page.wire.interrupt()
    page.until(lambda: bool(page.cells[0].status), "the end of the cell")
    assert "Continue" in words(card(page, cell, "Cell #1 was interrupted ("))
    assert len(shared_session.model.requests) == 2


def test_a_run_that_the_user_stops_leaves_nothing_running(shared_session: Session, page: ClickedPage) -> None:
    fit = page.add("print('never')")
    shared_session.model.will_reply(
        call("run_cells", cells=[fit.id], background="click"), call("run_code", code="x = 1")
    )
    cell = prompt(page, "%%vibe --yes=run_cells\nfit it")
    page.until(lambda: bool(page._comm(cell)), "the view")
    page.say(cell, {"type": "alive"})
    page.until(lambda: bool(page._approvals(cell)), "a card")
    page.wire.interrupt()
    page.until(lambda: bool(cell.status and fit.status), "the end")
    assert fit.text == ""
    page.until(lambda: "Cell #1 was not run" in str(cell.outputs), "the words in the place of the card")
    shared_session.model.will_reply(say("Stopped."))
    end(page, prompt(page, "%%vibe\nwhat happened?"))
    assert "was not run: an error or ■ came before it" in background(shared_session)


def test_what_goes_on_may_leave_cells_too_and_its_card_stands_below(shared_session: Session, page: ClickedPage) -> None:
    cell = leave(page, shared_session, "first = 1")
    second = page.add("second = first + 1")
    shown = card(page, cell, "Cell #1 finished after ")
    shared_session.model.will_reply(call("run_cells", cells=[second.id], background="click"), say("Queued too."))
    press(page, cell, shown)
    page.until(lambda: "Queued too." in str(cell.outputs), "the end of the second run")
    page.until(lambda: bool(second.status), "the end of the second cell")
    page.until(lambda: "data-vibe-view" in str(cell.outputs[-1]), "a card that the page was asked to add")
    assert second.status == "ok"
    assert second.count is not None


def test_a_page_that_was_closed_meanwhile_gets_the_card_again_with_how_it_ended(
    shared_session: Session, page: ClickedPage
) -> None:
    cell = leave(page, shared_session, "import time; time.sleep(0.3); after = 1")
    comm = page._comm(cell)
    cell.outputs.clear()
    page.until(lambda: bool(page.cells[0].status), "the end of the cell")
    page.tell("vibe_bridge_event", {"id": "e1", "event": "hello"})
    page.until(lambda: comm in str(cell.outputs), "the card again")
    assert "Continue" in words(card(page, cell, "Cell #1 finished after "))


def test_status_says_how_it_stands_without_asking_a_model(shared_session: Session, page: ClickedPage) -> None:
    leave(page, shared_session, "kept = 3")
    page.until(lambda: bool(page.cells[0].status), "the end of the cell")
    status = page.run("%vibe status")
    assert "Background: Cell #1 finished after " in status.text
    assert len(shared_session.model.requests) == 2


def test_the_card_that_asks_says_that_cells_run_in_the_background(shared_session: Session, page: ClickedPage) -> None:
    only = page.add("x = 1")
    shared_session.model.will_reply(
        call("run_cells", cells=[only.id], background="continue"), say("Queued."), say("Done.")
    )
    cell = prompt(page, "%vibe go")
    assert "Run cell #1 in the background, and goes on by itself" in page.allow(cell)
    end(page, cell)
