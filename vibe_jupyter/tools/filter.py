"""Some of the tools of a set, and further ones beside it."""

from collections.abc import Callable, Sequence
from typing import Any

from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.base import Tool, Toolset


class FilteredToolset:
    """A set without the tools the person does not want."""

    def __init__(self, tools: Toolset, keep: Callable[[str], bool]) -> None:
        self._tools = tools
        self._keep = keep

    def specs(self) -> Sequence[ToolSpec]:
        return [spec for spec in self._tools.specs() if self._keep(spec.name)]

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.find(name) if self._keep(name) else None


class JoinedToolsets:
    """Several sets as one; of one name the first one's counts."""

    def __init__(self, *toolsets: Toolset) -> None:
        self._toolsets = toolsets

    def specs(self) -> Sequence[ToolSpec]:
        found: dict[str, ToolSpec] = {}
        for toolset in self._toolsets:
            for spec in toolset.specs():
                found.setdefault(spec.name, spec)
        return list(found.values())

    def find(self, name: str) -> Tool[Any] | None:
        return next(filter(None, (toolset.find(name) for toolset in self._toolsets)), None)
