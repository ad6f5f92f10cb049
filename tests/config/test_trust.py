"""Trust: what a folder would bring, and decisions that hold for exactly that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.permissions import folder_trust as surveying
from vibe_jupyter.permissions.folder_trust import TrustedFolders, scan_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".vibe" / "tools" / "deep").mkdir(parents=True)
    (folder / ".vibe" / "config.toml").write_text("max_turns = 3\n", encoding="utf-8")
    (folder / ".vibe" / "tools" / "deep" / "one.py").write_text("1\n", encoding="utf-8")
    (folder / ".vibe" / "tools" / "notes.txt").write_text("no tool\n", encoding="utf-8")
    (folder / "more.py").write_text("2\n", encoding="utf-8")
    return folder


def test_everything_that_would_be_loaded_is_looked_at_and_nothing_else(project: Path) -> None:
    assert scan_folder(project).files == {".vibe/config.toml": b"max_turns = 3\n", ".vibe/tools/deep/one.py": b"1\n"}
    assert set(scan_folder(project, ["more.py"]).files) == {".vibe/config.toml", ".vibe/tools/deep/one.py", "more.py"}
    assert scan_folder(project.parent) == surveying.FolderContents()


@pytest.mark.attack("untrusted folders", always=True)
def test_a_list_of_servers_beside_the_folder_is_looked_at_unless_it_is_a_link(project: Path, tmp_path: Path) -> None:
    path = project / ".mcp.json"
    path.write_text("{}", encoding="utf-8")
    assert scan_folder(project).files[".mcp.json"] == b"{}"
    path.rename(tmp_path / "real.json")
    path.symlink_to(tmp_path / "real.json")
    found = scan_folder(project)
    assert ".mcp.json" not in found.files
    assert found.problems == (f"{path} is a link; not loaded",)


@pytest.mark.attack("untrusted folders", always=True)
def test_any_change_of_a_name_or_a_content_changes_the_digest(project: Path) -> None:
    digests = {scan_folder(project).digest}
    tool = project / ".vibe" / "tools" / "deep" / "one.py"
    tool.write_text("2\n", encoding="utf-8")
    digests.add(scan_folder(project).digest)
    tool.rename(tool.with_name("two.py"))
    digests.add(scan_folder(project).digest)
    (project / ".vibe" / "tools" / "three.py").touch()
    digests.add(scan_folder(project).digest)
    (project / ".vibe" / "config.toml").unlink()
    digests.add(scan_folder(project).digest)
    assert len(digests) == 5


@pytest.mark.attack("untrusted folders", always=True)
def test_links_pipes_and_paths_outside_are_passed_over_with_a_word(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("3\n", encoding="utf-8")
    tools = project / ".vibe" / "tools"
    (tools / "link.py").symlink_to(outside)
    os.mkfifo(tools / "pipe.py")
    (tools / "folder").symlink_to(tmp_path)
    (project / "linked").symlink_to(tmp_path)
    brought = scan_folder(project, ["../outside.py", str(outside), "linked/outside.py", ".", "gone"])
    assert set(brought.files) == {".vibe/config.toml", ".vibe/tools/deep/one.py"}
    told = "\n".join(brought.problems)
    for words in ("link.py cannot be read", "pipe.py is not a regular file", "../outside.py is not a path inside"):
        assert words in told
    (project / ".vibe").rename(project / "real")
    (project / ".vibe").symlink_to("real")
    assert scan_folder(project).files == {}
    assert scan_folder(project).problems == (f"{project}/.vibe is a link; nothing is loaded through it",)


@pytest.mark.attack("untrusted folders", always=True)
def test_a_folder_too_large_to_look_through_brings_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "MOST_BYTES", 10)
    assert scan_folder(project).files == {}
    assert "holds too much to look through" in scan_folder(project).problems[0]


def test_a_decision_holds_for_the_content_it_was_made_on(tmp_path: Path) -> None:
    folders, project = TrustedFolders(tmp_path / "home"), tmp_path / 'a "strange"\tname\\ü'
    assert folders.state(project, "d1") == "unknown"
    folders.remember(project, "d1", trusted=True)
    assert folders.state(project, "d1") == "trusted"
    assert folders.state(project, "d2") == "changed"
    assert folders.state(project / "below", "d1") == "unknown"
    folders.remember(project, "d2", trusted=False)
    assert TrustedFolders(tmp_path / "home").state(project, "d2") == "untrusted"
    assert folders.state(project, "d1") == "changed"
    assert folders.forget(project)
    assert folders.state(project, "d2") == "unknown"
    assert not folders.forget(project)


@pytest.mark.attack("untrusted folders", always=True)
def test_the_lists_of_mistral_vibe_are_kept_and_its_word_alone_is_not_enough(tmp_path: Path) -> None:
    path = tmp_path / "trusted_folders.toml"
    path.write_text('trusted = ["/a", "/b"]\nuntrusted = ["/c"]\n', encoding="utf-8")
    folders = TrustedFolders(tmp_path)
    assert folders.state(Path("/a"), "d") == "changed"
    assert folders.state(Path("/c"), "d") == "untrusted"
    folders.remember(Path("/a"), "d", trusted=True)
    assert path.read_text(encoding="utf-8") == ('trusted = ["/b", "/a"]\nuntrusted = ["/c"]\n\n[content]\n"/a" = "d"\n')


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trusted_folders.toml"
    path.write_text("trusted = 7\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Cannot read .*trusted_folders\.toml"):
        TrustedFolders(tmp_path).state(Path("/a"), "d")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be kept in"):
        TrustedFolders(tmp_path / "file" / "home").remember(Path("/a"), "d", trusted=True)


ADD = """
import sys
from pathlib import Path
from vibe_jupyter.permissions.folder_trust import TrustedFolders
for number in range(25):
    TrustedFolders(Path(sys.argv[1])).remember(Path(f"/{sys.argv[2]}/{number}"), "d", trusted=True)
"""


def test_two_processes_lose_no_decision_of_each_other(tmp_path: Path) -> None:
    commands = [[sys.executable, "-c", ADD, str(tmp_path), name] for name in ("one", "two")]
    running = [subprocess.Popen(command) for command in commands]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    folders = TrustedFolders(tmp_path)
    states = {folders.state(Path(f"/{name}/{number}"), "d") for name in ("one", "two") for number in range(25)}
    assert states == {"trusted"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trusted_folders.toml", "trusted_folders.toml.lock"]
