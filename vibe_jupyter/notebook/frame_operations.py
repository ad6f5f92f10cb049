"""Static analysis of frames: the frames that each one derives from, by operations that may change its rows."""

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import NOT_PARSED, parse_quietly, python_of

FILTER: Final = "boolean filter"
SLICE: Final = "slice"
_JOINS: Final = frozenset({"merge", "join", "merge_asof", "join_asof"})
# Operations of pandas and polars whose code doesn't show that rows are dropped.
LOSES: Final = _JOINS | {"dropna", "drop_duplicates", "drop_nulls", "drop_nans", "unique"}
# Operations that pick the rows to keep.
_PICKS: Final = frozenset(
    {
        *(FILTER, SLICE, "query", "filter", "drop", "head", "tail", "sample", "nlargest", "nsmallest", "limit"),
        *("top_k", "bottom_k"),
    }
)
# Operations whose result has other kinds of rows.
RESHAPES: Final = frozenset(
    {
        *("groupby", "group_by", "agg", "aggregate", "pivot", "pivot_table", "crosstab", "value_counts", "resample"),
        *("describe", "melt", "unpivot", "stack", "unstack", "explode", "transpose", "sum", "mean", "count", "size"),
        *("nunique", "rolling", "cut", "get_dummies"),
    }
)
ADDS: Final = frozenset({"concat", "append", "vstack", "extend", "reindex"})
_FRAME_ARGUMENTS: Final = ("left", "right", "other", "objs", "items")
# Functions that read with one argument and may write with more.
_OPENS: Final = frozenset({"open", "load", "loadtxt", "genfromtxt", "imread", "open_dataset"})
_READS: Final = ("read_", "scan_")  # prefixes of functions that read a file into a frame


class FrameOperation(NamedTuple):
    """Derivation of one frame in a cell."""

    target: str
    # Names it derives from, starting with the one that provides its rows; may include names that aren't frames.
    sources: tuple[str, ...]
    operations: tuple[str, ...]  # in order: those that may change rows, else all functions that were called


def frame_operations(source: str) -> list[FrameOperation]:
    """Return an operation for each name that the cell binds or changes in place, in order; [] if it isn't Python."""
    code, found = python_of(source)
    if found.is_prompt:
        return []
    try:
        tree = parse_quietly(code)
    except NOT_PARSED:
        return []
    made: dict[str, FrameOperation] = {}
    try:
        for one in _of_body(tree.body):
            first = made.get(one.target)
            made[one.target] = one if first is None or one.target not in one.sources else _joined(first, one)
    except RecursionError:  # nested too deep
        return []
    return [one._replace(operations=_named(one.operations)) for one in made.values()]


def _named(operations: Sequence[str]) -> tuple[str, ...]:
    """Return the operations that may change rows, or all if none is known to."""
    known = LOSES | _PICKS | RESHAPES | ADDS
    return tuple(dict.fromkeys([one for one in operations if known & main_operations([one])] or operations))


def read_files(source: str) -> list[str]:
    """Return the files and URLs that a cell names literally where it reads data; [] if it isn't Python."""
    code, found = python_of(source)
    if found.is_prompt:
        return []
    try:
        calls = [one for one in ast.walk(parse_quietly(code)) if isinstance(one, ast.Call)]
    except (*NOT_PARSED, RecursionError):
        return []
    named: list[str] = []
    for call in calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name.startswith(_READS) or (name in _OPENS and len(call.args) == 1):
            first = [one.value for one in call.args[:1] if isinstance(one, ast.Constant)]
            named += [one for one in first if isinstance(one, str)]
    return list(dict.fromkeys(named))


def _of_body(body: Sequence[ast.stmt]) -> Iterator[FrameOperation]:
    """Yield operations of statements that run with the cell, also inside ``with``, ``if``, ``for`` and ``try``."""
    for statement in body:
        yield from _of_statement(statement)
        if isinstance(statement, ast.With | ast.If | ast.For | ast.While | ast.Try):
            for field in ("body", "orelse", "finalbody"):
                yield from _of_body(getattr(statement, field, []))


def _joined(first: FrameOperation, then: FrameOperation) -> FrameOperation:
    """Combine two consecutive operations on the same frame."""
    more = tuple(name for name in then.sources if name not in (*first.sources, first.target))
    return first._replace(
        sources=(*first.sources, *more),
        operations=(*first.operations, *then.operations),
    )


def _of_statement(statement: ast.stmt) -> Iterator[FrameOperation]:
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
        ):
            yield _of_expression(target, value)
        case ast.Expr(value=ast.Call(keywords=keywords) as value) if any(
            one.arg == "inplace" and isinstance(one.value, ast.Constant) and one.value.value is True for one in keywords
        ):
            made = _of_expression("", value)
            if made.sources:
                yield made._replace(target=made.sources[0])
        case _:
            pass


def _of_expression(target: str, value: ast.expr) -> FrameOperation:
    walk = _ChainWalk()
    walk.take(value)
    return FrameOperation(target, tuple(dict.fromkeys(walk.sources)), tuple(walk.operations))


class _ChainWalk:
    """Walk along a chain of calls and subscripts down to the frame at its start."""

    def __init__(self) -> None:
        self.sources: list[str] = []
        self.operations: list[str] = []

    def take(self, value: ast.expr) -> None:
        match value:
            case ast.Name(id=name):
                self.sources.append(name)
            case ast.Attribute(value=inner):
                self.take(inner)
            case ast.Subscript(value=inner, slice=part):
                self.take(inner)
                if (what := _subscript(part)) is not None:
                    self.operations.append(what)
            case ast.Call(func=ast.Attribute(value=inner, attr=name)):
                self.take(inner)
                self._call(name, value)
            case ast.Call(func=ast.Name(id=name)):
                self._call(name, value)
            case _:
                pass

    def _call(self, name: str, call: ast.Call) -> None:
        how = _how(call) or ("inner" if name == "merge" else "") if name in _JOINS else ""
        self.operations.append(f"{name} ({how})" if how else name)
        for one in (*call.args, *(one.value for one in call.keywords if one.arg in _FRAME_ARGUMENTS)):
            items = one.elts if isinstance(one, ast.List | ast.Tuple) else [one]
            self.sources += [item.id for item in items if isinstance(item, ast.Name)]


def _how(call: ast.Call) -> str:
    """Return the join type, if the call names it."""
    given = next((one.value for one in call.keywords if one.arg == "how"), None)
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _subscript(part: ast.expr) -> str | None:
    """Return a subscript's operation on rows, or None if it selects columns."""
    rows = part.elts[0] if isinstance(part, ast.Tuple) and part.elts else part
    match rows:
        case ast.Slice(lower=None, upper=None, step=None) | ast.Constant() | ast.List():
            return None
        case ast.Slice():
            return SLICE
        case _:
            return FILTER


def main_operations(operations: Sequence[str]) -> frozenset[str]:
    """Return the operation names without details in parentheses."""
    return frozenset(one.split(" (")[0] for one in operations)
