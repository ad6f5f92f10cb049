"""An unchanged prompt shows the answer that its cell has, without a model: `vibe-jupyter run` and nbconvert."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.app.conftest import CONFIG
from tests.headless.test_run import WAIT, write
from tests.kernel.fork_server import nbconvert_command, program_command
from vibe_jupyter.app.kept_answers import SAID
from vibe_jupyter.cli.exit_codes import DONE, TURN_LIMIT
from vibe_jupyter.testing import ScriptedModel, call, say

LOAD = "%load_ext vibe_jupyter"
LIMITED = "%%vibe --max-turns 1 --keep-going\nCount 6."
RUNNERS = {
    "vibe-jupyter run": lambda: [*program_command(), "run"],
    "nbconvert": nbconvert_command,
}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def environment(tmp_path: Path, model: ScriptedModel) -> dict[str, str]:
    home = tmp_path / "vibe"
    home.mkdir()
    (home / "config.toml").write_text(f"keep_answers = true\n{CONFIG.format(url=model.url)}", encoding="utf-8")
    return {**os.environ, "VIBE_HOME": str(home), "IPYTHONDIR": str(tmp_path / "ipython")}


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder / "a.ipynb"


def execute(runner: str, environment: dict[str, str], path: Path) -> list[list[dict[str, Any]]]:
    """Run a notebook in a kernel of its own; what its `%%vibe` cells hold then."""
    command = [*RUNNERS[runner](), path.name]
    done = subprocess.run(
        command, env=environment, cwd=path.parent, capture_output=True, text=True, timeout=WAIT, check=False
    )
    assert done.returncode in (DONE, TURN_LIMIT), done.stderr
    cells = json.loads(path.read_bytes())["cells"]
    return [cell["outputs"] for cell in cells if "".join(cell["source"]).startswith("%%vibe")]


def plain(outputs: list[dict[str, Any]]) -> str:
    return "\n".join("".join(output["data"]["text/plain"]) for output in outputs)


@pytest.mark.parametrize("runner", RUNNERS)
def test_an_unchanged_prompt_costs_nothing_and_shows_what_its_cell_shows(
    runner: str, environment: dict[str, str], model: ScriptedModel, notebook: Path
) -> None:
    write(notebook, LOAD, "%%vibe --yes=run_code\nHow many are there?")
    model.will_reply(call("run_code", code="found = 41 + 1", keep=True), say("There are **42**."))
    ((answer,),) = execute(runner, environment, notebook)
    assert len(model.requests) == 2

    (again,) = execute(runner, environment, notebook)
    assert again[0] == answer
    assert plain(again[1:]) == SAID
    assert execute(runner, environment, notebook) == [again]
    assert len(model.requests) == 2
    said = answer["metadata"]["vibe_jupyter"]
    assert sorted(said) == ["author", "prompt", "reason"]
    assert len(said["prompt"]) == 32


def test_a_new_answer_comes_where_prompt_options_or_output_are_others_or_there_was_none(
    environment: dict[str, str], model: ScriptedModel, notebook: Path
) -> None:
    prompts = [f"Count {number}." for number in range(7)]
    write(notebook, LOAD, *(f"%%vibe --keep-going\n{prompt}" for prompt in prompts[:-1]), LIMITED)
    model.will_reply(*(say(f"first {number}") for number in range(6)), call("inspect"))
    execute("vibe-jupyter run", environment, notebook)

    changed = nbformat.read(notebook, as_version=4)
    same, renewed, reworded, other_agent, cleared, hostile = changed.cells[1:-1]
    same.source = "%%vibe --max-turns 3 --keep-going\n\nCount 0.\n"
    renewed.source = "%%vibe --no-keep --keep-going\nCount 1."
    reworded.source = "%%vibe --keep-going\nCount two."
    other_agent.source = "%%vibe --agent plan --keep-going\nCount 3."
    cleared.outputs = []
    hostile.outputs[0].data["text/html"] += "<script>alert(1)</script>"
    nbformat.write(changed, notebook)
    model.will_reply(*(say(f"second {number}") for number in range(1, 7)))
    shown = [plain(outputs) for outputs in execute("vibe-jupyter run", environment, notebook)]
    assert [words.partition("\n")[0] for words in shown] == ["first 0", *(f"second {n}" for n in range(1, 7))]
    assert [SAID in words for words in shown] == [True, *[False] * 6]
    assert "<script>" not in notebook.read_text("utf-8")


def test_of_several_cells_with_one_prompt_an_answer_is_shown_that_all_of_them_have(
    environment: dict[str, str], model: ScriptedModel, notebook: Path
) -> None:
    write(notebook, LOAD, *(f"%%vibe\nCount {number}." for number in (0, 1, 2, 2, 3, 4)))
    model.will_reply(*map(say, ("zero", "one", "two", "another two", "three", "four")))
    execute("vibe-jupyter run", environment, notebook)

    changed = nbformat.read(notebook, as_version=4)
    same, without = (nbformat.from_dict({**cell, "id": f"{cell.id}-again"}) for cell in changed.cells[1:3])
    without.outputs = []
    copied = nbformat.from_dict(changed.cells[-1])
    copied.outputs = []
    changed.cells += [same, without]
    nbformat.write(changed, notebook)
    write(notebook.with_name("b.ipynb"), LOAD, "%%vibe\nCount 3.", copied)  # the copy of a cell has its id
    model.will_reply(*map(say, ("1 again", "2 again", "2 once more", "3 again", "1 once more")))
    shown = [plain(outputs) for outputs in execute("nbconvert", environment, notebook)]  # names no cell

    told = [words.partition("\n")[0] for words in shown]
    assert told == ["zero", "1 again", "2 again", "2 once more", "3 again", "four", "zero", "1 once more"]
    assert [SAID in words for words in shown] == [True, False, False, False, False, True, True, False]
