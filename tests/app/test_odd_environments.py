"""Kernels and programs in environments that few have: each works, or a sentence says what to do."""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from tests.app.conftest import CONFIG, running_session
from tests.kernel.matrix import AS_USERS_START_IT, INSTALLED, with_packages
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.xdist_group("app")

ASK = (str(Path(sys.executable).with_name("vibe-jupyter")), "ask", "-p", "hi")
WAIT = 60
"""Seconds until an answer that nobody waits for in vain."""
IGNORE_EXITS = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
OPEN_ALL = """\
import os, resource
here = max(map(int, os.listdir("/proc/self/fd")))
resource.setrlimit(resource.RLIMIT_NOFILE, (here + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    os.close(held.pop())"""
ZOMBIES = """\
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print([one for one in children if open(f"/proc/{one}/stat").read().rpartition(") ")[2][0] == "Z"])"""
WITHOUT_RIGHTS = "exec setpriv --bounding-set -dac_override,-dac_read_search --"
"""Root may read what its rights forbid, unless it gives these up."""


def asked(folder: Path, environ: dict[str, str], *before: str) -> "subprocess.CompletedProcess[str]":
    """What `vibe-jupyter ask` says there, started by a shell after these commands."""
    line = "; ".join((*before, f"exec {shlex.join(ASK)}"))
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )


@pytest.mark.requirement("headless.ask.environments")
def test_a_working_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    ended = asked(tmp_path / "gone", {"VIBE_HOME": str(tmp_path)}, "rmdir ../gone")
    assert ended.returncode == 2
    assert ended.stderr.startswith("vibe-jupyter: No working folder: No such file or directory.")


@pytest.mark.requirement("headless.ask.environments")
@pytest.mark.parametrize(
    ("environ", "before"),
    [
        ({"PYTHONWARNINGS": "error"}, ""),
        further({"TMPDIR": "/nowhere"}, ""),
        further({"LC_ALL": "C"}, ""),
        further({}, "ulimit -n 40"),
        further({}, "unset HOME"),
        further({}, "trap '' CHLD"),
    ],
)
def test_ask_answers_in_odd_environments(tmp_path: Path, environ: dict[str, str], before: str) -> None:
    with ScriptedModel([say("Hello.")]) as model:
        (tmp_path / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        ended = asked(tmp_path, {"VIBE_HOME": str(tmp_path), **environ}, before or ":")
    assert ended.stdout == "Hello.\n", ended.stderr


@pytest.mark.requirement("kernel.loops.uvloop")
@pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not made for this system")
def test_copies_and_commands_run_after_uvloop_was_installed(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        session.run("import os, uvloop\nos.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'\nuvloop.install()")
        calls = [call("run_code", code="print(6 * 7)"), call("bash", command="echo made > made.txt; cat made.txt")]
        session.model.will_reply(*calls, say("Hello."))
        session.run("%%vibe --yes=bash\nhi")
        copied, ran = (one["content"] for one in session.model.requests[-1].messages if one["role"] == "tool")
        assert "in a copy of the kernel" in copied
        assert "42" in copied
        assert "returncode: 0" in ran
        assert (tmp_path / "made.txt").exists()


@pytest.mark.requirement("config.file.kinds")
@pytest.mark.parametrize("name", ["config.toml", further(".env"), further("trusted_folders.toml")])
@pytest.mark.parametrize("kind", ["pipe", further("folder"), further("zeros")])
def test_the_users_own_file_of_another_kind_is_named_and_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / ".vibe").mkdir()
    (tmp_path / ".vibe" / "config.toml").write_text("max_turns = 2\n", encoding="utf-8")
    if kind == "pipe":
        os.mkfifo(home / name)
    elif kind == "folder":
        (home / name).mkdir()
    else:
        (home / name).symlink_to("/dev/zero")
    ended = asked(tmp_path, {"VIBE_HOME": str(home)})
    assert ended.returncode == 2
    assert str(home / name) in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.requirement("kernel.environments")
def test_exit_codes_are_known_where_the_users_code_ignores_them(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True, timeout=WAIT)
    (tmp_path / "data.txt").write_text("hello\n", encoding="utf-8")
    with running_session(INSTALLED, tmp_path) as session:
        session.run(IGNORE_EXITS)
        calls = [
            *(call("bash", command=f"exit {code}") for code in (0, 3)),
            call("grep", pattern="hello", path="data.txt"),
            call("grep", pattern="hello("),
            call("run_code", code="print(6 * 7)"),
        ]
        session.model.will_reply(*calls, say("Hello."))
        said = session.run("%%vibe --yes=bash,grep,run_code\nhi").text
        well, badly, found, wrong, ran = (
            one["content"] for one in session.model.requests[-1].messages if one["role"] == "tool"
        )
        assert "returncode: 0" in well
        assert "returncode: 3" in badly
        assert "data.txt:1:hello" in found
        assert "regular expression" in wrong
        assert "42" in ran
        assert "Unknown child" not in said
        assert "git failed" not in str(session.model.requests[-1].body)
        left = session.run(
            "import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', '']).wait()\n" + ZOMBIES
        )
        assert left.text == "[]\n"


@pytest.mark.requirement("kernel.environments")
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_a_kernel_that_may_open_no_more_files_says_so(tmp_path: Path) -> None:
    with running_session(AS_USERS_START_IT, tmp_path) as session:
        session.run("get_ipython().history_manager.enabled = False")  # its thread opens a file, and complains
        session.run(OPEN_ALL)
        said = session.run("%vibe hi").text
        session.run(
            "import os\nwhile held: os.close(held.pop())\nresource.setrlimit(resource.RLIMIT_NOFILE, (1024, 4096))"
        )
        assert "vibe: Too many files are open." in said
        assert "Traceback" not in said
        session.model.will_reply(say("Hello."))
        session.run("%vibe hi")
        assert session.model.requests


@pytest.mark.matrix
@pytest.mark.requirement("kernel.environments")
def test_a_kernel_whose_sockets_a_library_replaced_is_named(tmp_path: Path) -> None:
    gevent = with_packages("gevent", "gevent<27", "greenlet<4", "zope.event<7", "zope.interface<9")
    with running_session(gevent, tmp_path) as session:
        session.run("from gevent import monkey; monkey.patch_all(thread=False)")  # with threads no kernel answers
        said = session.run("%vibe hi").text
        assert "vibe: gevent has replaced Python's own" in said
        assert "Restart the kernel" in said
        assert "Traceback" not in said


@pytest.mark.matrix
@pytest.mark.requirement("kernel.environments")
@pytest.mark.parametrize("before", ["import warnings; warnings.simplefilter('error')", "gone temporary folder"])
def test_a_kernel_works_in_odd_environments(tmp_path: Path, before: str) -> None:
    gone = "import os, tempfile\ntempfile.tempdir = os.environ['TMPDIR'] = '/nowhere'"
    with running_session(AS_USERS_START_IT, tmp_path) as session:
        session.run(gone if before.startswith("gone") else before)
        session.model.will_reply(
            call("bash", command="echo made"), call("run_code", code="print(6 * 7)"), say("Hello.")
        )
        session.run("%%vibe --yes=bash,run_code\nhi")
        ran, counted = (one["content"] for one in session.model.requests[-1].messages if one["role"] == "tool")
        assert "returncode: 0" in ran
        assert "42" in counted


@pytest.mark.requirement("headless.ask.environments")
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0 and which("setpriv") is None, reason="root reads all")
@pytest.mark.parametrize(
    ("name", "mode", "code", "says"),
    [
        ("work", 0o000, 2, "cannot be looked into: Permission denied. Change to another"),
        further("home", 0o000, 2, "Cannot read"),
        further("home", 0o555, 1, "a folder you can write, or set VIBE_HOME to one"),
    ],
)
def test_folders_without_rights_are_named(tmp_path: Path, name: str, mode: int, code: int, says: str) -> None:
    for folder in ("work", "home"):
        (tmp_path / folder).mkdir()
    with ScriptedModel([say("Hello.")]) as model:
        (tmp_path / "home" / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        (tmp_path / name).chmod(mode)
        gives_up = f"{WITHOUT_RIGHTS} {shlex.join(ASK)}" if os.geteuid() == 0 else ":"
        try:
            ended = asked(tmp_path, {"VIBE_HOME": str(tmp_path / "home")}, "cd work", gives_up)
        finally:
            (tmp_path / name).chmod(0o755)
    assert ended.returncode == code
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
