"""Commands nobody thought of, a check of what is allowed that shares no code with the policy, and a place to run it."""

import itertools
import json
import os
import random
import re
import shlex
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.patience import patient
from tests.permissions.shell_tree import MARKER, SECRETS
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.judge import search_guard
from vibe_jupyter.tools.child_environment import child_environment

RUN_LIMIT = patient(15)  # seconds; what only reads here takes a fraction of one

_QUOTED: Final = re.compile(r"""'[^']*'|"(?:[^"\\]|\\.)*"|\\.""", re.DOTALL)
_SIGN: Final = re.compile(r"[<>|&;()\n]")
CORPUS: Final = [
    json.loads(line)["command"]
    for line in (Path(__file__).parents[1] / "corpora" / "bash_permission.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(" "))


NAMES: Final = _words(
    "basename cat cut date diff dirname du echo false file find git grep head ls nl pwd sort stat tail tr tree true "
    "uname uniq wc which whoami"
)
BY_CHANCE: Final = _words(": [ df exit free nproc ps test type")
"""Short commands that read, which letters at random may come to."""
OPTIONS: Final = _words(
    "-a -b -c -d -e -f -g -h -i -j -k -l -m -n -o -p -q -r -s -t -u -v -w -x -y -z -A -B -C -D -E -F -G -H -I -L -N -O "
    "-P -R -S -T -U -V -W -X -1 -5 -ro -uo -la -rn -nr -c5 -k2 -t, -oPWNED -Po -L2 -n1 -f.env -S1k -- - -exec -delete "
    "-ok -name -type -print -fprint -fls -maxdepth -newer -prune -o -L -follow -printf -regex --all --stat --oneline "
    "--output=PWNED --output -p --cached --no-index --ext-diff --textconv --format=%H --format=%G? --pretty=oneline "
    "--follow --recursive --include=*.py --include=.env --exclude-from=../outside/list0 --files0-from=../outside/list0 "
    "--to-file=../outside/secret.txt --compress-program=./evil.sh --color=always --help --version --outp=PWNED --max-"
    "count=1 --show-signature --git-dir=evilbare -C --work-tree=.. -S --staged --name-only"
)
OPERANDS: Final = _words(
    "README.md src src/main.py data .env .git .git/config . .. / ../outside ../outside/secret.txt link_in link_out "
    "link_dir_out link_dir_out/secret.txt src/link_up src/link_up/home/.ssh/id_rsa pipe big.txt PWNED nosuch *.md * .* "
    "s* *env .e* src/* l* [lr]* ?nv HEAD HEAD~1 main..side HEAD:.env HEAD:README.md :/ 'data/with space.csv' hello "
    "TOPSECRET TODO KEY sk- '' 5 status log diff show branch main.py evil.sh ./evil.sh bin/ls /etc/hostname /dev/null "
    "/dev/stdin ~ ~root $HOME evilbare mymagic *.py ../proj-evil/secret.txt @PARENT@/proj/README.md @PARENT@/home"
)
JOINTS: Final = ("; ", " && ", " || ", " | ", "\n", " & ", " |& ", ";;", " ; ; ", "\r\n", "&&", "|", " \\\n ")
INSERTIONS: Final = (
    *("''", '""', "\\", "'", '"', "$", "`", "$(./evil.sh)", "`./evil.sh`", "${HOME}", "$HOME", "~", "{a,b}", "\u00a0"),
    *(
        "\u2003",
        "\u3000",
        "\u200b",
        "\u202e",
        "\t",
        " ",
        "\n",
        "\r",
        "\x0b",
        "\x1b[2K",
        "*",
        "?",
        "[",
        "]",
        "#",
        "!",
        "=",
    ),
    *(" >PWNED", " > PWNED", " 2>PWNED", " >>README.md", " >/dev/null", " 2>/dev/null", " 2>&1", " &>PWNED", " <.env"),
    *(" </dev/null", " <<<x", " <<'E'\nx\nE\n", " <<E\n$(./evil.sh)\nE\n", "\\\n", "(", ")", "{", "}", "<(./evil.sh)"),
    *("A=1 ", "PATH=./bin ", "-", "--", "./", "../", "/", ":", "%", "+", "@", "^", ",", "\x00", "é", "∕", "；"),
)


def made(chance: random.Random) -> str:
    """A command out of nothing, or a changed one of the corpus."""
    command = chance.choice(CORPUS) if chance.random() < 0.3 else _line(chance)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 4))):
        command = _changed(command, chance)
    return command


def _line(chance: random.Random) -> str:
    parts = [_simple(chance) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    line = parts[0]
    for part in parts[1:]:
        line += chance.choice(JOINTS[:5] if chance.random() < 0.8 else JOINTS) + part
    return line


def _simple(chance: random.Random) -> str:
    words = [chance.choice(NAMES)]
    if words == ["git"]:
        words.append(chance.choice(("status", "log", "diff", "show", "branch", "ls-files", "blame", "config")))
    for _ in range(chance.randrange(5)):
        words.append(chance.choice(OPTIONS if chance.random() < 0.4 else OPERANDS))
    return " ".join(words)


def _changed(command: str, chance: random.Random) -> str:
    at = chance.randrange(len(command) + 1)
    kind = chance.random()
    if kind < 0.5:
        return command[:at] + chance.choice(INSERTIONS) + command[at:]
    if kind < 0.7:
        return command[:at] + command[at + 1 :]
    if kind < 0.85:
        words = command.split(" ")
        words[chance.randrange(len(words))] = chance.choice((*OPERANDS, *OPTIONS))
        return " ".join(words)
    return command + chance.choice(JOINTS) + _simple(chance)


def objection(command: str, project: Path) -> str:
    """Why an allowed command should not have been, by a coarse reading of its own; empty if there is nothing."""
    bare = _QUOTED.sub(lambda quoted: _SIGN.sub("x", quoted[0]), command.partition("<<")[0].replace("\\\n", " "))
    lexer = shlex.shlex(bare, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, "#"
    words: list[str] = []
    for token in [*lexer, ";"]:
        if token and set(token) <= set(";|&\n"):
            if words and (said := _objection_to(words, project)):
                return said
            words = []
        else:
            words.append(token)
    return ""


def _objection_to(words: Sequence[str], project: Path) -> str:
    marks = [at for at, word in enumerate(words) if set(word) <= set("<>&") and word]
    if targets := {words[at + 1] for at in marks if words[at] != "<"} - {"/dev/null", "1"}:
        return f"redirected to {targets}"
    for source in (words[at + 1] for at in marks if words[at] == "<" and words[at + 1] != "/dev/null"):
        if said := _objection_to_word(source, "<", project):
            return said
    words = words[: marks[0]] if marks else words
    words = words[:-1] if marks and words and words[-1] in ("0", "1", "2") else words
    if not words:
        return ""
    if words[0] not in (*NAMES, *BY_CHANCE):
        return f"{words[0]!r} is no command that reads"
    if words[0] in ("echo", "true", "false", "basename", "dirname", "tr", "which"):
        return ""
    operands = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    texts = set(operands[:1]) if words[0] == "grep" else set[str]()  # what is searched for
    if words[0] in ("nl", "git", "find"):  # texts that options take
        texts |= {after for before, after in itertools.pairwise(words[1:]) if before.startswith("-") and before != "--"}
    if words[0] in ("file", "tree"):  # what stands between a name and its kind; globs for names
        texts |= {after for before, after in itertools.pairwise(words[1:]) if before in ("-F", "-I", "-P")}
    judged = [word for word in itertools.takewhile(lambda word: word != "--", words[1:]) if word not in texts]
    return next(filter(None, (_objection_to_word(word, words[0], project) for word in judged)), "")


def _objection_to_word(word: str, name: str, project: Path) -> str:
    if word.startswith(("--output", "--compress", "--files0", "--ext-diff", "--textconv", "--no-index")):
        return f"{name} {word}"
    place = os.path.realpath(project / word)
    if os.path.lexists(project / word) and place != str(project) and not place.startswith(f"{project}/"):
        return f"{word!r} leads to {place}"
    if os.path.basename(place) == ".env" and name not in ("find", "tree", "which"):
        return f"{word!r} is a secret"
    return ""


def snapshot(parent: Path) -> dict[str, tuple[int, int, int]]:
    """Every file below, by what changes when it is written; git may refresh its index."""
    found: dict[str, tuple[int, int, int]] = {}
    for folder, _, names in os.walk(parent):
        for name in names:
            path = os.path.join(folder, name)
            if not path.endswith("/.git/index"):
                about = os.lstat(path)
                found[path] = (about.st_size, about.st_mtime_ns, stat.S_IMODE(about.st_mode))
    return found


def harm(command: str, project: Path, *, guarded: bool = True) -> str:
    """Run it as the shell tool would; returns what it did that it must not, empty for nothing.

    Args:
        command: what to run.
        project: where.
        guarded: whether it gets the variables that keep git from starting a watcher, and protected files out.
    """
    parent = project.parent
    environ = {"PATH": os.environ["PATH"], "HOME": str(parent / "home"), "LC_ALL": "C.UTF-8"}
    guard = {**git_environment(), **search_guard(command, Workspace(project))} if guarded else {}
    before = snapshot(parent)
    try:
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-c", command],
            cwd=project,
            env={**child_environment(environ), "GIT_CONFIG_NOSYSTEM": "1", **guard},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    printed = (done.stdout + done.stderr).decode(errors="replace")
    if leaked := [secret for secret in SECRETS if secret in printed and secret not in command]:
        return f"it printed {leaked}"
    if (project / MARKER).exists():
        return "it ran a planted program or wrote the marker"
    return "" if snapshot(parent) == before else "it changed files"
