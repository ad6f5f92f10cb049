"""Requirements that say what the model or the user gets are proven where it arrives, not at a function that writes it.

A sentence such as "the model is told" or "the user sees" needs a test in whose course a request reaches a model server,
a kernel shows something, a page is open or a program prints. Which that is follows from the fixtures and imports of
the test.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

import pytest

_WHO: Final = r"(?:model|agent|user|person|reader)"
_TOLD: Final = re.compile(
    rf"""
    \b{_WHO}\ (?:and\ the\ {_WHO}\ )?(?:is|are)\ (?:told|shown|offered|reminded|warned|asked)\b
  | \b{_WHO}\ (?:and\ the\ {_WHO}\ )?(?:can\ )?(?:gets?|sees?|hears?|learns?|reads?)\b
  | \b(?:tells?|told|reach(?:es)?|shown|shows|reported|reports|said|sent|visible)\ (?:to\ )?the\ {_WHO}\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
FIXTURES: Final = frozenset(
    {
        *("shared_session", "session", "whole_session", "shared_kernel", "own_kernel", "kernel", "target"),
        *("lab", "page", "open_page", "gateway", "asking", "bench"),
    }
)
"""Fixtures with a kernel, a page, a gateway, or an agent that talks to a model server."""
IMPORTED: Final = frozenset({"ScriptedModel", "running_session", "program_command"})
"""What a module uses that starts a model server, a kernel or the program itself."""
NO_DOOR: Final = (
    "These requirements say what the model or the user gets, and their tests go through no magic, program, page or "
    "HTTP (tests/requirement_doors.py). Prove them there, or word them as what the test proves: {}"
)


def needs_door(sentence: str) -> bool:
    """Return whether a requirement says that the model or the user gets something."""
    return _TOLD.search(sentence) is not None


def has_door(fixtures: Collection[str], imported: Collection[str]) -> bool:
    """Return whether a test with these fixtures, in a module with these names, goes through what users meet."""
    return not (FIXTURES.isdisjoint(fixtures) and IMPORTED.isdisjoint(imported))


def unproven(item: pytest.Item, says: Mapping[str, str]) -> list[str]:
    """Return the requirements of a test that it can't prove: they say what somebody gets, and nobody gets anything."""
    ids = [name for marker in item.iter_markers("requirement") for name in marker.args]
    told = [name for name in ids if needs_door(says.get(name, ""))]
    if not told or not isinstance(item, pytest.Function) or has_door(item.fixturenames, vars(item.module)):
        return []
    return told
