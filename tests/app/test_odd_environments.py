"""Kernels and programs in environments that few have: each works, or a sentence says what to do."""

import os
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.app.conftest import CONFIG, running_session
from tests.kernel.matrix import INSTALLED
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = pytest.mark.xdist_group("app")

ASK = (str(Path(sys.executable).with_name("vibe-jupyter")), "ask", "-p", "hi")
WAIT = 60
"""Seconds until an answer that nobody waits for in vain."""


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
