"""A project beside things it must not reach, as the cases of tests/corpora/bash_permission.jsonl expect it."""

import os
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.patience import patient

SECRETS = ("TOPSECRET-OUTSIDE", "TOPSECRET-HOME", "TOPSECRET-SIBLING", "TOPSECRET-COMMIT", "sk-ENVSECRET-FILE")
"""What no command that runs unasked may print."""
MARKER = "PWNED"
"""A file that only a planted program makes."""
WAIT = patient(20)  # seconds

CONFIG = "[core]\n\tfsmonitor = {0}/proj/evil.sh\n"
BARE_CONFIG = (
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {0}/proj/src\n\tfsmonitor = {0}/proj/evil.sh\n"
)


def environment(parent: Path) -> dict[str, str]:
    """Of the user whose project it is."""
    who = {
        f"GIT_{role}_{what}": f"a{at}"
        for role in ("AUTHOR", "COMMITTER")
        for what, at in (("NAME", ""), ("EMAIL", "@x"))
    }
    return {"PATH": os.environ["PATH"], "HOME": str(parent / "home"), "GIT_CONFIG_NOSYSTEM": "1", **who}


def make_shell_tree(parent: Path) -> Path:
    """Build it below an empty folder; returns the project."""
    project = parent / "proj"
    for name in ("proj/src", "proj/data", "proj/.vibe", "proj/bin", "proj/fakehome", "proj/fakexdg/git"):
        (parent / name).mkdir(parents=True)
    for name in ("outside", "home/.ssh", "proj-evil"):
        (parent / name).mkdir(parents=True)
    for name, text in _files(parent).items():
        (parent / name).write_text(text, encoding="utf-8")
    for name in ("evil.sh", "bin/ls", "bin/wc"):
        _program(project / name, parent)
    for name, target in {
        "link_in": "README.md",
        "link_out": "../outside/secret.txt",
        "link_dir_out": "../outside",
        "src/link_up": "../..",
    }.items():
        (project / name).symlink_to(target)
    os.mkfifo(project / "pipe")
    _make_repositories(parent)
    return project


def run_git(folder: Path, parent: Path, *words: str) -> None:
    """Run git as the user."""
    subprocess.run(["git", *words], cwd=folder, env=environment(parent), check=True, capture_output=True, timeout=WAIT)


def _files(parent: Path) -> Mapping[str, str]:
    numbers = random.Random(1)
    rows = (f"{numbers.randrange(10**9)} some text to sort\n" for _ in range(3_000))
    return {
        "outside/secret.txt": "TOPSECRET-OUTSIDE hello\n",
        "outside/list0": f"{parent}/outside/secret.txt\0",
        "home/.ssh/id_rsa": "TOPSECRET-HOME\n",
        "home/home_visible.txt": "v\n",
        "home/.gitconfig": "[user]\n name=a\n email=a@x\n",
        "proj-evil/secret.txt": "TOPSECRET-SIBLING\n",
        "proj/README.md": "hello world\nTODO docs\n",
        "proj/src/main.py": "import os\n\ndef main():\n    return 1\n",
        "proj/src/util.py": "import sys\ndef util(): pass\n",
        "proj/data/with space.csv": "a,b\n1,2\n",
        "proj/.env": "MISTRAL_API_KEY=sk-ENVSECRET-FILE\n",
        "proj/.vibe/config.toml": "# cfg\n",
        "proj/evil.gitconfig": CONFIG.format(parent),
        "proj/fakehome/.gitconfig": CONFIG.format(parent),
        "proj/fakexdg/git/config": CONFIG.format(parent),
        "proj/mymagic": "0 string HELLO Hello\n",
        "proj/.gitignore": "pipe\nbig.txt\nevilbare/\n",
        "proj/big.txt": "".join(rows),
    }


def _program(path: Path, parent: Path) -> None:
    path.write_text(f'#!/bin/sh\n/usr/bin/touch "{parent}/proj/{MARKER}"\nexit 0\n', encoding="utf-8")
    path.chmod(0o755)


def _make_repositories(parent: Path) -> None:
    project, outside = parent / "proj", parent / "outside" / "repo"
    run_git(project, parent, "init", "-q", "-b", "main", ".")
    run_git(project, parent, "add", "-A")
    run_git(project, parent, "commit", "-qm", "one")
    with open(project / "src" / "main.py", "a", encoding="utf-8") as file:
        file.write("more\n")
    run_git(project, parent, "commit", "-qam", "two")
    run_git(project, parent, "branch", "side")
    with open(project / "README.md", "a", encoding="utf-8") as file:
        file.write("edited\n")
    run_git(project, parent, "init", "-q", "--bare", "evilbare")
    (project / "evilbare" / "config").write_text(BARE_CONFIG.format(parent), encoding="utf-8")
    outside.mkdir()
    run_git(outside, parent, "init", "-q", "-b", "main", ".")
    (outside / "f").write_text("x\n", encoding="utf-8")
    run_git(outside, parent, "add", "-A")
    run_git(outside, parent, "commit", "-qm", "TOPSECRET-COMMIT")
