"""A project folder, and a call's context, for the tests of tools."""

from pathlib import Path

import pytest

from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.workspace import Workspace


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(project: Path) -> Workspace:
    return Workspace(project)


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(call_id="call-1", progress=lambda text: None, cancelled=lambda: False)
