"""Takes from a forked copy what the operating system lets a process do. Each step needs those before it."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.sandbox.attempts import Attempts
from vibe_jupyter.sandbox.inherited import make_descriptors_private, make_mappings_private, use_one_thread
from vibe_jupyter.sandbox.landlock import PathRules
from vibe_jupyter.sandbox.overlay import MOST_WRITTEN, ProjectOverlay, lay_over, leave_rights_and_times
from vibe_jupyter.sandbox.readable import ReadablePaths
from vibe_jupyter.sandbox.seccomp import copy_rules, install_filter, writing_copy_rules
from vibe_jupyter.sandbox.system_calls import (
    capabilities,
    die_with_parent,
    drop_capabilities,
    gain_no_privileges,
    limit_resource,
)

MOST_DESCRIPTORS: Final = 4_096
_FIRST_TO_GO: Final = "1000"
"""When memory is short, the system ends the copy before anything else."""
_ROOM: Final = 1 << 30
"""Bytes that a copy may ask for beyond the memory it may have: stacks of threads take room, not memory."""
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
    writes: bool = False
    """Whether it may write to files of the project, which then are its own (`overlay.py`)."""


class Confined(NamedTuple):
    """What a copy is left with."""

    attempts: Attempts
    overlay: ProjectOverlay | None
    """Where it may write."""


def confine(confinement: Confinement, parent: int, report: int) -> Confined:
    """Give up all but reading and computing. In the copy, at once after the fork.

    Args:
        confinement: what is left.
        parent: id of the process it was forked from.
        report: the descriptor it writes its answer to.

    Raises:
        OSError: a step failed; the copy must end.
    """
    held = capabilities()
    os.setsid()  # an interrupt goes to the kernel's group
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    rules = PathRules()
    rules.allow_reading(confinement.paths.readable, confinement.paths.listable)
    overlay = _lay_over_project(confinement, rules) if confinement.writes else None
    die_with_parent(signal.SIGKILL)  # which a change of rights would undo
    if os.getppid() != parent:
        raise OSError("the kernel ended meanwhile")
    own = {report, rules.descriptor, *((overlay.original, overlay.changed) if overlay is not None else ())}
    make_descriptors_private(own, overlay)
    make_mappings_private()
    _limit_resources(confinement, overlay)
    use_one_thread()
    attempts = Attempts(overlay)
    attempts.withhold([name for name in os.environ if confinement.is_secret(name)])
    gain_no_privileges()
    drop_capabilities(held)
    rules.enforce()
    install_filter(copy_rules(os.getpid()) if overlay is None else writing_copy_rules(os.getpid()))
    if overlay is not None:
        leave_rights_and_times(overlay)
    attempts.listen()
    return Confined(attempts, overlay)


def _lay_over_project(confinement: Confinement, rules: PathRules) -> ProjectOverlay:
    """The rules that are there already are for the files below it."""
    project = confinement.paths.listable[0]
    overlay = lay_over(project, confinement.paths.hidden, min(MOST_WRITTEN, confinement.memory // 2))
    rules.allow_reading([f"/proc/self/fd/{overlay.changed}"])
    rules.allow_writing([project, os.devnull], runs=False)
    return overlay


def _limit_resources(confinement: Confinement, overlay: ProjectOverlay | None) -> None:
    # Not the whole address space: of that the libraries that torch loads take gigabytes, and files that are mapped.
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    data = pages * resource.getpagesize() + confinement.memory + _ROOM
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0 if overlay is None else overlay.room),
        (resource.RLIMIT_NOFILE, MOST_DESCRIPTORS),
        (resource.RLIMIT_CPU, int(confinement.seconds) + 2),
        (resource.RLIMIT_DATA, data),
    ):
        limit_resource(limit, value)
