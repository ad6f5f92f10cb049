"""The house in figures: how many files, how long, how they are named, and what imports what in a circle.

`python scripts/house.py` prints the figures of `vibe_jupyter/` below the working folder, with a folder behind it those
of another checkout; `--names` adds the one-word functions, `--list` what is over a bound, `--tokens` the tokens of each
package.
"""

import argparse
import ast
import io
import statistics
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "vibe_jupyter"
SHORT_MODULE = 60  # lines
LONG_MODULE = 700  # lines
MOST_METHODS = 20
EMPTY_WORDS = frozenset({"get", "do", "data", "info", "handle", "process", "perform", "the", "a", "it"})
"""Words that say nothing: a name of one other word beside them is a name of one word."""

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of a statement that hold others."""

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FunctionName:
    """One function or method, and where it is."""

    name: str
    place: str
    lines: int
    is_method: bool

    @property
    def words(self) -> list[str]:
        """The words of the name that say something."""
        return [word for word in self.name.strip("_").split("_") if word and word not in EMPTY_WORDS]


@dataclass
class House:
    """Everything that is counted."""

    lines: dict[str, int] = field(default_factory=dict[str, int])
    functions: list[FunctionName] = field(default_factory=list[FunctionName])
    classes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[str, int] = field(default_factory=dict[str, int])
    imports: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    syntax: dict[str, ast.Module] = field(default_factory=dict[str, ast.Module])
    """Each module by its path in the package."""


def read_house(root: Path) -> House:
    """Read every module of the package in a checkout."""
    house = House()
    paths = {_module_name(path, root): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    for module, path in paths.items():
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        house.syntax[path.relative_to(root / PACKAGE).as_posix()] = tree
        house.lines[module] = len(text.splitlines())
        house.imports[module] = set(_imported_modules(tree, module, set(paths)))
        house.functions.extend(_functions_in(tree, module, is_method=False))
        for node in _parts_below(tree):
            if isinstance(node, ast.ClassDef):
                count = len({part.name for part in node.body if isinstance(part, AnyFunction)})
                house.methods[f"{module}.{node.name}"] = count
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                house.classes[node.name].append(module)
    return house


def _module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _functions_in(node: ast.AST, place: str, *, is_method: bool) -> Iterator[FunctionName]:
    seen: set[str] = set()
    for part in _parts_of(node):
        match part:
            case ast.ClassDef():
                yield from _functions_in(part, f"{place}.{part.name}", is_method=True)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                is_special = part.name.startswith("__") and part.name.endswith("__")
                if not is_special and part.name not in seen:
                    lines = (part.end_lineno or part.lineno) - part.lineno + 1
                    yield FunctionName(part.name, place, lines, is_method)
                seen.add(part.name)
                yield from _functions_in(part, f"{place}.{part.name}", is_method=False)
            case _:
                yield from _functions_in(part, place, is_method=is_method)


def _imported_modules(tree: ast.Module, module: str, known: set[str]) -> Iterator[str]:
    """What a module imports of the package when it is run, in functions too; not what only type checkers read."""
    for node in _run_parts(tree):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            found = name if name in known else name.rpartition(".")[0]
            if found in known and found != module:
                yield found


def _parts_below(node: ast.AST) -> Iterator[ast.AST]:
    for part in _parts_of(node):
        yield part
        yield from _parts_below(part)


def _run_parts(node: ast.AST) -> Iterator[ast.AST]:
    for part in _parts_of(node):
        if isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING":
            continue
        yield part
        yield from _run_parts(part)


def _parts_of(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in it, with what holds others: no function, class or import stands in an expression."""
    for block in _BLOCKS:
        yield from getattr(node, block, ())


def import_circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imports[module]):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            circle: list[str] = []
            while not circle or circle[-1] != module:
                circle.append(stack.pop())
            if len(circle) > 1:
                circles.append(sorted(circle))

    for module in sorted(imports):
        if module not in index:
            visit(module)
    return circles


def is_one_word(function: FunctionName) -> bool:
    """Whether the name has only one word that says something."""
    return len(function.words) < 2


def _share(some: int, all_of_them: int) -> str:
    return f"{some} of {all_of_them} ({100 * some / max(all_of_them, 1):.0f} %)"


def figures(house: House) -> Iterator[tuple[str, str]]:
    """Each figure with its name."""
    lines = sorted(house.lines.values())
    lengths = sorted(function.lines for function in house.functions)
    one_word = [function for function in house.functions if is_one_word(function)]
    plain = [function for function in house.functions if not function.is_method]
    repeated = {name: places for name, places in house.classes.items() if len(places) > 1}
    yield "files", str(len(lines))
    yield "lines", f"{sum(lines):,}"
    yield "median module", str(round(statistics.median(lines)))
    yield f"modules under {SHORT_MODULE} lines", str(sum(count < SHORT_MODULE for count in lines))
    yield "longest module", str(lines[-1])
    yield "functions", str(len(lengths))
    yield "function p95", str(lengths[int(0.95 * (len(lengths) - 1))])
    yield "longest function", str(lengths[-1])
    yield "most methods of a class", str(max(house.methods.values()))
    yield "words per function name", f"{statistics.mean(len(one.words) for one in house.functions):.2f}"
    yield "one-word function names", _share(len(one_word), len(house.functions))
    yield "  of those that are no methods", _share(sum(map(is_one_word, plain)), len(plain))
    count = sum(map(len, house.classes.values()))
    yield "public classes whose name is not unique", _share(sum(map(len, repeated.values())), count)
    yield "import circles", str(len(import_circles(house.imports)))


_CODE = frozenset({tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING})


def tokens_by_package(root: Path) -> Counter[str]:
    """Count the tokens of code, without comments and docstrings. Modules outside of packages count as ``.``."""
    counts: Counter[str] = Counter()
    for path in sorted((root / PACKAGE).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        described = {
            node.value.lineno
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        }
        parts = path.relative_to(root / PACKAGE).parts
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            is_docstring = token.type == tokenize.STRING and token.start[0] in described
            counts[parts[0] if len(parts) > 1 else "."] += token.type in _CODE and not is_docstring
    return counts


def _over_a_bound(house: House) -> Iterator[str]:
    for module, count in house.lines.items():
        if count > LONG_MODULE or (count < SHORT_MODULE and not module.endswith("__init__")):
            yield f"{module}: {count} lines"
    for name, count in house.methods.items():
        if count > MOST_METHODS:
            yield f"{name}: {count} methods"
    for name, places in sorted(house.classes.items()):
        if len(places) > 1:
            yield f"class {name}: {', '.join(places)}"
    for circle in import_circles(house.imports):
        yield f"circle: {' -> '.join(circle)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--list", action="store_true", help="what is over a bound")
    parser.add_argument("--names", action="store_true", help="the names of one word, with where they are")
    parser.add_argument("--tokens", action="store_true", help="tokens of code in each package")
    arguments = parser.parse_args()
    house = read_house(arguments.folder)
    for name, value in figures(house):
        print(f"{name:42} {value}")
    if arguments.tokens:
        tokens = tokens_by_package(arguments.folder)
        print(*(f"{name:42} {count:,}" for name, count in [*tokens.items(), ("tokens", tokens.total())]), sep="\n")
    if arguments.list:
        print(*_over_a_bound(house), sep="\n")
    if arguments.names:
        counted = Counter(one.name for one in house.functions if is_one_word(one))
        places: dict[str, list[str]] = defaultdict(list)
        for one in house.functions:
            places[one.name].append(one.place.removeprefix(f"{PACKAGE}."))
        for name, count in counted.most_common():
            print(f"{name} {count}: {' '.join(places[name])}")


if __name__ == "__main__":
    main()
