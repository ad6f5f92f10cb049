"""Odd notebooks that Jupyter runs: repaired where that has one meaning, said in a line, and nothing in them lost."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.headless.odd_notebooks import ODD, odd_notebook
from tests.headless.test_run import WAIT, environment, model, run, texts, work, write
from tests.kernel.fork_server import program_command
from tests.tiers import further
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.testing import ScriptedModel, call

__all__ = ["environment", "model", "work"]
IN_TEST = {"no outputs", "markdown with outputs", "id twice"}
"""Those that `make test` gives to a kernel; `make test-matrix` gives all of them."""
SAID_OTHERWISE = {"id", "execution_count", "outputs", "metadata", "nbformat_minor", "evalue"}
"""Keys whose odd values are replaced, and said to be."""

HIDES_US = """
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "vibe_jupyter" else find_spec(name, package)
"""


def joined(value: Any) -> Any:
    """A text, where a file may hold it as lines."""
    is_lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "".join(value) if is_lines else value


def missing_in(before: Any, after: Any, at: str = "") -> list[str]:
    """Places of a JSON value that another one does not have as they were."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            lost
            for key, value in before.items()
            if not (key in SAID_OTHERWISE and not value)
            for lost in missing_in(value, after.get(key), f"{at}.{key}")
        ]
    before, after = map(joined, (before, after))
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [lost for old, new in zip(before, after, strict=True) for lost in missing_in(old, new, f"{at}[]")]
    return [] if before == after or at.rpartition(".")[2] in SAID_OTHERWISE else [at]


@pytest.mark.requirement("headless.odd-notebooks")
@pytest.mark.parametrize("name", ODD)
def test_an_odd_notebook_is_read_and_written_with_nothing_lost(tmp_path: Path, name: str) -> None:
    path = tmp_path / "odd.ipynb"
    path.write_text(json.dumps(odd_notebook(name)), encoding="utf-8")
    file = NotebookFile(path)
    file.save(path)
    assert missing_in(odd_notebook(name), json.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.requirement("headless.odd-notebooks")
@pytest.mark.parametrize("name", [(pytest.param if name in IN_TEST else further)(name) for name in ODD])
def test_an_odd_notebook_runs_with_an_agent_that_reads_it(
    environment: dict[str, str], work: Path, model: ScriptedModel, name: str
) -> None:
    model.will_reply(call("read_notebook"), "Read.")
    path = work / "odd.ipynb"
    path.write_text(json.dumps(odd_notebook(name)), encoding="utf-8")
    done = run(environment, path, "-p", "look")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "42" in texts(path)
    assert "Title" in model.requests[1].tool_results[0]
    assert "Warning" not in done.stderr
    assert "Traceback" not in done.stderr
    repaired = [line for line in done.stdout.splitlines() if line.startswith("Repaired: ")]
    assert len(repaired) == len(NotebookFile(_as_it_was(path, name)).repairs)


def _as_it_was(path: Path, name: str) -> Path:
    before = path.with_name("before.ipynb")
    before.write_text(json.dumps(odd_notebook(name)), encoding="utf-8")
    return before


@pytest.mark.matrix
@pytest.mark.parametrize("name", ODD)
def test_jupyter_execute_runs_it_too(environment: dict[str, str], work: Path, name: str) -> None:
    path = work / "odd.ipynb"
    path.write_text(json.dumps(odd_notebook(name)), encoding="utf-8")
    command = [sys.executable, "-m", "nbclient", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.requirement("headless.run.repairs")
def test_a_failing_cell_is_left_to_the_prompt_and_the_rest_runs_after_it(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "total = 6", "totl * 7", "print('after')")
    fix = call("edit_cell", cell="[2]", source="total * 7", run=True)
    model.will_reply(call("read_notebook"), fix, "Fixed.")
    done = run(environment, path, "-p", "fix the failing cell", "--yes", "edit_cell,run_cell,run_cells,run_code")
    assert "totl" in str(model.requests[0].messages)
    assert "NameError" in str(model.requests[0].messages)
    assert done.returncode == 0, done.stdout + done.stderr
    assert texts(path)[:3] == ["", "42", "after\n"]


@pytest.mark.requirement("headless.run.repairs")
def test_a_notebook_that_the_agent_did_not_repair_ends_with_the_code_of_a_failed_cell(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "1 / 0", "print('after')")
    model.will_reply("I cannot.")
    assert run(environment, path, "-p", "fix it").returncode == 1
    assert texts(path)[:2] == ["ZeroDivisionError", ""]
    assert len(model.requests) == 1


@pytest.mark.requirement("headless.run.repairs")
def test_what_the_agent_wrote_and_nobody_allowed_to_run_is_not_run_to_find_out(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "1 / 0", "print('after')")
    edit = call("edit_cell", cell="[1]", source="open('ran', 'w').close()")
    model.will_reply(call("read_notebook"), edit, "Edited.")
    done = run(environment, path, "-p", "fix it", "--yes", "edit_cell")
    assert done.returncode == 1
    assert "the agent changed a cell and did not run it: open('ran', 'w').close()" in done.stdout
    assert not (work / "ran").exists()


@pytest.mark.requirement("headless.odd-notebooks")
def test_a_cell_that_publishes_what_the_format_forbids_ends_no_run(environment: dict[str, str], work: Path) -> None:
    publish = (
        "from IPython.display import publish_display_data\n"
        "publish_display_data({'text/plain': 'a'}, metadata={'vibe': 3})\n"
        "publish_display_data({'text/plain': 'b', 'application/x-own': {'a': 1}, 'text/html': 5})"
    )
    path = write(work / "n.ipynb", publish, "6 * 7")
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    assert texts(path) == ["ab", "42"]
    data = json.loads(path.read_text("utf-8"))["cells"][0]["outputs"][1]["data"]
    assert (data["application/x-own"], data["text/html"]) == ({"a": 1}, 5)


def executed(source: str, text: str) -> nbformat.NotebookNode:
    """A cell as a notebook keeps it that ran before."""
    output = nbformat.v4.new_output("stream", text=text)
    return nbformat.v4.new_code_cell(source, execution_count=5, outputs=[output])


@pytest.mark.requirement("headless.run.repairs")
def test_cells_after_the_failure_run_although_the_file_has_outputs_of_an_earlier_session(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", executed("totl = 6", ""), executed("print(total)", "5\n"), executed("1 / 0", "1\n"))
    model.will_reply(call("read_notebook"), call("edit_cell", cell="[2]", source="print(totl)", run=True), "Fixed.")
    done = run(environment, path, "-p", "fix it", "--yes", "edit_cell,run_cells,run_code")
    assert texts(path)[:3] == ["", "6\n", "ZeroDivisionError"]
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.requirement("headless.run.repairs")
def test_a_notebook_that_the_agent_breaks_ends_with_the_code_of_a_failed_cell(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "total = 6", "print(total)")
    model.will_reply(call("read_notebook"), call("edit_cell", cell="[2]", source="1 / 0", run=True), "Better.")
    done = run(environment, path, "-p", "make it better", "--yes", "edit_cell,run_cells,run_code")
    assert texts(path)[1] == "ZeroDivisionError"
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.requirement("headless.run.repairs")
def test_a_cell_below_the_failure_that_loads_us_and_one_with_a_prompt_still_do(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "print(totl)", "%load_ext vibe_jupyter", "\n%%vibe\nand now?")
    fix = call("edit_cell", cell="#1", source="print(7)", run=True)
    model.will_reply(call("read_notebook"), fix, "Fixed.", "It runs.")
    done = run(environment, path, "-p", "-", "--yes", "edit_cell,run_cells,run_code", given="fix it\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fix it" in str(model.requests[0].messages[-1])
    assert "and now?" in str(model.requests[-1].messages[-1])
    assert texts(path)[0] == "7\n"


@pytest.mark.requirement("headless.run.repairs")
def test_stop_on_error_asks_the_agent_nothing(environment: dict[str, str], work: Path, model: ScriptedModel) -> None:
    path = write(work / "n.ipynb", "1 / 0", "print('after')")
    assert run(environment, path, "-p", "fix it", "--stop-on-error").returncode == 1
    assert model.requests == []


@pytest.mark.requirement("headless.skip-execution")
def test_a_cell_that_is_tagged_to_be_skipped_is_skipped(environment: dict[str, str], work: Path) -> None:
    skipped = nbformat.v4.new_code_cell("open('ran', 'w').close()", metadata={"tags": ["skip-execution"]})
    path = write(work / "n.ipynb", skipped, "6 * 7")
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    assert "skipped, as its tag skip-execution says" in done.stdout
    assert texts(path) == ["", "42"]
    assert not (work / "ran").exists()


@pytest.mark.requirement("headless.skip-execution", "notebook.cells.tags")
def test_the_agent_is_told_of_tags_and_runs_a_skipped_cell_by_name_alone(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    skipped = nbformat.v4.new_code_cell("open('ran', 'a').close()", metadata={"tags": ["slow", "skip-execution"]})
    path = write(work / "n.ipynb", skipped, "six = 6")
    model.will_reply(call("run_cells", cells=["#1-#2"]), call("run_cells", cells=["#1"]), "Done.")
    done = run(environment, path, "-p", "run all", "--yes", "run_cells")
    assert done.returncode == 0, done.stderr
    first, ranged, named = model.requests
    assert "(tags: slow, skip-execution) open('ran', 'a').close()" in str(first.messages[-1])
    assert re.match(r"#2 \w+ \[\d+\] ok in", ranged.tool_results[-1])
    assert "Skipped because of the tag skip-execution: #1 " in ranged.tool_results[-1]
    assert "Skipped" not in named.tool_results[-1]
    assert (work / "ran").exists()


@pytest.mark.requirement("headless.skip-execution")
def test_verify_skips_a_cell_that_is_tagged_to_be_skipped(environment: dict[str, str], work: Path) -> None:
    skipped = nbformat.v4.new_code_cell("open('ran', 'w').close()", metadata={"tags": ["skip-execution"]})
    path = write(work / "n.ipynb", skipped, "6 * 7")
    command = [*program_command(), "verify", str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped, as its tag skip-execution says" in done.stdout
    assert not (work / "ran").exists()


@pytest.mark.requirement("headless.half-characters")
def test_half_an_emoji_ends_no_run_of_the_agent_and_stays_in_the_file(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    title = nbformat.v4.new_markdown_cell("# half")
    path = write(work / "n.ipynb", title, "x = 'half'", "len(x)")
    path.write_text(path.read_text("utf-8").replace("half", "\\ud83d"), "utf-8")
    model.will_reply(call("read_notebook"), call("run_cells", cells=["[1]"]), "Read.")
    done = run(environment, path, "-p", "look", "--yes", "run_cells,run_cell")
    assert done.returncode == 0, done.stdout + done.stderr
    assert texts(path)[1] == "1"
    assert path.read_text("utf-8").count("\\ud83d") == 2


@pytest.mark.requirement("headless.kernel-without-us")
def test_a_kernel_without_vibe_jupyter_is_refused_before_any_cell_runs(
    environment: dict[str, str], work: Path, tmp_path: Path
) -> None:
    hides = tmp_path / "hides"
    hides.mkdir()
    (hides / "sitecustomize.py").write_text(HIDES_US, encoding="utf-8")
    folder = tmp_path / "kernels" / "elsewhere"
    folder.mkdir(parents=True)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Elsewhere",
        "language": "python",
        "env": {"PYTHONPATH": str(hides)},
    }
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    path = write(work / "n.ipynb", "open('ran', 'w').close()")
    before = path.read_bytes()
    done = run({**environment, "JUPYTER_PATH": str(tmp_path)}, path, "-p", "look", "--kernel", "elsewhere")
    assert done.returncode == 2
    assert "runs in an environment without vibe-jupyter" in done.stderr
    assert f"{sys.executable} -m pip install " in done.stderr
    assert path.read_bytes() == before
    assert not (work / "ran").exists()
