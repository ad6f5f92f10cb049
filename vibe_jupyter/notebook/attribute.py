"""Change one object of IPython or of asyncio for a while, and leave it as it was."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def attribute(owner: object, name: str, value: object) -> Generator[None]:
    """Set an attribute of one object for a while, also one that its class defines."""
    own = vars(owner)
    had, before = name in own, own.get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if had:
            setattr(owner, name, before)
        else:
            delattr(owner, name)
