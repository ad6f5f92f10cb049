"""The names under which settings speak of a tool."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vibe_jupyter.protocol import Level
from vibe_jupyter.tools.base import Renamed, Tool


@dataclass(frozen=True)
class ToolNames:
    """A name that may mean another tool too gives nothing, and takes all the same."""

    own: tuple[str, ...]
    """What a permission is given to."""
    all: tuple[str, ...]
    """What one is taken from."""


def names_of(tool: Tool[Any] | str) -> ToolNames:
    """Its own first."""
    if isinstance(tool, str):
        return ToolNames((tool,), (tool,))
    own = (tool.name, *(tool.others if isinstance(tool, Renamed) else ()))
    return ToolNames(own, (*own, *(tool.unclear if isinstance(tool, Renamed) else ())))


def level_under(names: ToolNames, *levels: Mapping[str, Level]) -> Level | None:
    """The level of the first of these settings that has one; ``never`` counts wherever it stands."""
    if any(one.get(name) == "never" for one in levels for name in names.all):
        return "never"
    return next((one[name] for one in levels for name in names.own if name in one), None)
