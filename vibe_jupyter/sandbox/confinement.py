"""Restrict a forked copy. The steps depend on each other and must run in this order."""

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
_FIRST_TO_GO: Final = "1000"  # highest OOM score: when memory runs out, the copy is killed first
_ROOM: Final = 1 << 30  # extra bytes of RLIMIT_DATA for thread stacks, which are reserved but hardly used
_SIGNALS: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD),
    *(signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2),
)


@dataclass(frozen=True)
class Confinement:
    """Permissions and limits of a copy."""

    paths: ReadablePaths
    seconds: float
    memory: int  # bytes, in addition to what it shares with its parent
    is_secret: Callable[[str], bool]  # whether an environment variable of this name holds a secret and must be removed
    writes: bool = False  # whether it may write to files of the project, which go to an overlay (`overlay.py`)


class Confined(NamedTuple):
    """State of a confined copy."""

    attempts: Attempts
    overlay: ProjectOverlay | None  # writable overlay, if any


def confine(confinement: Confinement, parent: int, report: int) -> Confined:
    """Drop all permissions except reading and computing. In the copy, right after the fork.

    Args:
        confinement: What remains allowed.
        parent: Process id of the parent.
        report: Descriptor that the copy writes its report to.

    Raises:
        OSError: A step failed. The copy must exit.
    """
    held = capabilities()
    os.setsid()  # so that interrupts sent to the kernel's process group don't reach the copy
    signal.set_wakeup_fd(-1)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")
    rules = PathRules()
    rules.allow_reading(confinement.paths.readable, confinement.paths.listable)
    overlay = _lay_over_project(confinement, rules) if confinement.writes else None
    die_with_parent(signal.SIGKILL)  # after the overlay's user namespace: a change of credentials clears it
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
    # The existing rules apply to the files below the overlay, so the overlay needs rules of its own.
    project = confinement.paths.listable[0]
    overlay = lay_over(project, confinement.paths.hidden, min(MOST_WRITTEN, confinement.memory // 2))
    rules.allow_reading([f"/proc/self/fd/{overlay.changed}"])
    rules.allow_writing([project, os.devnull], runs=False)
    return overlay


def _limit_resources(confinement: Confinement, overlay: ProjectOverlay | None) -> None:
    # Not RLIMIT_AS: libraries loaded by torch and mapped files take gigabytes of address space.
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
