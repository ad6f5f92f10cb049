"""The tool `list_variables`: what the person has in the kernel, a line each."""

import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.notebook.variables import CallMain, kind, line
from vibe_jupyter.protocol import TABLE_MIME, Headline, Level, Preview, Resource, Table, ToolResult
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import head_and_tail

_TIME_LIMIT: Final = 0.5
"""Seconds on the main thread after which the remaining variables are only counted."""
_MODULES_SHOWN: Final = 20
"""Modules named in the last line."""


class ListVariablesArgs(BaseModel):
    """What to list."""

    model_config = ConfigDict(extra="forbid")

    pattern: str | None = Field(default=None, description="Glob on the name, such as 'df*'.")
    types: list[str] | None = Field(default=None, description="Only types that hold one of these words.")
    limit: int = Field(default=50, ge=1, le=500)


@dataclass(frozen=True)
class _Listed:
    """The namespace in words."""

    rows: tuple[tuple[str, str], ...]
    total: int
    modules: tuple[str, ...]


class ListVariables:
    """Names, types and extents of the person's variables; runs none of their code."""

    name = "list_variables"
    description = (
        "List the kernel's variables with type and shape, one line each; computes nothing. inspect_variable then tells "
        "columns, nulls and samples of one."
    )
    level: Level = "always"
    arguments = ListVariablesArgs

    def __init__(self, namespace: Callable[[], Mapping[str, object]], call_main: CallMain) -> None:
        self._namespace = namespace
        self._call_main = call_main

    def headline(self, args: ListVariablesArgs) -> Headline:
        target = args.pattern or ""
        return Headline(
            verb="Listed variables" if not target else "Listed",
            doing="Listing variables" if not target else "Listing",
            asking="List variables" if not target else "List",
            target=target,
        )

    def preview(self, args: ListVariablesArgs) -> Preview:
        return Preview(kind="text", text=f"List the variables {args.pattern or '*'} with their types.")

    def touches(self, args: ListVariablesArgs) -> Sequence[Resource]:
        return (Resource(kind="variable", value=args.pattern or "*", access="read"),)

    async def run(self, args: ListVariablesArgs, context: ToolContext) -> ToolResult:
        listed = await self._call_main(lambda: _list(self._namespace(), args))
        shown = len(listed.rows)
        count = f"{listed.total} variable{'s' * (listed.total != 1)}"
        return ToolResult.text(
            head_and_tail("\n".join(_lines(listed, count))),
            summary=count if shown == listed.total else f"{count}, first {shown} shown",
            display={TABLE_MIME: Table(columns=("name", "value"), rows=listed.rows).model_dump(mode="json")},
        )


def _list(namespace: Mapping[str, object], args: ListVariablesArgs) -> _Listed:
    wanted = [name for name in namespace if fnmatch.fnmatchcase(name, args.pattern or "*")]
    if args.types is not None:
        words = [word.casefold() for word in args.types]
        wanted = [name for name in wanted if any(word in kind(namespace[name]).casefold() for word in words)]
    modules = [name for name in wanted if kind(namespace[name]) == "module"]
    variables = sorted(set(wanted) - set(modules))
    rows: list[tuple[str, str]] = []
    deadline = time.monotonic() + _TIME_LIMIT
    for name in variables[: args.limit]:
        if time.monotonic() > deadline:
            break
        rows.append((name, line(namespace[name])))
    return _Listed(tuple(rows), len(variables), tuple(sorted(modules)))


def _lines(listed: _Listed, count: str) -> list[str]:
    lines = [count, *(f"{name}: {text}" for name, text in listed.rows)]
    left = listed.total - len(listed.rows)
    if left:
        lines.append(f"… {left} more; narrow with pattern or types, or raise limit")
    if listed.modules:
        more = ", …" if len(listed.modules) > _MODULES_SHOWN else ""
        lines.append("modules: " + ", ".join(listed.modules[:_MODULES_SHOWN]) + more)
    return lines
