"""The file tools in a kernel: settings, the kernel's own notebook, results that are paged."""

import json
import re
from typing import Any

import pytest

from tests.app.conftest import Session
from tests.app.prompt_sessions import settings
from vibe_jupyter.files.truncation import RESULT_LIMIT
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "ab12", "metadata": {}, "source": "x = 1", "outputs": [], "execution_count": 1}
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def use(session: Session, name: str, **arguments: Any) -> str:
    """Have the model call a tool that may run; what it was told."""
    session.model.will_reply(call(name, **arguments), say("Done."))
    session.run(f"%vibe --yes={name} use it")
    return session.model.requests[-1].messages[-1]["content"]


def test_what_is_set_of_a_tool_holds_from_the_next_prompt(session: Session) -> None:
    file, config = session.folder / "a.txt", session.folder / "vibe" / "config.toml"
    file.write_text("one\ntwo\nthree\n", encoding="utf-8")
    before = config.read_text(encoding="utf-8")
    assert "was_truncated: false" in use(session, "read_file", path="a.txt")
    config.write_text(
        before
        + "\n[tools.read_file]\nmax_read_bytes = 8\n[tools.grep]\ndefault_max_matches = 1\n"
        + "[tools.write_file]\nmax_write_bytes = 3\n[tools.search_replace]\ncreate_backup = true\n",
        encoding="utf-8",
    )
    try:
        assert "a result holds 8 bytes; go on with offset=2" in use(session, "read_file", path="a.txt")
        assert "match_count: 1\nwas_truncated: true" in use(session, "grep", pattern="t", path="a.txt")
        assert "write_file takes 3" in use(session, "write_file", path="b.txt", content="four")
        use(session, "search_replace", file_path="a.txt", content="<<<<<<< SEARCH\ntwo\n=======\n2\n>>>>>>> REPLACE")
    finally:
        config.write_text(before, encoding="utf-8")

    assert file.read_text(encoding="utf-8") == "one\n2\nthree\n"
    assert (session.folder / "a.txt.bak").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert not (session.folder / "b.txt").exists()


@pytest.mark.requirement("notebook.file.own-write")
def test_the_kernels_own_notebook_is_never_written_as_a_file(session: Session) -> None:
    place = session.folder / "open.ipynb"
    place.write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    session.run(f"import os; os.environ['JPY_SESSION_NAME'] = {str(place)!r}")

    written = use(session, "write_file", path="open.ipynb", content="{}", overwrite=True)
    edited = use(session, "search_replace", file_path=str(place), old_string="x = 1", new_string="x = 2")

    for said in (written, edited):
        assert "is the notebook of this kernel" in said
        assert "edit_cell, insert_cell" in said
    assert json.loads(place.read_text(encoding="utf-8")) == NOTEBOOK


def ask(session: Session, name: str, **arguments: Any) -> str:
    """Have the model call a tool where nobody can allow it; what it was told."""
    session.model.will_reply(call(name, **arguments), say("Done."))
    session.run("%vibe use it")
    return session.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("tools.bash.parse.unparsed")
@pytest.mark.parametrize("command", ["ls (", 'ls "', "ls && ", "ls <<EOF\nx"])
def test_a_command_that_does_not_parse_is_asked_about_whatever_the_allowlist_says(
    session: Session, command: str
) -> None:
    with settings(session, tables='[tools.bash]\nallowlist = ["ls", "ls *", "*"]\n'):
        assert "nobody is here to approve it" in ask(session, "bash", command=command)
        assert "returncode: 0" in ask(session, "bash", command="ls")


@pytest.mark.requirement("tools.bash.parse.unparsed")
@pytest.mark.parametrize(
    ("command", "words"),
    [("", "at least 1 character"), ("ls (; sl -a", "on the denylist"), ("sl (", "on the denylist")],
)
def test_a_command_that_does_not_parse_and_is_empty_or_denied_is_refused(
    session: Session, command: str, words: str
) -> None:
    with settings(session, tables='[tools.bash]\nallowlist = ["*"]\ndenylist = ["sl"]\n'):
        assert words in use(session, "bash", command=command)


@pytest.mark.requirement("tools.bash.output.limit", "tools.grep.limit.bytes")
def test_the_model_gets_results_within_the_limit_that_is_set_or_the_name_of_the_rest(session: Session) -> None:
    (session.folder / "long.txt").write_text("hit and more\n" * 9_000, encoding="utf-8")
    prints, looks = (
        {"command": "seq 1 9000; seq 1 9000 >&2"},
        {"pattern": "hit", "path": "long.txt", "max_matches": 9_000},
    )
    for name, arguments in (("bash", prints), ("grep", looks)):
        said = use(session, name, **arguments)
        assert len(said) <= RESULT_LIMIT
        assert "read_file path=result:" in said
    with settings(session, tables="[tools.bash]\nmax_output_bytes = 12000\n[tools.grep]\nmax_output_bytes = 12000\n"):
        by_bash, by_grep = use(session, "bash", **prints), use(session, "grep", **looks)
    assert 24_000 < len(by_bash) < 25_000
    assert by_bash.count("bytes left out") == 2
    assert 11_000 < len(by_grep) < 13_000
    assert "was_truncated: true" in by_grep
    assert "path=result:" not in by_bash + by_grep


def test_a_result_that_was_cut_is_paged_by_the_name_it_got(session: Session) -> None:
    session.run(
        "import vibe_jupyter\n"
        "@vibe_jupyter.tool\n"
        "def lines() -> str:\n"
        '    """Many lines."""\n'
        "    return '\\n'.join(f'line {number}' for number in range(5_000))\n"
    )

    cut = use(session, "lines")
    handle = re.search(r"read_file path=(result:[0-9a-f]+)", cut)
    assert handle is not None, cut[-400:]
    session.model.will_reply(call("read_file", path=handle[1], offset=2_500, limit=2), say("Done."))
    session.run("%vibe go on")

    assert len(cut) <= 8_000
    assert session.model.requests[-1].messages[-1]["content"].endswith("content:\nline 2500\nline 2501")
