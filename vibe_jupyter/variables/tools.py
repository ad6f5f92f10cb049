"""The `inspect` tool, which lists or describes the user's variables without running their code."""

import fnmatch
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import RESULT_LIMIT, head_and_tail
from vibe_jupyter.protocol import TABLE_MIME, Headline, MimeBundle, Preview, Resource, Table, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext
from vibe_jupyter.variables.adapters import HEAD_ROWS, VariableDescription, VariableView
from vibe_jupyter.variables.describe import CallMain, describe_value, value_kind
from vibe_jupyter.variables.describing import WITH_VALUES, Describing, by_schema
from vibe_jupyter.variables.paths import FoundValue, find_value
from vibe_jupyter.variables.schema_text import schema_text

_TIME_LIMIT: Final = 0.5  # seconds on the main thread; remaining variables are then only counted
_MODULES_SHOWN: Final = 20  # modules named in the last line
_LISTED: Final = 100  # variables per list by default
_GLOB: Final = re.compile(r"[\w*?]*[*?][\w*?]*")


class InspectArgs(BaseModel):
    """What to look at, and how closely."""

    model_config = ConfigDict(extra="forbid")

    names: list[str] = Field(
        default=[], description="""Names, globs (df*), paths (df["col"], d["k"][0], obj.attr). Default: list all."""
    )
    columns: list[str] | None = Field(default=None, description="Of a frame.")
    rows: int = Field(default=HEAD_ROWS, ge=0, le=50)
    stats: bool = Field(default=True, json_schema_extra=UNLISTED)
    """Nulls and ranges, from at most 1,000 spread rows."""
    types: list[str] | None = Field(default=None, json_schema_extra=UNLISTED)
    """A list holds only types that hold one of these words."""
    limit: int = Field(default=_LISTED, ge=1, le=500, json_schema_extra=UNLISTED)
    """Variables of one list."""


@dataclass(frozen=True)
class _Listed:
    """Matching variables as lines."""

    rows: tuple[tuple[str, str], ...]
    total: int
    modules: tuple[str, ...]

    @property
    def count(self) -> str:
        """Count with noun, such as ``1 variable``."""
        return f"{self.total} variable{'s' * (self.total != 1)}"


class _Inspected(NamedTuple):
    """Result for one name, glob or path."""

    text: str
    summary: str = ""
    display: MimeBundle | None = None
    failed: bool = False


class InspectTool(Tool[InspectArgs]):
    """Lists variables with type and extent, and describes them by the adapters of their types."""

    name = "inspect"
    description = (
        "Look at the kernel's variables; runs no code. Lists all with type and shape, or shows those named: of frames "
        "types, nulls, ranges, first rows."
    )
    level = "always"
    arguments = InspectArgs
    without_values = "always"

    def __init__(self, namespace: Callable[[], Mapping[str, object]], call_main: CallMain) -> None:
        self._namespace = namespace
        self._call_main = call_main

    def headline(self, args: InspectArgs) -> Headline:
        if not args.names:
            return Headline(verb="Listed variables", doing="Listing variables", asking="List variables", target="")
        lists = all(map(_GLOB.fullmatch, args.names))
        verb, doing, asking = ("Listed", "Listing", "List") if lists else ("Inspected", "Inspecting", "Inspect")
        return Headline(verb=verb, doing=doing, asking=asking, target=", ".join(args.names))

    def preview(self, args: InspectArgs) -> Preview:
        if not args.names:
            return Preview(kind="text", text="List the variables with their types.")
        return Preview(kind="text", text=f"Look at {', '.join(args.names)}.")

    def touches(self, args: InspectArgs) -> Sequence[Resource]:
        return tuple(Resource(kind="variable", value=name, access="read") for name in args.names or ("*",))

    async def run(self, args: InspectArgs, context: ToolContext) -> ToolResult:
        describing = by_schema() if context.schema_only else WITH_VALUES
        found = await self._call_main(lambda: _inspect_names(self._namespace(), args, describing))
        if len(found) == 1:
            (only,) = found
            if only.failed:
                raise ToolError(only.text)
            return ToolResult.text(head_and_tail(only.text), summary=only.summary, display=only.display or {})
        room = RESULT_LIMIT // len(found) - 2
        texts = [head_and_tail(one.text, room) for one in found]
        failed = sum(one.failed for one in found)
        return ToolResult(
            parts=ToolResult.text("\n\n".join(texts)).parts,
            summary=f"{len(found) - failed} of {len(found)} found" if failed else f"{len(found)} variables",
            display={"text/plain": "\n\n".join(texts)},
            is_error=failed == len(found),
        )


def _inspect_names(namespace: Mapping[str, object], args: InspectArgs, describing: Describing) -> list[_Inspected]:
    deadline = time.monotonic() + _TIME_LIMIT
    names = dict.fromkeys(args.names) or {"*": None}
    return [_inspect_name(namespace, name, args, deadline, describing) for name in names]


def _inspect_name(
    namespace: Mapping[str, object], name: str, args: InspectArgs, deadline: float, describing: Describing
) -> _Inspected:
    if _GLOB.fullmatch(name):
        return _list_matching(namespace, name, args, deadline, describing)
    if describing.schema_only:
        return _inspect_schema(namespace, name, args)
    try:
        found = find_value(namespace, name)
        described = describe_value(found.value, _view_of(found, args))
    except ToolError as error:
        return _Inspected(str(error), failed=True)
    status = f"{name}: {described.headline}"
    text = f"{status}\n{described.body}" if described.body else status
    return _Inspected(text, described.summary or described.headline, _description_display(described))


def _inspect_schema(namespace: Mapping[str, object], name: str, args: InspectArgs) -> _Inspected:
    """Describe without values. No suggestions for missing names, since labels may be values themselves."""
    try:
        found = find_value(namespace, name)
    except ToolError:
        return _Inspected(f"{name} is not there, or cannot be told without values", failed=True)
    try:
        columns = args.columns if found.column is None else [found.column]
        text = f"{name}: {schema_text(found.value, columns)}"
    except ToolError as error:
        return _Inspected(str(error), failed=True)
    return _Inspected(text, text.partition("\n")[0], {"text/plain": text})


def _view_of(found: FoundValue, args: InspectArgs) -> VariableView:
    columns = tuple(args.columns) if args.columns is not None else None
    return VariableView(columns if found.column is None else (found.column,), args.rows, args.stats)


def _list_matching(
    namespace: Mapping[str, object], pattern: str, args: InspectArgs, deadline: float, describing: Describing
) -> _Inspected:
    listed = _list_namespace(namespace, pattern, args, deadline, describing.line)
    shown = len(listed.rows)
    return _Inspected(
        head_and_tail("\n".join(_variable_lines(listed))),
        listed.count if shown == listed.total else f"{listed.count}, first {shown} shown",
        {TABLE_MIME: Table(columns=("name", "value"), rows=listed.rows).model_dump(mode="json")},
    )


def _list_namespace(
    namespace: Mapping[str, object],
    pattern: str,
    args: InspectArgs,
    deadline: float,
    line: Callable[[object], str],
) -> _Listed:
    wanted = [name for name in namespace if fnmatch.fnmatchcase(name, pattern)]
    if args.types is not None:
        words = [word.casefold() for word in args.types]
        wanted = [name for name in wanted if any(word in value_kind(namespace[name]).casefold() for word in words)]
    modules = [name for name in wanted if value_kind(namespace[name]) == "module"]
    variables = sorted(set(wanted) - set(modules))
    rows: list[tuple[str, str]] = []
    for name in variables[: args.limit]:
        if time.monotonic() > deadline:
            break
        rows.append((name, line(namespace[name])))
    return _Listed(tuple(rows), len(variables), tuple(sorted(modules)))


def _variable_lines(listed: _Listed) -> list[str]:
    lines = [listed.count, *(f"{name}: {text}" for name, text in listed.rows)]
    left = listed.total - len(listed.rows)
    if left:
        lines.append(f"… {left} more; narrow with a glob such as df*")
    if listed.modules:
        more = ", …" if len(listed.modules) > _MODULES_SHOWN else ""
        lines.append("modules: " + ", ".join(listed.modules[:_MODULES_SHOWN]) + more)
    return lines


def _description_display(described: VariableDescription) -> MimeBundle:
    if described.table is None:
        return {"text/plain": head_and_tail("\n".join(part for part in (described.headline, described.body) if part))}
    table = Table(columns=described.table.columns, rows=described.table.rows)
    return {TABLE_MIME: table.model_dump(mode="json")}
