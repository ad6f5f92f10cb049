"""Takes from a forked copy what the operating system lets a process do. Each step needs those before it."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.sandbox.attempts import Attempts
from vibe_jupyter.sandbox.inherited import make_descriptors_private, make_mappings_private, use_one_thread
from vibe_jupyter.sandbox.landlock import restrict_paths
from vibe_jupyter.sandbox.readable import ReadablePaths
from vibe_jupyter.sandbox.seccomp import copy_rules, install_filter
from vibe_jupyter.sandbox.system_calls import die_with_parent, drop_capabilities, gain_no_privileges

MOST_DESCRIPTORS: Final = 4_096
_FIRST_TO_GO: Final = "1000"
"""When memory is short, the system ends the copy before anything else."""
_ADDRESS_SPACE: Final = 1 << 30
"""Bytes of address space beyond the memory a copy may have: stacks of threads and libraries take room, not memory."""
_SIGNALS: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD),
    *(signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2),
)


@dataclass(frozen=True)
class Confinement:
    """What a copy may read and use."""

    paths: ReadablePaths
    seconds: float
    memory: int
    """In bytes, beside what it shares with its parent."""
    is_secret: Callable[[str], bool]
    """Whether an environment variable of this name holds a secret: the copy does not have it."""


def confine(confinement: Confinement, parent: int, report: int) -> Attempts:
    """Give up all but reading and computing. In the copy, at once after the fork.

    Args:
        confinement: what is left.
        parent: id of the process it was forked from.
        report: the descriptor it writes its answer to.

    Raises:
        OSError: a step failed; the copy must end.
    """
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        raise OSError("the kernel ended meanwhile")
    os.setsid()  # an interrupt goes to the kernel's group
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    make_descriptors_private({report})
    make_mappings_private()
    _limit_resources(confinement)
    use_one_thread()
    attempts = Attempts()
    attempts.withhold([name for name in os.environ if confinement.is_secret(name)])
    gain_no_privileges()
    drop_capabilities()
    restrict_paths(*confinement.paths)
    install_filter(copy_rules(os.getpid()))
    attempts.listen()
    return attempts


def _limit_resources(confinement: Confinement) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    address_space = pages * resource.getpagesize() + confinement.memory + _ADDRESS_SPACE
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, min(MOST_DESCRIPTORS, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
        (resource.RLIMIT_CPU, int(confinement.seconds) + 2),
        (resource.RLIMIT_AS, address_space),
    ):
        resource.setrlimit(limit, (value, value))
