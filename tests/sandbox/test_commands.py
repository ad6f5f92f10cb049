"""Commands in their sandbox: what they give there, what they cannot reach, and what is said of it. Real processes."""

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import patient
from tests.tools.conftest import snapshot
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.command_watch import GOES_ON
from vibe_jupyter.sandbox.commands import SandboxedCommands, wanted_words
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.contract import NotExplored
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
PYTHON = shlex.quote(sys.executable)
SECONDS = patient(60)
CALLS = """
import ctypes, os, sys
L = ctypes.CDLL(None, use_errno=True)
call = lambda *a: L.syscall(*map(ctypes.c_long, a))
o = os.environ['TMPDIR']
kept = [ctypes.create_string_buffer(value) for value in (b'data.csv', b'x.csv', bytes(64))]
b, c, n = map(ctypes.addressof, kept)
"""
"""What lets a line of Python make system calls."""
QUIET = ("io_uring", "the older interface", "setting a mark on a file")
"""Attempts that programs make by habit: they fail, and are not told."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "data.csv").write_text("a,b\n1,2\n")
    (folder / ".env").write_text("TOKEN=sesame\n")
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    return folder


async def run(project: Path, command: str, seconds: float = SECONDS) -> FinishedCommand | NotExplored:
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", command)
    asked = ShellCommand(argv, project, child_environment(os.environ), seconds, 16_000)
    return await SandboxedCommands(project).run(asked, lambda _: None)


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("echo hello; cat data.csv | wc -l", 0, "hello\n2\n"),
        ("cat no-such-file; exit 3", 3, ""),
        ("yes | head -2", 0, "y\ny\n"),
        ("cat <(echo one) > /dev/stdout", 0, "one\n"),
        (
            "echo kept > $TMPDIR/x && chmod 640 $TMPDIR/x && touch -d 2001-01-01 $TMPDIR/x && stat -c '%a %y' $TMPDIR/x"
            " | cut -c1-14",
            0,
            "640 2001-01-01\n",
        ),
        ("mv $TMPDIR $TMPDIR.x 2> /dev/null || echo stays", 0, None),
        ("sleep 100 & kill %1; wait; echo over", 0, "over\n"),
        ("kill -9 $$", -9, ""),
        (f"{PYTHON} -c 'import numpy; print(numpy.ones(3).sum())'", 0, "3.0\n"),
        ("test -e link.txt && [ ! -e gone.txt ] && echo right", 0, "right\n"),
        ("mkdir -p ../project && rm -f gone.txt && echo nothing to do", 0, "nothing to do\n"),
    ],
)
async def test_what_a_command_gives_that_only_reads(project: Path, command: str, code: int, said: str | None) -> None:
    before = snapshot(project.parent)
    done = await run(project, command)
    if said is None:
        assert isinstance(done, NotExplored)
    else:
        assert isinstance(done, FinishedCommand), done
        assert (done.returncode, done.stdout) == (code, said)
    assert snapshot(project.parent) == before


async def test_tests_run_there_and_their_failures_are_their_own(project: Path) -> None:
    test = "import shutil\n\ndef test_good(tmp_path):\n    (tmp_path / 'a').write_text('x')\n"
    test += "    shutil.copy2(tmp_path / 'a', tmp_path / 'b')\n\ndef test_bad():\n    assert 1 == 2\n"
    (project / "test_it.py").write_text(test)
    before = snapshot(project)
    done = await run(project, f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {PYTHON} -m pytest -q test_it.py")
    assert isinstance(done, FinishedCommand), done
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert snapshot(project) == before


@pytest.mark.attack("commands in a sandbox", always=True)
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("echo x > new.txt; true", "write new.txt"),
        ("echo x >> data.csv || true", "write data.csv"),
        (": > data.csv", "write data.csv"),
        ("truncate -s 0 data.csv", "write data.csv"),
        ("mkdir -p dist/sub; echo done", "make the folder dist"),
        ("rm -f data.csv; true", "delete data.csv"),
        ("mv data.csv other.csv", "rename data.csv"),
        ("ln data.csv $TMPDIR/hard; true", "link to data.csv"),
        ("ln -s data.csv soft", "make the link soft"),
        ("mkfifo pipe", "make pipe"),
        ("chmod 777 data.csv", "change the rights of data.csv"),
        ("touch -d 2001-01-01 data.csv", "data.csv"),
        ("chown 1 data.csv", "change the owner of files"),
        ("cat .env || echo none", "read .env"),
        ("cat link.txt 2> /dev/null; true", "outside.txt"),
        ("cat < ../outside.txt; true", "outside.txt"),
        ("ls / > /dev/null; true", "read /"),
        (f"{PYTHON} -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))'", "needs the network"),
        ("exec 3<> /dev/tcp/127.0.0.1/9; true", "needs the network"),
        ("kill -0 $PPID; kill -0 1; true", "send signals to other processes"),
        ("(sleep 0.1; echo x > late.txt) > /dev/null 2>&1 & true", "write late.txt"),
    ],
)
async def test_what_it_wants_beyond_reading_is_refused_and_named_whatever_it_makes_of_it(
    project: Path, command: str, wanted: str
) -> None:
    before = snapshot(project.parent)
    done = await run(project, command)
    assert isinstance(done, NotExplored), done
    assert done.reason.startswith(("in a sandbox it wanted to ", "needs "))
    assert wanted in done.reason
    assert snapshot(project.parent) == before


async def test_a_program_may_read_as_the_user_who_started_it_as_newer_versions_of_ncurses_do(project: Path) -> None:
    code = "import ctypes, os; libc = ctypes.CDLL(None); libc.setfsuid(os.getuid()); libc.setfsgid(os.getgid())"
    done = await run(project, f"{PYTHON} -c '{code}; print(open(\"data.csv\").readline())'")
    assert isinstance(done, FinishedCommand), done
    assert done.stdout.strip()


@pytest.mark.attack("commands in a sandbox", always=True)
async def test_the_environment_of_another_process_of_the_user_is_not_read(project: Path) -> None:
    with subprocess.Popen(["sleep", "100"], env={**os.environ, "TOKEN": "sesame"}) as other:
        try:
            done = await run(project, f"cat /proc/{other.pid}/environ | wc -c")
        finally:
            other.kill()
    assert isinstance(done, NotExplored), done
    assert done.reason == f"in a sandbox it wanted to read /proc/{other.pid}/environ"


ESCAPES = {
    "truncating without opening": "call(76, b, 0)",
    "truncating by an open for reading": "call(2, b, 0o1000, 0)",
    "creating": "call(85, b, 0o600)",
    "renaming away": "call(316, -100, b, -100, c, 0)",
    "exchanging two files": "call(316, -100, b, -100, c, 2)",
    "unlinking": "call(87, b)",
    "changing rights by a descriptor": "fd = os.open('data.csv', os.O_RDONLY); call(91, fd, 0o777)",
    "changing rights through a link": "os.symlink(os.path.abspath('data.csv'), o + '/s')\nos.chmod(o + '/s', 0o777)",
    "changing times by a descriptor": "fd = os.open('data.csv', os.O_RDONLY); os.utime(fd, (1, 1))",
    "setting a mark on a file": "call(188, b, n, b, 1, 0)",
    "an unnamed file in the project": "fd = os.open('.', os.O_TMPFILE | os.O_RDWR); os.write(fd, b'x')",
    "a link out of the own folder": "os.symlink('/', o + '/r'); open(o + '/r' + os.path.abspath('data.csv'), 'w')",
    "a datagram": "call(41, 2, 2, 0)",
    "a raw socket": "call(41, 3, 3, 0)",
    "a datagram of this computer": "call(53, 1, 2, 0, n)",
    "a socket of this computer": "import socket; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])",
    "listening": "import socket; s = socket.socket(socket.AF_UNIX); s.bind(o + '/own-socket')",
    "other namespaces": "call(272, 0x10000000)",
    "other namespaces by a fork": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "looking into another process": "call(101, 16, os.getppid(), 0, 0)",
    "writing into another process": "call(311, os.getppid(), 0, 0, 0, 0, 0)",
    "taking a descriptor of another process": "call(438, call(434, os.getppid(), 0), 0, 0)",
    "ending its guard": "os.kill(os.getppid(), 9); os.kill(int(open('/proc/self/stat').read().split()[3]), 9)",
    "ending all": "os.kill(-1, 9)",
    "io_uring": "call(425, 8, n)",
    "mounting": "call(165, b, b, b, 0, 0)",
    "the older interface": "import mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b827000000cd80c3'));"
    " ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()",
    "shared memory": "call(29, 0, 4096, 0o1600)",
    "a named semaphore": "open('/dev/shm/vibe-escape', 'w')",
    "too many processes": "for _ in range(1100):\n    if os.fork() == 0: os._exit(0)\n    os.wait()",
    "exchanging a path while it is looked at": """
import threading
open(o + '/x', 'w').close()
held = ctypes.create_string_buffer(200)
paths = [(o + '/x').encode() + bytes(9), b'data.csv' + bytes(9)]
def exchange():
    while True:
        for path in paths: ctypes.memmove(held, path, len(path))
threading.Thread(target=exchange, daemon=True).start()
while True:
    fd = call(2, ctypes.addressof(held), 0o1001, 0)
    if fd >= 0: os.close(fd)
""",
    "lifting its limits in another": "call(302, os.getppid(), 7, n, 0)",
}


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[tuple[str, socket.socket]]:
    with socket.socket(socket.AF_UNIX) as server:
        path = str(tmp_path / "s")
        server.bind(path)
        server.listen()
        server.setblocking(False)
        yield path, server


@pytest.mark.attack("commands in a sandbox", always=True)
@pytest.mark.parametrize("name", ESCAPES)
async def test_no_attempt_of_a_command_has_an_effect(
    project: Path, name: str, listening: tuple[str, socket.socket]
) -> None:
    path, server = listening
    lines = f"{CALLS}{ESCAPES[name]}"
    victim = subprocess.Popen(["sleep", "100"])
    before = snapshot(project.parent)
    times = [(project / name).stat().st_mtime_ns for name in ("data.csv", ".env")]
    try:
        done = await run(project, f"{PYTHON} -c {shlex.quote(lines)} {shlex.quote(path)} 2>&1; true")
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
    assert isinstance(done, NotExplored) or "Error" in done.stdout or name in QUIET
    assert "NameError" not in getattr(done, "stdout", "")
    assert "SyntaxError" not in getattr(done, "stdout", "")
    assert snapshot(project.parent) == before
    assert [(project / name).stat().st_mtime_ns for name in ("data.csv", ".env")] == times
    assert not os.path.exists("/dev/shm/vibe-escape")
    with pytest.raises(BlockingIOError):
        server.accept()


async def test_a_command_that_was_refused_something_ends_soon_and_says_what_else_it_wants(project: Path) -> None:
    began = time.monotonic()
    done = await run(project, "echo x > one.txt; echo y > two.txt; sleep 50")
    assert isinstance(done, NotExplored)
    assert done.reason == "in a sandbox it wanted to write one.txt, write two.txt"
    assert time.monotonic() - began < GOES_ON + patient(20)


@pytest.mark.requirement("ui.approval.trial")
@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (["read /etc/a"], "in a sandbox it wanted to read /etc/a"),
        (["read /etc/a", "read /etc/b"], "needs files outside the project"),
        (["read /etc/a", "use the network", "read /etc/b"], "needs the network and files outside the project"),
        (["use the network"], "needs the network"),
        (["use the network", "write out.csv"], "needs the network, and in a sandbox it wanted to write out.csv"),
        (["read /proc/1/environ", "read /etc/a"], "in a sandbox it wanted to read /proc/1/environ, read /etc/a"),
        ([f"write {n}" for n in range(6)], "in a sandbox it wanted to write 0, write 1, write 2, write 3 and 2 more"),
    ],
)
def test_what_it_wants_is_said_in_general_where_a_list_would_say_nothing(refused: list[str], words: str) -> None:
    assert wanted_words(refused) == words


@pytest.mark.attack("left-behind processes", always=True)
async def test_at_its_time_it_ends_with_all_it_started(project: Path) -> None:
    done = await run(project, "echo begun; sleep 321 & sleep 321", 3)
    assert isinstance(done, FinishedCommand)
    assert (done.ended, done.stdout) == ("timeout", "begun\n")
    assert subprocess.run(["pgrep", "-f", "^sleep 321"], check=False).returncode == 1


@pytest.mark.attack("left-behind processes", always=True)
async def test_what_it_leaves_behind_begins_as_it_would_outside_and_ends_with_it(project: Path) -> None:
    done = await run(project, "nohup sleep 322 & echo first")
    assert isinstance(done, FinishedCommand)
    assert "not implemented" not in done.stderr
    assert done.stdout == "first\n"
    assert subprocess.run(["pgrep", "-f", "^sleep 322"], check=False).returncode == 1


async def test_nothing_of_it_stays_on_disk(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    done = await run(project, "echo x > $TMPDIR/a; mkdir $TMPDIR/b; cat $TMPDIR/a")
    assert isinstance(done, FinishedCommand)
    assert done.stdout == "x\n"
    assert list(place.iterdir()) == []


async def test_where_the_project_cannot_be_read_without_its_keys_it_says_so() -> None:
    done = await run(Path("/usr/share"), "echo hi")
    assert done == NotExplored("no sandbox can be made: the project lies in a folder of the system or of Python")
