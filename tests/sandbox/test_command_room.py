"""Bounds of what the processes of an unasked command write and hold in memory, all together."""

import os
import shlex
import sys
import threading
from pathlib import Path

import pytest

from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.sandbox.commands import SandboxedCommands
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.contract import NotExplored
from vibe_jupyter.tools.process import ShellCommand

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.requirement("tools.bash.sandbox.bounds"),
]
SECONDS = patient(60)
MOST_SEEN = 1 << 30
"""Bytes on the disk at any moment: the bound, and what a fast disk takes until a busy guard looks."""
PYTHON = shlex.quote(sys.executable)
FILLS = "for i in $(seq 30); do head -c 100M /dev/zero > $TMPDIR/$i; done"
DELETED = (
    f"{PYTHON} -c \"import os; o = os.environ['TMPDIR']\nkept = []\nfor i in range(30):\n"
    "  kept.append(open(f'{o}/{i}', 'wb')); os.unlink(f'{o}/{i}'); kept[-1].write(bytes(100 << 20))\""
)
DEEP = "cd $TMPDIR; for i in $(seq 150); do mkdir d; cd d; done; sleep 1"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        pytest.param(FILLS, "write more than 256 MB", id="one after another"),
        further(
            f"for j in 1 2 3 4; do (TMPDIR=$TMPDIR/$j; mkdir $TMPDIR; {FILLS}) & done; wait", "write more than 256 MB"
        ),
        further(f"trap '' TERM; {FILLS}", "write more than 256 MB", id="ignoring signals"),
        further(DELETED, "write more than 256 MB", id="deleted files"),
        further("head -c 2G /dev/zero > $TMPDIR/x", "more room", id="one file"),
        further(
            "mkdir $TMPDIR/d; cd $TMPDIR/d; for i in $(seq 11000); do : > $i; done; sleep 1",
            "10,000 files",
            id="files",
        ),
        further(DEEP, "100 folders within each other", id="deep folders"),
        further("mkdir -m 0 $TMPDIR/d; sleep 1", "" if os.geteuid() == 0 else "looked into", id="a hidden folder"),
        further(
            f"for i in $(seq 8); do {PYTHON} -c \"x = bytearray(b'x') * (300 << 20); import time; time.sleep(5)\" &"
            " done; wait",
            "of memory",
            id="memory of many",
        ),
        further(
            f'{PYTHON} -c "import mmap\nx = []\nfor i in range(40): x.append(mmap.mmap(-1, 100 << 20)); '
            "x[-1].write(b'x' * (100 << 20))\"",
            "of memory",
            id="shared memory",
        ),
    ],
)
async def test_a_command_is_ended_that_takes_more_than_its_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    project, own = tmp_path / "project", tmp_path / "own"
    project.mkdir()
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    over, most = threading.Event(), [0]

    def look() -> None:
        while not over.wait(0.01):
            most[0] = max(most[0], sum(_size(Path(at) / name) for at, _, names in os.walk(own) for name in names))

    watching = threading.Thread(target=look)
    watching.start()
    try:
        argv = ("/bin/bash", "--noprofile", "--norc", "-c", command)
        asked = ShellCommand(argv, project, child_environment(os.environ), SECONDS, 16_000)
        done = await SandboxedCommands(project).run(asked, lambda _: None)
    finally:
        over.set()
        watching.join()
    if why:
        assert isinstance(done, NotExplored), done
        assert why in done.reason
    assert most[0] < MOST_SEEN
    assert list(own.iterdir()) == []


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0
