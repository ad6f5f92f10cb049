"""The rows that explain commands: those that ship with the package, and those that the user's own settings add."""

import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from tests.patience import patient
from vibe_jupyter.config.loading import read_settings
from vibe_jupyter.config.project import ProjectFile
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.rules import OwnEffects
from vibe_jupyter.permissions.shell import effect_rows
from vibe_jupyter.permissions.shell.effect_rows import EffectRow, shipped_rows
from vibe_jupyter.permissions.shell.effects import PartEffect, explain_command
from vibe_jupyter.protocol import Ask
from vibe_jupyter.tools.bash import BashArgs, BashTool, ShellEnvironment

SHIPPED = tomllib.loads(Path(effect_rows.__file__).with_name("effects.toml").read_text(encoding="utf-8"))["rows"]
LONGEST = 20_000
"""Characters of a command that is explained."""
SLOW = (
    *(
        "-n\n",
        "-W\n",
        "-X\nGET\n",
        "a=b\n",
        "-\n",
        "x\n",
        "-i x\n",
        "config\n",
        "--file\n",
        "a:b\n",
        "-df\n",
        "x/",
        "drop",
    ),
    *("-o", "a\n-", "reset\n--hard", "--data-", "-m\npip\n", "\n", "of=", "-xf\n", "delete-"),
)
"""What patterns that backtrack would take long to compare with, repeated."""


@pytest.fixture
def project(tmp_path: Path) -> Workspace:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "notes.txt").write_text("x" * 250)
    return Workspace(folder)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The user's own settings; what they add ends with the test."""
    (tmp_path / "vibe").mkdir()
    yield tmp_path / "vibe" / "config.toml"
    OwnEffects.rows = ()


def row(**keys: str) -> str:
    return "[[command_effects]]\n" + "".join(f"{key} = {value!r}\n" for key, value in keys.items())


def heed(home: Path, text: str) -> tuple[str, ...]:
    """Read these settings of the user's; what is said about them."""
    home.write_text(text)
    return read_settings({"VIBE_HOME": str(home.parent)}).warnings


def effect(command: str, project: Workspace) -> PartEffect:
    (found,) = explain_command(command, project, measure=True)
    return found


@pytest.mark.parametrize("written", SHIPPED, ids=[f"{one['program']} {one.get('words', '')}" for one in SHIPPED])
def test_every_row_that_ships_is_one(written: dict[str, str]) -> None:
    found = TypeAdapter(EffectRow).validate_python(written)
    names = {name for text in (found.text, found.detail, found.action) for name, _ in effect_rows.BLANK.findall(text)}
    groups = {str(number) for number in range(1, re.compile(found.arguments, re.MULTILINE).groups + 1)}
    assert names <= effect_rows.NAMES | groups
    assert bool(found.action) is (effect_rows.RISKS[found.tag] == "high")


def test_no_pattern_that_ships_takes_long_whatever_it_is_compared_with() -> None:
    patterns = {re.compile(one.arguments, re.MULTILINE) for rows in shipped_rows().values() for one in rows}
    began = time.process_time()
    for pattern in patterns:
        for piece in SLOW:
            pattern.search((piece * LONGEST)[:LONGEST] + "\n")
    assert time.process_time() - began < patient(20)


@pytest.mark.requirement("permission.effects.own")
def test_a_row_of_the_users_explains_a_program_that_nothing_else_does(home: Path, project: Workspace) -> None:
    told = heed(home, row(program="deploy|deploy.sh", text="Deploys {first|all} to production", tag="Affects others"))
    assert told == ()
    assert effect("deploy site --now", project)[1:5] == ("Deploys `site` to production", "", "Affects others", "high")
    assert effect("deploy site", project).action == "run deploy"
    assert effect("./deploy.sh", project).detail == "Deploys all to production."
    assert effect("sudo deploy", project).text == "Deploys all to production, as administrator of this computer"
    assert effect("deployed", project).text == "Vibe can't tell what this does"


@pytest.mark.requirement("permission.effects.own")
def test_a_row_of_the_users_raises_a_risk_and_rewords_nothing(home: Path, project: Workspace) -> None:
    rows = (
        row(program="make", arguments="^deploy$", text="Deploys the site", tag="Affects others", action="deploy"),
        row(program="git", words="push", text="Starts the pipeline", tag="Runs code"),
        row(program="rm", text="Moves to my trash", tag="Harmless"),
        row(program="frobnicate", text="Frobnicates", tag="Harmless"),
    )
    before = {command: effect(command, project) for command in ("make deploy", "git push", "rm notes.txt")}
    assert heed(home, "\n".join(rows)) == ()

    deploy = effect("make deploy", project)
    assert deploy.text == before["make deploy"].text
    assert (deploy.detail, deploy.tag, deploy.risk, deploy.action) == (
        "Deploys the site.",
        "Affects others",
        "high",
        "deploy",
    )
    assert effect("make all", project).risk == "medium"
    assert effect("git -C . push", project) == before["git push"]._replace(
        part="git -C . push", detail="Starts the pipeline."
    )
    removed = effect("rm notes.txt", project)
    assert removed.risk == "high"
    assert removed.text == before["rm notes.txt"].text
    assert effect("frobnicate", project)[1:5] == ("Frobnicates", "", "Unclear", "medium")


@pytest.mark.requirement("permission.effects.own")
def test_what_a_row_of_the_users_raises_to_high_asks_each_time(home: Path, project: Workspace) -> None:
    heed(home, row(program="deploy", text="Deploys", tag="Affects others"))
    permissions = Permissions(project)
    permissions.grant("bash")
    decision = permissions.decide(
        BashTool(ShellEnvironment(project, {}, {})), BashArgs(command="deploy x"), RunTerms(allowed=frozenset({"bash"}))
    )
    assert isinstance(decision, Ask)
    assert decision.remember_as is None


def test_long_arguments_hide_nothing_from_a_row_of_the_users(home: Path, project: Workspace) -> None:
    heed(home, row(program="make", arguments="^deploy$", text="Deploys", tag="Affects others"))
    found = effect(f"make {'x' * 1000} deploy", project)
    assert found.risk == "high"
    assert found.detail == "May be a command that your settings describe (`make`)."


def test_slow_patterns_in_many_parts_of_a_command_end_soon(home: Path, project: Workspace) -> None:
    heed(home, row(program="make", arguments="[ax]{0,20}[axy]{0,6}z", text="Deploys", tag="Affects others"))
    began = time.process_time()
    found = explain_command("; ".join([f"make {'a' * 390}"] * 50), project, measure=False)
    assert time.process_time() - began < patient(5)
    assert len(found) == 50


@pytest.mark.requirement("permission.effects.own")
@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"program": "x", "text": "X", "tag": "Hrmless"}, "command_effects.0.tag: expected 'Harmless', "),
        ({"program": "x", "tag": "Harmless"}, "command_effects.0: text is required but missing"),
        (
            {"program": "x", "text": "X", "tag": "Harmless", "risk": "low"},
            "command_effects.0.risk: there is no such key",
        ),
        (
            {"program": "x", "text": "{name} is", "tag": "Harmless"},
            "{name} is not a known placeholder; remove it",
        ),
        ({"program": "", "text": "X", "tag": "Harmless"}, "command_effects.0: program and text must not be empty"),
        ({"program": "x", "text": "{1}", "tag": "Harmless"}, "{1} names a group that arguments doesn't have"),
        (
            {"program": "x", "text": "X", "tag": "Harmless", "arguments": "("},
            "arguments can't be used: Python doesn't accept this regular expression",
        ),
        ({"program": "x", "text": "X", "tag": "Harmless", "arguments": "(a+)+b"}, "it could take too long"),
        ({"program": "x", "text": "X", "tag": "Harmless", "arguments": "a*b*c"}, "give them bounds, such as {20,40}"),
        (
            {"program": "x", "text": "X", "tag": "Harmless", "arguments": f"^{'a?' * 60}{'a' * 60}b"},
            "arguments can't be used: it could take too long",
        ),
        (
            {"program": "x", "text": "X", "tag": "Harmless", "arguments": f"{'(a|a)' * 30}b"},
            "arguments can't be used: it could take too long",
        ),
        ({"program": "x", "text": "X", "tag": "Harmless", "detail": "Of {b}"}, "{b} is not a known placeholder"),
        ({"program": "x", "text": "X {}", "tag": "Harmless"}, "{} is not a known placeholder; remove it"),
        ({"program": "x", "text": "X {first", "tag": "Harmless"}, "{first is not a known placeholder; remove it"),
        ({"program": "x", "text": "X", "tag": "Harmless", "action": "go }"}, "} is not a known placeholder"),
        (
            {"program": "x", "text": "X", "tag": "Harmless", "arguments": "a" * 201},
            "arguments has more than 200 characters",
        ),
    ],
)
def test_a_wrong_row_is_named_and_left_out_and_the_others_count(
    home: Path, project: Workspace, keys: dict[str, str], problem: str
) -> None:
    good = row(program="deploy", text="Deploys", tag="Affects others")
    (told,) = heed(home, f"{row(**keys)}\n{good}")
    assert told.startswith(f"{home}, at command_effects.0")
    assert problem in told
    assert told.endswith("Fix it, then try again. Until then this row is left out.")
    assert effect("deploy", project).risk == "high"
    assert effect("rm notes.txt", project).text == "Deletes 1 file (250 bytes); it doesn't go to the trash"


@pytest.mark.parametrize(("written", "code"), [("\\n", "000A"), ("\\u202E", "202E"), ("\\u001B", "001B")])
@pytest.mark.parametrize("key", ["text", "detail", "action"])
def test_what_would_garble_a_card_is_refused(home: Path, key: str, written: str, code: str) -> None:
    sentences = {"text": "X", key: f"X{written}Y"}
    lines = [f'{name} = "{sentence}"' for name, sentence in sentences.items()]
    (told,) = heed(home, "\n".join(["[[command_effects]]", 'program = "x"', 'tag = "Harmless"', *lines]))
    assert f"must be one line without control characters; remove the character U+{code}" in told


def test_a_variable_that_is_no_list_of_tables_says_what_is_expected(home: Path) -> None:
    with pytest.raises(ConfigError, match="VIBE_COMMAND_EFFECTS is wrong: expected a list of tables"):
        read_settings({"VIBE_HOME": str(home.parent), "VIBE_COMMAND_EFFECTS": "x"})


@pytest.mark.requirement("permission.effects.own")
@pytest.mark.parametrize(
    ("keys", "command", "said"),
    [
        ({"program": "deploy | ship", "text": "Ships {first}"}, "ship site", "Ships `site`"),
        ({"program": "ship", "text": "Ships {first}"}, "ship", "Ships"),
        ({"program": "ship", "text": "Ships {first} to {target} ({1}), now"}, "ship", "Ships to, now"),
        ({"program": "ship", "text": "{first}"}, "ship", "Vibe can't tell what this does"),
        ({"program": "ship", "text": "Ships {target}"}, "ship", "Ships"),
        ({"program": "ship", "text": "Runs {started}", "starts": True}, "ship", "Runs Vibe can't tell what this does"),
        (
            {
                "program": "ship",
                "arguments": "^(?:--to=(.{0,9})|--at=(.{0,9}))$",
                "text": "Ships to {1|all} at {2|once}",
            },
            "ship --at=noon",
            "Ships to all at `noon`",
        ),
    ],
)
def test_a_row_of_the_users_fits_whatever_its_sentence_lacks(
    home: Path, project: Workspace, keys: dict[str, str], command: str, said: str
) -> None:
    keys = {"arguments": "^(a)?", **keys, "tag": "Affects others"}
    assert heed(home, row(**keys).replace("True", "true")) == ()
    found = effect(command, project)
    assert (found.text, found.risk) == (said, "high")


@pytest.mark.requirement("permission.effects.own")
@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("python3", "python3.12 site.py"),
        ("python3.12", "python3.12 site.py"),
        ("deploy.sh", "bash deploy.sh"),
        ("deploy.sh", "bash -x -o pipefail bin/deploy.sh site"),
        ("deploy.sh", "sh deploy.sh"),
        ("deploy.sh", "source deploy.sh"),
        ("deploy.sh", ". deploy.sh"),
        ("deploy.sh", "./deploy.sh"),
        ("deploy.sh", "env bash deploy.sh"),
    ],
)
def test_a_row_of_the_users_fits_however_its_program_is_started(
    home: Path, project: Workspace, program: str, command: str
) -> None:
    heed(home, row(program=program, text="Deploys", detail="With {first|all}.", tag="Affects others"))
    found = effect(command, project)
    assert found.risk == "high"
    assert found.action == f"run {'python3.12' if program.startswith('python') else program}"
    assert "Deploys. With " in found.detail


@pytest.mark.requirement("permission.effects.own")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_project_adds_no_rows_even_if_it_is_trusted(home: Path, project: Workspace, *, trusted: bool) -> None:
    text = row(program="deploy", text="Tidies up", tag="Harmless")
    theirs = ProjectFile(project.root / ".vibe" / "config.toml", text, trusted)
    reading = read_settings({"VIBE_HOME": str(home.parent)}, project=theirs)
    assert reading.settings.command_effects == ()
    assert effect("deploy", project).text == "Vibe can't tell what this does"
    assert any("[command_effects] is not used; only your file sets it" in told for told in reading.warnings)


def test_the_command_that_tells_verdicts_heeds_rows_and_names_a_wrong_one(home: Path, project: Workspace) -> None:
    home.write_text(row(program="deploy", text="Deploys", tag="Affects others") + row(program="x", text="X", tag="Y"))
    done = subprocess.run(
        [sys.executable, "-c", "from vibe_jupyter.cli import main; main(['permission', 'bash', 'deploy x'])"],
        cwd=project.root,
        env={"VIBE_HOME": str(home.parent), "PYTHONPATH": str(Path(effect_rows.__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=True,
    )
    assert '"rule": "high risk", "reason": "deploys"' in done.stdout
    assert "command_effects.1.tag" in done.stderr


@pytest.mark.requirement("permission.effects.own")
@pytest.mark.parametrize(
    "command",
    ["kubectl --context prod rollout restart deploy/x", "kubectl -n x --context=prod rollout restart y"],
)
def test_the_rows_of_the_docs_fit_the_commands_that_they_describe(home: Path, project: Workspace, command: str) -> None:
    docs = (Path(effect_rows.__file__).parents[3] / "docs" / "permissions.md").read_text(encoding="utf-8")
    (rows,) = (block for block in re.findall(r"```toml\n(.*?)```", docs, re.DOTALL) if "[[command_effects]]" in block)
    assert heed(home, rows) == ()
    assert "Restarts what runs in production." in effect(command, project).detail
    assert "Restarts" not in effect(command.replace("prod", "test"), project).detail
    assert effect("bash deploy.sh", project).action == "deploy"
