"""`vibe-jupyter run`, as a user or a script uses it."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.app.conftest import CONFIG
from tests.kernel.fork_server import program_command
from tests.kernel.matrix import MORE, OLDEST, ipykernel
from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ScriptedModel, call, say, status

WAIT = patient(60.0)
"""Seconds a whole notebook may take."""

ECHO = """
from ipykernel.kernelbase import Kernel

class Echo(Kernel):
    implementation = implementation_version = banner = "echo"
    language_info = {"name": "echo", "mimetype": "text/plain", "file_extension": ".txt"}

    def do_execute(self, code, silent, *_, **__):
        if not silent:
            self.send_response(self.iopub_socket, "stream", {"name": "stdout", "text": code.upper()})
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}
"""
"""A kernel that evaluates nothing."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture
def environment(tmp_path: Path, model: ScriptedModel) -> dict[str, str]:
    home = tmp_path / "vibe"
    home.mkdir()
    (home / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
    return {**os.environ, "VIBE_HOME": str(home), "IPYTHONDIR": str(tmp_path / "ipython")}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Where the notebooks of a test are; nothing else is there."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def write(path: Path, *cells: str | nbformat.NotebookNode, more: dict[str, object] | None = None) -> Path:
    made = [cell if isinstance(cell, dict) else nbformat.v4.new_code_cell(cell) for cell in cells]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={**spec, **(more or {})}), path)
    return path


def run(environment: dict[str, str], *arguments: object, given: str = "") -> "subprocess.CompletedProcess[str]":
    command = [*program_command(), "run", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False, input=given
    )


def echo_kernel(folder: Path) -> dict[str, str]:
    """Variables with which a kernel named "echo" is installed, which is none of Python."""
    place = folder / "kernels" / "echo"
    place.mkdir(parents=True)
    (folder / "echo.py").write_text(ECHO, encoding="utf-8")
    kernel_class = "--IPKernelApp.kernel_class=echo.Echo"
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", kernel_class]
    spec = {"argv": argv, "display_name": "Echo", "language": "echo"}
    (place / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    return {"JUPYTER_PATH": str(folder), "PYTHONPATH": str(folder)}


def texts(path: Path) -> list[str]:
    """What each code cell put out, as text."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return ["".join(_text(output) for output in cell.outputs) for cell in cells]


def _text(output: nbformat.NotebookNode) -> str:
    return output.get("text") or output.get("data", {}).get("text/plain") or output.get("ename", "")


def test_the_cells_run_in_their_order_and_the_file_is_saved(environment: dict[str, str], work: Path) -> None:
    title = nbformat.v4.new_markdown_cell("# Title")
    shows = (
        "from IPython.display import display, clear_output\nimport sys\nprint(x)\nclear_output(wait=True)\n"
        "print('only this')\nh = display('before', display_id='d')\nprint('more')\ndisplay(1)\n"
        "print('err', file=sys.stderr)"
    )
    path = write(work / "n.ipynb", title, "x = 6", shows, "h.update('after')\nx * 7", "")
    path.chmod(0o640)
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    notebook = nbformat.read(path, as_version=4)
    assert texts(path) == ["", "only this\n'after'more\n1err\n", "42", ""]
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2, 3, None]
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in work.iterdir()] == ["n.ipynb"]
    assert "[3/3]" in done.stdout
    assert f"Saved as {path}." in done.stdout


def test_a_saved_notebook_names_its_conversation_and_nothing_of_what_was_said(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(say("It weighs 4711 g."), say("It was 4711 g."))
    load = "%load_ext vibe_jupyter"
    path = write(work / "n.ipynb", load, "weight = 4711", "%%vibe\nHow heavy is it?")
    assert run(environment, path).returncode == 0
    metadata = nbformat.read(path, as_version=4).metadata
    (journal,) = (Path(environment["VIBE_HOME"]) / "logs" / "session").glob("*/journal.jsonl")
    header = read_journal(journal).header
    assert header is not None
    assert metadata["vibe_jupyter"] == {"conversation": header.session_id}
    first = model.requests[-1].messages
    again = write(work / "n.ipynb", load, "%vibe resume", "%%vibe\nHow heavy was it?", "weight = 4711", more=metadata)
    assert run(environment, again).returncode == 0
    said = texts(again)
    assert "Continuing 'How heavy is it?' (" in said[1]
    assert "`weight` is gone: the kernel was restarted. Run cell #4?" in said[1]
    assert "can be continued" not in "".join(said)
    assert model.requests[-1].messages[1 : len(first)] == first[1:]


def test_a_failing_cell_ends_the_run_and_everything_up_to_it_is_saved(environment: dict[str, str], work: Path) -> None:
    path, result = write(work / "n.ipynb", "print('one')", "1 / 0", "print('three')"), work / "out.ipynb"
    before = path.read_bytes()
    done = run(environment, path, "--save-as", result)
    assert done.returncode == 1
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert texts(result) == ["one\n", "ZeroDivisionError", ""]
    assert path.read_bytes() == before


def test_a_cell_that_shows_an_error_and_ends_well_runs_once_also_with_a_prompt(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    (work / "bad.py").write_text("open('ran.txt', 'a').write('x')\n1 / 0\n", encoding="utf-8")
    model.will_reply("Seen.")
    done = run(environment, write(work / "n.ipynb", "%run bad.py"), "-p", "look")
    assert done.returncode == 0, done.stderr
    assert (work / "ran.txt").read_text(encoding="utf-8") == "x"


def test_a_cell_that_is_meant_to_fail_does_not_end_the_run(environment: dict[str, str], work: Path) -> None:
    meant = nbformat.v4.new_code_cell("1 / 0", metadata={"tags": ["raises-exception"]})
    path = write(work / "n.ipynb", meant, "print('next')")
    assert run(environment, path).returncode == 0
    assert texts(path) == ["ZeroDivisionError", "next\n"]


def test_half_a_character_ends_no_run(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "print('é ✓')", "x = 'half'\nlen(x)")
    path.write_text(path.read_text("utf-8").replace("half", "\\ud83d"), "utf-8")
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    assert "[2/2] x = '\\ud83d'" in done.stdout
    assert texts(path) == ["é ✓\n", "1"]
    assert "x = '\\ud83d'" in path.read_text("utf-8")


def test_a_cell_that_takes_too_long_is_interrupted(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "import time\nprint('on', flush=True)\ntime.sleep(60)", "print('never')")
    done = run(environment, path, "--timeout", "2")
    assert done.returncode == 1
    assert "longer than 2 s" in done.stderr
    assert texts(path) == ["on\nKeyboardInterrupt", ""]


def test_a_kernel_that_dies_is_said_and_the_rest_is_saved(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "print('kept')", "import os\nos._exit(3)")
    done = run(environment, path)
    assert done.returncode == 1
    assert "The kernel died: exit code 3." in done.stderr
    assert texts(path) == ["kept\n", "KernelDied"]


@pytest.mark.parametrize("asked", ["SIGINT", "SIGTERM", further("SIGHUP")])
def test_ctrl_c_a_scheduler_and_a_closed_terminal_interrupt_the_kernel_and_what_ran_is_saved(
    environment: dict[str, str], work: Path, asked: str
) -> None:
    slow = "import time\nopen('started', 'w').close()\ntime.sleep(60)"
    path = write(work / "n.ipynb", "print('before')", slow, "print('never')")
    command = [*program_command(), "run", str(path)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end, pause = time.monotonic() + WAIT, threading.Event()
    while not (work / "started").exists() and time.monotonic() < end:
        pause.wait(0.05)
    process.send_signal(signal.Signals[asked])
    began = time.monotonic()
    output, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 130, errors
    assert time.monotonic() - began < patient(10)
    assert "Traceback" not in errors
    assert "Interrupted." in output
    assert texts(path) == ["before\n", "KeyboardInterrupt", ""]


def test_a_reader_that_goes_away_ends_the_run_without_a_traceback_and_what_ran_is_saved(
    environment: dict[str, str], work: Path
) -> None:
    wait = "import os, time\nwhile not os.path.exists('gone'): time.sleep(0.01)"
    path = write(work / "n.ipynb", "print('before')", wait, "print('never')")
    command = [*program_command(), "run", str(path)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "[1/3]" in process.stdout.readline()
    process.stdout.close()
    (work / "gone").touch()
    _, errors = process.communicate(timeout=WAIT)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert "Broken pipe" not in errors
    assert texts(path) == ["before\n", "", ""]


@pytest.mark.requirement("programmatic.notebook.run")
def test_a_prompt_is_put_at_the_end_with_what_it_needs_and_runs(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="answer = 6 * 7\nanswer", keep=True), "It is 42.")
    path = write(work / "n.ipynb", "x = 1")
    done = run(environment, path, "-p", "what is six by seven?", "--yes", "run_code")
    assert done.returncode == 0, done.stderr
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.source for cell in cells[1:]] == ["%load_ext vibe_jupyter", "%%vibe\nwhat is six by seven?"]
    assert "42" in model.requests[1].tool_results[0]
    assert "It is 42." in texts(path)[2]
    assert "It is 42." in done.stdout


def test_what_a_cell_allows_itself_is_allowed_beside_what_the_command_line_allows(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="6 * 7"), call("bash", command="touch made"), "It is 42.")
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", "%%vibe --yes=run_code --max-turns=9\nsix by seven?")
    assert run(environment, path, "--yes", "bash").returncode == 0
    assert "42" in model.requests[1].tool_results[0]
    assert (work / "made").exists()


@pytest.mark.parametrize("prompt", ["%vibe fix", "%vibe what is six by seven?", further("%vibe --max-turns 9 fix")])
def test_yes_reaches_the_prompts_of_one_line_and_the_notebook_keeps_none_of_it(
    environment: dict[str, str], work: Path, model: ScriptedModel, prompt: str
) -> None:
    model.will_reply(call("run_code", code="6 * 7"), "It is 42.")
    failed = "%load_ext vibe_jupyter\nshown = get_ipython().run_cell('1 / 0')"
    path = write(work / "n.ipynb", failed, "%vibe status", prompt)
    done = run(environment, path, "--yes", "run_code")
    assert done.returncode == 0, done.stderr
    assert "42" in model.requests[1].tool_results[0]
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.source for cell in cells[1:]] == ["%vibe status", prompt]
    assert "scripted" in texts(path)[1]
    assert len(model.requests) == 2


def test_without_a_yes_the_agent_is_told_that_nobody_can_be_asked(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("run_code", code="1"), "As you wish.")
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter")
    done = run(environment, path, "-p", "run it")
    assert done.returncode == 0, done.stderr
    assert "nobody" in model.requests[1].tool_results[0].lower()


def test_in_an_untrusted_folder_agent_and_user_are_told_that_nobody_can_be_asked(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    (work / "AGENTS.md").write_text("Prices are net.", encoding="utf-8")
    model.will_reply("Done.")
    model.will_reply("Again.")
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", "%%vibe\ngo", "%%vibe\nonce more")
    assert run(environment, path).returncode == 0
    first, second = texts(path)[1:]
    assert f"{work.resolve()} is not trusted; its settings and tools are not used." in first
    assert "not trusted" not in second
    system, prompt = (str(message["content"]) for message in model.requests[0].messages[:2])
    assert "a program runs the notebook. Approval: nobody is here; what needs approval is denied." in system
    assert "Prices are net" not in system
    assert "live page: yes; nobody is there to allow anything" in prompt


def test_more_requests_than_a_run_may_have_are_refused(environment: dict[str, str], work: Path) -> None:
    done = run(environment, write(work / "n.ipynb", "1"), "--max-turns", 300)
    assert done.returncode == 2
    assert "--max-turns: '300' is no whole number from 1 to 200" in done.stderr


@pytest.mark.parametrize("option", ["--model", "--agent"])
def test_a_model_or_agent_that_is_not_there_is_named_before_any_cell_runs(
    environment: dict[str, str], work: Path, option: str
) -> None:
    path = write(work / "n.ipynb", "open('ran', 'w').close()")
    done = run(environment, path, option, "nowhere", "-p", "hello")
    assert done.returncode == 2
    assert f"There is no {option[2:]} 'nowhere'" in done.stderr
    assert "scripted" in done.stderr if option == "--model" else "plan" in done.stderr
    assert not (work / "ran").exists()


def test_an_agent_that_cannot_begin_or_fails_has_an_exit_code_of_its_own(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", "%%vibe --model nowhere@http://127.0.0.1:1/v1\nhello")
    done = run(environment, path)
    assert done.returncode == 3
    assert re.findall(r"^ +(.*), [\d.]+ s$", done.stdout, re.MULTILINE) == ["ok", "the agent did not finish"]
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", "%%vibe --wrong x\nhello")
    assert run(environment, path).returncode == 3


@pytest.mark.parametrize("line", ["%vibe", "import os\n%vibe"])
def test_a_prompt_in_a_line_says_in_the_log_what_it_answered_and_why_it_failed(
    environment: dict[str, str], work: Path, model: ScriptedModel, line: str
) -> None:
    model.will_reply("It weighs 4711 g.", status(400))
    load = "%load_ext vibe_jupyter"
    path = write(work / "n.ipynb", load, f"{line} how heavy?", "print('of', 'code')", f"{line} and this?")
    done = run(environment, path)
    assert done.returncode == 3
    assert "It weighs 4711 g." in done.stdout
    assert "refused the request (400)" in done.stdout
    assert "of code" not in done.stdout

    path = write(work / "n.ipynb", load, f"{line} --keep-going --agent=nobody hello", "print('went on')")
    done = run(environment, path)
    assert done.returncode == 3
    assert "There is no agent 'nobody'." in done.stdout
    assert texts(path)[2] == "went on\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "Cannot read"),
        ("no json", "is not a notebook"),
        ("[1]", "but not a notebook"),
        ('{"cells": 1}', "but not a notebook"),
    ],
)
def test_what_is_no_notebook_is_said_before_anything_runs(
    environment: dict[str, str], work: Path, text: str | None, words: str
) -> None:
    path = work / "n.ipynb"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    done = run(environment, path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_said(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "x = 1")
    for wrong in (["--save-as", work / "no" / "such.ipynb"], ["--yes", "run code"], ["--timeout", "-1"]):
        done = run(environment, path, *wrong)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    done = run(environment, path, "--kernel", "cobol")
    assert done.returncode == 2
    assert "jupyter kernelspec list" in done.stderr
    assert run(environment, path, "-p", " \n").stderr.startswith("vibe-jupyter: The prompt is empty. Pass one: ")


@pytest.mark.requirement("headless.kernel.broken")
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ('{"argv": ["/gone/bin/python", "-m", "ipykernel_launcher"], "display_name": "b"}', "/gone/bin/python"),
        further('{"argv":', "Expecting value"),
        further("[]", ""),
        further('{"argv": 5}', "argv"),
    ],
)
def test_a_kernel_whose_installation_is_broken_is_said_in_a_line(
    environment: dict[str, str], work: Path, spec: str, why: str
) -> None:
    folder = work / "kernels" / "broken"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(spec, encoding="utf-8")
    path = write(work / "n.ipynb", "x = 1")
    before = path.read_bytes()
    done = run({**environment, "JUPYTER_PATH": str(work), "TMPDIR": str(work)}, path, "--kernel", "broken")
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"vibe-jupyter: The kernel 'broken' cannot be started: .* --kernel\.\n", done.stderr)
    assert why in done.stderr
    assert path.read_bytes() == before
    assert list(work.glob("vibe-kernel-*")) == []


@pytest.mark.requirement("headless.kernel.other-language")
def test_a_prompt_in_a_kernel_of_another_language_is_refused_before_any_cell_runs(
    environment: dict[str, str], work: Path, tmp_path: Path
) -> None:
    there = {**environment, **echo_kernel(tmp_path / "echo")}
    path = write(work / "n.ipynb", "hello")
    done = run(there, path, "--kernel", "echo", "-p", "look")
    assert (done.returncode, texts(path)) == (2, [""]), done.stderr
    assert "did not evaluate a line of Python, which %%vibe cells need" in done.stderr
    assert run(there, path, "--kernel", "echo").returncode == 0
    assert texts(path) == ["HELLO"]


@pytest.mark.requirement("headless.run.said")
def test_what_is_saved_is_there_and_what_is_not_is_not_said_to_be(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", nbformat.v4.new_markdown_cell("# Title"))
    assert run(environment, path).stdout == f"Nothing was run. {path} is as it was.\n"
    made = work / "made.ipynb"
    assert run(environment, path, "--save-as", made).stdout == f"Saved as {made}.\n"
    assert nbformat.read(made, as_version=4).cells[0].source == "# Title"


@pytest.mark.requirement("programmatic.notebook.run", "notebook.run_cell.counts")
@pytest.mark.parametrize("version", ["installed", *map(further, (OLDEST, *MORE))])
def test_the_agent_reads_edits_and_runs_the_cells_of_the_notebook(
    environment: dict[str, str], work: Path, model: ScriptedModel, version: str
) -> None:
    if version != "installed":
        environment |= {
            "PYTHONPATH": str(ipykernel(version).first_on_path),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "JUPYTER_PATH": "",  # a forked kernel has the installed one in it
        }
    broken = nbformat.v4.new_code_cell("1 / x", id="broken01", metadata={"tags": ["raises-exception"]})
    path = write(work / "n.ipynb", "import ipykernel\nprint(ipykernel.__version__)\nx = 0", broken)
    model.will_reply(
        call("read_notebook", cells=["broken01"]),
        call("edit_cell", cell="broken01", source="1 / (x + 1)", run=True),
        call("insert_cell", after="broken01", source="print('made')\nx + 41", run=True),
        "Mended.",
    )
    done = run(environment, path, "-p", "mend it", "--yes", "edit_cell,insert_cell,run_cells")
    assert done.returncode == 0, done.stderr
    results = [request.tool_results[-1] for request in model.requests[1:]]
    assert "1 / x" in results[0]
    assert "1.0" in results[1]
    assert "made" in results[2]
    cells = nbformat.read(path, as_version=4).cells
    assert [cell.source for cell in cells[1:3]] == ["1 / (x + 1)", "print('made')\nx + 41"]
    assert version in ("installed", texts(path)[0].strip())
    assert texts(path)[1:3] == ["1.0", "made\n41"]
    counts = [cell.execution_count for cell in cells]
    assert len(set(counts)) == len(counts)
    assert "edited a cell" in done.stdout
    assert "ran a cell" in done.stdout


@pytest.mark.parametrize("blocked", [True, further(False)])  # the quickstart in the docs makes the plot
def test_the_demo_model_makes_no_plot_where_matplotlib_is_missing(
    environment: dict[str, str], work: Path, blocked: bool
) -> None:
    data = (
        f"%load_ext vibe_jupyter\nimport sys\nif {blocked}:\n    sys.modules['matplotlib'] = None\n"
        "import pandas\nframe = pandas.DataFrame({'kind': ['a', 'b'] * 50, 'size': [1.0, 9.0] * 50})"
    )
    prompt = "%%vibe --model tour --yes=run_code,insert_cell,run_cells\nWhich measurement tells the kinds apart?"
    path = write(work / "n.ipynb", data, prompt)

    done = run(environment, path)

    assert done.returncode == 0, done.stderr
    cells = nbformat.read(path, as_version=4).cells
    answer = texts(path)[1]
    assert "`size` tells the groups apart best: 100.0 %" in answer
    assert ("There is no plot: matplotlib is not installed in this kernel. `%pip install" in answer) is blocked
    assert ("The plot is in the new cell below." in answer) is not blocked
    assert len(cells) == (2 if blocked else 3)
    assert [output.output_type for cell in cells for output in cell.outputs if output.output_type == "error"] == []


def test_a_run_is_undone_in_a_notebook_without_a_page(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    asked = ("%%vibe --yes=edit_cell,write_file\nchange it", "%vibe undo")
    path = write(work / "n.ipynb", "x = 1", "%load_ext vibe_jupyter", *asked, "print(x)")
    first = nbformat.read(path, as_version=4).cells[0].id
    model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=first, source="x = 2"),
        call("write_file", path="new.txt", content="new"),
        say("Changed."),
    )
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    assert nbformat.read(path, as_version=4).cells[0].source == "x = 1"
    assert not (work / "new.txt").exists()
    assert "Undone: [1], new.txt (removed)." in texts(path)[3]
    assert texts(path)[4] == "1\n"


def test_cells_that_the_agent_wrote_say_so_in_the_file_and_stay_the_same_when_it_is_run_again(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("insert_cell", source="doubled = 2 * weight", run=True), say("Done."), say("It is there."))
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", "weight = 4711", "%%vibe\nDouble it.")
    assert run(environment, "--yes", "insert_cell,run_cells", path).returncode == 0
    written = nbformat.read(path, as_version=4)
    nbformat.validate(written)
    mark = written.cells[3].metadata["vibe"]
    assert (mark["turn"], mark["approved"]["by"], mark["approved"]["rule"]) == (1, "settings", "--yes")
    assert mark["inputs"]["weight"]["shape"] == "int"
    assert [cell.metadata.get("vibe") for cell in written.cells] == [None, None, None, mark]
    assert run(environment, path).returncode == 0
    again = nbformat.read(path, as_version=4)
    assert [cell.metadata for cell in again.cells] == [cell.metadata for cell in written.cells]


def test_a_report_is_written_into_a_notebook_that_a_program_runs(environment: dict[str, str], work: Path) -> None:
    (work / "sales.csv").write_text("amount\n1\n", encoding="utf-8")
    read = "import pandas as pd\nsales = pd.read_csv('sales.csv')"
    path = write(work / "n.ipynb", "%load_ext vibe_jupyter", read, "%vibe report")
    assert run(environment, path).returncode == 0
    (made,) = (cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    assert made.source.startswith("## Methods\n")
    assert "`sales.csv` (9 bytes" in made.source


def test_what_undo_would_not_restore_of_calls_that_nobody_was_asked_about_is_said_once_where_it_is_met(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    looks = call("run_code", code="lock.locked(); items.append(1)", keep=True)
    model.will_reply(looks, call("run_code", code="lock.locked()", keep=True), say("Done."), looks, say("Done."))
    load = "%load_ext vibe_jupyter\nimport threading\nlock, items = threading.Lock(), []"
    path = write(work / "n.ipynb", load, "%%vibe\nonce", "%%vibe\nagain")
    done = run(environment, path, "--yes", "run_code")
    assert done.returncode == 0, done.stderr
    assert done.stderr.split("\n").count("      undo would not restore lock") == 1
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.source.startswith("%%vibe")]
    for cell in cells:
        shown = "".join(output["data"]["text/html"] for output in cell.outputs if "data" in output)
        assert shown.count("undo would not restore lock") == 1
        assert "items" not in shown.split("undo would not restore ")[1].split("<")[0]
