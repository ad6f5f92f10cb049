"""`vibe-jupyter verify`, as a script uses it."""

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from tests.headless.test_run import WAIT, write
from tests.kernel.fork_server import program_command


def showing(source: str, text: str, *tags: str) -> nbformat.NotebookNode:
    output = nbformat.v4.new_output("stream", name="stdout", text=text)
    cell = nbformat.v4.new_code_cell(source, outputs=[output], execution_count=1)
    cell.metadata["tags"] = list(tags)
    return cell


def verify(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*program_command(), "verify", *map(str, arguments)]
    return subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=WAIT, check=False)


def test_what_differs_is_printed_and_written_as_junit_and_nothing_is_saved(tmp_path: Path) -> None:
    path = write(
        tmp_path / "report.ipynb",
        showing("a = 1\nprint(a)", "1\n"),
        showing("print(a + 1)", "3\n"),
        showing("1 / 0", "", "raises-exception"),
        "%%vibe\nwhat is it?",
        "%vibe verify",
        showing("print(later)", "4\n"),
        showing("later = 4", ""),
    )
    before = path.read_bytes()
    done = verify(path, "--junit", tmp_path / "report.xml")
    assert done.returncode == 1, done.stderr
    lines = [line.partition(" ")[2].partition(": ")[2] for line in done.stdout.splitlines()[:5]]
    assert lines == [
        "same",
        "differs: shows '2', was '3'",
        "differs: shows more: an error 'ZeroDivisionError: division by zero'",
        "not run: it is a prompt",
        "error: NameError: name 'later' is not defined (later is bound below it only, by cell #7)",
    ]
    assert path.read_bytes() == before
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")
    assert [case.find("skipped") is not None for case in suite] == [False, False, False, True, False]


def test_a_notebook_that_shows_the_same_ends_with_0_in_the_folder_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    cell = showing("import os\nprint(os.path.basename(os.getcwd()))", "data\n")
    path = write(tmp_path / "report.ipynb", cell)
    done = verify(path, "--json", "--this-python", "--folder", tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == ["same"]


@pytest.mark.requirement("headless.verify.said")
def test_the_last_line_counts_what_ran_and_what_did_not(tmp_path: Path) -> None:
    fails = showing("raise ValueError('\\x1b[31mred\\x00')", "")
    path = write(tmp_path / "report.ipynb", showing("print(1)", "1\n"), "2", "%%vibe\nwhat is it?", fails)
    done = verify(path, "--junit", tmp_path / "report.xml")
    last = done.stdout.splitlines()[-1].split(": ")[1]
    assert last == "1 the same, 1 failed, 1 not compared (no earlier run), 1 not run."
    failures = ElementTree.parse(tmp_path / "report.xml").getroot().findall("*/failure")
    assert [one.get("message") for one in failures] == ["ValueError: �[31mred�"]
    empty = verify(write(tmp_path / "empty.ipynb", "%%vibe\nwhat is it?"))
    assert empty.stdout.splitlines()[-1].startswith("0 cells ran in a fresh kernel, ")
    assert empty.stdout.endswith(": 1 not run.\n")


def test_a_cell_that_may_raise_may_not_take_too_long(tmp_path: Path) -> None:
    path = write(
        tmp_path / "report.ipynb",
        showing("1 / 0", "", "raises-exception"),
        showing("while True: pass", "", "raises-exception"),
    )
    done = verify(path, "--json", "--timeout", "1")
    assert done.returncode == 1, done.stderr
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == ["differs", "error"]


def test_a_folder_that_is_not_there_is_a_wrong_usage(tmp_path: Path) -> None:
    path = write(tmp_path / "report.ipynb", showing("1", ""))
    done = verify(path, "--folder", tmp_path / "gone")
    assert done.returncode == 2
    assert "There is no folder" in done.stderr


def test_where_the_result_cannot_be_written_no_cell_runs(tmp_path: Path) -> None:
    path = write(tmp_path / "report.ipynb", showing("open('ran', 'w').close()", ""))
    (tmp_path / "folder").mkdir()
    for place in ("gone/report.xml", "folder"):
        done = verify(path, "--junit", tmp_path / place)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"{place} cannot be written" in done.stderr
    assert not (tmp_path / "ran").exists()
