"""What there is to know of a process that makes a system call, from outside it."""

import os
import re
from contextlib import suppress
from typing import Final

_PAGE: Final = 4_096
_OWN_DESCRIPTORS: Final = {"/dev/stdin": "0", "/dev/stdout": "1", "/dev/stderr": "2"}


def link_of(thread: int, name: str) -> str | None:
    """Where a link of it leads, such as ``cwd``; None where it is gone."""
    with suppress(OSError):
        return os.readlink(f"/proc/{thread}/{name}")
    return None


def program_of(thread: int) -> str:
    """Its name, as it gives it."""
    with suppress(OSError), open(f"/proc/{thread}/comm", encoding="utf-8", errors="replace") as name:
        return name.read().strip()
    return ""


def memory_of(thread: int, address: int, most: int) -> bytes:
    """What is there, up to the end of what is mapped or the first zero byte past a page."""
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
    """With the caller's own descriptors where the guard's would be found."""
    if path in _OWN_DESCRIPTORS:
        return f"/proc/{thread}/fd/{_OWN_DESCRIPTORS[path]}"
    if path.startswith("/dev/fd/"):
        return f"/proc/{thread}/fd/{path[8:]}"
    return re.sub(r"\A/proc/(self|thread-self)(?=/|\Z)", f"/proc/{thread}", path)


def signed(value: int) -> int:
    """An argument as a number of 32 bits that may be negative."""
    low = value & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low
