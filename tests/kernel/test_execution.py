"""Code that the agent runs in the user's kernel: what it gives, what the cell shows, what it leaves behind."""

import json
from typing import Any

import pytest

from tests.kernel.wire import Cell, Wire
from tests.patience import patient

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
FIGURE = f"display({{'image/png': {PIXEL!r}, 'text/plain': 'a figure'}}, raw=True)"


def execute(kernel: Wire, code: str, **options: Any) -> tuple[dict[str, Any], Cell]:
    """The result, and what came to the cell around it."""
    cell = kernel.run(f"print(serve_code({code!r}, **{options!r}).model_dump_json())")
    announced, result, *_ = cell.text.split("\n")
    assert announced == "serving"
    return json.loads(result), cell


def stream(text: str, name: str = "stdout") -> dict[str, str]:
    return {"output_type": "stream", "name": name, "text": text}


def test_text_is_collected_and_not_shown_in_the_cell(kernel: Wire) -> None:
    result, cell = execute(
        kernel, "import sys\nprint(1)\nprint(2, flush=True)\nprint('no', file=sys.stderr, flush=True)\nprint(3)"
    )
    assert result["outputs"] == [stream("1\n2\n"), stream("no\n", "stderr"), stream("3\n")]
    assert result["status"] == "ok"
    assert [line for line in cell.text.splitlines() if not line.startswith("{")] == ["serving"]


def test_the_last_value_is_collected_without_a_number(kernel: Wire) -> None:
    result, cell = execute(kernel, "'a' * 3")
    assert result["outputs"] == [
        {"output_type": "execute_result", "execution_count": None, "data": {"text/plain": "'aaa'"}, "metadata": {}}
    ]
    assert cell.outputs == []


@pytest.mark.parametrize("code", ["41 + 1;", "x = 1\nx;  # nothing", "%time 3;"])
def test_a_semicolon_at_the_end_keeps_the_last_value_quiet(kernel: Wire, code: str) -> None:
    result, _ = execute(kernel, code)
    assert [output for output in result["outputs"] if output["output_type"] == "execute_result"] == []


def test_a_figure_is_shown_in_the_cell_and_collected(kernel: Wire) -> None:
    result, cell = execute(kernel, f"print('before')\n{FIGURE}")
    assert [output["output_type"] for output in result["outputs"]] == ["stream", "display_data"]
    assert [message["content"]["data"]["text/plain"] for message in cell.outputs] == ["a figure"]


def test_a_plot_of_matplotlib_is_shown_and_closed_as_in_a_cell(kernel: Wire) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);"
    result, cell = execute(kernel, code)
    assert [sorted(output["data"]) for output in result["outputs"]] == [["image/png", "text/plain"]]
    assert len(cell.outputs) == 1
    assert execute(kernel, "import matplotlib.pyplot as plt\nprint(plt.get_fignums())")[0]["outputs"] == [
        stream("[]\n")
    ]


def test_a_table_in_html_is_collected_and_not_shown_in_the_cell(kernel: Wire) -> None:
    result, cell = execute(kernel, "display({'text/html': '<b>t</b>', 'text/plain': 't'}, raw=True)")
    assert result["outputs"][0]["data"] == {"text/html": "<b>t</b>", "text/plain": "t"}
    assert cell.outputs == []


def test_updates_of_a_display_are_applied(kernel: Wire) -> None:
    result, cell = execute(kernel, "h = display('one', display_id=True)\nprint('x')\nh.update('two')")
    assert [output.get("data", {}).get("text/plain") for output in result["outputs"]] == ["'two'", None]
    assert cell.outputs == []


def test_a_text_that_becomes_a_figure_is_shown(kernel: Wire) -> None:
    update = FIGURE.replace("raw=True", "raw=True, display_id='d', update=True")
    _, cell = execute(kernel, f"display('wait', display_id='d')\n{update}")
    assert [message["msg_type"] for message in cell.outputs] == ["display_data"]


def test_an_update_of_an_earlier_cells_display_reaches_it(kernel: Wire) -> None:
    kernel.run("handle = display('mine', display_id=True)")
    result, cell = execute(kernel, "handle.update('changed')")
    assert result["outputs"] == []
    assert [message["msg_type"] for message in cell.outputs] == ["update_display_data"]


def test_clearing_the_output_clears_what_the_code_put_out_and_not_the_cell(kernel: Wire) -> None:
    result, cell = execute(
        kernel, "from IPython.display import clear_output\nprint(1)\nclear_output(wait=True)\nprint(2)"
    )
    assert result["outputs"] == [stream("2\n")]
    assert cell.outputs == []


def test_messages_of_widgets_pass(kernel: Wire) -> None:
    cell = kernel.run('print(serve_code(\'comm.send({"from": "the code"})\').status)')
    request = cell.reply  # the reply is there, so everything before it came
    assert request["status"] == "ok"
    sent = [message["content"]["data"] for message in kernel.seen if message["msg_type"] == "comm_msg"]
    assert {"from": "the code"} in sent


def test_what_a_child_process_writes_is_collected(kernel: Wire) -> None:
    result, _ = execute(kernel, "import subprocess\nsubprocess.run('echo from a child', shell=True, check=True);")
    assert stream("from a child\n") in result["outputs"]


def test_a_command_and_a_magic_run_as_in_a_cell(kernel: Wire) -> None:
    result, _ = execute(kernel, "!echo hello\nn = !echo there\n%pwd\nprint(n)")
    text = "".join(output.get("text", "") for output in result["outputs"])
    assert "hello" in text.replace("\r\n", "\n")
    assert "['there']" in text


@pytest.mark.requirement("notebook.run_code.await")
def test_top_level_await_runs(kernel: Wire) -> None:
    code = "import asyncio\nasync def two():\n    await asyncio.sleep(0.01)\n    return 2\nawait two()"
    result, _ = execute(kernel, code)
    assert result["outputs"][0]["data"]["text/plain"] == "2"


def test_an_await_sees_the_loop_of_the_persons_own_objects(kernel: Wire) -> None:
    kernel.run("import asyncio\nhere = asyncio.get_running_loop()\nlock = asyncio.Lock()\nawait lock.acquire()")
    code = (
        "import asyncio\nasyncio.get_running_loop().call_later(0.05, lock.release)\nawait lock.acquire()\n"
        "print(asyncio.get_running_loop() is here)"
    )
    result, _ = execute(kernel, code)
    assert result["outputs"] == [stream("True\n")]


def test_a_click_during_an_await_is_handled_at_once(kernel: Wire) -> None:
    comm_id = kernel.run("print(comm.comm_id, end='')").text
    code = (
        "import asyncio\ntell('under way ')\nfor _ in range(500):\n    if clicks: break\n    await asyncio.sleep(0.01)"
    )
    cell = kernel.send(f"r = serve_code({code!r})\nprint(r.status, clicks)")
    kernel.until_printed(cell, "under way")
    click = kernel.comm(comm_id, "now")
    kernel.until(lambda: kernel.is_idle(click), "idle of the click")
    assert not kernel.is_idle(cell)
    assert kernel.cell(cell).text.endswith("ok ['now']\n")


@pytest.mark.requirement("notebook.run_code.scratch")
def test_names_are_taken_back_unless_they_are_kept(kernel: Wire) -> None:
    kernel.run("old, gone, items = 1, 1, []")
    code = "new = 5\nold = 2\ndel gone\nitems.append(1)\nfor _ in range(3): pass\n"
    result, _ = execute(kernel, code)
    assert (result["names_created"], result["names_changed"]) == (["new"], ["gone", "old"])
    assert kernel.run("print(old, gone, items, 'new' in globals())").text == "1 1 [1] False\n"
    result, _ = execute(kernel, code, keep=True)
    assert (result["names_created"], result["names_changed"]) == (["new"], ["gone", "old"])
    assert kernel.run("print(old, 'gone' in globals(), items, new)").text == "2 False [1, 1] 5\n"


@pytest.mark.requirement("project.kernel.shared-namespace")
def test_the_code_sees_the_persons_variables_and_the_next_cell_what_it_kept(kernel: Wire) -> None:
    kernel.run("mine = [1, 2]")
    result, _ = execute(kernel, "total = sum(mine)\ntotal", keep=True)
    assert result["outputs"][0]["data"]["text/plain"] == "3"
    assert kernel.run("print(total)").text == "3\n"


@pytest.mark.requirement("notebook.run_code.scratch")
def test_numbers_history_and_out_are_as_without_it(kernel: Wire) -> None:
    kernel.run("'before'")
    look = "print(len(In), sorted(Out), _, shell.execution_count - 1)"
    before = kernel.run(look)
    served = kernel.run("for code in ['7', '8 + 1', '1/0', 'nonsense here']: serve_code(code)")
    after = kernel.run(look)
    assert [served.count, after.count] == [before.count + 1, before.count + 2]
    numbers = before.text.split(" ", 1)[1].rsplit(" ", 1)[0]
    assert after.text == f"{int(before.text.split()[0]) + 2} {numbers} {after.count}\n"
    printed = kernel.run("serve_code('print(1); 2');").count
    assert kernel.run(f"print({printed} in getattr(shell.history_manager, 'outputs', ()))").text == "False\n"


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        ("{}['x']", "KeyError", "'x'"),
        ("1 +", "SyntaxError", "invalid syntax"),
        ("import sys\nsys.exit(3)", "SystemExit", "3"),
        ("exit()", "SystemExit", "The kernel belongs to the user"),
        ("await nothing", "NameError", "name 'nothing' is not defined"),
        ("%nonsense", "UsageError", "Line magic function `%nonsense` not found"),
        ("class E(Exception):\n    def __str__(self): raise ValueError\nraise E", "ValueError", ""),
    ],
)
def test_an_error_is_a_result_and_the_kernel_lives(kernel: Wire, code: str, name: str, message: str) -> None:
    result, cell = execute(kernel, code)
    assert result["status"] == "error"
    assert result["error"]["name"] == name
    assert message in result["error"]["message"]
    assert "\x1b" not in result["error"]["traceback"]
    assert cell.reply["payload"] == []
    assert kernel.run("print('alive')").text == "alive\n"


def test_an_error_while_a_value_is_shown_does_not_fail_the_cell_around(kernel: Wire) -> None:
    result, cell = execute(kernel, "class R:\n    def __repr__(self): raise ValueError('bad repr')\nR()")
    assert "bad repr" in str(result["outputs"])
    assert cell.reply["status"] == "ok"


def test_the_code_cannot_ask_for_new_cells_and_help_is_output(kernel: Wire) -> None:
    result, cell = execute(kernel, "get_ipython().set_next_input('print(1)')\nlen?")
    assert cell.reply["payload"] == []
    assert "Return the number of items" in str(result["outputs"])


@pytest.mark.requirement("notebook.run_code.scratch")
@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "import asyncio; await asyncio.sleep(60)",
        "!sleep 60",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: seen.append(1)\n"
        "    if len(seen) > 1: break",
    ],
    ids=["sleep", "loop", "await", "command", "swallowed once"],
)
def test_code_is_ended_when_its_time_is_over(kernel: Wire, code: str) -> None:
    kernel.run("seen = []")
    result, _ = execute(kernel, code, timeout=0.3)
    assert result["status"] == "timeout"
    assert 0.3 <= result["seconds"] < patient(3)
    assert kernel.run("print(extra_threads())").text == "set()\n"


def test_what_came_before_the_time_was_over_is_there(kernel: Wire) -> None:
    result, _ = execute(kernel, "import time\nprint('so far', flush=True)\ntime.sleep(60)", timeout=0.3)
    assert result["outputs"][0] == stream("so far\n")


def test_output_is_heard_as_it_comes(kernel: Wire) -> None:
    execute(kernel, "print('a', flush=True)\nprint('b', flush=True)\n7\n")
    assert kernel.run("print(''.join(heard))").text == "a\nb\n7\n\n"


def test_a_flood_of_output_is_bounded_and_keeps_both_ends(kernel: Wire) -> None:
    kernel.run("from vibe_jupyter.kernel.outputs import MAX_COLLECTED_OUTPUT as LIMIT")
    cell = kernel.run(
        'r = serve_code(\'print("first")\\nfor i in range(40): print("x" * 1_000_000)\\nprint("last")\')\n'
        "text = r.outputs[0]['text']\n"
        "print(len(r.outputs), text[:5], repr(text[-5:]), 'left out' in text, LIMIT * 0.9 < len(text) <= LIMIT + 100)"
    )
    assert cell.text == "serving\n1 first 'last\\n' True True\n"


@pytest.mark.parametrize("left", ["sys.__stdout__", "io.StringIO()", "None"])
def test_what_is_printed_later_is_seen_where_the_code_turned_it_elsewhere(kernel: Wire, left: str) -> None:
    execute(kernel, f"import io, sys\nsys.stdout = io.StringIO()\nprint('not this')\nsys.stdout = {left}", keep=True)
    result, _ = execute(kernel, "print('seen')")
    assert result["outputs"] == [stream("seen\n")]
    assert kernel.run("print('seen')").text == "seen\n"


def test_future_imports_of_the_code_do_not_change_the_persons_cells(kernel: Wire) -> None:
    execute(kernel, "from __future__ import annotations", keep=True)
    assert kernel.run("def f(x: int): pass\nprint(f.__annotations__)").text == "{'x': <class 'int'>}\n"
