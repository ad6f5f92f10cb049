"""What a copy of the kernel may read of a project."""

import gc
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from vibe_jupyter.sandbox.readable import MOST_IMPORTABLE, ProjectNotReadable, readable_paths


def parts(project: Path) -> set[str]:
    """What is readable of it."""
    return {path for path in readable_paths(project).readable if Path(path).is_relative_to(project)}


def test_a_project_without_protected_files_is_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x")
    assert parts(tmp_path) == {str(tmp_path)}


def test_modules_that_are_imported_meanwhile_do_no_harm(tmp_path: Path) -> None:
    known = len(sys.modules)

    def import_another(phase: str, _about: dict[str, int]) -> None:
        if phase == "start" and len(sys.modules) < known + 1_000:
            sys.modules[f"meanwhile_{len(sys.modules)}"] = ModuleType("meanwhile")

    thresholds = gc.get_threshold()
    gc.callbacks.append(import_another)
    gc.set_threshold(1)
    try:
        assert parts(tmp_path) == {str(tmp_path)}
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(import_another)
        for name in [name for name in sys.modules if name.startswith("meanwhile_")]:
            del sys.modules[name]


def test_protected_files_pipes_and_the_history_are_left_out_and_all_beside_them_is_read(tmp_path: Path) -> None:
    for name in ("data/a.csv", "src/b.py", "src/.env", ".git/config", ".ssh/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert parts(tmp_path) == {str(tmp_path / "data"), str(tmp_path / "src" / "b.py")}


@pytest.mark.parametrize("project", [sys.prefix, sysconfig.get_path("purelib"), "/usr/share/doc", "/usr/lib"])
def test_a_project_in_what_is_read_as_a_whole_is_not_read(project: str) -> None:
    with pytest.raises(ProjectNotReadable, match="lies in a folder of the system or of Python"):
        readable_paths(Path(project))


def test_a_folder_that_a_variable_names_does_not_make_the_project_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("x")
    (tmp_path / "fontlist-v390.json").write_text("{}")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path))
    assert str(tmp_path) not in readable_paths(tmp_path).readable
    assert str(tmp_path / ".env") not in readable_paths(tmp_path).readable


def test_what_is_left_out_is_named_and_a_virtual_environment_is_not_where_python_runs_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "data/a.csv",
        "src/.env",
        ".git/config",
        ".venv/lib/a.py",
        ".venv/bin/b",
        ".venv/.env",
        "venv/lib/c.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    os.mkfifo(tmp_path / "pipe")
    os.symlink("data/a.csv", tmp_path / "key.pem")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    hidden = {os.path.relpath(path, tmp_path) for path in readable_paths(tmp_path).hidden}
    assert hidden == {"src/.env", ".git", ".venv/.env", "venv", "pipe"}


@pytest.mark.parametrize("how", ["on the path", "installed to be edited"])
def test_of_a_library_elsewhere_the_modules_are_read_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    library = tmp_path / "library"
    for name in ("tool.py", "mine/__init__.py", "mine/__pycache__/a.cpython-311.pyc", "mine/deep/__init__.py"):
        (library / name).parent.mkdir(exist_ok=True, parents=True)
        (library / name).write_text("")
    for name in ("data.csv", ".env", "mine/table.csv", "notes/a.py", "mine/.hidden/__init__.py"):
        (library / name).parent.mkdir(exist_ok=True, parents=True)
        (library / name).write_text("x")
    (tmp_path / "key").write_text("x")
    (library / "linked.py").symlink_to(tmp_path / "key")
    (tmp_path / "project").mkdir()
    if how == "on the path":
        monkeypatch.syspath_prepend(library)
    else:
        finder = ModuleType("__editable___mine_finder")
        finder.MAPPING = {"mine": str(library / "mine")}  # type: ignore[attr-defined]  # as setuptools writes it
        monkeypatch.setitem(sys.modules, finder.__name__, finder)
    paths = readable_paths(tmp_path / "project")
    below = {os.path.relpath(path, library) for path in paths.readable if Path(path).is_relative_to(library)}
    of_package = {"mine/__init__.py", "mine/__pycache__/a.cpython-311.pyc", "mine/deep/__init__.py"}
    assert below == of_package | ({"tool.py"} if how == "on the path" else set())
    assert paths.listable[0] == str(tmp_path / "project")


def test_a_home_on_the_path_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    assert str(tmp_path / "mine.py") not in readable_paths(tmp_path / "project").readable


def test_of_a_library_that_is_too_large_nothing_is_read_or_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    for folder in (library, tmp_path / "project"):
        folder.mkdir()
    for number in range(MOST_IMPORTABLE + 1):
        (library / f"m{number}.py").touch()
    monkeypatch.syspath_prepend(library)
    paths = readable_paths(tmp_path / "project")
    assert not [path for path in (*paths.readable, *paths.listable) if Path(path).is_relative_to(library)]
