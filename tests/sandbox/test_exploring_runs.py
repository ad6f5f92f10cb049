"""What the agent's `run_code` does unasked, and when it asks after all. A real kernel, a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.gateway.conftest import until
from tests.kernel.matrix import INSTALLED, WITH_PANDAS
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import call, say

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("exploring"),
]
ON = "import os\nos.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'"

LEFT = """
import psutil, time
end = time.monotonic() + 30
while (left := psutil.Process().children()) and time.monotonic() < end:
    time.sleep(0.05)
print(left)
"""
"""Prints the kernel's processes that do not end, and reaps none: asyncio waits for some of them itself."""


@pytest.fixture(scope="module")
def shared_exploring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(WITH_PANDAS, tmp_path_factory.mktemp("exploring")) as session:
        session.wire.run("import pandas as pd\nframe = pd.DataFrame({'x': [1, 2, 3]})")
        yield session


@pytest.fixture
def exploring(shared_exploring: Session) -> Session:
    """A kernel that the tests share, with the setting as it is by default; the conversation is new."""
    shared_exploring.wire.run(ON)
    shared_exploring.run("%vibe reset")
    shared_exploring.model.requests.clear()
    return shared_exploring


def result(session: Session) -> str:
    return session.model.requests[-1].tool_results[-1]


def test_code_that_looks_runs_unasked_also_where_nobody_can_answer(exploring: Session) -> None:
    exploring.model.will_reply(call("run_code", code="frame.drop(columns='x').shape"), say("Three rows."))
    cell = exploring.run("%%vibe\nhow large?")
    assert result(exploring).startswith("ok in ")
    assert "(3, 0)" in result(exploring)
    assert "in a copy of your kernel: nothing was changed" in exploring.html(cell)


def test_what_it_draws_is_shown_in_the_cell(exploring: Session) -> None:
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    exploring.model.will_reply(call("run_code", code=code), say("A line."))
    cell = exploring.run("%%vibe\ndraw")
    assert [1 for message in cell.outputs if "image/png" in message["content"].get("data", {})] == [1]


def test_what_a_copy_only_calls_a_picture_is_not_shown(exploring: Session) -> None:
    code = """display({'image/png': "x' onerror='alert(1)"}, raw=True)
display({'image/jpeg': ['a']}, raw=True)
display({'image/png': 'PHNjcmlwdD4='}, raw=True)"""
    exploring.model.will_reply(call("run_code", code=code), say("Drawn."))
    cell = exploring.run("%%vibe\ndraw")
    assert "in a copy of your kernel" in exploring.html(cell)
    assert [one for one in cell.outputs if "image" in str(one["content"].get("data", {}).keys())] == []


def test_the_first_drawing_of_a_new_user_is_made_in_a_copy_too(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "matplotlib"
    (tmp_path / "project").mkdir()
    with running_session(INSTALLED, tmp_path / "project") as session:
        session.wire.run(f"{ON}\nos.environ['MPLCONFIGDIR'] = {str(folder)!r}")
        session.model.will_reply(call("run_code", code="import matplotlib.pyplot as plt\nplt.plot([1]);"), say("Dot."))
        cell = session.run("%%vibe\ndraw")
    assert "in a copy of your kernel: nothing was changed" in session.html(cell)
    assert list(folder.glob("fontlist-*.json"))


def test_what_a_copy_may_not_do_asks_with_the_reason_on_the_card_and_then_runs_for_real(exploring: Session) -> None:
    exploring.model.will_reply(call("run_code", code="open('kept.txt', 'w').write('kept')"), say("Written."))
    request = exploring.wire.send("%%vibe\nwrite")
    view = exploring.view(request)
    approval = view.card()
    view.wait_for("a copy of the kernel may not write kept.txt")
    assert not (exploring.folder / "kept.txt").exists()
    view.command(type="approve", approval_id=approval)
    exploring.wire.cell(request)
    assert (exploring.folder / "kept.txt").read_text() == "kept"
    assert "in a copy" not in result(exploring)


def test_a_library_that_is_edited_elsewhere_is_imported_in_a_copy_and_its_data_ask(tmp_path: Path) -> None:
    library = tmp_path / "library" / "src"
    (library / "mine").mkdir(parents=True)
    (library / "mine" / "__init__.py").write_text("answer = 42\n")
    (library / "mine" / "table.csv").write_text("a,b\n")
    (tmp_path / "project").mkdir()
    with running_session(INSTALLED, tmp_path / "project") as session:
        session.wire.run(
            f"{ON}\nimport sys\nsys.path.append({str(library)!r})\nos.environ['PYTHONPATH'] = {str(library)!r}"
        )
        session.model.will_reply(
            call("run_code", code="import mine\nmine.answer"),
            call("bash", command="python3 -c 'import mine, colorsys; print(mine.answer)'"),
            call("run_code", code=f"open({str(library / 'mine' / 'table.csv')!r}).read()"),
            say("Looked."),
        )
        session.run("%%vibe\nlook")
    copy, command, data = session.model.requests[-1].tool_results
    assert "in a copy of the kernel: nothing was changed\n42\n" in copy
    assert command.startswith("returncode: 0, in a sandbox")
    assert "42" in command
    assert "a copy of the kernel may not read" in data


def test_code_whose_names_are_to_stay_asks(exploring: Session) -> None:
    exploring.model.will_reply(call("run_code", code="kept_name = 1", keep=True), say("Denied."))
    exploring.run("%%vibe\nkeep it")
    assert "nobody is here to approve it" in result(exploring)
    assert exploring.wire.run("print('kept_name' in globals())").text == "False\n"


def test_a_command_that_only_reads_runs_unasked_in_a_sandbox_also_where_nobody_can_answer(exploring: Session) -> None:
    (exploring.folder / "numbers.txt").write_text("1\n2\n")
    exploring.model.will_reply(
        call("bash", command="awk 'BEGIN {while ((getline < \"numbers.txt\") > 0) n++; print n}'")
    )
    exploring.model.will_reply(say("Two."))
    cell = exploring.run("%%vibe\ncount")
    assert result(exploring) == "returncode: 0, in a sandbox: nothing was changed\nstdout:\n2"
    assert "in a sandbox: nothing was changed" in exploring.html(cell)


def test_limits_of_the_machine_that_are_stricter_than_a_sandbox_stay(tmp_path: Path) -> None:
    # Who is not root cannot even try to raise them: no sandbox and no copy could be made.
    limits = "import resource\nfor one, most in (('FSIZE', 1 << 20), ('CPU', 300), ('NOFILE', 200)):\n"
    limits += "    resource.setrlimit(getattr(resource, f'RLIMIT_{one}'), (most, most))"
    with running_session(INSTALLED, tmp_path) as session:
        session.wire.run(f"{ON}\n{limits}")
        session.model.will_reply(
            call("bash", command="bash -c 'ulimit -H -f; ulimit -H -n'"), call("run_code", code="6 * 7"), say("Low.")
        )
        session.run("%%vibe\nhow much is allowed?")
    command, copy = session.model.requests[-1].tool_results
    assert command == "returncode: 0, in a sandbox: nothing was changed\nstdout:\n1024\n200"
    assert "in a copy of the kernel: nothing was changed\n42" in copy


def test_what_a_command_wants_beyond_that_asks_with_the_reason_and_then_runs_for_real(exploring: Session) -> None:
    exploring.model.will_reply(call("bash", command="mkdir -p made; echo x > made/out.txt"), say("Made."))
    request = exploring.wire.send("%%vibe\nmake it")
    view = exploring.view(request)
    approval = view.card()
    view.wait_for("in a sandbox it wanted to make the folder made")
    assert not (exploring.folder / "made").exists()
    view.command(type="approve", approval_id=approval)
    exploring.wire.cell(request)
    assert (exploring.folder / "made" / "out.txt").read_text() == "x\n"
    assert "sandbox" not in result(exploring)


@pytest.mark.requirement("ui.approval.trial")
def test_a_try_is_shown_as_one_and_its_card_says_in_general_what_it_needs(exploring: Session) -> None:
    script = "echo printed in the try; head -c 9 /etc/shadow; head -c 9 /etc/gshadow; exec 3<> /dev/tcp/127.0.0.1/9"
    (exploring.folder / "look.sh").write_text(f"{script}; true\n", encoding="utf-8")
    command = "bash look.sh"
    exploring.model.will_reply(call("bash", command=command), say("Denied."))
    request = exploring.wire.send("%%vibe\nlook there")
    view = exploring.view(request)
    approval = view.card()
    tried = view.wait_for("Trying it in a sandbox")
    assert "nothing can change" in tried
    card = view.wait_for(approval)
    assert "needs the network and files outside the project" in card
    assert "shadow" not in card.split('class="vibe-why"')[1].split("</span>")[0]
    sent = json.dumps([m["content"] for m in exploring.wire.of(request) if m["msg_type"] != "comm_open"])
    assert "Running" not in sent, "nothing ran yet but the try"
    view.command(type="reject", approval_id=approval)
    kept = exploring.html(exploring.wire.cell(request))
    assert "printed in the try" not in kept
    assert "it was not run" in result(exploring)


@pytest.mark.requirement("ui.approval.trial")
def test_a_run_that_ends_while_a_tried_call_waits_says_that_it_never_ran(exploring: Session) -> None:
    exploring.model.will_reply(call("bash", command="echo x > made.txt"))
    request = exploring.wire.send("%%vibe\nmake it")
    view = exploring.view(request)
    view.card()
    exploring.wire.interrupt()
    exploring.wire.cell(request)
    exploring.model.will_reply(say("Not made."))
    exploring.run("%%vibe\nwas it?")
    assert "the run was interrupted before this call started" in json.dumps(exploring.model.requests[-1].messages)


def test_where_nobody_can_answer_the_denial_says_what_a_copy_could_not_do(exploring: Session) -> None:
    exploring.model.will_reply(call("run_code", code="!touch made.txt"), say("Denied."))
    exploring.run("%%vibe\nmake it")
    assert result(exploring).endswith("(a copy of the kernel may not start a program)")
    assert not (exploring.folder / "made.txt").exists()


def test_a_secret_that_only_the_copy_knows_is_redacted(exploring: Session) -> None:
    code = "db_password = '9dKx2wLv5Tr-8qZ'[::-1]\nprint('it is', db_password)"
    exploring.model.will_reply(call("run_code", code=code), say("Read."))
    cell = exploring.run("%%vibe\nread it")
    assert "it is [redacted: " in result(exploring)
    assert "rT5vLw2xKd9" not in result(exploring) + exploring.html(cell)


@pytest.mark.parametrize(
    "switch",
    [
        "os.environ['VIBE_SANDBOX__EXPLORE'] = 'ask'",
        "os.environ['VIBE_TOOLS__RUN_CODE__PERMISSION'] = 'ask'",
        "os.environ['VIBE_TOOLS__INSPECT__PERMISSION'] = 'ask'",
        "os.environ['VIBE_DISABLED_TOOLS'] = 'read_file'",
    ],
)
def test_where_the_settings_say_so_it_asks_as_ever(exploring: Session, switch: str) -> None:
    name = switch.split("'")[1]
    exploring.wire.run(switch)
    exploring.model.will_reply(call("run_code", code="1 + 1"), say("Denied."))
    exploring.run("%%vibe\nlook")
    exploring.wire.run(f"os.environ.pop({name!r}, None)")
    assert result(exploring).startswith("Not run: it runs code in this kernel, and nobody is here to approve it.")
    assert "copy" not in result(exploring)


def test_an_interrupt_ends_the_copy_and_the_run(exploring: Session) -> None:
    exploring.model.will_reply(call("run_code", code="import time\ntime.sleep(100)", timeout=300))
    request = exploring.wire.send("%%vibe\nwait")
    view = exploring.view(request)
    view.wait_for("Trying it in a copy of the kernel")
    exploring.wire.interrupt()
    cell = exploring.wire.cell(request)
    assert "interrupted" in exploring.html(cell)
    assert exploring.wire.run(LEFT).text == "[]\n"


SLOW_FORK = """
import os, time

def wait():
    open("forking", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)

os.register_at_fork(before=wait)
"""


@pytest.mark.requirement("tools.code.copy.interrupted")
def test_an_interrupt_while_the_copy_is_made_leaves_no_copy(tmp_path: Path) -> None:
    with running_session(WITH_PANDAS, tmp_path) as session:
        session.wire.run(f"{ON}\n{SLOW_FORK}")
        session.model.will_reply(call("run_code", code="import time\ntime.sleep(100)", timeout=300))
        request = session.wire.send("%%vibe\nwait")
        until((tmp_path / "forking").exists)
        session.wire.interrupt()
        (tmp_path / "go").touch()
        assert "interrupted" in session.html(session.wire.cell(request))
        assert session.wire.run(LEFT).text == "[]\n"


@pytest.mark.requirement("agents.builtin.explore")
@pytest.mark.parametrize("who", ["plan", "explore"])
def test_an_agent_that_changes_nothing_computes_in_a_copy_alone_whatever_is_allowed(
    exploring: Session, who: str
) -> None:
    codes = ("int(frame.x.sum()) * 7", "open('no.txt', 'w').write('x')", "!touch no.txt")
    calls = [call("run_code", code=code) for code in codes] + [call("run_code", code="made_by_it = 1", keep=True)]
    whole = [*calls, say("It is 42.")]
    is_plan = who == "plan"
    exploring.model.will_reply(*(whole if is_plan else [call("task", agent=who, task="add up"), *whole, say("Yes.")]))
    exploring.run(f"%%vibe {'--agent plan ' if is_plan else ''}--yes=run_code\nadd up")

    last = exploring.model.requests[len(calls) if is_plan else len(calls) + 1]
    added, *refused = last.tool_results
    assert "42" in added
    assert len(refused) == 3
    in_copies = "Not run: run_code may only run in the sandbox here, where nothing stays (permission = sandbox)."
    assert [text for text in refused if not text.startswith(in_copies)] == []
    assert "(a copy of the kernel may not write no.txt" in refused[0]
    assert not (exploring.folder / "no.txt").exists()
    assert exploring.wire.run("print('made_by_it' in globals())").text == "False\n"


def test_a_tool_that_may_only_run_in_the_sandbox_is_not_offered_where_there_is_none(exploring: Session) -> None:
    exploring.wire.run("os.environ['VIBE_TOOLS__BASH__PERMISSION'] = 'sandbox'")
    try:
        exploring.model.will_reply(call("bash", command="mkdir made_too"), call("bash", command="ls"), say("Seen."))
        exploring.run("%%vibe --yes=bash\nlook")
        made, listed = exploring.model.requests[-1].tool_results
        assert made.startswith("Not run: bash may only run in the sandbox here")
        assert listed.startswith("returncode: 0, in a sandbox: nothing was changed")
        assert not (exploring.folder / "made_too").exists()
        exploring.wire.run("os.environ['VIBE_SANDBOX__EXPLORE'] = 'ask'")
        exploring.model.will_reply(say("Hello."))
        exploring.run("%%vibe\nhello")
        assert "bash" not in {tool["function"]["name"] for tool in exploring.model.requests[-1].body["tools"]}
    finally:
        exploring.wire.run("del os.environ['VIBE_TOOLS__BASH__PERMISSION']")
