"""The tools `list_variables` and `inspect_variable`."""

import difflib
import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.protocol import TABLE_MIME, Headline, Level, MimeBundle, Preview, Resource, Table, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.variables.adapters import HEAD_ROWS, VariableDescription, VariableView
from vibe_jupyter.variables.describe import CallMain, describe_value, value_kind, value_line

_TIME_LIMIT: Final = 0.5
"""Seconds on the main thread after which the remaining variables are only counted."""
_MODULES_SHOWN: Final = 20
"""Modules named in the last line."""

_SUGGESTIONS: Final = 3
"""Near names offered for one that does not exist."""


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


class ListVariablesTool:
    """Names, types and extents of the user's variables; runs none of their code."""

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
        listed = await self._call_main(lambda: _list_namespace(self._namespace(), args))
        shown = len(listed.rows)
        count = f"{listed.total} variable{'s' * (listed.total != 1)}"
        return ToolResult.text(
            head_and_tail("\n".join(_variable_lines(listed, count))),
            summary=count if shown == listed.total else f"{count}, first {shown} shown",
            display={TABLE_MIME: Table(columns=("name", "value"), rows=listed.rows).model_dump(mode="json")},
        )


def _list_namespace(namespace: Mapping[str, object], args: ListVariablesArgs) -> _Listed:
    wanted = [name for name in namespace if fnmatch.fnmatchcase(name, args.pattern or "*")]
    if args.types is not None:
        words = [word.casefold() for word in args.types]
        wanted = [name for name in wanted if any(word in value_kind(namespace[name]).casefold() for word in words)]
    modules = [name for name in wanted if value_kind(namespace[name]) == "module"]
    variables = sorted(set(wanted) - set(modules))
    rows: list[tuple[str, str]] = []
    deadline = time.monotonic() + _TIME_LIMIT
    for name in variables[: args.limit]:
        if time.monotonic() > deadline:
            break
        rows.append((name, value_line(namespace[name])))
    return _Listed(tuple(rows), len(variables), tuple(sorted(modules)))


def _variable_lines(listed: _Listed, count: str) -> list[str]:
    lines = [count, *(f"{name}: {text}" for name, text in listed.rows)]
    left = listed.total - len(listed.rows)
    if left:
        lines.append(f"… {left} more; narrow with pattern or types, or raise limit")
    if listed.modules:
        more = ", …" if len(listed.modules) > _MODULES_SHOWN else ""
        lines.append("modules: " + ", ".join(listed.modules[:_MODULES_SHOWN]) + more)
    return lines


class InspectVariableArgs(BaseModel):
    """What to look at, and how closely."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="A variable's name; no expression.")
    columns: list[str] | None = Field(default=None, description="Default: the first 40.")
    rows: int = Field(default=HEAD_ROWS, ge=0, le=50, description="First rows to show.")
    stats: bool = Field(default=True, description="Nulls and ranges, from at most 1,000 spread rows.")


class InspectVariableTool:
    """Describes one variable by its type's adapter; runs none of its code."""

    name = "inspect_variable"
    description = (
        "Describe one variable without running its code. Frames: shape, per column type, nulls and range or values, "
        "first rows. Arrays: shape, type, range. Lazy frames are not computed."
    )
    level: Level = "always"
    arguments = InspectVariableArgs

    def __init__(self, namespace: Callable[[], Mapping[str, object]], call_main: CallMain) -> None:
        self._namespace = namespace
        self._call_main = call_main

    def headline(self, args: InspectVariableArgs) -> Headline:
        return Headline(verb="Inspected", doing="Inspecting", asking="Inspect", target=args.name)

    def preview(self, args: InspectVariableArgs) -> Preview:
        return Preview(kind="text", text=f"Look at the variable {args.name}.")

    def touches(self, args: InspectVariableArgs) -> Sequence[Resource]:
        return (Resource(kind="variable", value=args.name, access="read"),)

    async def run(self, args: InspectVariableArgs, context: ToolContext) -> ToolResult:
        described = await self._call_main(lambda: _describe_path(self._namespace(), args))
        status = f"{args.name}: {described.headline}"
        text = f"{status}\n{described.body}" if described.body else status
        return ToolResult.text(
            head_and_tail(text),
            summary=described.summary or described.headline,
            display=_description_display(described),
        )


def _describe_path(namespace: Mapping[str, object], args: InspectVariableArgs) -> VariableDescription:
    if args.name not in namespace:
        raise ToolError(_unknown_name(args.name, list(namespace)))
    columns = tuple(args.columns) if args.columns is not None else None
    return describe_value(namespace[args.name], VariableView(columns=columns, rows=args.rows, stats=args.stats))


def _unknown_name(name: str, names: list[str]) -> str:
    if not name.isidentifier():
        return f"{name!r} is not a variable's name. Give a bare name; run_code evaluates expressions."
    near = difflib.get_close_matches(name, names, _SUGGESTIONS, 0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "list_variables lists them all."
    return f"There is no variable {name!r}. {hint}"


def _description_display(described: VariableDescription) -> MimeBundle:
    if described.table is None:
        return {"text/plain": head_and_tail("\n".join(part for part in (described.headline, described.body) if part))}
    table = Table(columns=described.table.columns, rows=described.table.rows)
    return {TABLE_MIME: table.model_dump(mode="json")}
