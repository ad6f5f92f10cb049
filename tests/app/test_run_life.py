"""However a prompt is broken into, its run ends with its cell, what it did is shown, and the next prompt works."""

import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import AS_USERS_START_IT, INSTALLED
from tests.kernel.wire import WAIT, Cell
from vibe_jupyter.testing import call, hold, say, status

pytestmark = pytest.mark.xdist_group("app")

ALARM = """\
import signal
def on_alarm(number, frame):
    raise ValueError("the alarm")  # an OSError is swallowed by an import that it comes in the middle of
signal.signal(signal.SIGALRM, on_alarm)
import os; print(os.getpid())
"""
HESITATION = 3.0
"""Seconds that a card waits."""
TOGETHER = 6
"""Times that a prompt and a click are sent together: about one in three is read so."""
STOPPED = "RunStopped: the run was stopped; the cells queued after this one do not run"
FAILED = "RunFailed: the cells queued after this one do not run (--keep-going lets them)"


def transcript(cell: Cell) -> str:
    return cell.outputs[-1]["content"]["data"]["text/plain"]


@pytest.mark.requirement("magics.interrupt.prompt-back")
@pytest.mark.parametrize("after", ["%vibe stop", "%vibe reset", "1"])
def test_an_exception_of_the_users_own_alarm_ends_the_run_with_its_cell(session: Session, after: str) -> None:
    release = threading.Event()
    session.model.will_reply(hold(release, "Thinking"), call("bash", command="touch too-late"))
    kernel = int(session.wire.run(ALARM).text)
    request = session.wire.send("%%vibe --yes=bash\ngo", allow_stdin=False)
    session.model.wait_for_request(1, WAIT)
    os.kill(kernel, signal.SIGALRM)
    cell = session.wire.cell(request)
    release.set()
    assert "the alarm" in cell.error
    assert "Stopped" in transcript(cell)
    session.run(after)
    assert "Run: none active" in session.run("%vibe status").text
    assert len(session.model.requests) == 1
    session.model._replies.clear()
    session.model.will_reply(say("Here again."))
    assert "Here again." in transcript(session.run("%vibe again"))
    assert not (session.folder / "too-late").exists()


@pytest.mark.requirement("magics.interrupt.prompt-back")
def test_an_interrupt_while_the_first_prompt_imports_shows_no_traceback_and_sends_nothing(tmp_path: Path) -> None:
    with running_session(AS_USERS_START_IT, tmp_path) as session:
        # The press comes when the first module of the app is looked for.
        session.run(
            "import signal, sys\n"
            "class Press:\n"
            "    def find_spec(name, *rest):\n"
            "        if name == 'vibe_jupyter.app.app':\n"
            "            signal.raise_signal(signal.SIGINT)\n"
            "sys.meta_path.insert(0, Press)"
        )
        cell = session.wire.cell(session.wire.send("%%vibe\ngo", allow_stdin=False))
        assert cell.error == STOPPED
        assert session.model.requests == []
        session.model.will_reply(say("Here."))
        assert "Here." in transcript(session.run("%vibe hello"))


LONG_CALL = """\
import os, time
while not os.path.exists("seen"):
    time.sleep(0.01)
"""


@pytest.mark.requirement("ui.footer.waiting")
def test_the_time_in_which_a_card_waits_is_no_working_time(session: Session) -> None:
    session.model.will_reply(call("run_code", code="1 + 1"), say("Two."))
    request = session.wire.send("%%vibe\nadd")
    view = session.view(request)
    approval = view.card()
    threading.Event().wait(HESITATION)  # time itself is what is tested
    view.command(type="approve", approval_id=approval)
    html = session.html(session.wire.cell(request))
    worked, waited = map(float, re.search(r"Done</b>.*? · ([\d.]+) s · waited ([\d.]+) s for you", html).groups())  # pyright: ignore[reportOptionalMemberAccess]
    assert waited >= HESITATION > worked


def test_the_first_run_of_a_kernel_is_on_the_screen_while_a_call_allowed_in_advance_computes(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        session.model.will_reply(call("run_code", code=LONG_CALL), say("Seen."))
        request = session.wire.send("%%vibe --yes=run_code\ngo")
        session.view(request).wait_for("Running code")
        (tmp_path / "seen").touch()
        assert "Seen." in transcript(session.wire.cell(request))


@pytest.fixture
def ask_silent_server() -> Iterator[Callable[[Session], str]]:
    """Begins a run at a server that never answers TLS's first word, so that no request is ever sent; the cell's own
    request, when the connection has begun."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(WAIT)

        def ask(session: Session) -> str:
            request = session.wire.send(f"%vibe --model=any@https://127.0.0.1:{server.getsockname()[1]} go")
            stack.enter_context(server.accept()[0])
            return request

        yield ask


def test_a_first_run_is_shown_though_its_request_cannot_be_sent_yet(
    tmp_path: Path, ask_silent_server: Callable[[Session], str]
) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        request = ask_silent_server(session)
        session.view(request)
        session.wire.interrupt()
        cell = session.wire.cell(request)
        assert cell.error == STOPPED
        assert "Retrying" not in transcript(cell), "shown only when the connection had failed"


@pytest.mark.requirement("magics.interrupt.prompt-back")
def test_a_first_run_that_is_interrupted_before_its_view_opens_is_shown_as_stopped(
    tmp_path: Path, ask_silent_server: Callable[[Session], str]
) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        session.run("from vibe_jupyter.app import run_view\nrun_view.OPEN_WITHIN = 60")
        request = ask_silent_server(session)
        session.wire.interrupt()
        cell = session.wire.cell(request)
        assert cell.error == STOPPED
        assert "Stopped" in transcript(cell)
        session.model.will_reply(say("Here."))
        assert "Here." in transcript(session.run("%vibe hello"))


def test_the_cells_behind_a_run_that_failed_do_not_run(session: Session) -> None:
    session.model.will_reply(status(400, "no"))
    request = session.wire.send("%%vibe\ngo", allow_stdin=False)
    queued = session.wire.send("print('on a wrong state')")
    cell = session.wire.cell(request)
    assert cell.error == FAILED
    assert "Failed" in transcript(cell)
    assert session.wire.cell(queued).reply["status"] == "aborted"


def test_the_cells_behind_a_prompt_that_could_not_begin_do_not_run(session: Session) -> None:
    request = session.wire.send("%%vibe --model=nowhere\ngo", allow_stdin=False)
    queued = session.wire.send("print('on a wrong state')")
    cell = session.wire.cell(request)
    assert (cell.error, "nowhere" in cell.text) == (FAILED, True)
    assert "nowhere" in cell.reply["evalue"]
    assert session.wire.cell(queued).reply["status"] == "aborted"


def test_keep_going_lets_the_cells_behind_a_failed_run_run(session: Session) -> None:
    session.model.will_reply(status(400, "no"))
    request = session.wire.send("%%vibe --keep-going --max-turns=3\ngo", allow_stdin=False)
    queued = session.wire.send("print('all the same')")
    cell = session.wire.cell(request)
    assert not cell.error
    assert "Failed" in transcript(cell)
    assert session.wire.cell(queued).text == "all the same\n"


def test_a_program_that_asks_gets_the_reply_of_a_failed_run_and_is_ended_by_an_interrupt(session: Session) -> None:
    session.model.will_reply(status(400, "no"))
    assert session.run("import vibe_jupyter; print(vibe_jupyter.ask('go').reason)").text == "error\n"
    release = threading.Event()
    session.model.requests.clear()
    session.model.will_reply(hold(release, "Thinking"))
    code = "for question in 'first', 'second':\n    vibe_jupyter.ask(question)"
    request = session.wire.send(code, allow_stdin=False)
    session.model.wait_for_request(1)
    session.wire.interrupt()
    cell = session.wire.cell(request)
    release.set()
    assert cell.error == STOPPED
    assert len(session.model.requests) == 1


def test_a_name_that_is_no_text_does_not_keep_prompts_from_working(session: Session) -> None:
    session.model.will_reply(call("run_code", code="globals()[2] = 3"), say("Here."))
    session.run("globals()[1] = 2")
    try:
        assert "Here." in transcript(session.run("%%vibe --yes=run_code\nlook"))
    finally:
        session.run("for number in (1, 2): globals().pop(number, None)")


def test_a_dict_that_grows_while_it_is_looked_through_fails_no_run(session: Session) -> None:
    session.run(
        "import gc\n"
        "grown = {n: [n] for n in range(5_000)}\n"
        "def grow(phase, info): grown[len(grown)] = [0]\n"
        "gc.callbacks.append(grow)"
    )
    session.model.will_reply(call("run_code", code="count = len(grown)", keep=True), say("Counted."))
    cell = session.run("%%vibe --yes=run_code\ncount it")
    session.run("gc.callbacks.remove(grow)\ndel grown, grow")
    assert not cell.error
    assert "Counted." in transcript(cell)


def test_code_of_a_run_cannot_take_the_extension_away_from_under_it_nor_begin_a_run_beside_it(session: Session) -> None:
    tried = ("%reload_ext vibe_jupyter", "%unload_ext vibe_jupyter", "import vibe_jupyter; vibe_jupyter.ask('beside')")
    session.model.will_reply(*(call("run_code", code=code, keep=True) for code in tried), say("It stays."))
    cell = session.run("%%vibe --yes=run_code\nreload")
    assert "It stays." in transcript(cell)
    reloaded, unloaded, asked = session.model.requests[3].tool_results
    assert "so the extension stays loaded" in reloaded
    assert "so the extension stays loaded" in unloaded
    assert "A run is active in this kernel already." in asked
    assert len(session.model.requests) == 4
    session.model.will_reply(say("Here again."))
    assert "Here again." in transcript(session.run("%vibe again"))


@pytest.mark.requirement("load.unload.memory")
def test_nothing_of_the_extension_stays_in_memory_after_it_was_unloaded(session: Session) -> None:
    counted = "import gc; gc.collect(); print(sum(type(one).__name__ == 'VibeMagics' for one in gc.get_objects()))"
    there: list[str] = []
    for _ in range(3):
        session.model.will_reply(say("Hello."))
        session.run("%%vibe\nhello")
        there.append(session.run(f"%reload_ext vibe_jupyter\n{counted}").text)
    assert len(set(there)) == 1, there  # a traceback of an earlier cell may hold one


def test_code_with_a_prompt_in_it_is_refused_before_it_does_anything(session: Session) -> None:
    code = "done = 1\n%vibe --yes=run_code do it all again"
    session.model.will_reply(call("run_code", code=code, keep=True), call("run_code", cod="1"), say("Understood."))
    cell = session.run("%%vibe --yes=run_code\ngo")
    assert "Understood." in transcript(cell)
    first, second = session.model.requests[2].tool_results
    assert "a run cannot start another" in first
    assert "there is no argument 'cod', did you mean 'code'?" in second
    assert session.run("print('done' in dir())").text == "False\n"


@pytest.mark.parametrize("ask", ["input('Who? ')", "__import__('getpass').getpass('Who? ')"])
def test_the_time_of_code_does_not_run_while_it_asks_the_user(session: Session, ask: str) -> None:
    timeout = 0.5
    code = f"name = {ask}\nprint('Hello,', name)"
    session.model.will_reply(call("run_code", code=code, timeout=timeout), say("Seen."))
    request = session.wire.send("%%vibe --yes=run_code\ngo", allow_stdin=True)
    session.wire.client.get_stdin_msg(timeout=WAIT)
    threading.Event().wait(3 * timeout)  # the user takes longer than the code may
    session.wire.client.input("Ada")
    assert "Seen." in transcript(session.wire.cell(request))
    assert "Hello, Ada" in session.model.requests[1].tool_results[0]


@pytest.mark.parametrize(
    ("called", "ask"), [("input", "input('Who? ')"), ("getpass", "__import__('getpass').getpass()")]
)
def test_code_that_asks_where_nobody_can_type_is_told_what_to_do_instead(
    session: Session, called: str, ask: str
) -> None:
    session.model.will_reply(call("run_code", code=ask), say("Seen."))
    session.run("%%vibe --yes=run_code\ngo")
    told = session.model.requests[1].tool_results[0]
    assert f"{called}() was called, but nobody can type here. Set the value in the code" in told.split("\n")[0]
    assert "vibe_jupyter" not in told


def test_code_that_runs_on_after_a_late_answer_has_all_of_its_time(session: Session) -> None:
    timeout = 4.0
    code = "name = input('Who? ')\nimport time; time.sleep(1.5)\nprint('Hello,', name)"
    session.model.will_reply(call("run_code", code=code, timeout=timeout), say("Seen."))
    request = session.wire.send("%%vibe --yes=run_code\ngo", allow_stdin=True)
    session.wire.client.get_stdin_msg(timeout=WAIT)
    threading.Event().wait(timeout)  # the user takes as long as the code may
    session.wire.client.input("Ada")
    assert "Seen." in transcript(session.wire.cell(request))
    assert "Hello, Ada" in session.model.requests[1].tool_results[0]


def test_code_that_runs_on_after_an_answer_still_has_its_limit(session: Session) -> None:
    code = "input('Who? ')\nimport time; time.sleep(60)"
    session.model.will_reply(call("run_code", code=code, timeout=0.5), say("Seen."))
    cell = session.type_in(session.wire.send("%%vibe --yes=run_code\ngo", allow_stdin=True), "Ada")
    assert "Seen." in transcript(cell)
    assert session.model.requests[1].tool_results[0].startswith("timeout after 0.5 s")


def test_the_traceback_of_code_that_took_too_long_shows_no_frames_of_ours(session: Session) -> None:
    code = "def slow():\n    while True: pass\nslow()"
    session.model.will_reply(call("run_code", code=code, timeout=0.3), say("Seen."))
    session.run("%%vibe --yes=run_code\ngo")
    told = session.model.requests[1].tool_results[0]
    assert "in slow()" in told
    assert "vibe_jupyter" not in told


def test_a_command_that_an_interrupt_reaches_while_it_starts_is_ended(session: Session) -> None:
    # The press comes when the child is there and IPython has not yet begun to wait for it.
    session.run(
        "import os, signal, pexpect\n"
        "class Spawn(pexpect.spawn):\n"
        "    def __init__(self, *args, **more):\n"
        "        super().__init__(*args, **more)\n"
        "        started.append(self.pid)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "started, original = [], pexpect.spawn\n"
        "pexpect.spawn = Spawn"
    )
    session.model.will_reply(call("run_code", code="!sleep 300"))
    cell = session.wire.cell(session.wire.send("%%vibe --yes=run_code\ngo", allow_stdin=False))
    assert cell.error == STOPPED
    session.run("pexpect.spawn = original; os.waitpid(started[0], 0)")  # it has ended: else this waits


def test_a_click_that_comes_along_with_a_prompt_is_answered_while_it_runs(session: Session) -> None:
    wire = session.wire
    wire.run(
        "def echo(comm, message):\n"
        "    comm.on_msg(lambda message: comm.send(message['content']['data']))\n"
        "get_ipython().kernel.comm_manager.register_target('echo', echo)"
    )
    wire.send_shell("comm_open", {"comm_id": "echo-1", "target_name": "echo", "data": {}})
    for number in range(TOGETHER):
        answered = threading.Event()
        session.model.will_reply(hold(answered, "Waiting"))
        request = wire.send("%vibe hello")
        wire.comm("echo-1", number)
        wire.until(lambda number=number: any(one["content"].get("data") == number for one in wire.seen), "its answer")
        answered.set()
        wire.cell(request)
