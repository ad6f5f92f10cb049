"""The projects in which the commands of tests/corpora/bash_agents.jsonl are judged and run."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tests.patience import patient
from tests.permissions.shell_fuzz import snapshot
from tests.permissions.shell_tree import MARKER, SECRETS, make_shell_tree, run_git
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.judge import search_guard
from vibe_jupyter.tools.child_environment import NOT_INTERACTIVE

CASES: Final[list[dict[str, Any]]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpora" / "bash_agents.jsonl").read_text(encoding="utf-8").splitlines()
]
RUN_LIMIT: Final = patient(10)  # seconds
_PATH: Final = re.compile(r"(?<![\w/.@*-])(?:[A-Za-z_][\w-]*/)+[\w-]+(?:\.\w+)+")
_STUB: Final = "import os\n\n\nclass Thing:\n    def run(self):  # TODO\n        return None\n" * 60
Plant = Callable[[Path], None]


def commit(project: Path, message: str) -> None:
    """Everything, ignored files aside."""
    run_git(project, project.parent, "add", "-A")
    run_git(project, project.parent, "commit", "-qm", message)


def base(project: Path) -> None:
    """A tracked secret that nobody touched, scripts for hostile options, and the files that recordings name."""
    (project / "list.txt").write_text(".env\n../outside/secret.txt\n")
    (project / "evil.sed").write_text("w PWNED\n")
    (project / "evil.awk").write_text('BEGIN{system("touch PWNED")}\n')
    (project / "filter.jq").write_text(".\n")
    (project / "data" / "table.json").write_text('{"rows": [{"name": "a"}, {"name": "b"}]}\n')
    for case in CASES:
        if case["group"] == "recorded":
            for name in _PATH.findall(case["command"].replace("@PROJ@/", "")):
                place = project / name
                if not place.exists() and not any(parent.is_file() for parent in place.parents):
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(_STUB)
    commit(project, "three")
    (project / "README.md").write_text("hello world\nTODO docs\nedited again\n")


def staged(project: Path) -> None:
    """A secret that was changed and staged."""
    changed(project)
    run_git(project, project.parent, "add", ".env")


def changed(project: Path) -> None:
    """A tracked secret that was changed."""
    (project / ".env").write_text("MISTRAL_API_KEY=sk-ENVSECRET-FILE-2\n")


def removed(project: Path) -> None:
    """A secret that is no longer tracked, but was."""
    run_git(project, project.parent, "rm", "-q", "--cached", ".env")
    (project / ".gitignore").write_text("pipe\nbig.txt\nevilbare/\n.env\n")
    commit(project, "gone")


def stash(project: Path) -> None:
    """A changed secret that was put aside."""
    changed(project)
    run_git(project, project.parent, "stash", "-q")


def branch(project: Path) -> None:
    """A key on another branch, and tags of it and of its content."""
    parent = project.parent
    commit(project, "four")
    run_git(project, parent, "checkout", "-q", "-b", "keys")
    (project / "deploy").mkdir()
    (project / "deploy" / "server.key").write_text("-----BEGIN KEY-----\nTOPSECRET-HOME\n")
    commit(project, "keys")
    run_git(project, parent, "tag", "-a", "-m", "x", "v1")
    run_git(project, parent, "tag", "tagged-blob", "HEAD:deploy/server.key")
    run_git(project, parent, "checkout", "-q", "main")


def names(project: Path) -> None:
    """Copies and files of other names that hold secrets, in the newest commit."""
    commit(project, "four")
    (project / "conf").mkdir()
    for name in (
        ".env~",
        "#server.key#",
        ".env.swp",
        "conf/credentials.json",
        "conf/credentials.json.bak",
        "src/.env.py",
    ):
        (project / name).write_text("TOPSECRET-HOME\n")
    commit(project, "copies")


def enclosing(project: Path) -> None:
    """A notebook's folder within a repository."""
    (project / "notebooks").mkdir()
    (project / "notebooks" / "analysis.py").write_text("import os\n")
    (project / "private.py").write_text("TOPSECRET-HOME = 1\n")
    commit(project, "notebooks")
    (project / "private.py").write_text("TOPSECRET-HOME = 2\n")


PLANTS: Final[Mapping[str, Plant]] = {
    plant.__name__: plant for plant in (staged, changed, removed, stash, branch, names, enclosing)
}


def make_tree(parent: Path, name: str) -> Path:
    """Build the tree of a plant below a new folder; returns the project."""
    parent.mkdir(parents=True)
    project = make_shell_tree(parent)
    base(project)
    if name in PLANTS:
        PLANTS[name](project)
    return project / "notebooks" if name == "enclosing" else project


def command_of(case: Mapping[str, Any], parent: Path) -> str:
    """The command with the names of this tree in it."""
    command: str = case["command"].replace("@PROJ@", str(parent / "proj"))
    if "@BLOB@" in command or "@SHORT@" in command or "@EMPTY@" in command:
        asked = ["git", "rev-parse", "HEAD:.env"]
        blob = subprocess.run(asked, cwd=parent / "proj", capture_output=True, text=True, check=True).stdout.strip()
        command = command.replace("@BLOB@", blob).replace("@SHORT@", blob[:9])
        command = command.replace("@EMPTY@", "4b825dc642cb6eb9a060e54bf8d69288fbee4904")
    return command


def effect(command: str, project: Path, parent: Path, *, guarded: bool = False) -> str:
    """Run it; what it did that it must not, empty for nothing.

    Args:
        command: what to run.
        project: where.
        parent: the folder of the tree.
        guarded: whether the shell tool runs it, or anybody, without the guards of the product.
    """
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(parent / "home"),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    guard = {**git_environment(), **search_guard(command, Workspace(project))} if guarded else {}
    before = snapshot(parent)
    try:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=project,
            env={**environ, **NOT_INTERACTIVE, "GIT_OPTIONAL_LOCKS": "0", **guard},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    printed = (done.stdout + done.stderr).decode(errors="replace")
    if any(secret in printed and secret not in command for secret in SECRETS):
        return "it printed a secret"
    if (parent / "proj" / MARKER).exists():
        return "it ran a planted program or wrote the marker"
    return "" if snapshot(parent) == before else "it changed files"


def copy_of(tree: Path, place: Path) -> Path:
    """The same tree elsewhere; its times too, so that git takes files for unchanged."""
    subprocess.run(["cp", "-a", str(tree), str(place)], check=True, timeout=60)
    return place


def remove(tree: Path) -> None:
    """Away with it."""
    shutil.rmtree(tree)
