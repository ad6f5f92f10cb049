"""The checkout as a whole: where things are, what they are written in, how big they may grow."""

import ast
import gc
import re
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest

import vibe_jupyter
from scripts import house

pytestmark = pytest.mark.xdist_group("house")
"""The package is parsed once."""

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vibe_jupyter"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Outer bounds, far above what most code needs.
MAX_MODULE = 700  # lines
MAX_FUNCTION = 60  # lines
MAX_METHODS = 20  # per class
MAX_PARAMETERS = 6  # besides self
MAX_ONE_WORD = 0.4  # share of function names

PYTHON = (".py", ".pyi", ".toml", ".md", ".typed")
DATA = (".csv", ".json", ".jsonl", ".ipynb", ".png", ".svg", ".txt")

# Package to the code, or test, that uses it. ipykernel is what we run in and is not imported.
USED_AS = {
    "ipython": r"^\s*(from|import) IPython\b",
    "ipywidgets": r"^\s*(from|import) ipywidgets\b",
    "anywidget": r"^\s*(from|import) anywidget\b|import_module\(.anywidget",
    "jupyterlab": r"^\s*\"jupyterlab\",$",
    "httpx": r"^\s*(from|import) httpx\b",
    "pydantic": r"^\s*(from|import) pydantic\b",
    "mcp": r"^\s*(from|import) mcp\b",
    "nest-asyncio": r"import_module\(.nest_asyncio",
    "markdown-it-py": r"^\s*(from|import) markdown_it\b",
    "nh3": r"^\s*(from|import) nh3\b",
    "pygments": r"^\s*(from|import) pygments\b",
    "pytest": r"^\s*(from|import) pytest\b",
}

THE_USERS_OWN = {"PIL"}
"""What is used where the user's code brings it, and not missed elsewhere."""


def tracked(folder: str = ".") -> list[Path]:
    """What git keeps or would keep, relative to the root."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    return [path for line in listed.splitlines() if (ROOT / (path := Path(line))).is_file()]


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", text)[0].lower() for text in requirements}


@contextmanager
def no_collection() -> Generator[None, None, None]:
    """Where much is made that stays: the looks for garbage would take two thirds of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(scope="module")
def package() -> house.House:
    with no_collection():
        return house.read_house(ROOT)


LookedAt = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Call
Syntax = list[tuple[str, LookedAt]]


@pytest.fixture(scope="module")
def syntax(package: house.House) -> Syntax:
    """What the tests here look at, with the path in the package of its module: one walk for them all."""
    with no_collection():
        nodes = ((path, node) for path, tree in package.syntax.items() for node in ast.walk(tree))
        return [(path, node) for path, node in nodes if isinstance(node, LookedAt)]


def test_no_two_public_classes_have_one_name(package: house.House) -> None:
    assert {name: places for name, places in package.classes.items() if len(places) > 1} == {}


def test_no_modules_import_each_other_in_a_circle_not_even_late(package: house.House) -> None:
    assert house.import_circles(package.imports) == []


def test_most_names_of_functions_say_what_is_done_to_what(package: house.House) -> None:
    assert sum(map(house.is_one_word, package.functions)) <= MAX_ONE_WORD * len(package.functions)


@pytest.mark.requirement("project.layout.top-level")
@pytest.mark.parametrize("name", ["pyproject.toml", "README.md", "vibe_jupyter", "labextension", "notebooks", "tests"])
def test_the_root_holds_what_the_readers_look_for(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.requirement("project.language.python")
def test_other_languages_stand_under_labextension_only() -> None:
    inside = [path for path in tracked("vibe_jupyter") if path.suffix not in (*PYTHON, *DATA)]
    assert inside == []
    scripts = {".js", ".mjs", ".ts", ".tsx", ".rs", ".go", ".c", ".rb"}
    assert {path.parts[0] for path in tracked() if path.suffix in scripts} <= {"labextension"}


@pytest.mark.requirement("project.packages.named")
def test_the_named_packages_are_declared_and_used() -> None:
    declared = requirement_names(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
    assert {*USED_AS, "ipykernel"} - declared == set()
    paths = [ROOT / path for path in tracked() if path.suffix == ".py" and path.name != Path(__file__).name]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    unused = {name for name, use in USED_AS.items() if not any(re.search(use, text, re.MULTILINE) for text in sources)}
    assert unused == set()


def test_every_declared_package_has_one_version_that_setup_installs() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", line)] == []
    declared = requirement_names([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
    assert {name.replace(".", "-") for name in declared} - requirement_names(lines) == set()


def test_everything_imported_is_declared(syntax: Syntax) -> None:
    extras = PROJECT["optional-dependencies"]
    declared = requirement_names([*PROJECT["dependencies"], *extras["keyring"], *extras["gateway"], *extras["redis"]])
    allowed = {*sys.stdlib_module_names, PACKAGE.name, *THE_USERS_OWN, *_modules_of(declared)}
    undeclared = {f"{path} imports {name}" for path, node in syntax for name in _imported(node) - allowed}
    assert undeclared == set()


def _modules_of(packages: set[str]) -> set[str]:
    """The names by which what these packages install is imported; of one that is not installed here, its own."""
    names = set(packages)
    for package in packages:
        with suppress(PackageNotFoundError):
            names |= {file.parts[0].removesuffix(".py") for file in distribution(package).files or ()}
    return names


def _imported(node: LookedAt) -> set[str]:
    """Top-level modules, also those imported late by their name."""
    names: list[str] = []
    match node:
        case ast.Import(names=aliases):
            names = [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0):
            names = [module]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
            names = [module]
        case _:
            pass
    return {name.partition(".")[0] for name in names}


def test_every_dependency_has_its_reason_written_down() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    declared = requirement_names(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])
    assert {name for name in declared if name not in page} == set()


def test_the_version_is_the_same_everywhere() -> None:
    assert vibe_jupyter.__version__ == PROJECT["version"] == version("vibe-jupyter")


def test_the_public_names_are_the_ones_that_can_be_had() -> None:
    assert sorted(vibe_jupyter.__all__) == vibe_jupyter.__all__
    assert [name for name in vibe_jupyter.__all__ if getattr(vibe_jupyter, name, None) is None] == []


@pytest.mark.requirement("project.tests.pytest")
def test_one_documented_command_runs_the_tests_and_ci_runs_the_same() -> None:
    command = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1]
    assert command == "exec make check test"
    assert "\nmake check test " in (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test:.*\n(\t.*\n)*\t.*\$\(PYTEST\)$", makefile, re.MULTILINE)


def test_no_file_names_a_package_registry() -> None:
    lock = (ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock


ONE_MAKER = {
    "ApprovalRequested": "agent/approval.py",
    "ApprovalResolved": "agent/approval.py",
    "ToolStarted": "agent/call_context.py",
    "ToolFinished": "agent/call_context.py",
}


@pytest.mark.parametrize("event", ONE_MAKER)
def test_every_card_and_every_step_comes_from_one_module(syntax: Syntax, event: str) -> None:
    made_in = {
        path
        for path, node in syntax
        if isinstance(node, ast.Call) and event in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    }
    assert made_in == {ONE_MAKER[event]}


def test_modules_stay_small_enough_to_read() -> None:
    lines = {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in tracked("vibe_jupyter/*.py")}
    assert lines
    assert {str(path): count for path, count in lines.items() if count > MAX_MODULE} == {}


def test_functions_stay_small_enough_to_read(syntax: Syntax) -> None:
    lines = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, node in _functions(syntax)
    }
    assert lines
    assert {name: count for name, count in lines.items() if count > MAX_FUNCTION} == {}


def test_functions_take_few_parameters(syntax: Syntax) -> None:
    counts = {f"{path}:{node.lineno} {node.name}": _count_parameters(node.args) for path, node in _functions(syntax)}
    assert {name: count for name, count in counts.items() if count > MAX_PARAMETERS} == {}


def test_classes_have_few_methods(syntax: Syntax) -> None:
    classes = {
        f"{path}:{node.lineno} {node.name}": node.body for path, node in syntax if isinstance(node, ast.ClassDef)
    }
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    counts = {name: sum(isinstance(part, functions) for part in body) for name, body in classes.items()}
    assert counts
    assert {name: count for name, count in counts.items() if count > MAX_METHODS} == {}


def _functions(syntax: Syntax) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, node in syntax:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield path, node


def _count_parameters(taken: ast.arguments) -> int:
    """Besides self."""
    names = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))
