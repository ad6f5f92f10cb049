"""What we import comes from where packages are installed, never from the folder the kernel works in (security C35)."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_working_folder() -> Generator[None]:
    """Import without the working folder on the path: a file `httpx.py` in it is not httpx.

    What is imported inside stays imported, and the person's own code finds its files again afterwards.
    """
    kept = sys.path[:]
    try:
        here = os.getcwd()
    except OSError:  # it is gone, and nothing can be imported from it
        here = ""
    sys.path[:] = [entry for entry in kept if entry and os.path.realpath(entry) != here]
    try:
        yield
    finally:
        added = [entry for entry in sys.path if entry not in kept]
        sys.path[:] = [*kept, *added]
