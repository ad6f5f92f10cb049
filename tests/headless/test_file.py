"""A notebook file is replaced whole, or left as it is."""

import codecs
import errno
import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.tiers import further
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.headless.file import NotebookFile
from vibe_jupyter.headless.notebook_run import allow_tools


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "work" / "n.ipynb"
    place.parent.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")]), place)
    return place


def rescued(error: pytest.ExceptionInfo[NotebookError]) -> Path:
    return Path(str(error.value).split("The result is in ")[1].removesuffix("."))


def test_a_file_that_changed_meanwhile_is_not_overwritten_and_nothing_is_lost(path: Path) -> None:
    file = NotebookFile(path)
    file.notebook["cells"][0]["source"] = "x = 2"
    path.write_text(path.read_text("utf-8").replace("x = 1", "x = 3"), "utf-8")
    with pytest.raises(NotebookError, match="changed by someone else") as error:
        file.save(path)
    assert "x = 3" in path.read_text("utf-8")
    assert "x = 2" in rescued(error).read_text("utf-8")


def test_a_full_disk_leaves_the_old_file_and_names_the_place_of_the_new(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = NotebookFile(path)
    before = path.read_bytes()
    file.notebook["cells"][0]["source"] = "x = 2"
    sync = os.fsync

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").startswith(str(path.parent)):
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotebookError, match="No space left") as error:
        file.save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["n.ipynb"]
    assert "x = 2" in rescued(error).read_text("utf-8")


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("link.ipynb")
    link.symlink_to(path)
    file = NotebookFile(link)
    file.notebook["cells"][0]["source"] = "x = 2"
    file.save(link)
    assert link.is_symlink()
    assert "x = 2" in path.read_text("utf-8")


def test_old_notebooks_get_ids(path: Path) -> None:
    old = json.loads(path.read_text("utf-8"))
    old["nbformat_minor"] = 4
    old["cells"] = [{name: value for name, value in cell.items() if name != "id"} for cell in old["cells"]] * 2
    path.write_text(json.dumps(old), "utf-8")
    ids = [cell["id"] for cell in NotebookFile(path).notebook["cells"]]
    assert len(set(ids)) == 2


def test_a_folder_is_no_place_to_write(path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder"):
        NotebookFile(path).check_writable(path.parent)


@pytest.mark.parametrize(
    ("source", "sent"),
    [
        ("%%vibe\nhello", "%%vibe --yes=run_code,edit_cell\nhello"),
        ("%%vibe --model x\nhello", "%%vibe --yes=run_code,edit_cell --model x\nhello"),
        ("%%vibe --yes=bash --model x\nhi", "%%vibe --yes=run_code,edit_cell,bash --model x\nhi"),
        ("%%vibe --yes bash\nhi", "%%vibe --yes=run_code,edit_cell,bash\nhi"),
        ("%%vibe --keep-going --yes bash\nhi", "%%vibe --yes=run_code,edit_cell,bash --keep-going\nhi"),
        ("%%vibe\n%vibe hi", "%%vibe --yes=run_code,edit_cell\n%vibe hi"),
        ("%%time\n%vibe hi", "%%time\n%vibe hi"),
        ("%vibe hello", "%vibe --yes=run_code,edit_cell hello"),
        ("x = 1\n%vibe fix", "x = 1\n%vibe --yes=run_code,edit_cell fix"),
        ("if x:\n    %vibe --yes=bash fix", "if x:\n    %vibe --yes=run_code,edit_cell,bash fix"),
        ("%vibe what does --yes bash do?", "%vibe --yes=run_code,edit_cell what does --yes bash do?"),
        ("%vibes hello", "%vibes hello"),
        ("x = '''\n%vibe hello'''", "x = '''\n%vibe hello'''"),
        ("%%vibes\nhello", "%%vibes\nhello"),
        ("x = '%%vibe'", "x = '%%vibe'"),
        ("\n \n%%vibe\nhello", "\n \n%%vibe --yes=run_code,edit_cell\nhello"),
    ],
)
def test_what_the_command_line_allows_is_sent_with_a_prompt_only(source: str, sent: str) -> None:
    assert allow_tools(source, "run_code,edit_cell") == sent
    assert allow_tools(source, "") == source


def test_half_a_character_that_json_may_hold_does_not_keep_a_notebook_from_being_saved(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace("x = 1", "x = '\\ud83d'"), "utf-8")
    file = NotebookFile(path)
    assert file.notebook["cells"][0]["source"] == "x = '\ud83d'"
    file.notebook["cells"][0]["outputs"] = [nbformat.v4.new_output("stream", text="\udc80 é")]
    file.save(path)
    assert "x = '\\ud83d'" in path.read_text("utf-8")
    assert NotebookFile(path).notebook == file.notebook


@pytest.mark.requirement("headless.file.style")
@pytest.mark.parametrize(
    "style",
    [
        {"indent": 2, "ensure_ascii": True},
        further({"indent": 1, "ensure_ascii": False, "sort_keys": True}),
        further({"indent": "\t", "ensure_ascii": False}),
        further({"indent": None, "ensure_ascii": True}),
    ],
)
def test_a_file_keeps_its_indentation_its_escapes_and_the_order_of_its_keys(
    tmp_path: Path, style: dict[str, Any]
) -> None:
    source = ["é = '😀'\n", "print(é)"]
    code = {"source": source, "outputs": [], "metadata": {}, "id": "one", "execution_count": None, "cell_type": "code"}
    text = {"metadata": {"z": 1, "a": 2}, "cell_type": "markdown", "id": "two", "source": ["# Über\n", "mehr"]}
    path = tmp_path / "n.ipynb"
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [code, text]}
    before = json.dumps(notebook, **style) + "\n"
    path.write_text(before, encoding="utf-8")
    file = NotebookFile(path)
    file.save(path)
    assert path.read_text("utf-8") == before
    file.notebook["cells"].append(nbformat.v4.new_code_cell("7", id="three"))
    file.save(path)
    kept = [line for line in before.splitlines() if line.strip() not in "}]"]
    written = path.read_text("utf-8").splitlines()
    assert len(kept) == 1 or all(line in written for line in kept)


@pytest.mark.requirement("headless.file.style")
def test_a_file_of_windows_keeps_the_ends_of_its_lines(path: Path) -> None:
    before = path.read_bytes().replace(b"\n", b"\r\n")
    path.write_bytes(before)
    file = NotebookFile(path)
    file.save(path)
    assert path.read_bytes() == before


@pytest.mark.requirement("headless.odd-notebooks")
def test_a_byte_order_mark_is_removed_and_said_to_be(path: Path) -> None:
    before = path.read_bytes()
    path.write_bytes(codecs.BOM_UTF8 + before)
    file = NotebookFile(path)
    file.save(path)
    assert path.read_bytes() == before
    assert file.repairs == ["removed the byte order mark, with which Jupyter does not open a notebook"]
