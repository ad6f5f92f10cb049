"""Check whether this machine and process currently allow a sandboxed copy."""

import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from vibe_jupyter.import_guard import installed_entries
from vibe_jupyter.sandbox.call_numbers import this_processor
from vibe_jupyter.sandbox.inherited import shared_mappings
from vibe_jupyter.sandbox.landlock import landlock_version

LEAST_MEMORY: Final = 128 << 20  # bytes of free memory required for a copy
MOST_MEMORY: Final = 1 << 30  # bytes of memory a copy may allocate
_SHARE_OF_FREE: Final = 4  # a copy may use 1/n of the free memory
_LARGE_SHARED: Final = 256 << 20  # bytes of anonymous shared memory that are too much to duplicate
# Names of pool threads that the copy would wait for, but which a fork doesn't duplicate.
_LOST_POOL: Final = re.compile(r"polars-\d|rayon")
_SECCOMP_ACTIONS: Final = Path("/proc/sys/kernel/seccomp/actions_avail")
_NAMESPACES: Final = Path("/proc/sys/user/max_user_namespaces")
_STATM: Final = Path("/proc/self/statm")
_GROUPS: Final = Path("/sys/fs/cgroup")
_KIB: Final = 1024
_TRY_OVERLAY: Final = """
import os, sys
from vibe_jupyter.sandbox.overlay import lay_over
hidden = os.path.join(sys.argv[1], "hidden")
os.mkdir(hidden)
try:
    lay_over(sys.argv[1], (hidden,))
except OSError as error:
    sys.exit(error.strerror or str(error))
print("laid over")
"""
_TRY_SECONDS: Final = 20  # for a process to start and end on a busy machine


def machine_refusal() -> str:
    """Return why this machine doesn't support copies, or ""."""
    if sys.platform != "linux":
        return f"there is no sandbox for {sys.platform}"
    if not this_processor().numbers:
        return f"there is no sandbox for {platform.machine()} with a Python of {struct.calcsize('P') * 8} bits"
    if landlock_version() < 1:
        return "this Linux has no Landlock"
    if not _has_seccomp():
        return "this Linux has no seccomp filters"
    return ""


@cache
def overlay_refusal() -> str:
    """Return why this machine doesn't support copies with writable files, or "".

    Tried in a separate process, with an empty project that contains a protected folder.
    """
    if refusal := machine_refusal():
        return refusal
    try:
        with tempfile.TemporaryDirectory() as folder:
            tried = subprocess.run(
                (sys.executable, "-P", "-c", _TRY_OVERLAY, os.path.realpath(folder)),
                cwd=os.path.dirname(sys.executable),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(installed_entries(sys.path))},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_TRY_SECONDS,
                check=False,
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be tried: {error}"
    # The exit code isn't reliable: with SIGCHLD ignored, which user code may do, it is always 0.
    return "" if tried.stdout.strip() == "laid over" else (tried.stderr.strip().splitlines() or ["it ended"])[-1]


def process_refusal() -> str:
    """Return why this process can't be copied right now, or ""."""
    for one in shared_mappings():
        if "nvidia" in one.path or "/dev/dri" in one.path or one.path.startswith("anon_inode:[io_uring"):
            return f"a device is mapped into the kernel ({one.path})"
        if not one.is_file and one.size > _LARGE_SHARED:
            return "a large piece of shared memory is in use"
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA is initialised"
    if pools := sorted(name for name in _thread_names() if _LOST_POOL.match(name)):
        return f"threads of a library run that a copy would wait for ({pools[0]})"
    if memory_budget() < LEAST_MEMORY:
        return "too little memory is free"
    return ""


def memory_budget() -> int:
    """Return the bytes of memory a copy may allocate now."""
    budget = min(MOST_MEMORY, _available() // _SHARE_OF_FREE)
    for group in _memory_groups():
        left = _room_in_group(group)
        if left is not None:
            # With memory.oom.group set, the OOM killer ends the whole group, kernel included, so leave more room.
            share = _SHARE_OF_FREE if _number(group / "memory.oom.group") else 2
            budget = min(budget, left // share)
    return budget


def is_memory_short() -> bool:
    """Return whether less memory is free than this process uses. False if unknown."""
    if sys.platform != "linux":
        return False
    import resource  # noqa: PLC0415 - Windows does not have it

    size, held = (int(pages) * resource.getpagesize() for pages in _STATM.read_text(encoding="ascii").split()[:2])
    rooms = [_available(), *(room for group in _memory_groups() if (room := _room_in_group(group)) is not None)]
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(*rooms, sys.maxsize if limit == resource.RLIM_INFINITY else limit - size) < held


def describe_machine() -> dict[str, Any]:
    """Return this machine's sandbox features, for `vibe-jupyter doctor`."""
    on_linux = sys.platform == "linux"
    groups = [left for group in _memory_groups() if (left := _room_in_group(group)) is not None] if on_linux else []
    return {
        "refusal": machine_refusal(),
        "overlay_refusal": overlay_refusal(),
        "landlock": landlock_version(),
        "seccomp": on_linux and _has_seccomp(),
        "user_namespaces": on_linux and bool(_number(_NAMESPACES)),
        "memory": memory_budget() if on_linux else 0,
        "cgroup_headroom": min(groups, default=None),
    }


def _has_seccomp() -> bool:
    with suppress(OSError):
        return "errno" in _SECCOMP_ACTIONS.read_text(encoding="ascii").split()
    return False


def _thread_names() -> Iterator[str]:
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):  # the thread ended
            yield Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8", errors="replace").strip()


def _available() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * _KIB
    return 0


def _memory_groups() -> Iterator[Path]:
    """Yield this process's cgroup (v2) and its ancestors."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            if line.startswith("0::/"):
                group = _GROUPS / line[4:]
                yield from (one for one in (group, *group.parents) if one == _GROUPS or _GROUPS in one.parents)


def _room_in_group(group: Path) -> int | None:
    """Return the bytes left until the cgroup's memory limit, or None without a limit."""
    most, used = _number(group / "memory.max"), _number(group / "memory.current")
    if most is None or used is None:
        return None
    cached = 0
    with suppress(OSError, ValueError):
        stats = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        cached = int(stats.get("inactive_file", 0))
    return max(0, most - used + cached)


def _number(path: Path) -> int | None:
    """Read a number. Returns None for ``max`` and unreadable files."""
    with suppress(OSError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None
