"""Mutations drawn over the whole package, with the operators of cosmic-ray.

Every place is given a number by the seed, its function and its code, and the smallest are taken: the same seed draws
the same mutations, and a change of the code changes those alone that stand in it.
"""

import ast
import gc
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.mutations.chosen import PACKAGE, ROOT, Mutation, one_line

SEED = 12
COUNT = 50
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

_COMPARISONS = {
    **{"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    **{"is not": "is", "is": "is not", "not in": "in", "in": "not in"},
}
_ARITHMETIC = {"+": "-", "-": "+", "*": "/", "//": "*", "/": "*", "%": "*", "&": "|", "<<": ">>", ">>": "<<"}
_CONNECTIONS = {"and": "or", "or": "and"}
_ONCE_FOR_ALL = frozenset({"TYPE_CHECKING"})
_LEFT_TO_OTHERS = (
    *("tests/browser", "tests/mutations", "tests/sweeps", "tests/docs", "tests/test_", "tests/mcp/test_real"),
    "tests/permissions/test_shell_fuzz",
)
"""Tests that take long, or other commands each time; some of them are in the folders of `_WIDER` all the same."""
_WIDER = {
    "agent": ("tests/agent", "tests/app"),
    "app": ("tests/app", "tests/headless", "tests/notebook"),
    "commands": ("tests/app", "tests/headless"),
    "cli": ("tests/headless", "tests/app", "tests/mcp_server"),
    "context": ("tests/app", "tests/notebook"),
    "files": ("tests/tools", "tests/permissions"),
    "protocol": ("tests/agent", "tests/ui", "tests/session"),
    "permissions": ("tests/permissions", "tests/secrets"),
    "testing": ("tests/llm", "tests/agent"),
    "ui": ("tests/ui", "tests/app"),
    "variables": ("tests/variables", "tests/charts", "tests/sandbox/test_foresight.py"),
}
"""Folders of tests, and files, for a part of the package that has more, or others, than the one of its own name."""


def parsed(source: str) -> ast.Module:
    """The tree of a file. On Python 3.11 the parser fails at times where finalizers run (CPython issue 106905)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_on:
            gc.enable()


def drawn_mutations(seed: int = SEED, count: int = COUNT) -> list[Mutation]:
    """So many, in the order of their files."""
    argued = _argued_equivalents()
    seen: Counter[str] = Counter()
    ranked: list[tuple[bytes, Mutation]] = []
    for one in _every_mutation():
        said = f"{one.file} {one.breaks} {one_line(one.was)} -> {one_line(one.becomes)}"
        seen[said] += 1
        ranked.append((hashlib.sha256(f"{seed} {said} {seen[said]}".encode()).digest(), one))
    drawn = [mutation for _, mutation in sorted(ranked, key=lambda each: each[0])[:count]]
    drawn.sort(key=lambda one: (one.file, one.place))
    return [replace(one, equivalent=argued.get((one.breaks, one.name), "")) for one in drawn]


@cache
def _every_mutation() -> tuple[Mutation, ...]:
    users = _tests_by_module()
    found: list[Mutation] = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        file = path.relative_to(ROOT / PACKAGE).as_posix()
        tests = _stages(file, users)
        sites = _Sites(path.read_text(encoding="utf-8")).all()
        found += [Mutation(file, was, becomes, place, where, tests) for place, was, becomes, where in sites]
    return tuple(found)


def _argued_equivalents() -> dict[tuple[str, str], str]:
    if not EQUIVALENT.exists():
        return {}
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    return {(entry["function"], entry["name"]): entry["why"] for entry in entries}


class _Sites:
    """The places of one file at which an operator changes something."""

    def __init__(self, source: str) -> None:
        self._source = source
        lines = source.splitlines(keepends=True)
        self._lines = [line.encode() for line in lines]
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def all(self) -> Iterator[tuple[int, str, str, str]]:
        """Place, text, what takes its place, and the function with its line."""
        for node, function in _walk(parsed(self._source), ""):
            for start, end, becomes in self._changes(node):
                yield start, self._source[start:end], becomes, function or "module"

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        yield from self._operators(node)
        yield from self._values(node)
        yield from self._flow(node)

    def _operators(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Compare():
                for before, after in pairwise([node.left, *node.comparators]):
                    yield from self._between(before, after, _COMPARISONS)
            case ast.BoolOp():
                for before, after in pairwise(node.values):
                    yield from self._between(before, after, _CONNECTIONS)
            case ast.BinOp():
                yield from self._between(node.left, node.right, _ARITHMETIC)
            case ast.UnaryOp(op=ast.Not()):
                yield (*self._span(node), f"({self._text(node.operand)})")
            case _:
                pass

    def _values(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Constant(value=bool(value)):
                yield (*self._span(node), str(not value))
            case ast.Constant(value=int(value) | float(value)):
                yield (*self._span(node), repr(value + 1))
            case _:
                pass

    def _flow(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        match node:
            case ast.Break() | ast.Continue():
                yield (*self._span(node), "continue" if isinstance(node, ast.Break) else "break")
            case ast.For():
                yield (*self._span(node.iter), "[]")
            case ast.ExceptHandler(type=ast.expr() as kind):
                yield (*self._span(kind), "()")
            case ast.If() | ast.While() if self._text(node.test) not in _ONCE_FOR_ALL:
                yield (*self._span(node.test), f"(not ({self._text(node.test)}))")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in node.decorator_list:
                    start, end = self._span(decorator)
                    yield start - 1, end, "# "
            case _:
                pass

    def _between(self, before: ast.expr, after: ast.expr, swaps: dict[str, str]) -> Iterator[tuple[int, int, str]]:
        start, end = self._span(before)[1], self._span(after)[0]
        words = "|".join(r"\s+".join(map(_word, sign.split())) for sign in sorted(swaps, key=len, reverse=True))
        found = list(re.finditer(words, re.sub(r"#[^\n]*", lambda gap: " " * len(gap[0]), self._source[start:end])))
        if len(found) == 1:
            yield start + found[0].start(), start + found[0].end(), swaps[one_line(found[0][0])]

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end]

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())


def _word(sign: str) -> str:
    return rf"\b{sign}\b" if sign.isalpha() else re.escape(sign)


def _walk(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """Every node that runs, with the function it is in: no annotations, and no texts with values in them."""
    if isinstance(node, ast.JoinedStr):
        return  # Python 3.11 does not say where its parts stand
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".strip(".")
    yield node, function
    left_out: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        left_out = [node.returns]
    elif isinstance(node, ast.AnnAssign | ast.arg):
        left_out = [node.annotation]
    for child in ast.iter_child_nodes(node):
        if child not in left_out:
            yield from _walk(child, function)


def _stages(file: str, users: dict[str, set[str]]) -> tuple[tuple[str, ...], ...]:
    """Tests that import the module or are named like it, then all of its part of the package."""
    module = ".".join((PACKAGE, *Path(file).with_suffix("").parts)).removesuffix(".__init__")
    part = file.partition("/")[0].removesuffix(".py")
    own = (f"tests/{part}",) if (ROOT / "tests" / part).is_dir() else ("tests/app", "tests/headless")
    wider = _WIDER.get(part, own)
    words = _words_of(file) - _words_of(part)
    alike = {path for folder in wider for path in _test_files(folder) if words & _words_of(Path(path).name)}
    near = tuple(sorted(users.get(module, set[str]()) | alike))
    return (near, wider) if near else (wider,)


def _words_of(path: str) -> set[str]:
    return {word.removesuffix("s") for word in re.split(r"[^a-z]+", path.removesuffix(".py"))} - {"", "test"}


def _test_files(folder: str) -> list[str]:
    found = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("test_*.py"))
    return [name for name in found if not name.startswith(_LEFT_TO_OTHERS)]


def _tests_by_module() -> dict[str, set[str]]:
    """The test files that import each module of the package themselves."""
    users: dict[str, set[str]] = {}
    for name in _test_files("tests"):
        for module in _imported(parsed((ROOT / name).read_text(encoding="utf-8"))):
            users.setdefault(module, set()).add(name)
    return users


def _imported(tree: ast.Module) -> Iterable[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
