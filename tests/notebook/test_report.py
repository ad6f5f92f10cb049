"""`%vibe report`: what a methods section says, and what it says it does not know."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.app.conftest import Session, running_session
from tests.kernel.fork_server import python_by_fork
from tests.kernel.matrix import INSTALLED
from tests.notebook.page import Page
from tests.notebook.test_agent import ClickedPage, end, prompt
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("verify")

READ = "import pandas as pd\nsales = pd.read_csv('sales.csv')\nopen('gone.txt', 'w')"


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("report")
    with running_session(INSTALLED, folder) as session:
        session.wire.run(f"import sys; sys.executable = {python_by_fork(folder)!r}")
        rows = "\n".join(f"{n},{n if n % 4 else ''}" for n in range(100))
        (session.folder / "sales.csv").write_text(f"shop,amount\n{rows}\n", encoding="utf-8")
        yield session


def report(page: Page) -> str:
    """The text of the cell; there is only one."""
    assert page.run("%vibe report").status == "ok"
    (made,) = (cell.source for cell in page.cells if cell.kind == "markdown" and cell.vibe == {"report": "methods"})
    return made


def test_a_report_names_data_losses_authors_and_approvals_and_takes_the_place_of_the_one_before(
    shared_session: Session, page: ClickedPage
) -> None:
    page.run(READ)
    shared_session.model.will_reply(
        call("insert_cell", source="clean = sales.dropna()", run=True),
        call("insert_cell", source="top = clean[clean.amount > 50]\nprint(len(top))", run=True),
        say("Dropped the 25 rows without an amount."),
    )
    cell = prompt(page, "%%vibe\nclean")
    page.allow(cell)
    page.allow(cell, 2)
    end(page, cell)
    text = report(page)
    digest = hashlib.sha256((shared_session.folder / "sales.csv").read_bytes()).hexdigest()
    assert f"SHA-256 `{digest[:16]}…`), read in [" in text
    assert "gone.txt" not in text
    assert "| `clean` of `sales` | 100 | 75 | dropna |" in text
    assert "`top`" not in text.partition("**Rows lost.**")[2]
    assert re.search(r"scripted-1 at 127\.0\.0\.1:\d+, approved by the user on \d{4}-\d\d-\d\d\n", text)
    assert "None was changed by hand since." in text
    assert "as far as this kernel knows" in text
    assert re.search(r"\*\*Software\.\*\* Python [\d.]+, pandas [\w.]+, vibe-jupyter ", text)

    shared_session.model.will_reply(say("Nothing more."))
    page.run("%vibe what else?")
    page.cells = [one for one in page.cells if not one.source.startswith("%%vibe\nclean")]
    next(one for one in page.cells if one.source.startswith("clean")).source += "  # by hand"
    page.run("%vibe verify")
    again = report(page)
    assert "Changed by hand after the agent: [" in again
    assert "the notebook was run from the top in a fresh kernel: every output was the same." in again


def test_a_join_that_loses_rows_is_listed_and_what_was_not_counted_is_said(
    shared_session: Session, page: ClickedPage
) -> None:
    page.run(READ)
    shops = "shops = pd.DataFrame({'shop': [1, 2, 2]})"
    joined = "joined = sales.merge(shops, on='shop')"
    shared_session.model.will_reply(
        call("insert_cell", source=f"{shops}\n{joined}", run=True), call("run_code", code="1 + 1"), say("Joined.")
    )
    page.run("%%vibe --yes=insert_cell,run_cells,run_code\njoin")
    page.add("late = 1").count = 99
    text = report(page)
    assert "| `joined` of `sales` | 100 | 3 | merge (inner) |" in text
    assert re.search(r"- Rows in .*\[\\\[99\\\]\]\(#cell-id=\w+\): run before the first prompt", text)
    assert "allowed in advance (`--yes`)" in text


def test_a_comment_stands_in_the_report_as_it_is_and_makes_the_page_load_nothing(
    shared_session: Session, page: ClickedPage
) -> None:
    page.add("# all *.csv of df['a_b'] ![x](https://evil.example/x)\npass")
    page.add("# <img src='https://evil.example/y'> $a$ `b` \\n\npass")
    page.add("open('a`![x](https://evil.example/z)').read()")
    text = report(page)
    assert [token.content for token in inline_tokens(text) if token.type in ("image", "html_inline")] == []
    shown = "".join(token.content for token in inline_tokens(text))
    assert "all *.csv of df['a_b'] ![x](https://evil.example/x)" in shown
    assert "<img src='https://evil.example/y'> $a$ `b` \\n" in shown


def inline_tokens(text: str) -> list[Token]:
    """What Markdown sees in a text, in order."""
    return [one for token in MarkdownIt("commonmark", {"html": True}).parse(text) for one in token.children or ()]


def test_no_hash_of_a_file_is_written_where_no_value_may_be_told(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        config = tmp_path / "vibe" / "config.toml"
        config.write_text(config.read_text(encoding="utf-8") + '\n[privacy]\nmode = "schema"\n', encoding="utf-8")
        (tmp_path / "sales.csv").write_text("shop,amount\n1,2\n", encoding="utf-8")
        page = Page(session.wire)
        page.run(READ)
        text = report(page)
    assert "- `sales.csv` (16 bytes), read in [" in text


def test_where_no_page_takes_it_the_report_is_printed(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        cells = [nbformat.v4.new_code_cell("a = 1", execution_count=1)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "analysis.ipynb")
        session.wire.run(f"__vsc_ipynb_file__ = {str(tmp_path / 'analysis.ipynb')!r}")
        printed = session.wire.run("%vibe report").text
    assert printed.startswith("## Methods\n")
    assert "Rows in [\\[1\\]]" in printed


def test_where_there_is_no_notebook_it_says_so(tmp_path: Path) -> None:
    with running_session(INSTALLED, tmp_path) as session:
        assert session.wire.run("%vibe report").text.startswith(
            "vibe: No report was made: This kernel's notebook was not"
        )
