"""Tools that were defined in this process, by their names; the last definition of a name counts."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from vibe_jupyter.tools.definition import Definition

_here: Final[dict[str, Definition]] = {}
_collecting: Final[ContextVar[list[Definition] | None]] = ContextVar("collecting", default=None)


def register(definition: Definition) -> None:
    """Offer a tool from the next request on; or hand it to who loads the file it stands in."""
    collected = _collecting.get()
    if collected is None:
        _here[definition.name] = definition
    else:
        collected.append(definition)


def registered() -> tuple[Definition, ...]:
    """What was defined in cells and imported modules."""
    return tuple(_here.values())


@contextmanager
def collecting() -> Generator[list[Definition]]:
    """Everything that is defined inside belongs to the caller."""
    collected: list[Definition] = []
    token = _collecting.set(collected)
    try:
        yield collected
    finally:
        _collecting.reset(token)
