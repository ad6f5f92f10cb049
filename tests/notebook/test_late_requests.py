"""A page that was asked to run a cell sends the request when the run is over: nothing may run unasked."""

from collections.abc import Callable

import pytest

from tests.notebook.page import Page

OpenPage = Callable[..., Page]

COUNT = "times = globals().get('times', 0) + 1"


def opened(open_page: OpenPage) -> Page:
    """A notebook with one cell, which counts its runs."""
    page = open_page(COUNT)
    page.run("times = 0")
    return page


def times(page: Page) -> str:
    return page.run("print(times)").text


def stop_when_asked(page: Page, then: Callable[[], object] = lambda: None) -> None:
    """The agent asks for the cell; the page answers when the user has stopped the run, and the run is over."""
    outer = page.add("print(serve(run_in_place('#1')))")

    def stop(method: str) -> None:
        if method == "run":
            page.wire.interrupt()
            page.until(lambda: bool(outer.status), "the end of the run")
            then()

    page.before = stop
    page.press(outer)
    page.until(lambda: bool(outer.status) and "run" in {one["method"] for one in page.asked}, "the stopped run")
    assert outer.text == "interrupted\n"


@pytest.mark.attack("late requests", always=True)
def test_a_cell_that_the_page_starts_after_the_run_was_stopped_does_not_run(open_page: OpenPage) -> None:
    page = opened(open_page)
    stop_when_asked(page)
    page.until(lambda: bool(page.cells[0].status), "the answer to the late request")
    assert (page.cells[0].status, times(page)) == ("aborted", "0\n")


def test_the_user_can_run_that_cell_afterwards(open_page: OpenPage) -> None:
    page = opened(open_page)
    stop_when_asked(page)
    page.until(lambda: bool(page.cells[0].status), "the answer to the late request")
    page.press(page.cells[0])
    page.until(lambda: bool(page.cells[0].status), "the user's own run")
    assert (page.cells[0].status, times(page)) == ("ok", "1\n")


def test_the_users_own_run_of_that_cell_in_between_is_not_taken_for_the_pages(open_page: OpenPage) -> None:
    page = opened(open_page)
    stop_when_asked(page, then=lambda: page.press(page.cells[0]))  # the page then refuses: it runs already
    page.until(lambda: bool(page.cells[0].status), "the user's own run")
    assert (page.cells[0].status, times(page)) == ("ok", "1\n")


@pytest.mark.attack("late requests", always=True)
def test_a_request_that_was_held_back_past_the_end_of_the_run_does_not_run_the_code_again(open_page: OpenPage) -> None:
    page = opened(open_page)
    page.run("from vibe_jupyter.kernel import nested_cells as module; module.REQUEST_COMES_WITHIN = 0.2")
    page.sends_requests = False
    outer = page.run("print(serve(run_in_place('#1')))")
    assert " here, " in outer.text
    page.run("module.REQUEST_COMES_WITHIN = 5.0")
    page.send_held()
    page.until(lambda: bool(page.cells[0].status), "the answer to the late request")
    assert (page.cells[0].status, times(page)) == ("aborted", "1\n")


@pytest.mark.attack("late requests", always=True)
def test_where_the_page_never_says_what_it_sent_one_request_in_time_counts_as_its_own(open_page: OpenPage) -> None:
    page = opened(open_page)

    def server_runs_the_cell() -> None:
        page.answers = False
        page.press(page.cells[0])

    stop_when_asked(page, then=server_runs_the_cell)
    page.until(lambda: bool(page.cells[0].status), "the answer to the late request")
    assert page.cells[0].status == "aborted"
    page.press(page.cells[0])
    page.until(lambda: bool(page.cells[0].status), "the user's own run")
    assert (page.cells[0].status, times(page)) == ("ok", "1\n")


def test_an_unanswered_request_of_long_ago_does_not_take_what_the_user_runs(open_page: OpenPage) -> None:
    page = opened(open_page)
    stop_when_asked(page, then=lambda: setattr(page, "answers", False))
    page.run("from vibe_jupyter.kernel import nested_cells as late; kept = late.IN_DOUBT; late.IN_DOUBT = 0.0")
    page.press(page.cells[0])
    page.until(lambda: bool(page.cells[0].status), "the user's own run")
    page.run("late.IN_DOUBT = kept")
    assert (page.cells[0].status, times(page)) == ("ok", "1\n")
