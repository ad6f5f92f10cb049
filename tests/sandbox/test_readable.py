"""What a copy of the kernel may read of a project."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from vibe_jupyter.sandbox.readable import ProjectNotReadable, readable_paths


def parts(project: Path) -> set[str]:
    """What is readable of it."""
    return {path for path in readable_paths(project).readable if Path(path).is_relative_to(project)}


def test_a_project_without_protected_files_is_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("x")
    assert parts(tmp_path) == {str(tmp_path)}


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
