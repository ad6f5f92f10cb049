"""Inspect a process that makes a system call, from outside through /proc."""

import os
import re
from contextlib import suppress
from typing import Final

_PAGE: Final = 4_096
_OWN_DESCRIPTORS: Final = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


def link_of(thread: int, name: str) -> str | None:
    """Return the target of a link in the thread's /proc folder, such as ``cwd``, or None if it is gone."""
    with suppress(OSError):
        return os.readlink(f"/proc/{thread}/{name}")
    return None


def program_of(thread: int) -> str:
    """Return the program's name (`comm`), which the program can set itself."""
    with suppress(OSError), open(f"/proc/{thread}/comm", encoding="utf-8", errors="replace") as name:
        return name.read().strip()
    return ""


def memory_of(thread: int, address: int, most: int) -> bytes:
    """Read memory up to `most` bytes, the end of the mapping, or the page that contains the first zero byte."""
    data = b""
    with suppress(OSError, OverflowError), open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        while len(data) < most:
            size = min(most - len(data), _PAGE - (address + len(data)) % _PAGE)
            chunk = os.pread(memory.fileno(), size, address + len(data))
            data += chunk
            if not chunk or b"\0" in chunk:
                break
    return data


def of_thread(path: str, thread: int) -> str:
    """Rewrite paths of the process's own descriptors, which would otherwise resolve to the guard's."""
    if path in _OWN_DESCRIPTORS:
        return f"/proc/{thread}/fd/{_OWN_DESCRIPTORS[path]}"
    if path.startswith("/dev/fd/"):
        return f"/proc/{thread}/fd/{path[8:]}"
    return re.sub(r"\A/proc/(self|thread-self)(?=/|\Z)", f"/proc/{thread}", path)


def signed(value: int) -> int:
    """Interpret an argument's low 32 bits as a signed integer."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
