"""Cells run in their own place while another one runs: native in all they show."""

from collections.abc import Callable

import pytest

from tests.kernel.wire import WAIT, Wire
from tests.notebook.page import Message, Page, PageCell

OpenPage = Callable[..., Page]


def serve(page: Page, *references: str, more: str = "") -> PageCell:
    """Run cells from inside a cell."""
    return page.run(f"print(serve(run_in_place({', '.join(map(repr, references))}{more})))")


def test_output_stands_under_the_cell_itself(open_page: OpenPage) -> None:
    page = open_page("print('hello'); made = 6 * 7\nmade")
    cell = page.cells[0]
    outer = serve(page, cell.id)
    assert outer.text == f"ok [{cell.count}] in place, created made\n"
    assert [output["output_type"] for output in cell.outputs] == ["stream", "execute_result"]
    assert cell.text == "hello\n42\n"
    assert (cell.status, cell.running) == ("ok", False)


@pytest.mark.requirement("notebook.run_cell.counts")
def test_numbers_are_unique_and_in_follows_them(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    outer = serve(page, "#1", "#2")
    later = page.run("print(In[-2:])\nimport IPython; IPython.get_ipython().history_manager.input_hist_raw[-1]")
    counts = [cell.count for cell in page.cells]
    assert counts == list(range(counts[0], counts[0] + 4))
    assert outer.count == counts[2]
    assert "serve(run_in_place" in later.text.splitlines()[0]
    assert page.run(f"print(In[{counts[0]}], In[{counts[1]}])").text == "a = 1 b = 2\n"
    assert "not unique" not in "".join(cell.text for cell in page.cells)


@pytest.mark.requirement("notebook.run_cell.counts")
def test_cells_queued_meanwhile_run_once_and_in_order(open_page: OpenPage) -> None:
    page = open_page("done = ['mine']")
    outer = page.add("print(serve(run_in_place('#1')))")
    queued = [page.add(f"done.append({number}); print(done)") for number in (1, 2, 3)]
    page.before = lambda method: [page.press(cell) for cell in queued if method == "run"] and None
    page.press(outer)
    page.until(lambda: all(cell.status for cell in queued), "the queued cells")
    assert [cell.text for cell in queued] == ["['mine', 1]\n", "['mine', 1, 2]\n", "['mine', 1, 2, 3]\n"]
    counts = [cell.count for cell in page.cells]
    assert counts == sorted(set(counts))


def test_top_level_await_works_in_a_cell_run_in_place(open_page: OpenPage) -> None:
    page = open_page("import asyncio\nfor n in range(3):\n    await asyncio.sleep(0.01)\n    print(n)")
    outer = serve(page, "#1")
    assert outer.text.startswith("ok ")
    assert page.cells[0].text == "0\n1\n2\n"


def test_a_text_prompt_opens_in_the_cell_itself(open_page: OpenPage) -> None:
    page = open_page("name = input('who? '); print('hello', name)")
    page.typed.append("Ada")
    outer = serve(page, "#1")
    assert outer.text.startswith("ok ")
    assert page.prompts[0]["parent_header"]["msg_id"] == page.cells[0].request
    assert page.cells[0].text == "hello Ada\n"
    assert page.run("print(asking); asking.clear()").text == "[True, False]\n"
    page.typed.append("Eve")
    assert page.run("print(input('again? '))").text == "Eve\n"


def test_an_error_stays_in_its_cell_and_stops_nobody_else(open_page: OpenPage) -> None:
    page = open_page("{}['bill_len']")
    outer = page.add("print(serve(run_in_place('#1')))")
    queued = page.add("print('still here')")
    page.press(outer)
    page.press(queued)
    page.until(lambda: bool(queued.status), "the queued cell")
    assert outer.text.startswith("error ")
    assert (page.cells[0].status, outer.status, queued.text) == ("error", "ok", "still here\n")
    assert page.cells[0].text == "KeyError: 'bill_len'\n"


def test_a_display_is_updated_where_it_stands(open_page: OpenPage) -> None:
    page = open_page("from IPython.display import display\nh = display('first', display_id=True)\nh.update('second')")
    serve(page, "#1")
    assert page.cells[0].text == "'second'\n"


def test_outputs_of_the_outer_cell_go_on_belonging_to_it(open_page: OpenPage) -> None:
    page = open_page("print('inner')")
    outer = page.run("print('before'); print(serve(run_in_place('#1'))); print('after'); 'value'")
    assert outer.text.startswith("before\nok ")
    assert outer.text.endswith("after\n'value'\n")
    assert page.cells[0].text == "inner\n"


@pytest.mark.requirement("notebook.run_cell.final")
@pytest.mark.parametrize("code", ["while True: pass", "import asyncio; await asyncio.sleep(60)", "!sleep 60"])
def test_an_interrupt_ends_the_cell_and_the_run(open_page: OpenPage, code: str) -> None:
    page = open_page(f"print('under way', flush=True)\n{code}\nprint('went on')")
    outer = page.add("print(serve(run_in_place('#1')))")
    queued = page.add("print('next')")
    page.press(outer)
    page.until(lambda: "under way" in page.cells[0].text, "the inner cell")
    page.wire.interrupt()
    page.press(queued)
    page.until(lambda: bool(queued.status and page.cells[0].status), "the end of both cells")
    assert outer.text == "interrupted\n"
    assert queued.text == "next\n"
    assert "went on" not in page.cells[0].text
    assert page.cells[0].status == "error"


@pytest.mark.requirement("notebook.run_cell.timeout")
def test_a_limit_ends_the_cell_and_says_so(open_page: OpenPage) -> None:
    page = open_page("import time; time.sleep(60)")
    outer = serve(page, "#1", more=", seconds=0.3")
    assert outer.text.startswith("timeout ")
    assert page.cells[0].text.startswith("KeyboardInterrupt")
    assert page.run("print('fine')").text == "fine\n"


class OlderPage(Page):
    """Does not say which request it sent."""

    def _answer_run(self, message: Message, cell: str, code_hash: str) -> Message:
        super()._answer_run(message, cell, code_hash)
        return {"started": True}


@pytest.mark.parametrize("kind", [Page, OlderPage])
def test_another_code_queued_for_the_cell_is_not_taken_for_it(shared_kernel: Wire, kind: type[Page]) -> None:
    page = kind(shared_kernel, "ran = 'the agent'")
    outer = page.add("print(serve(run_in_place('#1')))")
    other = page.add("ran = 'the user'; print(ran)")
    other.id = page.cells[0].id  # the user's Shift-Enter on the same cell, with other words in it
    page.before = lambda method: page.press(other) and None if method == "run" else None
    page.press(outer)
    page.until(lambda: bool(other.status), "the user's request")
    assert outer.text.startswith("ok ")
    assert page.run("print(ran)").text == "the user\n"


def test_where_no_request_comes_the_code_runs_here_and_is_not_run_again(open_page: OpenPage) -> None:
    page = open_page("times = globals().get('times', 0) + 1; print('ran')")
    page.run("from vibe_jupyter.kernel import nested_cells as module; module.REQUEST_COMES_WITHIN = 0.2; times = 0")
    page.sends_requests = False
    outer = page.add(
        "async def late():\n    said = await run_in_place('#1')\n    print('late', flush=True)\n"
        "    await asyncio.sleep(0.5)\n    return said\nprint(serve(late()))"
    )
    page.press(outer)
    page.until(lambda: "late" in outer.text, "the run without a request")
    page.send_held()
    page.until(lambda: bool(outer.status) and bool(page.cells[0].status), "both cells")
    page.run("module.REQUEST_COMES_WITHIN = 5.0")
    assert " here, created " in outer.text
    assert page.cells[0].status == "aborted"
    assert page.run("print(times)").text == "1\n"


def test_a_request_that_comes_too_late_is_answered_while_the_run_goes_on(open_page: OpenPage) -> None:
    page = open_page("times = globals().get('times', 0) + 1")
    page.run("from vibe_jupyter.kernel import nested_cells as module; module.REQUEST_COMES_WITHIN = 0.2; times = 0")
    page.sends_requests = False
    outer = page.add(
        "async def late():\n    await run_in_place('#1')\n    print('late', flush=True)\n"
        f"    await asyncio.sleep({10 * WAIT})\nprint(serve(late()))"
    )
    page.press(outer)
    page.until(lambda: "late" in outer.text, "the run without a request")
    page.send_held()
    page.until(lambda: bool(page.cells[0].status), "the answer to the request")
    assert (page.cells[0].status, outer.status) == ("aborted", "")
    page.wire.interrupt()
    page.until(lambda: bool(outer.status), "the end of the run")
    page.run("module.REQUEST_COMES_WITHIN = 5.0")
    assert page.run("print(times)").text == "1\n"


def test_exit_in_a_cell_does_not_end_the_kernel(open_page: OpenPage) -> None:
    page = open_page("exit()")
    outer = serve(page, "#1")
    assert outer.text.startswith("error ")
    assert page.run("print('alive')").text == "alive\n"


def test_two_runs_in_one_cell_keep_the_numbers_in_line(open_page: OpenPage) -> None:
    page = open_page("a = 1", "b = 2")
    page.run("print(serve(run_in_place('#1')), serve(run_in_place('#2')))")
    page.run("pass")
    counts = [cell.count for cell in page.cells]
    assert len(set(counts)) == len(counts)
    assert counts == sorted(counts)
    assert "not unique" not in "".join(cell.text for cell in page.cells)
