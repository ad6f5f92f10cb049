"""Where a served notebook is found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp_server.notebook_client import (
    NotebookNote,
    find_note,
    list_notes,
    register_notebook,
    unregister_notebook,
)


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"


def note(kernel: str = "5f1c0000", notebook: str = "", pid: int | None = None) -> NotebookNote:
    return NotebookNote(
        kernel=kernel,
        notebook=notebook,
        pid=os.getpid() if pid is None else pid,
        url="http://127.0.0.1:1/mcp",
        token="t",
        version="1",
    )


def test_a_note_is_for_its_owner_alone_and_is_gone_when_taken_down(runtime: Path) -> None:
    path = register_notebook(note())
    assert path == runtime / "vibe-5f1c0000.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list_notes() == [note()]
    unregister_notebook(path)
    unregister_notebook(path)
    assert list_notes() == []


def test_a_later_note_of_a_kernel_takes_the_place_of_the_earlier_one() -> None:
    register_notebook(note(notebook="/a.ipynb"))
    register_notebook(note(notebook="/b.ipynb"))
    assert [one.notebook for one in list_notes()] == ["/b.ipynb"]


def test_the_note_of_a_process_that_is_gone_is_removed() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path = register_notebook(note(pid=gone.pid))
    assert list_notes() == []
    assert not path.exists()


@pytest.mark.parametrize("what", ["readable by others", "a link", "half written", "something else"])
def test_what_only_looks_like_a_note_is_passed_over(runtime: Path, tmp_path: Path, what: str) -> None:
    path = register_notebook(note())
    match what:
        case "readable by others":
            path.chmod(0o644)
        case "a link":
            path.rename(tmp_path / "elsewhere.json")
            path.symlink_to(tmp_path / "elsewhere.json")
        case "half written":
            path.write_text(path.read_text(encoding="utf-8")[:-5], encoding="utf-8")
        case _:
            path.write_text('{"kernel": 3}', encoding="utf-8")
    assert list_notes() == []


def test_none_and_several_are_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^No notebook is served now\. Run %vibe mcp serve in a cell"):
        find_note([])
    first, second = note("aaaa1111", str(tmp_path / "a.ipynb")), note("bbbb2222", str(tmp_path / "b.ipynb"))
    with pytest.raises(
        ConfigError, match=r"^2 notebooks are served: .*a\.ipynb \(kernel aaaa1111\); .*--notebook PATH"
    ):
        find_note([first, second])
    with pytest.raises(ConfigError, match=r"^The notebook that was asked for is not served now; these are: "):
        find_note([first, second], kernel="cccc")
    assert find_note([first, second], kernel="bbbb") == second
    assert find_note([first, second], notebook=Path(os.path.relpath(tmp_path / "a.ipynb"))) == first
    assert find_note([first]) == first
