"""Harmless commands, changed and put into others: what is allowed is run by plain bash, and does no harm."""

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.permissions.agent_trees import CASES, command_of, copy_of, effect, make_tree, remove
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.shell.judge import ShellState, judge_command

COUNT = 20_000
"""Commands that are judged; about one in ten is allowed, and run."""
PLANTS: Final = ("base", "names", "staged", "removed")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(" "))


_HARMLESS: Final = [case["command"] for case in CASES if not case["harmful"] and case["group"] != "recorded"]
_NAMES: Final = _words(
    "README.md src src/main.py data/table.json .env .e* .[e]nv ?nv .e\\nv {README.md,.env} * .* ../outside/secret.txt "
    "link_out link_dir_out/secret.txt src/link_up/home/.ssh/id_rsa pipe list.txt evil.sed evil.awk @list.txt @.env . "
    "$PWD/.env src/../.env .git HEAD:.env HEAD~1 stash ':!.env' -oPWNED PWNED -f -e -i -n -r -R -l -v -w 'w PWNED' "
    "--hidden --output=PWNED -exec {} + '{}' ';' -I{} -0 -n2 -p -L --all --no-index -S sk- '$ENV' env KEY TOPSECRET"
)
_FRAMES: Final = (
    "for f in {name} x; do {one}; cat $f; done",
    "for f in README.md; do for g in {name}; do {one}; done; cat $f; done",
    "if {one}; then {two}; else cat {name}; fi",
    "{{ {one}; {two}; }}",
    "cd src && {one}",
    "cd {name}; {one}",
    "time {one}",
    "! {one}",
    "{one} | xargs {two}",
    "find {name} -name '*.py' -exec {one} {{}} +",
    "find src -name '*.py' | xargs {one}",
    "ls {name} | xargs {one}",
    "{one} < {name}",
    "{one} 2>/dev/null | {two}",
    "{one} # {name}\n{two}",
    "{one} \\\n {name}",
    "{one} <<'E'\n{name}\nE",
    "{one} <<< {name}",
    "{one} && {two} || cat {name}",
    "[ -f {name} ] && {one}",
    "command -v {name}; {one}",
    "echo $(( {name} )); {one}",
)
_PIECES: Final = _words("' \" \\ $ ` ~ * ? [ ] { } , ; | & < > ( ) # ! = -- -i / w e > 1 . \n")


def sweep(count: int, seed: int) -> Iterator[str]:
    """A line for each allowed command that wrote, ran a planted program, did not end or printed a secret."""
    chance = random.Random(seed)
    shell = ShellState(path=os.environ["PATH"], locale="C.UTF-8")
    allowed = 0
    for plant in PLANTS:
        with tempfile.TemporaryDirectory() as folder:
            parent, pristine = Path(folder).resolve() / "tree", Path(folder).resolve() / "pristine"
            project = make_tree(parent, plant)
            copy_of(parent, pristine)
            workspace, done = Workspace(project), set[str]()
            for _ in range(-(-count // len(PLANTS))):
                command = command_of({"command": made(chance)}, parent)
                if command in done or judge_command(command, workspace, shell).verdict != "allow":
                    continue
                done.add(command)
                if seen := effect(command, project, parent, guarded=True):
                    yield f"{plant}: {seen}: {command!r}"
                    remove(parent)
                    copy_of(pristine, parent)
            allowed += len(done)
    print(f"  {allowed} commands were allowed and run", flush=True)
    if allowed < count // 50:
        yield f"only {allowed} of {count} commands were allowed: the sweep runs too little"


def made(chance: random.Random) -> str:
    """A harmless command, changed and put into others."""
    command = _changed(chance.choice(_HARMLESS), chance)
    if chance.random() < 0.5:
        frame = chance.choice(_FRAMES)
        other = _changed(chance.choice(_HARMLESS), chance)
        command = frame.format(one=command, two=other, name=chance.choice(_NAMES))
    return command


def _changed(command: str, chance: random.Random) -> str:
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        words = command.split(" ")
        at = chance.randrange(len(words))
        match chance.randrange(4):
            case 0:
                words[at] = chance.choice(_NAMES)
            case 1:
                words.insert(at + 1, chance.choice(_NAMES))
            case 2:
                place = chance.randrange(len(words[at]) + 1)
                words[at] = words[at][:place] + chance.choice(_PIECES) + words[at][place:]
            case _:
                words[at] = chance.choice(chance.choice(_HARMLESS).split(" "))
        command = " ".join(words)
    return command
