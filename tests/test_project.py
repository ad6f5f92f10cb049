"""The checkout as a whole: where things are, what they are written in, how big they may grow."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import vibe_jupyter
from scripts import house

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "vibe_jupyter"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Outer bounds, far above what most code needs.
MAX_MODULE = 600  # lines
MAX_FUNCTION = 60  # lines
MAX_METHODS = 20  # per class
MAX_PARAMETERS = 6  # besides self
MAX_ONE_WORD = 0.4  # share of function names

PYTHON = (".py", ".pyi", ".toml", ".md", ".typed")
DATA = (".csv", ".json", ".jsonl", ".ipynb", ".png", ".svg")

# Package to the code that uses it. ipykernel is what we run in, ipywidgets what an anywidget is: neither is imported.
USED_AS = {
    "ipython": r"^\s*(from|import) IPython\b",
    "anywidget": r"^\s*(from|import) anywidget\b|import_module\(.anywidget",
    "jupyterlab": r"^\s*\"jupyterlab\",$",
    "httpx": r"^\s*(from|import) httpx\b",
    "pydantic": r"^\s*(from|import) pydantic\b",
    "nest-asyncio": r"import_module\(.nest_asyncio",
    "markdown-it-py": r"^\s*(from|import) markdown_it\b",
    "nh3": r"^\s*(from|import) nh3\b",
    "pygments": r"^\s*(from|import) pygments\b",
    "pytest": r"^\s*(from|import) pytest\b",
}


def tracked(folder: str = ".") -> list[Path]:
    """What git keeps or would keep, relative to the root."""
    asked = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder]
    listed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=30).stdout
    return [path for line in listed.splitlines() if (ROOT / (path := Path(line))).is_file()]


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[; ]", text)[0].lower() for text in requirements}


@pytest.fixture(scope="module")
def package() -> house.House:
    return house.read_house(ROOT)


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


@pytest.mark.parametrize("package", [*USED_AS, "ipykernel", "ipywidgets", "mcp"])
def test_the_named_packages_are_declared(package: str) -> None:
    assert package in requirement_names(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["dev"])


@pytest.mark.parametrize("package", USED_AS)
def test_a_declared_package_is_used(package: str) -> None:
    use = re.compile(USED_AS[package], re.MULTILINE)
    sources = [ROOT / path for path in tracked() if path.suffix == ".py" and path.name != Path(__file__).name]
    assert any(use.search(source.read_text(encoding="utf-8")) for source in sources)


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
    assert command == "exec make test"
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^test:.*\n(\t.*\n)*\t.*\$\(PYTEST\)$", makefile, re.MULTILINE)


def test_no_file_names_a_package_registry() -> None:
    lock = (ROOT / "labextension" / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_module_stays_small_enough_to_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(_too_big(text)) == []


def _too_big(text: str) -> Iterator[str]:
    """What is over a limit, in words."""
    if (lines := len(text.splitlines())) > MAX_MODULE:
        yield f"{lines} lines in the module"
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _function_too_big(node)
            case ast.ClassDef(name=name, body=body):
                methods = sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in body)
                if methods > MAX_METHODS:
                    yield f"{methods} methods in {name}"


def _function_too_big(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION:
        yield f"{lines} lines in {node.name}"
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if (count := len(names) - (names[:1] in (["self"], ["cls"]))) > MAX_PARAMETERS:
        yield f"{count} parameters of {node.name}"
