"""Clicks while a cell runs, and the cells queued behind it."""

import pytest

from tests.kernel.conftest import DRIVER
from tests.kernel.wire import Wire

AT_ONCE = 10
"""Times that a cell and a click are sent together: about one in three is read so."""
NESTING = (
    'serve_code(\'import asyncio, nest_asyncio\\nnest_asyncio.apply()\\nprint("in", flush=True)\\n'
    "asyncio.get_event_loop().run_until_complete(asyncio.sleep(0.3))')"
)
AWAITING = "serve_code('import asyncio\\nprint(\"in\", flush=True)\\nawait asyncio.sleep(0.3)')"


@pytest.fixture
def comm_id(kernel: Wire) -> str:
    return kernel.run("print(comm.comm_id, end='')").text


@pytest.fixture
def subshell(kernel: Wire) -> str:
    if kernel.run("print(getattr(shell.kernel, '_supports_kernel_subshells', False), end='')").text != "True":
        pytest.skip("this ipykernel has no subshells")
    answer = kernel.ask_control("create_subshell_request")
    return answer["subshell_id"]


@pytest.mark.requirement("project.approval.inline")
def test_a_click_is_handled_on_the_main_thread_while_the_cell_runs(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("print(serve(clicked()), click_threads)")
    kernel.until_printed(cell, "serving")
    click = kernel.comm(comm_id, "yes")
    kernel.until(lambda: kernel.is_idle(click), "idle of the click")
    assert not kernel.is_idle(cell)
    assert kernel.cell(cell).text == "serving\nclicked ['MainThread']\n"


def test_a_click_that_is_read_along_with_its_cell_is_handled_while_the_cell_runs(kernel: Wire, comm_id: str) -> None:
    for number in range(AT_ONCE):
        cell = kernel.send("print(serve(clicked()))")
        kernel.comm(comm_id, number)
        assert kernel.cell(cell).text == "serving\nclicked\n"
        assert kernel.run("print(clicks); forget()").text == f"[{number}]\n"


@pytest.mark.requirement("project.approval.inline")
def test_a_click_sent_over_a_subshell_is_handled_while_the_cell_runs(kernel: Wire, comm_id: str, subshell: str) -> None:
    cell = kernel.send("print(serve(clicked()))")
    kernel.until_printed(cell, "serving")
    kernel.comm(comm_id, "yes", subshell=subshell)
    assert kernel.cell(cell).text == "serving\nclicked\n"


def test_what_a_click_prints_lands_in_the_running_cell(kernel: Wire, comm_id: str) -> None:
    kernel.run("comm.on_msg(lambda message: (print('from the click'), on_click(message)))")
    cell = kernel.send("print(serve(clicked()))")
    kernel.until_printed(cell, "serving")
    kernel.comm(comm_id, "yes")
    assert "from the click" in kernel.cell(cell).text


def test_a_message_of_a_widget_that_is_closed_leaves_nothing_in_the_running_cell(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("print(serve(clicked()))")
    kernel.until_printed(cell, "serving")
    late = kernel.comm("closed", "alive")
    kernel.until(lambda: kernel.is_idle(late), "idle of the late message")
    kernel.comm(comm_id, "yes")
    assert kernel.cell(cell).text == "serving\nclicked\n"


def test_a_slider_that_waits_for_each_change_delivers_all_six(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("print(serve(clicked(6)), clicks)")
    kernel.until_printed(cell, "serving")
    for value in range(1, 7):
        change = kernel.comm(comm_id, value)
        kernel.until(lambda change=change: kernel.is_idle(change), f"idle of change {value}")
    assert kernel.cell(cell).text == "serving\nclicked [1, 2, 3, 4, 5, 6]\n"


def test_the_cell_is_busy_again_after_each_click(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    click = kernel.comm(comm_id, "yes")
    kernel.cell(cell)
    states = [
        ("click" if message["parent_header"].get("msg_id") == click else "cell", message["content"]["execution_state"])
        for message in kernel.seen
        if message["msg_type"] == "status" and message["parent_header"].get("msg_id") in (click, cell)
    ]
    assert states == [("cell", "busy"), ("click", "busy"), ("click", "idle"), ("cell", "busy"), ("cell", "idle")]


def test_the_control_channel_answers_while_the_cell_runs(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    assert kernel.ask_control("kernel_info_request")["language_info"]["name"] == "python"
    assert not kernel.is_idle(cell)
    kernel.comm(comm_id, "yes")
    kernel.cell(cell)


@pytest.mark.requirement("notebook.run_cell.counts")
def test_queued_cells_run_once_and_in_order_after_the_cell(kernel: Wire, comm_id: str) -> None:
    kernel.run("ran = []")
    cell = kernel.send("print(serve(clicked())); ran.append('cell')")
    queued = [kernel.send("ran.append('first')")]
    kernel.until_printed(cell, "serving")
    queued += [kernel.send("ran.append('second')"), kernel.send("ran.append('third')")]
    kernel.comm(comm_id, "yes")
    counts = [kernel.cell(request).count for request in (cell, *queued)]
    assert kernel.run("print(ran)").text == "['cell', 'first', 'second', 'third']\n"
    assert counts == list(range(counts[0], counts[0] + 4))


def test_a_completion_asked_for_meanwhile_is_answered(kernel: Wire, comm_id: str) -> None:
    kernel.run("%config Completer.use_jedi = False")  # which reads a whole grammar the first time
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    request = kernel.send_shell("complete_request", {"code": "threa", "cursor_pos": 5})
    kernel.comm(comm_id, "yes")
    assert "threading" in kernel.reply(request)["content"]["matches"]


def test_an_error_aborts_the_cells_queued_behind_it_and_no_later_one(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    requests = [cell, kernel.send("1/0"), kernel.send("print('never')"), kernel.send("print('never')")]
    kernel.comm(comm_id, "yes")
    statuses = [kernel.reply(request)["content"]["status"] for request in requests]
    assert statuses == ["ok", "error", "aborted", "aborted"]
    assert kernel.run("print('goes on')").text == "goes on\n"


def test_a_queued_cell_is_shown_to_who_watches_and_still_runs(kernel: Wire, comm_id: str) -> None:
    kernel.run("watched = []\npump.on_execute = lambda cell: bool(watched.append((cell.code, cell.cell_id)))")
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    queued = kernel.send("print('it ran')")
    kernel.comm(comm_id, "yes")
    assert kernel.cell(queued).text == "it ran\n"
    assert kernel.run("print(watched)").text == "[(\"print('it ran')\", None)]\n"


def test_a_cell_that_is_taken_leaves_the_queue(kernel: Wire, comm_id: str) -> None:
    kernel.run("pump.on_execute = lambda cell: 'mine' in cell.code")
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    kernel.send("print('mine')")
    behind = kernel.send("print('behind')")
    kernel.comm(comm_id, "yes")
    assert kernel.cell(behind).text == "behind\n"
    assert kernel.cell(behind).count == kernel.cell(cell).count + 1


def test_a_message_without_the_kernels_key_is_neither_shown_nor_served(kernel: Wire, comm_id: str) -> None:
    kernel.run("watched = []\npump.on_execute = lambda cell: bool(watched.append(cell.code))")
    cell = kernel.send("serve(clicked())")
    kernel.until_printed(cell, "serving")
    key, kernel.client.session.key = kernel.client.session.key, b"wrong"
    kernel.comm(comm_id, "forged")
    kernel.send("print('forged')")
    kernel.client.session.key = key
    kernel.comm(comm_id, "real")
    kernel.cell(cell)
    assert kernel.run("print(watched, clicks)").text == "[] ['real']\n"


def test_serving_works_in_a_cell_that_awaits(kernel: Wire, comm_id: str) -> None:
    cell = kernel.send(f"import asyncio\nawait asyncio.sleep(0)\nprint(serve(clicked()))\nprint({AWAITING}.status)")
    queued = kernel.send("print('queued')")
    kernel.until_printed(cell, "serving")
    kernel.comm(comm_id, "yes")
    assert kernel.cell(cell).text.replace("serving\n", "") == "clicked\nok\n"
    assert kernel.cell(queued).text == "queued\n"


def test_a_cell_that_serves_inside_another_is_refused(kernel: Wire) -> None:
    kernel.run("pass")
    text = kernel.run("print(serve_code('serve(clicked())').error.message)").text
    assert "one cannot start inside another" in text


def test_loading_and_serving_in_one_cell_loses_no_queued_cell(fresh_kernel: Wire) -> None:
    cell = fresh_kernel.send(f"{DRIVER}\nprint({AWAITING}.status)")
    queued = [fresh_kernel.send(f"print({number})") for number in range(3)]
    fresh_kernel.until_printed(cell, "serving")
    queued += [fresh_kernel.send(f"print({number})") for number in range(3, 6)]
    assert fresh_kernel.cell(cell).text == "serving\nok\n"
    assert [fresh_kernel.cell(request).text for request in queued] == [f"{number}\n" for number in range(6)]


def test_cells_queued_behind_code_that_nests_the_loop_run_once_and_in_order(fresh_kernel: Wire) -> None:
    if fresh_kernel.run("import sys; print(sys.version_info >= (3, 14), end='')").text == "True":
        pytest.skip("nest_asyncio loses the tasks of Python 3.14")
    fresh_kernel.run(f"{DRIVER}\nran = []")
    cell = fresh_kernel.send(f"print({NESTING}.status)")
    queued = [fresh_kernel.send(f"ran.append({number})") for number in range(3)]
    fresh_kernel.until_printed(cell, "serving")
    queued += [fresh_kernel.send(f"ran.append({number})") for number in range(3, 6)]
    assert fresh_kernel.cell(cell).text == "serving\nok\n"
    assert not any(fresh_kernel.cell(request).error for request in queued)
    assert fresh_kernel.run("print(ran)").text == "[0, 1, 2, 3, 4, 5]\n"


def test_a_second_installation_takes_the_place_of_the_first(fresh_kernel: Wire) -> None:
    fresh_kernel.run("before = get_ipython().kernel\nfrom vibe_jupyter.kernel import pump as module")
    fresh_kernel.run(
        "from vibe_jupyter.kernel.pump import find_shell_stream\n"
        "stream = find_shell_stream(get_ipython())[1]\nbare = stream._recv_callback\n"
        "first = module.Pump(get_ipython()); first.install(); first.install()"
    )
    fresh_kernel.run("import importlib; importlib.reload(module)")
    cell = fresh_kernel.send(f"{DRIVER}\npump.uninstall()\nold = Pump(shell)\nold.install()\npump.install()")
    queued = fresh_kernel.send(f"print({AWAITING}.status)")
    behind = [fresh_kernel.send(f"print({number})") for number in range(3)]
    assert not fresh_kernel.cell(cell).error
    assert fresh_kernel.cell(queued).text == "serving\nok\n"
    assert [fresh_kernel.cell(request).text for request in behind] == ["0\n", "1\n", "2\n"]
    fresh_kernel.run("pump.uninstall()")
    assert fresh_kernel.run("print(stream._recv_callback == bare)").text == "True\n"


def test_a_persons_own_nest_asyncio_does_no_harm(fresh_kernel: Wire) -> None:
    fresh_kernel.run(DRIVER)
    fresh_kernel.run("import nest_asyncio; nest_asyncio.apply()")
    comm_id = fresh_kernel.run("print(comm.comm_id, end='')").text
    cell = fresh_kernel.send(f"print(serve(clicked()))\nprint({AWAITING}.status)")
    queued = [fresh_kernel.send(f"print({number})") for number in range(3)]
    fresh_kernel.until_printed(cell, "serving")
    fresh_kernel.comm(comm_id, "yes")
    assert fresh_kernel.cell(cell).text.replace("serving\n", "") == "clicked\nok\n"
    assert [fresh_kernel.cell(request).text for request in queued] == ["0\n", "1\n", "2\n"]


def test_a_shell_without_a_kernel_is_told_apart_at_once() -> None:
    from vibe_jupyter.errors import NotebookError
    from vibe_jupyter.kernel.pump import Pump

    with pytest.raises(NotebookError, match="no Jupyter kernel"):
        Pump(object())


def test_a_kernel_that_lacks_something_is_named_with_what_it_lacks() -> None:
    from types import SimpleNamespace

    from vibe_jupyter.errors import NotebookError
    from vibe_jupyter.kernel.pump import Pump

    with pytest.raises(NotebookError, match=r"has no session.feed_identities, .*shell_stream"):
        Pump(SimpleNamespace(kernel=SimpleNamespace()))
