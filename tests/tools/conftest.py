"""A project folder, a call's context, and the corpus's tree, for the tests of tools."""

import json
import os
import socket
from pathlib import Path

import pytest

from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.tools.contract import ToolContext

CORPORA = Path(__file__).parents[1] / "corpora"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(project: Path) -> Workspace:
    return Workspace(project)


@pytest.fixture
def files(workspace: Workspace) -> FileAccess:
    return FileAccess(workspace)


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(call_id="call-1", progress=lambda text: None, cancelled=lambda: False)


@pytest.fixture
def tree(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The corpus's folder `proj` with links, pipes and secrets, and what lies around it."""
    parent = tmp_path_factory.mktemp("t")
    make_tree(parent)
    monkeypatch.setenv("HOME", str(parent / "home"))
    return parent


def make_tree(parent: Path) -> None:
    for entry in json.loads((CORPORA / "path_tree.json").read_text(encoding="utf-8")):
        place = parent / entry["path"]
        target = entry.get("target", "").replace("@PARENT@", str(parent))
        match entry["type"]:
            case "dir":
                place.mkdir()
            case "file":
                place.write_text(entry["text"], encoding="utf-8")
            case "link":
                place.symlink_to(target)
            case "fifo":
                os.mkfifo(place)
            case "socket":
                with socket.socket(socket.AF_UNIX) as server:
                    server.bind(str(place))
            case _:
                place.hardlink_to(parent / target)


def snapshot(folder: Path) -> dict[str, object]:
    """Everything below a folder: kinds, contents, modes, targets of links."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: object = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (oct(status.st_mode), content)
    return found
