"""Shell commands in a kernel: the card, the output as it comes, and what the settings say of them."""

import html
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import WAIT
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("shell")) as session:
        yield session


def settings(session: Session) -> Path:
    return session.folder / "vibe" / "config.toml"


def ask(session: Session, command: str, wish: str = "%vibe go") -> str:
    session.run("%vibe reset")
    session.model.requests.clear()
    session.model.will_reply(call("bash", command=command), say("Done."))
    return session.wire.send(wish)


def told(session: Session) -> str:
    return session.model.requests[1].tool_results[-1]


@pytest.mark.requirement("tools.bash.permission.default")
def test_a_command_that_no_rule_allows_asks_and_the_card_shows_it_whole(shell: Session) -> None:
    command = "mkdir -p made\n" + "\n".join(f"touch made/file{number}" for number in range(60))
    request = ask(shell, command)
    view = shell.view(request)
    approval = view.card()
    assert not (shell.folder / "made").exists()
    shown = html.unescape(re.sub("<[^>]+>", "", "\n".join(map(str, shell.wire.seen))))
    assert all(f"touch made/file{number}" in shown for number in range(60))
    view.command(type="approve", approval_id=approval)
    shell.wire.cell(request)
    assert len(list((shell.folder / "made").iterdir())) == 60
    assert told(shell) == "returncode: 0"


@pytest.mark.requirement("ui.stream.tool-output")
def test_output_appears_before_the_command_ends(shell: Session) -> None:
    gate = shell.folder / "gate"
    request = ask(shell, f"echo be''gun; until [ -e {gate} ]; do sleep 0.02; done; echo over", "%vibe --yes=bash go")
    shell.view(request).wait_for("begun")
    gate.touch()
    shell.wire.cell(request)
    assert told(shell) == "returncode: 0\nstdout:\nbegun\nover"


def test_a_command_that_only_reads_runs_unasked(shell: Session) -> None:
    shell.wire.cell(ask(shell, "ls -1 vibe"))
    assert "config.toml" in told(shell)


@pytest.mark.requirement("permission.auto.config")
def test_auto_approve_lets_all_run_that_is_not_denied(shell: Session) -> None:
    before = settings(shell).read_text()
    settings(shell).write_text(f"auto_approve = true\n{before}")
    try:
        shell.wire.cell(ask(shell, "echo hi > written"))
        assert (shell.folder / "written").read_text() == "hi\n"
        shell.wire.cell(ask(shell, "vim written"))
        assert "denylist" in told(shell)
    finally:
        settings(shell).write_text(before)
    shell.wire.cell(shell.wire.send("%vibe reset"))


def test_the_level_never_holds_and_limits_of_the_settings_count(shell: Session) -> None:
    before = settings(shell).read_text()
    settings(shell).write_text(f"{before}\n[tools.bash]\nmax_output_bytes = 300\n")
    try:
        shell.wire.cell(ask(shell, "seq 1 1000", "%vibe --yes=bash go"))
        assert "bytes left out" in told(shell)
        settings(shell).write_text(f'{before}\n[tools.bash]\npermission = "never"\n')
        shell.wire.cell(ask(shell, "ls"))
        assert "permission = never" in told(shell)
    finally:
        settings(shell).write_text(before)


LIMITS = """
[tools.bash]
permission = "ask"
allowlist = ["touch"]
denylist = ["cal"]
max_output_bytes = 300
default_timeout = 1
"""


@pytest.mark.requirement("permission.config.per-tool")
def test_a_tools_settings_are_its_level_both_lists_and_its_own_limits(shell: Session) -> None:
    before = settings(shell).read_text()
    settings(shell).write_text(f"{before}{LIMITS}")
    try:
        assert not shell.wire.cell(ask(shell, "touch allowed")).error
        assert (shell.folder / "allowed").exists()
        assert "seq 1 1000" not in told(shell)
        shell.wire.cell(ask(shell, "cal", "%vibe --yes=bash go"))
        assert "denylist" in told(shell)
        shell.wire.cell(ask(shell, "seq 1 1000", "%vibe --yes=bash go"))
        assert "bytes left out" in told(shell)
        shell.wire.cell(ask(shell, "sleep 60", "%vibe --yes=bash go"))
        assert "timeout: ended after 1 s" in told(shell)
        request = ask(shell, "mkdir asked")
        view = shell.view(request)
        view.command(type="reject", approval_id=view.card())
        shell.wire.cell(request)
        for level, runs in (("always", True), ("never", False)):
            settings(shell).write_text(f'{before}[tools.bash]\npermission = "{level}"\n')
            shell.wire.cell(ask(shell, f"mkdir {level}"))
            assert (shell.folder / level).is_dir() is runs
    finally:
        settings(shell).write_text(before)


@pytest.mark.requirement("tools.bash.timeout.kill", "magics.interrupt.prompt-back")
def test_a_tree_of_processes_ends_at_its_time_or_at_an_interrupt_and_the_result_says_which(shell: Session) -> None:
    tree = "(sleep 1000 & echo $! > pid; wait) & wait"
    before = settings(shell).read_text()
    settings(shell).write_text(f"{before}[tools.bash]\ndefault_timeout = 1\n")
    try:
        shell.wire.cell(ask(shell, tree, "%vibe --yes=bash go"))
    finally:
        settings(shell).write_text(before)
    assert "timeout: ended after 1 s" in told(shell)
    assert is_over(shell)
    (shell.folder / "pid").unlink()
    request = ask(shell, tree, "%vibe --yes=bash go")
    wait_until(lambda: (shell.folder / "pid").exists() and bool((shell.folder / "pid").read_text().strip()))
    shell.wire.interrupt()
    assert shell.wire.cell(request).error.startswith("RunStopped: ")
    assert is_over(shell)
    shell.run("%vibe and now?")
    (result,) = [message for message in shell.model.requests[1].messages if message["role"] == "tool"]
    assert "interrupted" in result["content"]


def is_over(session: Session) -> bool:
    """Whether the process that was noted has ended, or does so within a moment."""
    pid = int((session.folder / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.requirement("tools.bash.platform.windows")
def test_on_windows_bash_is_not_offered_and_the_status_says_so(shell: Session) -> None:
    def offered() -> set[str]:
        shell.model.requests.clear()
        shell.model.will_reply(say("Hello."))
        shell.run("%vibe hello")
        return {tool["function"]["name"] for tool in shell.model.requests[0].body["tools"]}

    shell.run("%vibe reset")
    everywhere = offered()
    assert "Shell:" not in shell.run("%vibe status").text
    shell.run("%unload_ext vibe_jupyter")
    shell.run("import sys; platform, sys.platform = sys.platform, 'win32'")
    try:
        shell.run("%load_ext vibe_jupyter")
        on_windows = offered()
        status = shell.run("%vibe status").text
    finally:
        shell.run("%unload_ext vibe_jupyter")
        shell.run("sys.platform = platform; del platform")
        shell.run("%load_ext vibe_jupyter")
    assert on_windows == everywhere - {"bash"}
    assert "Shell: bash is not offered on Windows" in status


def test_a_command_goes_on_in_the_background_and_its_end_is_told_with_the_next_prompt(shell: Session) -> None:
    command = "until [ -e go ]; do sleep 0.05; done; echo 'the model is trained'"
    shell.model.will_reply(call("bash", command=command, background=True), say("It trains."))
    assert "in the background" in shell.html(shell.run("%vibe --yes=bash train it"))
    asked = len(shell.model.requests)
    assert "Background: `until [ -e go ]" in shell.wire.run("%vibe status").text
    (shell.folder / "go").touch()
    wait_until(lambda: " finished after " in shell.wire.run("%vibe status").text)
    assert len(shell.model.requests) == asked
    shell.model.will_reply(say("Done."))
    shell.run("%vibe and now?")
    assert "with exit code 0\nthe model is trained\n</background>" in shell.model.requests[-1].last_user_text
    assert "Background" not in shell.wire.run("%vibe status").text
