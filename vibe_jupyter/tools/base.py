"""The contract of a tool, and of a set of tools.

A tool gets what it needs (a workspace, the kernel) in its constructor. The context of one call has three members,
and none is optional.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from vibe_jupyter.protocol import Headline, Level, Preview, Resource, ToolResult, ToolSpec

A = TypeVar("A", bound=BaseModel)


@dataclass(frozen=True)
class ToolContext:
    """What one call may use of the run that makes it."""

    call_id: str
    progress: Callable[[str], None]
    """Show new output while the tool runs; callable from any thread."""
    cancelled: Callable[[], bool]
    """Whether the run was interrupted; for work on threads that cannot be cancelled by asyncio."""


class Tool(Protocol[A]):
    """One thing the model can do. See `vibe_jupyter.tools.builtin.grep` for a small whole one."""

    @property
    def name(self) -> str:
        """Letters, digits, ``_`` and ``-``, at most 64."""
        ...

    @property
    def description(self) -> str:
        """A few lines for the model: what it does, when to use it, what comes back."""
        ...

    @property
    def level(self) -> Level:
        """How it is allowed where the configuration says nothing."""
        ...

    @property
    def arguments(self) -> type[A]:
        """The pydantic model of its arguments; the schema sent to the model is generated from it."""
        ...

    def headline(self, args: A) -> Headline:
        """The call in one line."""
        ...

    def preview(self, args: A) -> Preview:
        """Everything the call will do, as the approval card shows it."""
        ...

    def touches(self, args: A) -> Sequence[Resource]:
        """What the call reads, writes or executes. Decides nothing and opens nothing."""
        ...

    async def run(self, args: A, context: ToolContext) -> ToolResult:
        """Do it.

        Raises:
            ToolError: the model reads the text and can try something else.
        """
        ...


class Toolset(Protocol):
    """Some tools, from wherever they come."""

    def specs(self) -> Sequence[ToolSpec]:
        """What the model is offered, in a stable order."""
        ...

    def find(self, name: str) -> Tool[Any] | None:
        """The tool of that name; None when there is none."""
        ...


class StaticToolset:
    """A fixed list of tools; their schemas are generated once."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self._tools: Mapping[str, Tool[Any]] = {tool.name: tool for tool in tools}
        self._specs = tuple(spec_of(tool) for tool in tools)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    def find(self, name: str) -> Tool[Any] | None:
        return self._tools.get(name)


def spec_of(tool: Tool[Any]) -> ToolSpec:
    """The schema of a tool's pydantic arguments: nested definitions stay, titles go (seed 001, Tool Schemas)."""
    schema = _without_titles(tool.arguments.model_json_schema())
    assert isinstance(schema, dict)
    schema.setdefault("properties", {})
    schema["additionalProperties"] = False
    return ToolSpec(name=tool.name, description=tool.description, parameters=schema)


def _without_titles(node: JsonValue, *, names: bool = False) -> JsonValue:
    """Drop ``title`` keywords, but not a property that happens to be called title."""
    if isinstance(node, dict):
        return {
            key: _without_titles(value, names=key in ("properties", "$defs") and not names)
            for key, value in node.items()
            if names or key != "title"
        }
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    return node
