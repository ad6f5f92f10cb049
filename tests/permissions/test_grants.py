"""What was allowed for more than one call: for this session, or kept for the project in the user's own folder."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patient
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.permissions.grants import Grants, GrantStore
from vibe_jupyter.permissions.shell.patterns import pattern_parts

WRITERS = 2
GRANTS_EACH = 25
WAIT = patient(60)  # seconds


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def kept(tmp_path: Path, project: Path) -> GrantStore:
    return GrantStore(tmp_path / "home", project)


def test_a_grant_for_the_project_holds_in_the_next_session_and_in_no_other_project(
    tmp_path: Path, project: Path
) -> None:
    first = Grants(kept(tmp_path, project))
    assert first.add("write_file", "project") == "project"
    assert first.add("run_code", "session") == "session"

    later = Grants(kept(tmp_path, project))
    assert later.covers("write_file", keepable=True) == "allowed for this project"
    assert later.covers("run_code", keepable=True) == ""
    assert Grants(kept(tmp_path, tmp_path / "other")).covers("write_file", keepable=True) == ""


@pytest.mark.attack("saved files", always=True)
def test_it_is_kept_outside_the_project_and_for_its_owner_alone(tmp_path: Path, project: Path) -> None:
    grants = kept(tmp_path, project)
    grants.add(["write_file"])
    assert list(project.iterdir()) == []
    assert grants.path.is_relative_to(tmp_path / "home")
    assert stat.S_IMODE(grants.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(grants.path.parent.stat().st_mode) == 0o700
    assert json.loads(grants.path.read_text())["project"] == str(project)
    assert {entry.name for entry in grants.path.parent.iterdir()} == {grants.path.name, f"{grants.path.name}.lock"}


def test_what_another_kernel_takes_back_is_asked_about_at_once(tmp_path: Path, project: Path) -> None:
    here, there = Grants(kept(tmp_path, project)), Grants(kept(tmp_path, project))
    here.add("write_file+edit_cell", "project")
    assert there.covers("edit_cell", keepable=True)
    assert there.revoke("edit_cell") == "Asked about again: edit_cell."
    assert here.covers("edit_cell", keepable=True) == ""
    assert here.covers("write_file", keepable=True)


@pytest.mark.attack("saved files", always=True)
@pytest.mark.parametrize("pattern", ["run_code", "run_cells", "edit_cell+run_cells"])
def test_what_runs_code_is_never_kept_whatever_is_asked_or_stands_in_the_file(
    tmp_path: Path, project: Path, pattern: str
) -> None:
    grants = Grants(kept(tmp_path, project))
    assert grants.add(pattern, "project") == "session"
    kept(tmp_path, project).add(pattern_parts(pattern))
    later = Grants(kept(tmp_path, project))
    assert later.covers(pattern, keepable=True) == ""
    assert "run_c" not in later.listing()


@pytest.mark.attack("saved files", always=True)
def test_a_kept_grant_does_not_count_for_a_call_that_may_not_be_kept(tmp_path: Path, project: Path) -> None:
    grants = Grants(kept(tmp_path, project))
    grants.add("bash: pytest -q", "project")
    assert grants.covers("bash: pytest -q", keepable=True)
    assert grants.covers("bash: pytest -q", keepable=False) == ""


def test_a_permission_that_is_given_again_keeps_the_time_since_when_it_holds(tmp_path: Path, project: Path) -> None:
    grants = kept(tmp_path, project)
    grants.add(["write_file", "edit_cell"])
    long_ago = "2001-01-01T00:00:00+00:00"
    saved = json.loads(grants.path.read_text())
    saved["allowed"] = dict.fromkeys(saved["allowed"], long_ago)
    grants.path.write_text(json.dumps(saved))

    grants.add(["edit_cell", "memory"])
    grants.remove(["write_file"])
    grants.add(["write_file"])

    since = grants.patterns()
    assert set(since) == {"write_file", "edit_cell", "memory"}
    assert [name for name, at in since.items() if at == long_ago] == ["edit_cell"]


@pytest.mark.attack("saved files", always=True)
def test_a_line_is_covered_only_when_each_of_its_commands_is() -> None:
    grants = Grants()
    grants.add("bash: pytest -q; make 'a; b'", "session")
    assert grants.session() == ("bash: make 'a; b'", "bash: pytest -q")
    assert grants.covers("bash: make 'a; b'", keepable=True)
    assert grants.covers("bash: make 'a; b'; pytest -q", keepable=True)
    assert grants.covers("bash: pytest -q; make 'a", keepable=True) == ""
    assert grants.covers("bash: pytest", keepable=True) == ""
    assert grants.covers("bash: pytest -q -x", keepable=True) == ""
    assert grants.covers("bash: ", keepable=True) == ""


def test_the_listing_numbers_what_is_allowed_and_revoke_takes_the_numbers(tmp_path: Path, project: Path) -> None:
    grants = Grants(kept(tmp_path, project))
    assert grants.listing() == "Nothing is allowed in advance."
    grants.add("run_code+write_file", "session")
    grants.add("bash: pytest -q", "project")
    assert grants.listing().splitlines()[:5] == [
        "Until this session ends:",
        "  1  run_code",
        "  2  write_file",
        "For this project, in every session:",
        "  3  bash: pytest -q",
    ]
    assert grants.revoke("1, 3") == "Asked about again: run_code, bash: pytest -q."
    assert grants.session() == ("write_file",)
    grants.revoke("all")
    assert grants.listing() == "Nothing is allowed in advance."
    assert grants.revoke("project") == "Nothing was allowed."


@pytest.mark.parametrize("words", ["", "0", "2", "1 2", "write", "session project"])
def test_revoking_what_is_not_there_changes_nothing_and_says_what_can_be_said(words: str) -> None:
    grants = Grants()
    grants.add("write_file", "session")
    with pytest.raises(ConfigError, match="revoke NUMBER"):
        grants.revoke(words)
    assert grants.session() == ("write_file",)


@pytest.mark.attack("saved files", always=True)
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "nonsense", '{"project": "/other", "allowed": {"write_file": ""}}', "\0"]
)
def test_a_file_that_is_not_ours_allows_nothing_and_is_left_as_it_is(tmp_path: Path, project: Path, text: str) -> None:
    file = kept(tmp_path, project).path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    grants = Grants(kept(tmp_path, project))
    assert grants.covers("write_file", keepable=True) == ""
    assert str(file) in grants.listing()
    assert grants.add("write_file", "project") == "session"
    assert grants.covers("write_file", keepable=True) == "allowed for this session"
    assert file.read_text() == text


def test_where_nothing_can_be_written_the_grant_holds_for_the_session(tmp_path: Path, project: Path) -> None:
    (tmp_path / "home").write_text("a file where the folder should be")
    grants = Grants(kept(tmp_path, project))
    assert grants.add("write_file", "project") == "session"


ADD = """
import sys
from pathlib import Path
from vibe_jupyter.permissions.grants import GrantStore
who, count = sys.argv[3], int(sys.argv[4])
grants = GrantStore(Path(sys.argv[1]), Path(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    grants.add([f"bash: {who} {number}"])
"""


def test_two_kernels_that_grant_at_the_same_moment_lose_nothing(tmp_path: Path, project: Path) -> None:
    words = [sys.executable, "-c", ADD, str(tmp_path / "home"), str(project)]
    writers = [
        subprocess.Popen(
            [*words, f"w{number}", str(GRANTS_EACH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(WRITERS)
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            writer.communicate("go\n", timeout=WAIT)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait(WAIT)
    expected = {f"bash: w{who} {number}" for who in range(WRITERS) for number in range(GRANTS_EACH)}
    assert set(kept(tmp_path, project).patterns()) == expected


def test_a_writer_that_died_in_between_left_what_was_there(tmp_path: Path, project: Path) -> None:
    grants = kept(tmp_path, project)
    grants.add(["write_file"])
    (grants.path.parent / f".{grants.path.name}.half").write_text('{"project": "')
    assert set(kept(tmp_path, project).patterns()) == {"write_file"}
    os.utime(grants.path)
    assert set(grants.patterns()) == {"write_file"}
