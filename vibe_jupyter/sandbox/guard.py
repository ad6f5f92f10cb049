"""Process between the kernel and a confined command: forks, confines, watches and ends the command.

A separate program, so that a command's ancestors hold nothing of the kernel's memory. Imports little.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import Final, NoReturn

from vibe_jupyter.sandbox.command_calls import command_rules
from vibe_jupyter.sandbox.command_room import MOST_WRITTEN
from vibe_jupyter.sandbox.command_watch import CommandTerms, CommandWatch
from vibe_jupyter.sandbox.landlock import landlock_version, restrict_paths
from vibe_jupyter.sandbox.seccomp import install_filter
from vibe_jupyter.sandbox.system_calls import (
    capabilities,
    die_with_parent,
    drop_capabilities,
    gain_no_privileges,
    limit_resource,
)
from vibe_jupyter.tools.supervisor import DONE, FAILED, TERM_GRACE, Supervisor

TERMS, REPORT = "terms.json", "report.json"  # files in the given folder: input and result
_SCOPED_SINCE: Final = 6  # Landlock version that restricts signals
_WRITABLE: Final = ("/dev/null", "/dev/zero", "/dev/full")
_FIRST_TO_GO: Final = "1000"


def main() -> NoReturn:
    """Run the command described in the folder named by the request. Arguments: see `tools/supervisor.py`."""
    supervisor = Supervisor(*map(int, sys.argv[-3:]))
    try:
        argv, _ = supervisor.request()
    except EOFError:  # the command was cancelled before it began
        os._exit(0)
    folder = Path(os.fsdecode(argv[0]))
    terms = CommandTerms(**json.loads((folder / TERMS).read_text(encoding="utf-8")))
    near, far = socket.socketpair()
    guard = os.getpid()
    try:
        leader = os.fork()
    except OSError as error:
        supervisor.say(FAILED, str(error.errno))
        supervisor.say(DONE)
        os._exit(1)
    if leader == 0:
        near.close()
        _be_the_command(terms, guard, far)
    far.close()
    supervisor.began(leader)
    error, listeners, _, _ = socket.recv_fds(near, 4_096, 1)
    report: dict[str, object] = {"error": error[1:].decode("utf-8", "replace") or "it ended"}
    if listeners:
        watch = CommandWatch(terms, listeners[0], supervisor, is_scoped=landlock_version() >= _SCOPED_SINCE)
        report = {"refused": watch.until_end()}
    (folder / REPORT).write_text(json.dumps(report), encoding="utf-8")
    supervisor.end(0.0 if report.get("refused") else TERM_GRACE)
    os._exit(0)


def _be_the_command(terms: CommandTerms, guard: int, far: socket.socket) -> NoReturn:
    try:
        os.setsid()
        die_with_parent(signal.SIGKILL)
        if os.getppid() != guard:
            raise OSError("its guard ended")
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
        for limit, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, MOST_WRITTEN),
            (resource.RLIMIT_DATA, terms.memory),
        ):
            limit_resource(limit, value)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and the command would inherit that
            signal.signal(number, signal.SIG_DFL)
        gain_no_privileges()
        drop_capabilities(capabilities())
        restrict_paths(terms.readable, terms.listable, terms.runnable, (terms.own, *_WRITABLE))
        listener = install_filter(command_rules(), listen=True)
        socket.send_fds(far, [b"+"], [listener])
        os.close(listener)
        os.execve(terms.argv[0], terms.argv, terms.environment)
    except BaseException as error:  # noqa: BLE001 - whatever went wrong, the command must not start
        with contextlib.suppress(OSError):
            far.send(f"-{type(error).__name__}: {error}".encode("utf-8", "replace"))
    finally:
        os._exit(126)
