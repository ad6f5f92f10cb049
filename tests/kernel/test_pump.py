"""Clicks while a cell runs, and the cells queued behind it."""

import pytest

from tests.kernel.wire import Wire


@pytest.mark.requirement("project.approval.inline")
def test_a_click_is_handled_on_the_main_thread_while_the_cell_runs(kernel: Wire) -> None:
    comm_id = kernel.run("print(comm.comm_id, end='')").text
    cell = kernel.send("print(serve(clicked()), click_threads)")
    kernel.until_printed(cell, "serving")
    click = kernel.comm(comm_id, "yes")
    kernel.until(lambda: kernel.is_idle(click), "idle of the click")
    assert not kernel.is_idle(cell)
    assert kernel.cell(cell).text == "serving\nclicked ['MainThread']\n"
