"""`vibe-jupyter run` whose kernel dies: finished steps are in the file, and the agent goes on in a new kernel."""

from pathlib import Path

import nbformat
import pytest

from tests.headless.test_run import environment, model, run, texts, work, write
from tests.tiers import further
from vibe_jupyter.testing import ScriptedModel, Tokens, answer, call, say

__all__ = ["environment", "model", "work"]

LOAD = "%load_ext vibe_jupyter"
ONCE = "x = 41\nprint(x, file=open('ran', 'a'))"
"""Leaves a line in a file each time it runs."""
KILL = "import os; os.kill(os.getpid(), 9)"
ENDINGS = [
    ("import os; os._exit(3)", "exit code 3"),
    further(KILL, "signal SIGKILL"),
    further("import ctypes; ctypes.string_at(0)", "signal SIGSEGV"),
]


def html(path: Path, number: int) -> str:
    return str(nbformat.read(path, as_version=4).cells[number].outputs[0].data["text/html"])


@pytest.mark.requirement("programmatic.kernel-death.transcript", "programmatic.kernel-death.continues")
@pytest.mark.parametrize(("deadly", "ending"), ENDINGS)
def test_a_run_goes_on_in_a_new_kernel_and_its_finished_steps_are_in_the_file(
    environment: dict[str, str], work: Path, model: ScriptedModel, deadly: str, ending: str
) -> None:
    model.will_reply(
        call("run_code", code="found = x + 1; found", keep=True),
        call("run_code", code=deadly, keep=True),
        call("run_code", code="'x' in globals()"),
        "Went on.",
    )
    path = write(work / "n.ipynb", LOAD, ONCE, "%%vibe\nwork on it", "print('after')")
    done = run(environment, path, "--yes", "run_code")

    assert done.returncode == 0, done.stderr
    assert (work / "ran").read_text() == "41\n"
    kept = html(path, 2)
    assert all(one in kept for one in ("found = x + 1; found", "42", deadly.split(";")[-1].strip(), ending))
    assert texts(path)[2].count("Went on.") == 1
    assert texts(path)[3] == "after\n"
    first, told = model.requests[1].messages, model.requests[2].messages
    assert told[1 : len(first)] == first[1:]
    assert "it may have run" in str(told[-2])
    assert f"The kernel died: {ending}" in str(told[-1])
    assert "These variables of cells are gone: x;" in str(told[-1])
    assert model.requests[-1].tool_results[-1].startswith("ok")
    assert "False" in model.requests[-1].tool_results[-1]


@pytest.mark.requirement("programmatic.kernel-death.continues")
def test_deaths_of_one_run_share_its_limit_of_turns(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(*[call("run_code", code=KILL)] * 5)
    path = write(work / "n.ipynb", LOAD, "%%vibe --max-turns=2\nwork on it", "print('after')")
    done = run(environment, path, "--yes", "run_code")
    assert done.returncode == 3, done.stderr
    assert len(model.requests) == 2
    assert "To go on: %vibe resume" in texts(path)[1]
    assert texts(path)[2] == ""


@pytest.mark.matrix
@pytest.mark.requirement("programmatic.kernel-death.continues")
@pytest.mark.parametrize(
    ("limit", "counted", "requests"),
    [
        ("--max-price=0.0001", None, 1),
        ("--max-price=100", None, 2),
        ("--max-tokens=1", None, 1),
        ("--max-tokens=1000000", None, 2),
        ("--max-tokens=1", Tokens(0, 0), 1),
        ("--max-price=0.0001", Tokens(0, 0), 1),
        ("--max-tokens=1000000", Tokens(0, 0), 2),
        ("--max-seconds=600", None, 2),
    ],
)
def test_what_a_run_used_before_its_kernel_died_counts_against_its_limits(
    environment: dict[str, str], work: Path, model: ScriptedModel, limit: str, counted: Tokens | None, requests: int
) -> None:
    config = Path(environment["VIBE_HOME"]) / "config.toml"
    config.write_text(f"{config.read_text()}input_price = 1.0\noutput_price = 1.0\n")
    model.will_reply(answer(calls=[call("run_code", code=KILL)], usage=counted), "Went on.")
    path = write(work / "n.ipynb", LOAD, f"%%vibe {limit}\nwork on it")
    assert run(environment, path, "--yes", "run_code").returncode == (3 if requests == 1 else 0)
    assert len(model.requests) == requests


@pytest.mark.matrix
@pytest.mark.requirement("programmatic.kernel-death.continues")
@pytest.mark.parametrize(("limit", "requests"), [("--max-tokens=50000", 2), ("--max-tokens=500000", 3)])
def test_what_sub_agents_used_before_the_kernel_died_counts_too(
    environment: dict[str, str], work: Path, model: ScriptedModel, limit: str, requests: int
) -> None:
    calls = [call("task", agent="explore", task="look"), call("run_code", code=KILL)]
    model.will_reply(answer(calls=calls), say("Found.", usage=Tokens(100_000, 1)), "Went on.")
    path = write(work / "n.ipynb", LOAD, f"%%vibe {limit}\nwork on it")
    assert run(environment, path, "--yes", "run_code,task").returncode == (3 if requests == 2 else 0)
    assert len(model.requests) == requests


@pytest.mark.requirement("programmatic.kernel-death.repair")
@pytest.mark.parametrize("is_repaired", [True, further(False)])
def test_a_cell_that_ends_the_kernel_is_given_to_the_prompt_and_not_run_again(
    environment: dict[str, str], work: Path, model: ScriptedModel, is_repaired: bool
) -> None:
    fix = call("edit_cell", cell="#2", source="y = 1", run=True)
    model.will_reply(*([fix, fix, "Repaired."] if is_repaired else ["I can't."]))
    deadly = "print(1, file=open('deadly', 'a'))\nimport os; os._exit(3)"
    path = write(work / "n.ipynb", ONCE, deadly, "print('after')")
    done = run(environment, path, "-p", "repair it", "--yes", "edit_cell,run_cells")

    told = str(model.requests[0].messages[-1])
    assert "The kernel died: exit code 3. Cell #2 was running." in told
    assert "These variables of cells are gone: x;" in told
    assert (work / "ran").read_text() == "41\n"
    assert (work / "deadly").read_text() == "1\n"
    assert done.returncode == (0 if is_repaired else 1), done.stderr
    assert texts(path)[1] == ("" if is_repaired else "KernelDied")
    assert texts(path)[2] == ("after\n" if is_repaired else "")


@pytest.mark.requirement("programmatic.kernel-death.transcript")
def test_a_cell_that_the_agent_ran_says_that_the_kernel_died_in_it(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    deadly = "print('begun', flush=True)\nif 'armed' in globals():\n    import os; os._exit(4)"
    path = write(work / "n.ipynb", LOAD, deadly, "%%vibe\nrun it")
    arm = call("run_code", code="armed = True", keep=True)
    model.will_reply(arm, call("run_cells", cells=["#2"]), "It ends the kernel.")
    done = run(environment, path, "--yes", "run_code,run_cells")
    assert done.returncode == 0, done.stderr
    (error,) = [one for one in nbformat.read(path, as_version=4).cells[1].outputs if one.output_type == "error"]
    assert error.evalue.startswith("The kernel died: exit code 4. All variables are gone.")
    assert "Cell #2 was running." in str(model.requests[-1].messages[-1])


@pytest.mark.matrix
def test_without_saved_conversations_the_file_says_why_the_run_does_not_go_on(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    config = Path(environment["VIBE_HOME"]) / "config.toml"
    config.write_text(f"{config.read_text()}\n[session_logging]\nenabled = false\n")
    model.will_reply(call("run_code", code=KILL))
    path = write(work / "n.ipynb", LOAD, "%%vibe\nwork on it")
    assert run(environment, path, "--yes", "run_code").returncode == 3
    (output,) = nbformat.read(path, as_version=4).cells[1].outputs
    assert "signal SIGKILL" in output.evalue
    assert "the conversation was not saved" in output.evalue
    assert len(model.requests) == 1
