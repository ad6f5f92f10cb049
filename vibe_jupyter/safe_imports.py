"""What we import comes from where packages are installed, never from the folder the kernel works in."""

import gc
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Final

from vibe_jupyter import import_guard

_PLUGINS: Final = "pydantic.plugin._loader"

_ADDRESS_GRAMMAR: Final = "rfc3987_syntax"


@contextmanager
def without_working_folder() -> Generator[None]:
    """Run code whose imports find nothing in the working folder: a file `httpx.py` there is not httpx.

    Our own imports never do (`vibe_jupyter.import_guard`); this is for code of the user's that must not either.
    """
    import_guard.bar()
    try:
        yield
    finally:
        import_guard.unbar()


@contextmanager
def without_collections() -> Generator[None]:
    """Import much at once: what comes is there to stay, and the collector would walk it again and again.

    Afterwards all that is there counts as old, so that the next collection of young objects does not walk it either.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # else the user froze objects, and they stay frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def defer_address_grammar() -> None:
    """Let jsonschema be imported without the grammar of addresses (IRIs), which takes a second of CPU to make.

    jsonschema imports it to check values of the format `iri`. Whoever checks one gets it then.
    """
    if _ADDRESS_GRAMMAR not in sys.modules and (spec := find_spec(_ADDRESS_GRAMMAR)) is not None:
        deferred = ModuleType(_ADDRESS_GRAMMAR)
        deferred.__spec__ = spec
        vars(deferred)["is_valid_syntax"] = _is_valid_address
        sys.modules[_ADDRESS_GRAMMAR] = deferred


def _is_valid_address(term: str, value: str) -> bool:
    if sys.modules[_ADDRESS_GRAMMAR].is_valid_syntax is _is_valid_address:
        del sys.modules[_ADDRESS_GRAMMAR]
    return importlib.import_module(_ADDRESS_GRAMMAR).is_valid_syntax(term, value)


@contextmanager
def light_module(name: str, **members: object) -> Generator[None]:
    """Let a module of these members alone be imported under this name, in the place of one that takes long to load."""
    stand_in = ModuleType(name)
    vars(stand_in).update(members)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


@contextmanager
def without_plugins() -> Generator[None]:
    """Make pydantic models of ours ready without its plugins.

    To find them it reads the metadata of every installed package, which takes longer than all our models together.
    Where they were looked for already, because of the user's own models, nothing is different.
    """
    if _PLUGINS in sys.modules:
        yield
        return
    with light_module(_PLUGINS, get_plugins=tuple):
        yield
