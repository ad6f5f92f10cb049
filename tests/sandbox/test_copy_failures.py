"""A copy that cannot be watched is ended before the error is raised. Each in a process of its own."""

import os
import subprocess
import sys

import pytest

from tests.patience import patient
from vibe_jupyter.sandbox.availability import machine_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
FAILS = """
import os, sys, time
from pathlib import Path
from vibe_jupyter.sandbox.confinement import Confinement
from vibe_jupyter.sandbox.forked_copy import ForkedCopy
from vibe_jupyter.sandbox.readable import ReadablePaths

kind, name = sys.argv[1:]
before = len(os.listdir("/proc/self/fd"))

def fail(*arguments):
    raise eval(kind)

setattr(os, name, fail)  # as the system, or an interrupt, would
try:
    ForkedCopy(lambda confined: time.sleep(10_000), Confinement(ReadablePaths([], [], []), 60, 1 << 30, bool))
except BaseException as error:
    print(type(error).__name__)
try:
    print(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("no child")
print(len(os.listdir("/proc/self/fd")) - before)
"""


@pytest.mark.requirement("tools.code.copy.failed")
@pytest.mark.parametrize("name", ["pidfd_open", "set_blocking", "fork"])
@pytest.mark.parametrize("kind", ["OSError(24, 'EMFILE')", "MemoryError()", "KeyboardInterrupt()"])
def test_a_copy_that_cannot_be_watched_is_ended(kind: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILS, kind, name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert done.stdout.splitlines() == [kind.split("(")[0], "no child", "0"], done.stderr
