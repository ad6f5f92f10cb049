"""External clients call the notebook's tools, and the user decides on the card of the cell that serves."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError

import pytest

from tests.app.conftest import Session
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import Served, patience, serve
from tests.mcp_server.outsider import Outsider, text
from tests.on_use import OnUse
from tests.patience import patient
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import hold, say

READS = {"read_notebook", "inspect"}
WRITES = {"edit_cell", "insert_cell", "delete_cells", "move_cells", "run_cells", "run_code"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_notebooks_tools_are_listed_with_honest_hints(
    served: Served, connect: Callable[..., Outsider], mode: str
) -> None:
    tools = {tool.name: tool for tool in connect(served, mode=mode).tools()}
    assert set(tools) == READS | WRITES
    hints = {name: tool.annotations for name, tool in tools.items()}
    assert {name for name, hint in hints.items() if hint is not None and hint.read_only_hint} == READS
    assert {name for name, hint in hints.items() if hint is not None and hint.destructive_hint} == {
        "edit_cell",
        "delete_cells",
        "run_cells",
        "run_code",
    }
    assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_look_needs_no_card(served: Served, connect: Callable[..., Outsider], mode: str) -> None:
    served.run("answer = 41")
    outsider = connect(served, mode=mode)
    result = outsider.call("inspect", names=["answer*"])
    assert (text(result), result.is_error) == ("1 variable\nanswer: int 41", False)
    assert "answer" in text(outsider.call("inspect", names=["answer"]))


def test_what_runs_waits_for_the_person_and_says_so(served: Served, outsider: Outsider) -> None:
    served.run("answer = 41")
    call = outsider.start("run_code", code="print('hello'); answer + 1", reason="to see")
    served.view.wait_for("Serving")
    served.view.wait_for("requested by an external client, “tester”")
    served.allow()
    result = call.result(WAIT)
    assert not result.is_error
    assert text(result).endswith("hello\n42")
    assert outsider.told[0] == "Waiting for the user to allow it, in the notebook."


def test_half_a_character_costs_neither_a_result_nor_what_is_told_meanwhile(served: Served, outsider: Outsider) -> None:
    call = outsider.start("run_code", code=r"import time; print('cut \ud83d', flush=True); time.sleep(1)")
    served.allow()
    told = text(call.result(WAIT))
    assert "cut \ufffd" in told
    assert "cut \ufffd" in "".join(outsider.told)


def test_a_denial_reaches_the_agent_with_the_persons_words(served: Served, outsider: Outsider) -> None:
    call = outsider.start("run_code", code="hurt = True", keep=True)
    served.deny("not today")
    result = call.result(WAIT)
    assert result.is_error
    assert text(result) == "The user denied this call; it was not run. Their message: not today"
    assert served.run("print('hurt' in dir())").text == "False\n"


def test_a_grant_for_the_session_holds_for_the_next_call_and_ends_with_reset(
    served: Served, connect: Callable[..., Outsider]
) -> None:
    outsider = connect(served)
    call = outsider.start("run_code", code="1")
    served.allow(remember="session")
    call.result(WAIT)
    assert text(outsider.call("run_code", code="2 + 3")).endswith("5")
    served.run("%vibe reset")
    again = serve(served.session)
    call = connect(again).start("run_code", code="4")
    again.deny("no")
    assert call.result(WAIT).is_error


def test_pictures_come_as_pictures(served: Served, outsider: Outsider) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    code = f"from base64 import b64decode; from IPython.display import Image; Image(b64decode('{pixel}'))"
    call = outsider.start("run_code", code=code)
    served.allow()
    pictures = [part for part in call.result(WAIT).content if part.type == "image"]
    assert [(picture.mime_type, picture.data) for picture in pictures] == [("image/png", pixel)]


def test_a_result_that_is_too_long_names_no_tool_the_client_does_not_have(served: Served, outsider: Outsider) -> None:
    call = outsider.start("run_code", code="print('\\n'.join(str(n) for n in range(20_000)))")
    served.allow()
    result = text(call.result(WAIT))
    assert "left out" in result
    assert "19999" in result
    assert "read_file" not in result


def test_without_a_page_the_advice_names_no_tool_the_client_does_not_have(served: Served, outsider: Outsider) -> None:
    result = outsider.call("read_notebook")
    assert result.is_error
    assert "vibe-jupyter doctor" in text(result)
    assert "read_file" not in text(result)


def test_what_a_call_prints_is_told_while_it_runs(served: Served, outsider: Outsider) -> None:
    code = "import time\nfor n in range(4): print('step', n, flush=True); time.sleep(0.3)"
    call = outsider.start("run_code", code=code)
    served.allow()
    call.result(WAIT)
    printed = [one for one in outsider.told if "step" in one]
    assert len(printed) > 1
    assert "step 0" in printed[0]
    assert "step 3" in printed[-1]


@pytest.mark.parametrize("arguments", [{}, {"code": 3}, {"code": "1", "timeout": -1}])
def test_wrong_arguments_are_explained_and_nobody_is_asked(
    served: Served, outsider: Outsider, arguments: dict[str, object]
) -> None:
    result = outsider.call("run_code", **arguments)
    assert result.is_error
    assert text(result).startswith("Wrong arguments for run_code: ")


def test_tools_of_the_files_and_the_shell_are_not_offered(served: Served, outsider: Outsider) -> None:
    result = outsider.call("bash", command="ls")
    assert result.is_error
    assert text(result).startswith("There is no tool 'bash'.")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_call_cancelled_on_its_card_is_over_for_the_person_too(
    served: Served, connect: Callable[..., Outsider], mode: str
) -> None:
    outsider = connect(served, mode=mode)
    call = outsider.start("run_code", code="late = True", keep=True)
    card = served.view.card()
    call.cancel()
    served.view.wait_for("interrupted")
    served.view.command(type="approve", approval_id=card)
    assert outsider.call("inspect", names=["late*"]).content[0] == OnUse("mcp_types").TextContent(text="0 variables")


@pytest.mark.parametrize("how", ["cancel", "disconnect", "interrupt"])
@pytest.mark.parametrize("code", ["while True: pass", "import asyncio; await asyncio.sleep(60)"])
def test_a_running_call_ends_when_nobody_wants_it_any_more(
    served: Served, connect: Callable[..., Outsider], how: str, code: str
) -> None:
    outsider = connect(served)
    call = outsider.start("run_code", code=f"print('be' + 'gun', flush=True)\n{code}")
    served.allow()
    served.view.wait_for("begun")
    began = time.monotonic()
    match how:
        case "cancel":
            call.cancel()
        case "disconnect":
            outsider.close()
        case _:
            served.session.wire.interrupt()
    if how == "interrupt":
        result = call.result(WAIT)
        assert result.is_error
        assert "nterrupted" in text(result)
    else:
        with pytest.raises((CancelledError, OnUse("mcp.shared.exceptions").MCPError)):
            call.result(WAIT)
    assert served.run("print('free')").text == "free\n"
    assert time.monotonic() - began < patient(5)
    assert not text(connect(served).call("inspect")).startswith("Nothing")


def test_a_call_waits_for_running_and_queued_cells_and_their_numbers_stay_in_order(
    served: Served, outsider: Outsider
) -> None:
    wire = served.session.wire
    running = wire.send("import time; print('runs', flush=True); time.sleep(1); order = ['cell']")
    queued = wire.send("order.append('queued')")
    wire.until_printed(running, "runs")
    result = outsider.call("inspect", names=["order"])
    assert "queued" in text(result)
    counts = [wire.cell(one).count for one in (running, queued, wire.send("print(1)"))]
    assert counts == list(range(counts[0], counts[0] + 3))


def test_a_kernel_that_stays_busy_is_named_and_the_next_call_works(served: Served, outsider: Outsider) -> None:
    session = served.session
    with patience(session, "vibe_jupyter.kernel.main_thread", BUSY_WAIT=0.3):
        running = session.wire.send("import time; print('runs', flush=True); time.sleep(1.5)")
        session.wire.until_printed(running, "runs")
        result = outsider.call("inspect")
        assert result.is_error
        assert text(result).startswith("Nothing was done: the kernel is busy")
        session.wire.cell(running)
    assert not outsider.call("inspect").is_error


def test_a_call_waits_until_a_prompts_run_is_over(served: Served, outsider: Outsider) -> None:
    import threading

    release = threading.Event()
    session = served.session
    session.model.will_reply(hold(release, "Thinking aloud"), say("Done."))
    request = session.wire.send("%vibe go")
    session.view(request).wait_for("aloud")
    call = outsider.start("inspect")
    release.set()
    assert "aloud" in session.html(session.wire.cell(request))
    assert not call.result(WAIT).is_error


def test_calls_of_several_agents_are_answered_one_after_the_other(
    served: Served, connect: Callable[..., Outsider]
) -> None:
    first, second = connect(served, name="one"), connect(served, name="two")
    waits = first.start("run_code", code="came = ['first']", keep=True)
    card = served.view.card()
    behind = second.start("inspect", names=["came*"])
    assert not behind.done()
    served.view.command(type="approve", approval_id=card)
    assert not waits.result(WAIT).is_error
    assert "first" in text(behind.result(WAIT))


def test_calls_are_bounded_in_number(served: Served, outsider: Outsider) -> None:
    with patience(served.session, "vibe_jupyter.mcp_server.external_run", MAX_CALLS=2, MAX_WAITING=1):
        waits = outsider.start("run_code", code="1")
        card = served.view.card()
        assert text(outsider.call("inspect")).endswith("Send them one after the other.")
        served.view.command(type="reject", approval_id=card, message="")
        assert waits.result(WAIT).is_error
        assert "its view holds no more" in text(outsider.call("inspect"))


def test_what_the_settings_forbid_is_not_offered_or_not_done(
    session: Session, connect: Callable[..., Outsider]
) -> None:
    config = session.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    more = 'disabled_tools = ["move_cells"]\n[tools.run_code]\npermission = "never"\n'
    config.write_text(more.split("\n")[0] + "\n" + before + more.split("\n", 1)[1], encoding="utf-8")
    try:
        session.wire.run("%vibe reset")
        outsider = connect(serve(session))
        assert "move_cells" not in {tool.name for tool in outsider.tools()}
        result = outsider.call("run_code", code="1")
        assert result.is_error
        assert "permission = never" in text(result)
    finally:
        config.write_text(before, encoding="utf-8")
        session.wire.run("%vibe reset")


def test_every_call_and_its_result_are_in_a_journal_of_its_own(served: Served, outsider: Outsider) -> None:
    outsider.call("inspect", names=["unheard_of*"])
    served.run("%vibe mcp serve stop")
    folders = sorted(
        (served.session.folder / "vibe" / "logs" / "session").iterdir(), key=lambda one: one.stat().st_mtime
    )
    lines = (folders[-1] / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    kinds = [line.split('"type":"', 1)[1].split('"', 1)[0] for line in lines[1:]]
    assert kinds == ["run_started", "message_added", "tool_started", "tool_finished", "message_added", "run_finished"]
    assert "unheard_of" in lines[2]
    assert served.token not in "\n".join(lines)


def test_a_click_that_the_kernel_itself_takes_between_cells_is_not_marked(served: Served, outsider: Outsider) -> None:
    call = outsider.start("run_code", code="1 / 0")
    served.allow()
    call.result()
    served.view.wait_for('data-outcome="error"')
    seen = "".join(str(message["content"]) for message in served.session.wire.seen)
    assert "by code in this kernel" not in seen


@pytest.mark.attack("code without keep")
@pytest.mark.requirement("notebook.run_code.copy-first")
@pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
def test_code_that_is_allowed_for_external_clients_runs_in_a_copy_first_and_nothing_runs_unasked(
    session: Session, connect: Callable[..., Outsider]
) -> None:
    session.wire.run("import os; items = [1]; os.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'")
    try:
        session.run("%vibe reset")
        served = serve(session)
        outsider = connect(served)
        call = outsider.start("run_code", code="items.append(2); len(items)")
        served.allow(remember="session")
        asked, allowed = text(call.result(WAIT)), text(outsider.call("run_code", code="items.append(3); len(items)"))
        assert "in a copy of the kernel: nothing was changed\n2" in asked
        assert "in a copy of the kernel: nothing was changed\n2" in allowed
        assert served.run("print(items)").text == "[1]\n"
        outsider.call("run_code", code="items.append(4)", keep=True)
        assert served.run("print(items)").text == "[1, 4]\n"
    finally:
        session.wire.run("os.environ['VIBE_SANDBOX__EXPLORE'] = 'ask'")
        session.run("%vibe reset")
