"""Fast imports that ignore the working folder, so that a user's `json.py` can't shadow a dependency."""

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
    """Ignore the working folder in imports inside the block: a file `httpx.py` there can't shadow httpx.

    Our own imports always ignore it (`vibe_jupyter.import_guard`). This is for imports by the user's code that must as
    well.
    """
    import_guard.bar()
    try:
        yield
    finally:
        import_guard.unbar()


@contextmanager
def without_collections() -> Generator[None]:
    """Suspend garbage collection while importing many modules.

    Modules stay in memory, so scanning their objects again and again is wasted time. Afterwards all existing objects
    are moved to the oldest generation, so that the next young collection doesn't scan them either.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:  # otherwise the user has frozen objects, and unfreezing would release them
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def defer_address_grammar() -> None:
    """Let jsonschema be imported without its grammar of IRIs, which takes a second of CPU time to build.

    jsonschema imports it to validate the format `iri`. It is then built at the first such validation.
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
    """Replace a module that is slow to import by one with just these members, inside the block."""
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
    """Build pydantic models without loading pydantic's plugins.

    To find plugins, pydantic reads the metadata of every installed package, which takes longer than building all our
    models. Has no effect if the user's own models have already loaded the plugins.
    """
    if _PLUGINS in sys.modules:
        yield
        return
    with light_module(_PLUGINS, get_plugins=tuple):
        yield
