"""What may be wrong with a notebook file, or with the place it goes to: each is said, and nothing is lost."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest

from tests.headless.test_run import WAIT, environment, model, run, texts, work, write
from tests.kernel.fork_server import program_command
from vibe_jupyter.testing import ScriptedModel, call

__all__ = ["environment", "model", "work"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of a process as Linux has them")
LIMITED = str(Path(__file__).with_name("limited_program.py"))


def run_limited(environment: dict[str, str], limit: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*program_command(LIMITED), limit, "run", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT, check=False)


def refused(done: "subprocess.CompletedProcess[str]") -> str:
    """What was said, in one line, before anything ran."""
    assert done.returncode == 2, done.stderr
    assert "[1/" not in done.stdout
    assert done.stderr.startswith("vibe-jupyter: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.requirement("headless.no-notebook")
@pytest.mark.parametrize(
    ("content", "says", "remedy"),
    [
        (b"", "is empty", "Make a notebook in Jupyter"),
        (b"\xff\xfe", "byte 0 is not valid UTF-8", ""),
        (b'{\n "cells": [', "not valid JSON (line 2, column 12", "take an older copy"),
        (b"import pandas as pd\n", "holds text, not JSON", "jupytext --to ipynb"),
        (b"---\ntitle: Quarto\n---\n", "holds text, not JSON", "jupytext --to ipynb"),
        (b"[" * 200_000, "nested too deeply", ""),
        (b"1" * 5_000, "a number of thousands of digits", ""),
        (b'{"a": 1}', "is JSON, but not a notebook", ""),
        (b'{"nbformat": 4, "nbformat_minor": 5}', "has no list of cells", "repair it"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "cells": [{}], "metadata": {}}', "not a valid notebook", "save it"),
        (
            b'{"nbformat": 4, "nbformat_minor": 5, "cells": [{"cell_type": "code", "outputs": [{"text": "x"}]}]}',
            "an output of cell 1 is no object with an output_type",
            "Clear the outputs",
        ),
        (b'{"nbformat": 5, "nbformat_minor": 0, "cells": []}', "is in nbformat 5", "Install a newer one"),
    ],
)
def test_what_is_no_notebook_is_said_and_left_as_it_is(
    environment: dict[str, str], work: Path, content: bytes, says: str, remedy: str
) -> None:
    path = work / "n.ipynb"
    path.write_bytes(content)
    words = refused(run(environment, path))
    assert str(path) in words
    assert says in words
    assert remedy in words
    assert path.read_bytes() == content


def test_a_notebook_in_an_old_format_is_converted_and_said_to_be(environment: dict[str, str], work: Path) -> None:
    path = work / "old.ipynb"
    cell = {"cell_type": "code", "input": "6 * 7", "outputs": [], "language": "python", "collapsed": False}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": [cell]}]}
    path.write_text(json.dumps(old), encoding="utf-8")
    done = run(environment, path)
    assert done.returncode == 0, done.stderr
    assert "Repaired: converted it from nbformat 3, which Jupyter no longer writes." in done.stdout
    assert texts(path) == ["42"]


def test_a_notebook_without_ids_or_cells_runs(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "6 * 7")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    notebook["nbformat_minor"] = 2
    del notebook["cells"][0]["id"]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    assert run(environment, path).returncode == 0
    assert texts(path) == ["42"]
    nbformat.validate(nbformat.read(path, as_version=4))
    empty = write(work / "empty.ipynb")
    assert run(environment, empty).returncode == 0


@pytest.mark.matrix
def test_a_notebook_of_50_megabytes_is_read_run_and_kept(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("read_notebook", outputs="brief"), "A heavy one.")
    heavy = nbformat.v4.new_output("display_data", data={"image/png": "A" * 50_000_000})
    path = write(work / "n.ipynb", "6 * 7", nbformat.v4.new_code_cell("", outputs=[heavy]), "%load_ext vibe_jupyter")
    done = run(environment, path, "-p", "look")
    assert done.returncode == 0, done.stderr
    assert texts(path)[0] == "42"
    assert path.stat().st_size > 50_000_000
    seen = model.requests[1].tool_results[0]
    assert "display_data image/png 50,000,000 B" in seen
    assert len(seen) < 2_000


def test_a_file_that_may_not_be_written_is_said_before_anything_runs(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "open('ran', 'w')")
    before = path.read_bytes()
    path.chmod(0o444)
    words = refused(run_limited(environment, "heed-modes", path))
    assert f"{path} is read-only" in words
    assert "--save-as" in words
    path.chmod(0o644)
    work.chmod(0o555)
    try:
        assert f"may not write in {work}" in refused(run_limited(environment, "heed-modes", path))
    finally:
        work.chmod(0o755)
    assert path.read_bytes() == before
    assert [entry.name for entry in work.iterdir()] == ["n.ipynb"]


@pytest.mark.parametrize(
    ("place", "says"),
    [("no/such.ipynb", "There is no folder"), (".", "is a folder"), ("n.ipynb/x.ipynb", "There is no folder")],
)
def test_a_place_that_is_none_is_said_before_anything_runs(
    environment: dict[str, str], work: Path, place: str, says: str
) -> None:
    path = write(work / "n.ipynb", "open('ran', 'w')")
    words = refused(run(environment, path, "--save-as", work / place))
    assert says in words
    assert "--save-as" in words
    assert [entry.name for entry in work.iterdir()] == ["n.ipynb"]


def test_saved_as_itself_by_whatever_name_is_saved_back(environment: dict[str, str], work: Path) -> None:
    path = write(work / "n.ipynb", "6 * 7")
    (work / "link.ipynb").symlink_to(path)
    for name in (work / ".." / "work" / "n.ipynb", work / "link.ipynb"):
        done = run(environment, path, "--save-as", name)
        assert done.returncode == 0, done.stderr
    assert texts(path) == ["42"]
    assert sorted(entry.name for entry in work.iterdir()) == ["link.ipynb", "n.ipynb"]


TAKES_TURNS = """\
import pathlib, time
end = time.monotonic() + 30
if not pathlib.Path("started").exists():
    pathlib.Path("started").touch()
    while not pathlib.Path("go").exists() and time.monotonic() < end:
        time.sleep(0.05)
    print("slow")
"""


@pytest.mark.parametrize("options", [(), ("--save-as", "result.ipynb")])
def test_of_two_runs_with_one_result_the_later_overwrites_nothing_and_loses_nothing(
    environment: dict[str, str], work: Path, options: tuple[str, ...]
) -> None:
    path = write(work / "n.ipynb", TAKES_TURNS)
    command = [*program_command(), "run", path.name, *options]
    everything = {"env": {**environment, "PYTHONPATH": os.pathsep.join(sys.path)}, "cwd": work, "text": True}
    slow = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **everything)
    end, pause = time.monotonic() + WAIT, threading.Event()
    while not (work / "started").exists() and time.monotonic() < end:
        pause.wait(0.05)
    subprocess.run(command, capture_output=True, timeout=WAIT, check=True, **everything)
    (work / "go").touch()
    _, errors = slow.communicate(timeout=WAIT)
    target = work / options[-1] if options else path
    assert slow.returncode == 1
    assert "was changed by someone else meanwhile and was not overwritten. The result is in " in errors
    assert texts(target) == [""]
    kept = Path(errors.strip().rpartition("The result is in ")[2].removesuffix("."))
    assert texts(kept) == ["slow\n"]


def test_where_the_result_has_no_room_the_old_file_stays_and_the_cells_are_kept(
    environment: dict[str, str], work: Path, model: ScriptedModel
) -> None:
    model.will_reply(call("insert_cell", source="made = 'by the agent'", after="top"), "Done.")
    path = write(work / "n.ipynb", "print('x' * 1_000_000)", "%load_ext vibe_jupyter", "%%vibe\nput one at the top")
    before = path.read_bytes()
    done = run_limited(environment, "bound-files", path, "--yes", "insert_cell")
    assert done.returncode == 1
    assert f"Cannot write {path}: File too large." in done.stderr
    assert "Traceback" not in done.stderr
    assert path.read_bytes() == before
    assert [entry.name for entry in work.iterdir()] == ["n.ipynb"]
    kept = Path(done.stderr.strip().rpartition("without its outputs, is in ")[2].removesuffix("."))
    cells = nbformat.read(kept, as_version=4).cells
    assert [cell.source for cell in cells][:2] == ["made = 'by the agent'", "print('x' * 1_000_000)"]
