"""External clients work on the cells of the page: as they read them, in their place, under the same card."""

from collections.abc import Callable, Iterator

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import Screen, Served
from tests.mcp_server.outsider import Outsider, text
from tests.notebook.page import Page, PageCell


@pytest.fixture
def screen(served: Served) -> Screen:
    return Screen(served, page=Page(served.session.wire, "first = 1", "second = first + 1", "third = 3"))


def done(screen: Screen, outsider: Outsider, name: str, /, *, allow: bool = False, **arguments: object) -> str:
    """A whole call, allowed where it asks; fails where the result is an error."""
    call = outsider.start(name, **arguments)
    if allow:
        screen.allow()
    screen.page.until(call.done, f"the end of {name}")
    result = call.result(WAIT)
    assert not result.is_error, text(result)
    return text(result)


def test_the_notebook_is_read_as_the_page_shows_it(screen: Screen, outsider: Outsider) -> None:
    listed = done(screen, outsider, "read_notebook")
    assert all(cell.source in listed for cell in screen.page.cells)
    assert "third = 3" in done(screen, outsider, "read_notebook", cells=[screen.page.cells[2].id])


def test_a_cell_is_edited_and_run_in_its_place_after_one_card(screen: Screen, outsider: Outsider) -> None:
    cell = screen.page.cells[0]
    done(screen, outsider, "read_notebook", cells=[cell.id])
    edit = {"cell": cell.id, "source": "first = 40\nprint('ran', first)", "run": True}
    said = done(screen, outsider, "edit_cell", allow=True, **edit)
    assert "ran 40" in said
    screen.page.until(lambda: cell.text == "ran 40\n", "the output")
    assert cell.source == edit["source"]
    after = screen.page.run("first + 2")
    assert after.text == "42\n"
    assert after.count == (cell.count or 0) + 1


def test_what_it_never_read_or_the_person_changed_since_is_not_overwritten(screen: Screen, outsider: Outsider) -> None:
    cell = screen.page.cells[1]
    call = outsider.start("edit_cell", cell=cell.id, source="gone")
    screen.page.until(call.done, "the end of the call")
    assert call.result(WAIT).is_error
    screen.page.type_into(cell, "second = 22")
    call = outsider.start("edit_cell", cell=cell.id, source="gone")
    screen.page.until(call.done, "the end of the call")
    assert call.result(WAIT).is_error
    assert "second = 22" in text(call.result(WAIT))
    assert cell.source == "second = 22"


def test_what_another_agent_read_is_not_read(
    screen: Screen, outsider: Outsider, connect: Callable[..., Outsider]
) -> None:
    cell = screen.page.cells[1]
    done(screen, outsider, "read_notebook", cells=[cell.id])
    screen.page.type_into(cell, "second = 22")
    other = connect(screen.served, name="another")
    done(screen, other, "read_notebook", cells=[cell.id])
    call = outsider.start("edit_cell", cell=cell.id, source="gone")
    screen.page.until(call.done, "the end of the call")
    assert call.result(WAIT).is_error
    done(screen, other, "edit_cell", allow=True, cell=cell.id, source="second = 23")
    assert cell.source == "second = 23"


def test_cells_put_in_one_after_the_other_are_moved_and_deleted(screen: Screen, outsider: Outsider) -> None:
    done(screen, outsider, "read_notebook")
    for source in ("a = 1", "b = 2"):
        done(screen, outsider, "insert_cell", allow=True, after="end", source=source)
    assert [cell.source for cell in screen.page.cells[-2:]] == ["a = 1", "b = 2"]
    a, b = screen.page.cells[-2:]
    done(screen, outsider, "move_cells", allow=True, cells=[b.id], after="top")
    assert screen.page.cells[0] == b
    done(screen, outsider, "delete_cells", allow=True, cells=[a.id])
    assert a not in screen.page.cells


def test_cells_are_run_in_their_place_and_the_persons_own_wait(screen: Screen, outsider: Outsider) -> None:
    slow = screen.page.add("import time; time.sleep(0.5); 'slow'")
    done(screen, outsider, "read_notebook")
    call = outsider.start("run_cells", cells=[slow.id])
    screen.allow()
    screen.page.until(lambda: slow.running, "the start of the cell")
    own = screen.page.add("'mine'")
    screen.page.press(own)
    screen.page.until(call.done, "the end of the call")
    screen.page.until(lambda: bool(own.status), "the end of the user's cell")
    assert (slow.text, own.text) == ("'slow'\n", "'mine'\n")
    assert own.count == (slow.count or 0) + 1


@pytest.fixture
def on_page(session: Session) -> Iterator[tuple[Screen, PageCell]]:
    """Served by a cell of the page itself."""
    session.wire.run("%vibe reset")
    page = Page(session.wire, "first = 1", "%vibe mcp serve --url", "last = 3")
    cell = page.cells[1]
    view = session.view(page.press(cell))
    page.until(lambda: bool(cell.status), "the end of the serving cell")
    yield Screen(Served(session, cell.request, view, cell.text), page=page), cell
    session.wire.run("%vibe reset")


def test_cells_put_below_the_prompt_stand_below_the_serving_cell_in_order(
    on_page: tuple[Screen, PageCell], connect: Callable[..., Outsider]
) -> None:
    screen, cell = on_page
    outsider = connect(screen.served)
    done(screen, outsider, "read_notebook")
    for source in ("a = 1", "b = 2"):
        done(screen, outsider, "insert_cell", allow=True, after="prompt", source=source)
    assert [one.source for one in screen.page.cells] == ["first = 1", cell.source, "a = 1", "b = 2", "last = 3"]


def test_a_page_that_was_loaded_anew_is_shown_the_view_and_has_the_end_of_it(
    on_page: tuple[Screen, PageCell], connect: Callable[..., Outsider]
) -> None:
    screen, cell = on_page
    page = screen.page
    connect(screen.served).call("inspect")
    shown: list[dict[str, object]] = []
    setattr(page, "_answer_show", lambda _message, **args: shown.append(args) or {})  # noqa: B010
    page.tell("vibe_bridge_event", {"event": "hello"})
    page.until(lambda: bool(shown), "the view")
    assert shown[0]["cell"] == cell.id
    page.run("%vibe mcp serve stop")
    page.until(lambda: "<b>Stopped</b>" in str(cell.outputs), "the kept form under the serving cell")
