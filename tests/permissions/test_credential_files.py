"""Files that usually hold credentials ask each time, whatever reads them; ordinary files of projects never do."""

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiers import further
from vibe_jupyter.config.loading import load_settings
from vibe_jupyter.context.mentions import visible_names
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.protected import protect_also
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.shell.judge import search_guard
from vibe_jupyter.protocol import Allow, Ask, Decision, TextPart
from vibe_jupyter.sandbox.readable import readable_paths
from vibe_jupyter.tools.bash import BashArgs, BashTool, ShellEnvironment
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.tools.grep import GrepArgs, GrepTool
from vibe_jupyter.tools.read_file import ReadFileArgs, ReadFileTool

pytestmark = pytest.mark.requirement("permission.path.credentials")
HERE = Path(__file__).parent
CREDENTIALS = HERE.joinpath("credential_files.txt").read_text(encoding="utf-8").split()
ORDINARY = HERE.joinpath("ordinary_files.txt").read_text(encoding="utf-8").split()
EVERYTHING = RunTerms(approve_all=True, allowed=frozenset({"read_file", "bash"}))
SAMPLE = {".npmrc", ".docker/config.json", "prod.env", ".config/gh/hosts.yml", ".cargo/credentials.toml"}
CANARY = "canary-5f1d"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def own_settings(tmp_path: Path) -> Iterator[Path]:
    """The user's own settings; what they protect ends with the test."""
    (tmp_path / "vibe").mkdir()
    yield tmp_path / "vibe" / "config.toml"
    protect_also(())


def fill(project: Path, *names: str) -> None:
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"{CANARY} {name}\n")


def read(project: Path, name: str, terms: RunTerms | None = None) -> Decision:
    workspace = Workspace(project)
    return Permissions(workspace).decide(ReadFileTool(workspace), ReadFileArgs(path=name), terms or RunTerms())


def run(project: Path, command: str, terms: RunTerms | None = None) -> Decision:
    workspace = Workspace(project)
    tool = BashTool(ShellEnvironment(workspace, {}, {}))
    return Permissions(workspace).decide(tool, BashArgs(command=command), terms or RunTerms())


def spelled(name: str) -> list[str]:
    """Return the name in other cases, too."""
    return list(dict.fromkeys([name, name.upper(), name.lower(), name.title()]))


@pytest.mark.attack("credential files")
@pytest.mark.parametrize("name", [name if name in SAMPLE else further(name) for name in CREDENTIALS])
def test_a_file_that_usually_holds_credentials_asks_each_time(project: Path, name: str) -> None:
    fill(project, *spelled(name), f"copies/{name}.bak")
    for one in (*spelled(name), f"copies/{name}.bak"):
        for terms in (None, EVERYTHING):
            assert isinstance(read(project, one, terms), Ask), one
            assert isinstance(run(project, f"cat {shlex.quote(one)}", terms), Ask), one
    assert isinstance(run(project, f"head -5 < {shlex.quote(name)}"), Ask)


def test_ordinary_files_of_projects_are_read_unasked(project: Path) -> None:
    assert len(ORDINARY) >= 150
    assert len(CREDENTIALS) >= 120
    fill(project, *ORDINARY)
    by_path = [name for name in ORDINARY if not isinstance(read(project, name), Allow)]
    by_command = [name for name in ORDINARY if not isinstance(run(project, f"cat {shlex.quote(name)}"), Allow)]
    assert (by_path, by_command) == ([], [])


@pytest.mark.attack("credential files")
@pytest.mark.parametrize(
    "command",
    [
        "cat .docker/*",
        "cd .docker && cat config.json",
        "git show HEAD:.docker/config.json",
        further("tail -n 3 sub/../.docker/config.json"),
        further("cat $(echo .docker/config.json)"),
        further("grep -r canary ."),
        further("grep -rh auth .docker"),
        further("rg --hidden canary"),
        further("rg canary .docker"),
        further("find . -name config.json -exec cat {} +"),
        further("find . -type f | xargs head -1"),
        further("git show HEAD"),
        further("git log -p"),
        further("git diff HEAD~1 HEAD"),
        further("git grep canary"),
        further("git grep canary HEAD -- .docker"),
        further("git cat-file -p HEAD:.docker/config.json"),
        further("git blame .docker/config.json"),
        further("wc -l .docker/config.json; sort .docker/config.json"),
        further("diff .docker/config.json sub/config.json"),
        further("diff -rN .docker sub"),
        further("cat link.json"),
        further("cp .docker/config.json x.json"),
        further("jq . .docker/config.json"),
        further("base64 .DOCKER/CONFIG.JSON"),
        further("cat .docker/config.jso?"),
    ],
)
def test_a_name_that_counts_in_its_folder_alone_is_known_to_every_command(project: Path, command: str) -> None:
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org", "-C", str(project)]
    fill(project, "README.md")
    subprocess.run([*git[:1], "init", "-q", str(project)], check=True, timeout=60)
    subprocess.run([*git, "add", "-A"], check=True, timeout=60)
    subprocess.run([*git, "commit", "-qm", "one"], check=True, timeout=60)
    fill(project, ".docker/config.json", ".DOCKER/CONFIG.JSON", "sub/config.json")
    (project / "link.json").symlink_to(".docker/config.json")
    subprocess.run([*git, "add", "-A"], check=True, timeout=60)
    subprocess.run([*git, "commit", "-qm", "two"], check=True, timeout=60)
    if isinstance(run(project, command), Ask):
        return
    shell, guard = ["bash", "--noprofile", "--norc", "-c", command], search_guard(command, Workspace(project))
    done = subprocess.run(shell, cwd=project, env={**os.environ, **guard}, capture_output=True, text=True, timeout=60)
    assert f"{CANARY} .docker" not in (done.stdout + done.stderr).lower()


@pytest.mark.attack("credential files")
@pytest.mark.parametrize("engine", ["python", further("rg")])
def test_a_search_that_names_no_file_leaves_them_out(
    project: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")
    fill(project, *CREDENTIALS, *(f"more/{name}~" for name in CREDENTIALS), "config.json", "a/config.json")
    args = GrepArgs(pattern=CANARY, use_default_ignore=False)
    context = ToolContext(call_id="1", progress=print, cancelled=lambda: False)
    found = asyncio.run(GrepTool(Workspace(project)).run(args, context)).parts
    lines = "".join(part.text for part in found if isinstance(part, TextPart)).splitlines()
    assert {line.partition(":")[0] for line in lines if CANARY in line} == {"config.json", "a/config.json"}


def test_a_search_of_the_shell_leaves_out_folders_and_finds_the_same_name_elsewhere(project: Path) -> None:
    fill(project, ".docker/config.json", "a/config.json", ".env", ".env.example")
    guard = {**os.environ, **search_guard("grep -r 'import os' .", Workspace(project))}

    def grep(command: str) -> str:
        shell = ["bash", "--noprofile", "--norc", "-c", command]
        return subprocess.run(shell, cwd=project, env=guard, capture_output=True, text=True, timeout=60).stdout

    assert sorted(grep(f"grep -r {CANARY} . | cut -d: -f1").split()) == ["./.env.example", "./a/config.json"]
    assert CANARY in grep(f"grep {CANARY} .env.example")


def test_a_copy_reads_none_of_them_and_names_of_files_leave_them_out(project: Path) -> None:
    fill(project, *CREDENTIALS, "data/a.csv", "gh/README.md", "gh/hosts.yml")
    paths = readable_paths(project)
    assert not {str(project / name) for name in CREDENTIALS} & set(paths.readable)
    assert str(project) not in paths.readable
    assert str(project / "data/a.csv") in paths.readable or str(project / "data") in paths.readable
    assert visible_names(Workspace(project).resolve("gh")) == ["README.md"]


def test_the_user_adds_names_in_their_own_settings(project: Path, own_settings: Path) -> None:
    fill(project, "site.cred", "vault/data.json", "data.json", "inner/deep/x.txt")
    assert isinstance(read(project, "site.cred"), Allow)
    own_settings.write_text('[privacy]\nprotected_files = ["*.CRED", "vault/*.json", "inner/"]\n')
    load_settings({"VIBE_HOME": str(own_settings.parent)})
    for name in ("site.cred", "SITE.cred.bak", "vault/data.json", "inner/deep/x.txt"):
        fill(project, name)
        assert isinstance(read(project, name), Ask), name
        assert isinstance(run(project, f"cat {name}"), Ask), name
    assert isinstance(read(project, "data.json"), Allow)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("*", "would fit nearly every file"),
        ("*.*", "would fit nearly every file"),
        ("a/b/c.json", "write name, folder/name or folder/"),
        ("/etc/passwd", "write name, folder/name or folder/"),
        ("", "write name, folder/name or folder/"),
        ("v*/data.json", "write one folder without *"),
        ("x[12].json", "only * stands for other text"),
        ("!x.json", "only * stands for other text"),
        ("x" * 201, "longer than 200 characters"),
    ],
)
def test_a_pattern_that_is_none_is_named_with_the_reason(own_settings: Path, pattern: str, problem: str) -> None:
    own_settings.write_text(f'[privacy]\nprotected_files = ["good.cred", "{pattern}"]\n')
    with pytest.raises(ConfigError) as raised:
        load_settings({"VIBE_HOME": str(own_settings.parent)})
    assert problem in str(raised.value)
    assert "config.toml" in str(raised.value)
    assert "protected_files" in str(raised.value)
