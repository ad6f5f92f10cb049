"""`vibe-jupyter` with less than it has elsewhere: `limited_program.py LIMIT ARGUMENT…`."""

import ctypes
import resource
import sys

from vibe_jupyter.cli import main

CAPABILITIES_VERSION = 0x20080522
CAP_DAC_OVERRIDE = 1 << 1
ROOM = 400_000
"""Bytes."""


def heed_modes() -> None:
    """Root heeds the mode of files, as everybody does."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: their lower halves, then their upper ones
    assert libc.capget(head, sets) == 0
    for held in (0, 1):  # access() looks at those that are permitted
        sets[held] &= ~CAP_DAC_OVERRIDE
    assert libc.capset(head, sets) == 0


def bound_files() -> None:
    """No file may grow beyond a few hundred kilobytes, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


{"heed-modes": heed_modes, "bound-files": bound_files}[sys.argv.pop(1)]()
sys.exit(main())
