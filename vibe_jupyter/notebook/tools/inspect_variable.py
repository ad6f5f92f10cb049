"""The tool `inspect_variable`: one variable in detail, in constant time whatever its size."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.notebook.variable_adapters.adapter import HEAD_ROWS, Description, View
from vibe_jupyter.notebook.variables import CallMain, describe
from vibe_jupyter.protocol import (
    TABLE_MIME,
    Headline,
    Level,
    MimeBundle,
    Preview,
    Resource,
    Table,
    ToolResult,
)
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import head_and_tail

_SUGGESTIONS: Final = 3
"""Near names offered for one that does not exist."""


class InspectVariableArgs(BaseModel):
    """What to look at, and how closely."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(description="A variable's name; no expression.")
    columns: list[str] | None = Field(default=None, description="Default: the first 40.")
    rows: int = Field(default=HEAD_ROWS, ge=0, le=50, description="First rows to show.")
    stats: bool = Field(default=True, description="Nulls and ranges, from at most 1,000 spread rows.")


class InspectVariable:
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
        described = await self._call_main(lambda: _describe(self._namespace(), args))
        status = f"{args.name}: {described.headline}"
        text = f"{status}\n{described.body}" if described.body else status
        return ToolResult.text(
            head_and_tail(text),
            summary=described.summary or described.headline,
            display=_display(described),
        )


def _describe(namespace: Mapping[str, object], args: InspectVariableArgs) -> Description:
    if args.name not in namespace:
        raise ToolError(_unknown(args.name, list(namespace)))
    columns = tuple(args.columns) if args.columns is not None else None
    return describe(namespace[args.name], View(columns=columns, rows=args.rows, stats=args.stats))


def _unknown(name: str, names: list[str]) -> str:
    if not name.isidentifier():
        return f"{name!r} is not a variable's name. Give a bare name; run_code evaluates expressions."
    near = difflib.get_close_matches(name, names, _SUGGESTIONS, 0.6)
    hint = f"Did you mean {' or '.join(near)}?" if near else "list_variables names all there are."
    return f"There is no variable {name!r}. {hint}"


def _display(described: Description) -> MimeBundle:
    if described.table is None:
        return {"text/plain": head_and_tail("\n".join(part for part in (described.headline, described.body) if part))}
    table = Table(columns=described.table.columns, rows=described.table.rows)
    return {TABLE_MIME: table.model_dump(mode="json")}
