"""Locks of unasked code: they hold up nobody who writes to the user's files. Real copies, commands, databases."""

import asyncio
import fcntl
import os
import shlex
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil
import pytest

from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.commands import SandboxedCommands
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.requirement("tools.code.copy.locks"),
]
SECONDS = patient(60)
HOLDERS = {
    "sqlite": "import sqlite3; c = sqlite3.connect('x.db', timeout=0); c.execute('BEGIN'); "
    "c.execute('SELECT * FROM t').fetchall()",
    "sqlite read-only": "import sqlite3; c = sqlite3.connect('file:x.db?mode=ro', uri=True); c.execute('BEGIN'); "
    "c.execute('SELECT * FROM t').fetchall()",
    "lockf": "import fcntl; f = open('x.db', 'rb'); fcntl.lockf(f, fcntl.LOCK_SH)",
    "flock": "import fcntl; f = open('x.db', 'rb'); fcntl.flock(f, fcntl.LOCK_EX)",
    "lock of an open file": "import fcntl, struct; f = open('x.db', 'rb'); "
    "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))",
}
"""Code that locks the database and keeps it locked."""
WRITER = """
import fcntl, sqlite3
with open("x.db", "r+b") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
writer = sqlite3.connect("x.db", timeout=0)
writer.execute("BEGIN EXCLUSIVE")
writer.execute("INSERT INTO t VALUES (2)")
writer.commit()
writer.close()
"""
IN_A_COPY = """
import os, subprocess, sys, time, traceback
from pathlib import Path
from vibe_jupyter.sandbox.confinement import Confinement
from vibe_jupyter.sandbox.forked_copy import ForkedCopy
from vibe_jupyter.sandbox.readable import ReadablePaths, readable_paths

holder, writes, seconds = sys.argv[1], sys.argv[2] == "writes", float(sys.argv[3])
inherited = open("x.db", "rb")
import fcntl
fcntl.flock(inherited, fcntl.LOCK_SH)

def work(confined):
    import time
    try:
        fcntl.flock(inherited, fcntl.LOCK_UN)  # the kernel's own, in the descriptor that is shared
        exec(holder, globals())
    except BaseException:
        return traceback.format_exc().encode()
    time.sleep(10_000)

paths = readable_paths(Path.cwd())
copy = ForkedCopy(work, Confinement(ReadablePaths(*paths), seconds, 1 << 30, lambda name: False, writes))
end = time.monotonic() + seconds
try:
    while Path(f"/proc/{copy._pid}/syscall").read_text().split()[0] not in ("35", "230", "115", "101"):
        assert (said := copy._read_chunk()) in (None, b"+"), said  # confined
        assert time.monotonic() < end
    with open("x.db", "rb") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            raise AssertionError("the copy took the kernel's lock away")
        except BlockingIOError:
            fcntl.flock(inherited, fcntl.LOCK_UN)
    code = sys.stdin.read()
    exec(code)  # the kernel writes
    subprocess.run([sys.executable, "-c", code], check=True)  # and another program
finally:
    copy.end()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    with sqlite3.connect(folder / "x.db") as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("INSERT INTO t VALUES (1)")
    database.close()
    return folder


def _run_in_a_copy(project: Path, holder: str, writes: str, writer: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", IN_A_COPY, holder, writes, str(SECONDS)],
        cwd=project,
        input=writer,
        text=True,
        capture_output=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False,
    )


def rows(project: Path) -> int:
    database = sqlite3.connect(project / "x.db")
    try:
        return database.execute("SELECT count(*) FROM t").fetchone()[0]
    finally:
        database.close()


CASES = [value if name == "sqlite" else further(value, id=name) for name, value in HOLDERS.items()]


@pytest.mark.parametrize("writes", ["reads", further("writes")])
@pytest.mark.parametrize("holder", CASES)
def test_code_in_a_copy_holds_up_neither_the_kernel_nor_another_program(
    project: Path, holder: str, writes: str
) -> None:
    done = _run_in_a_copy(project, holder, writes, WRITER)
    assert done.returncode == 0, done.stderr
    assert rows(project) == 3


@pytest.mark.parametrize("holder", CASES)
async def test_an_unasked_command_holds_up_nobody(project: Path, holder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"{holder}\nimport subprocess\nsubprocess.run(['sleep', '98761'])"
    argv = (sys.executable, "-c", code)
    asked = ShellCommand(argv, project, child_environment(os.environ), SECONDS, 16_000)
    task = asyncio.create_task(SandboxedCommands(project).run(asked, lambda _: None))
    try:
        while not _sleeps():
            assert not task.done(), task.result()
            await asyncio.sleep(0.02)
        monkeypatch.chdir(project)
        exec(textwrap.dedent(WRITER), {})
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert rows(project) == 2


def _sleeps() -> bool:
    return any(one.name() == "sleep" and "98761" in one.cmdline() for one in psutil.Process().children(recursive=True))


async def test_locks_on_files_of_its_own_are_real(project: Path) -> None:
    code = (
        "import fcntl, os, subprocess, sys; p = os.environ['TMPDIR'] + '/lock'; f = open(p, 'w'); "
        "fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX); "
        "other = f'import fcntl; fcntl.{sys.argv[1]}(open({p!r}, \"r+\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'; "
        "print(b'BlockingIOError' in subprocess.run([sys.executable, '-c', other], capture_output=True).stderr)"
    )
    line = " && ".join(f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} {way}" for way in ("flock", "lockf"))
    asked = ShellCommand(("/bin/bash", "-c", line), project, child_environment(os.environ), SECONDS, 16_000)
    done = await SandboxedCommands(project).run(asked, lambda _: None)
    assert isinstance(done, FinishedCommand), done
    assert done.stdout == "True\nTrue\n", done.stderr


def test_a_lock_of_another_program_is_seen_from_a_copy(project: Path) -> None:
    """What a question about a lock answers stays true."""
    with (project / "x.db").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        asks = (
            "import fcntl, struct; f = open('x.db', 'rb'); "
            "a = fcntl.fcntl(f, fcntl.F_GETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0)); "
            "assert struct.unpack('hhqqi4x', a)[0] == fcntl.F_WRLCK"
        )
        done = _run_in_a_copy(project, asks, "reads", "pass")
    assert done.returncode == 0, done.stderr
