"""Files and settings of a project that make an ordinary command do harm: it asks, and does harm if it is simply run."""

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.permissions.agent_trees import commit, effect
from tests.permissions.shell_tree import run_git
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.judge import judge_command

Plant = Callable[[Path], None]
OLD_SECRET = "MISTRAL_API_KEY=sk-ENVSECRET-FILE-OLD\n"


def head_of(project: Path, name: str) -> str:
    """The commit that a reference names."""
    return (project / ".git" / name).read_text().strip()


def settings(text: str) -> Plant:
    """Something more in .git/config."""

    def plant(project: Path) -> None:
        with open(project / ".git" / "config", "a", encoding="utf-8") as file:
            file.write(text.replace("EVIL", str(project / "evil.sh")) + "\n")

    return plant


def file(name: str, text: str = "") -> Plant:
    """A file of this name, which git tracks."""

    def plant(project: Path) -> None:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
        run_git(project, project.parent, "add", "--", name)

    return plant


def conflict(project: Path) -> None:
    """A merge of two changes of one line, with a merge driver for such files."""
    parent = project.parent
    (project / ".gitattributes").write_text("*.md merge=x\n")
    commit(project, "ours")
    run_git(project, parent, "checkout", "-q", "side")
    (project / "README.md").write_text("theirs\n")
    commit(project, "theirs")
    run_git(project, parent, "checkout", "-q", "main")
    run_git(project, parent, "merge", "-q", "-s", "ours", "side")
    settings('[merge "x"]\n\tdriver = EVIL')(project)


def conflict_shown(project: Path) -> None:
    """The same, with settings that merge again whenever a merge is shown."""
    conflict(project)
    settings("[log]\n\tdiffMerges = remerge")(project)


def secret_branch(project: Path) -> None:
    """A branch with another secret, checked out elsewhere; its commit is also named by a file in .git."""
    parent = project.parent
    run_git(project, parent, "worktree", "add", "-q", "-b", "keys", str(parent / "wt"))
    (parent / "wt" / ".env").write_text(OLD_SECRET)
    commit(parent / "wt", "keys")
    (project / ".git" / "a").mkdir()
    (project / ".git" / "a" / "b").write_text(head_of(project, "refs/heads/keys") + "\n")


def moved_branch(project: Path) -> None:
    """A branch that came from a commit with a secret while another one was checked out."""
    parent = project.parent
    secret_branch(project)
    run_git(project, parent, "checkout", "-q", "side")
    run_git(project, parent, "branch", "-f", "main", head_of(project, "refs/heads/keys"))
    run_git(project, parent, "branch", "-f", "main", "side")
    run_git(project, parent, "checkout", "-q", "main")


def odd_log(project: Path) -> None:
    """A log with a line that git skips."""
    secret_branch(project)
    secret, harmless = head_of(project, "refs/heads/keys"), head_of(project, "refs/heads/main")
    zeros, who = "0" * 40, "a <a@x> 1700000000 +0000"
    lines = [
        f"{zeros} {secret} {who}\tx",
        f"{zeros} {harmless} nobody",
        f"{secret} {harmless} {who}\tx",
    ]
    (project / ".git" / "logs" / "HEAD").write_text("".join(f"{line}\n" for line in lines))


def link_in_index(project: Path) -> None:
    """A tracked folder in whose place there is a link to one outside."""
    file("notes/secret.txt", "x\n")(project)
    (project / "notes" / "secret.txt").unlink()
    (project / "notes").rmdir()
    (project / "notes").symlink_to("../outside")


def outside_in_index(project: Path) -> None:
    """A file outside in the index, where git itself never puts one."""
    file("zz/outside/secret.txt", "x\n")(project)
    raw = (project / ".git" / "index").read_bytes()[:-20].replace(b"zz/outside/", b"../outside/")
    (project / ".git" / "index").write_bytes(raw + hashlib.sha1(raw, usedforsecurity=False).digest())


def other_name(project: Path) -> None:
    """A file that looks like what a glob finds, and a secret that only git and find reach with it."""
    (project / ".enx").write_text("x\n")
    (project / "src" / ".env").write_text(OLD_SECRET)
    (project / ".env").unlink()


TRAPS: list[tuple[Plant, str]] = [
    (settings("[diff]\n\texternal = EVIL"), "git diff --quiet -w"),
    (settings("[diff]\n\texternal = EVIL"), "git diff -s --exit-code --ignore-all-space"),
    (conflict, "git log -p -1 --diff-merges=remerge"),
    (conflict, "git show --diff-merges=r"),
    (conflict_shown, "git log -p -1 -m"),
    (conflict_shown, "git log -1 --diff-merges=on"),
    (secret_branch, "git show worktrees/wt/HEAD"),
    (secret_branch, "git show a/b"),
    (secret_branch, "git log -p -1 a/b"),
    (moved_branch, "git show @{1}"),
    (odd_log, "git show HEAD@{1}"),
    (link_in_index, "git grep hello"),
    (outside_in_index, "git grep hello"),
    (outside_in_index, "git diff"),
    (file("-oPWNED"), "git ls-files src README.md ./-oPWNED | xargs sort"),
    (file("5", ".env\n"), "find . -name '*.md' | head 5 | xargs cat"),
    (file("5", ".env\n"), "find . -name '*.md' | tail -n 5 5 | xargs cat"),
    (other_name, "find . -name .en[v] -exec cat {} \\;"),
    (other_name, "git diff HEAD -- .en[v]"),
    (other_name, "git diff HEAD -- .?nv"),
]


@pytest.mark.attack("hostile repositories", always=True)
@pytest.mark.parametrize(("plant", "command"), TRAPS, ids=[command for _, command in TRAPS])
def test_a_command_that_a_project_turns_harmful_asks_or_is_kept_from_it(
    fresh_project: Path, plant: Plant, command: str
) -> None:
    plant(fresh_project)
    verdict, parent = judge_command(command, Workspace(fresh_project)).verdict, fresh_project.parent
    assert verdict == "ask" or effect(command, fresh_project, parent, guarded=True) == ""
    assert effect(command, fresh_project, parent), "the plant does not work, so the test shows nothing"


@pytest.mark.attack("hostile repositories", always=True)
def test_a_number_after_an_option_that_takes_an_attached_one_is_a_file(fresh_project: Path) -> None:
    (fresh_project / "16").symlink_to(".env")
    assert judge_command("od -An -c -w 16", Workspace(fresh_project)).rule == "place"
    shown = subprocess.run(["od", "-An", "-c", "-w", "16"], cwd=fresh_project, capture_output=True, check=True).stdout
    assert b"sk-ENVSECRET-FILE" in b"".join(shown.split()), "the plant does not work, so the test shows nothing"


@pytest.mark.parametrize(
    "command",
    [
        "git diff --quiet",
        "git show @{0}",
        "git log -p -1 side",
        "git log -1 --diff-merges=first-parent",
        "git grep hello README.md",
        "find src -name '*.py' | head -n 5 | xargs cat",
        "find src -name '*.py' | tail -n +1 | xargs cat",
        "cat READM[A-E].md src/?ain.py",
    ],
)
def test_the_same_command_without_a_trap_goes_unasked(shell_project: Path, command: str) -> None:
    assert judge_command(command, Workspace(shell_project)).verdict == "allow"
    assert effect(command, shell_project, shell_project.parent, guarded=True) == ""
