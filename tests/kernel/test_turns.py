"""The main thread is lent between cells: in its turn, under the cell that offers it, and given back."""

import pytest

from tests.kernel.wire import Wire

OFFER = """
from vibe_jupyter.kernel import main_thread as turns_module
from vibe_jupyter.kernel.main_thread import KernelBusy, MainThreadTurns

turns = MainThreadTurns(shell.kernel, main_thread)
turns.install()
offered = shell.kernel.get_parent("shell")["header"]["msg_id"]
came = []

async def in_turn(function):
    async with turns.turn():
        return await main_thread.call(function)

def ask(function):
    future = asyncio.run_coroutine_threadsafe(in_turn(function), engine)
    future.add_done_callback(note)
    return future

def note(done):
    came.append("cancelled" if done.cancelled() else done.exception() or done.result())

def name():
    return threading.current_thread().name
"""
CLOSE = "asyncio.run_coroutine_threadsafe(turns.close(), engine).result(5)"


@pytest.fixture
def offered(kernel: Wire) -> str:
    """The request of the cell that offers turns."""
    request = kernel.send(OFFER)
    kernel.cell(request)
    return request


@pytest.fixture
def comm_id(kernel: Wire) -> str:
    return kernel.run("print(comm.comm_id, end='')").text


def until(kernel: Wire, expression: str) -> None:
    """Let the kernel come to rest until this holds there."""
    for _ in range(500):
        if kernel.run(f"print(bool({expression}))").text == "True\n":
            return
    raise AssertionError(kernel.run(f"print({expression!r}, came)").text)


def test_work_is_done_on_the_main_thread_while_no_cell_runs(kernel: Wire, offered: str) -> None:
    kernel.run("for _ in range(3): ask(name)")
    until(kernel, "came == ['MainThread'] * 3")


def test_a_turn_waits_for_the_running_cell_and_the_queue_still_runs_in_order(kernel: Wire, offered: str) -> None:
    code = "order = ['first']; asked = ask(lambda: list(order)); time.sleep(0.2); print(asked.done())"
    cells = [
        kernel.send(code),
        kernel.send("order.append('second')"),
        kernel.send("order.append('third'); print(order)"),
    ]
    texts = [kernel.cell(one).text for one in cells]
    assert (texts[0], texts[2]) == ("False\n", "['first', 'second', 'third']\n")
    until(kernel, "came and came[0][0] == 'first'")


def test_a_turn_does_not_come_in_the_middle_of_an_asynchronous_cell(kernel: Wire, offered: str) -> None:
    code = "asked = ask(name)\nfor _ in range(20): await asyncio.sleep(0.01)\nprint(asked.done())"
    assert kernel.run(code).text == "False\n"
    until(kernel, "came == ['MainThread']")


def test_a_turn_comes_also_behind_a_cell_that_fails(kernel: Wire, offered: str) -> None:
    cells = [kernel.send("asked = ask(name); time.sleep(0.2); 1 / 0"), kernel.send("print('aborted')")]
    assert [kernel.cell(one).text for one in cells][1] == ""
    until(kernel, "came == ['MainThread']")


def test_what_a_turn_prints_stands_under_the_cell_that_offered_it(kernel: Wire, offered: str) -> None:
    kernel.run("ask(lambda: print('from a turn', flush=True))")
    kernel.until_printed(offered, "from a turn")
    assert kernel.run("print('mine')").text == "mine\n"


def test_turns_take_no_number(kernel: Wire, offered: str) -> None:
    before = kernel.run("None").count
    kernel.run("ask(lambda: shell.run_cell('1 + 1', store_history=False))")
    until(kernel, "len(came) == 1")
    lines = kernel.run("print(len(In), shell.execution_count)").text.split()
    assert int(lines[0]) - 1 == int(lines[1]) - (lines[0] == lines[1])
    assert kernel.run("None").count > before


def test_cells_that_come_during_a_turn_run_after_it_in_order(kernel: Wire, offered: str) -> None:
    kernel.run(
        "def nested():\n"
        "    print('lent', flush=True); time.sleep(0.4)\n"
        "    code = 'import asyncio; await asyncio.sleep(0.05)'\n"
        "    return runner.run(code, keep=False, timeout=None, on_output=lambda text: None).status\n"
        "nested_call = ask(nested)"
    )
    kernel.until_printed(offered, "lent")
    cells = [kernel.send(f"print({n}, came)") for n in range(3)]
    assert [kernel.cell(one).text for one in cells] == [f"{n} ['ok']\n" for n in range(3)]


def test_clicks_are_served_during_a_turn(kernel: Wire, offered: str, comm_id: str) -> None:
    kernel.run(
        "async def click_in_turn():\n"
        "    async with turns.turn():\n"
        "        await main_thread.call(lambda: print('lent', flush=True))\n"
        "        came.append(await clicked())\n"
        "click = asyncio.run_coroutine_threadsafe(click_in_turn(), engine)"
    )
    kernel.until_printed(offered, "lent")
    kernel.comm(comm_id, "pressed")
    until(kernel, "came == ['clicked'] and clicks == ['pressed']")


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
@pytest.mark.parametrize("code", ["while True: pass", "time.sleep(60)", "await asyncio.sleep(60)"])
def test_a_turn_ends_when_it_is_interrupted_or_nobody_waits_any_more(
    kernel: Wire, offered: str, code: str, how: str
) -> None:
    begin = "tell('lent')" + ("; engine.call_soon_threadsafe(asked.cancel)" if how == "cancel" else "")
    code = f"{begin}\n{code}"
    kernel.run(
        "turns.on_interrupt = lambda: came.append('pressed')\n"
        "def run():\n"
        "    serving_cell.append(shell.kernel.get_parent('shell'))\n"
        f"    return runner.run({code!r}, keep=False, timeout=None, on_output=lambda text: None).status\n"
        "asked = ask(run)"
    )
    kernel.until_printed(offered, "lent")
    if how == "interrupt":
        kernel.interrupt()
    assert kernel.run("print('free')").text == "free\n"
    until(kernel, f"sorted(came) == {['interrupted', 'pressed'] if how == 'interrupt' else ['cancelled']}")
    kernel.run("came.clear(); ask(name)")
    until(kernel, "came == ['MainThread']")


def test_a_kernel_that_stays_busy_says_so_and_does_the_work_no_more(kernel: Wire, offered: str) -> None:
    kernel.run(
        "kept, turns_module.BUSY_WAIT = turns_module.BUSY_WAIT, 0.1\n"
        "ask(lambda: came.append('too late'))\ntime.sleep(0.4)\nturns_module.BUSY_WAIT = kept"
    )
    assert kernel.run("print([type(one).__name__ for one in came])").text == "['KernelBusy']\n"


def test_when_it_is_closed_no_turn_comes(kernel: Wire, offered: str) -> None:
    kernel.run(CLOSE)
    assert kernel.run("print(turns_module.TURN in shell.kernel.shell_handlers)").text == "False\n"
