"""`verify_notebook` and `%vibe verify`: what a fresh kernel shows, and that the live one is left alone."""

import json
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.fork_server import python_by_fork
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage, end, prompt
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("verify")


@pytest.fixture(scope="module")
def shared_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("verify")
    with running_session(INSTALLED, folder) as session:
        session.wire.run(f"import sys; sys.executable = {python_by_fork(folder)!r}")
        yield session


@pytest.fixture
def page(shared_session: Session) -> ClickedPage:
    """A notebook of which the kernel knows more than a fresh one would."""
    shared_session.wire.run("%vibe reset")
    shared_session.wire.run("rate = 3; hidden = 'left over'")
    shared_session.model.requests.clear()
    page = ClickedPage(shared_session.wire, "rate = 2")
    page.run("print(100 * rate)")
    page.add("import os\nwritten = open('ran.txt', 'a').write(f'{os.getpid()}\\n')")
    page.run("print('the same')")
    page.run("print(hidden)")
    page.add("after = 1")
    page.add("%vibe status")
    return page


@pytest.mark.requirement("notebook.verify_notebook.fresh", "notebook.verify_notebook.repeats")
def test_the_notebook_is_run_up_to_a_cell_in_a_fresh_kernel_after_approval(
    shared_session: Session, page: ClickedPage
) -> None:
    session = shared_session
    written = session.folder / "ran.txt"
    written.unlink(missing_ok=True)
    look = "import os; print(os.getpid(), rate, hidden, 'after' in globals())"
    before = session.run(look).text
    session.model.will_reply(
        call("verify_notebook"), call("verify_notebook", until=page.cells[3].id), say("It does not run.")
    )
    cell = prompt(page, "%%vibe\nverify it")
    card = page.allow(cell)
    page.allow(cell, 2)
    end(page, cell)

    assert card.startswith("Verify the notebook")
    assert "repeats what its cells do to files and services" in card
    assert "Repeats its effects on files and services." in json.dumps(session.model.requests[0].body["tools"])
    assert "print(hidden)" in card
    whole, part = (session.model.requests[n].tool_results[-1] for n in (1, 2))
    assert whole.startswith("differs: 5 cells ran from the top in a fresh kernel, ")
    assert "shows '200', was '300'" in whole
    assert "fails: NameError: name 'hidden' is not defined (no cell binds hidden: it was left by code" in whole
    assert "the same" not in whole
    assert "Not compared, because they had not run before: #1, #3" in whole
    assert part.startswith("differs: 4 cells ran")
    assert "fails" not in part
    pids = written.read_text(encoding="utf-8").split()
    assert len(set(pids)) == 2, "each time in a kernel of its own, in the notebook's folder"
    after = session.run(look).text
    assert after == before
    assert after.split()[0] not in pids


def test_a_denied_verification_runs_nothing(shared_session: Session, page: ClickedPage) -> None:
    written = shared_session.folder / "ran.txt"
    written.unlink(missing_ok=True)
    shared_session.model.will_reply(call("verify_notebook"), say("Then not."))
    cell = prompt(page, "%%vibe\nverify it")
    page.deny(cell)
    end(page, cell)
    assert not written.exists()


@pytest.mark.requirement("ui.words")
def test_the_command_tells_what_differs_and_asks_nobody(page: ClickedPage) -> None:
    said = page.run(f"%vibe verify {page.cells[1].id}").text
    assert said.startswith("The notebook: 1 cell's output differs. 2 cells ran from the top in a fresh kernel.")
    assert "shows '200', was '300'" in said


def test_a_cell_whose_tag_says_that_it_may_raise_does_not_end_the_verification(shared_session: Session) -> None:
    page = ClickedPage(shared_session.wire, "print('first')")
    page.run("1 / 0").may_raise = True
    page.run("print('reached')")
    assert "shows the same from the top. 3 cells ran" in page.run("%vibe verify").text
    page.cells[1].may_raise = False
    assert "cell #2 fails" in page.run("%vibe verify").text


@pytest.mark.requirement("notebook.verify_notebook.own-lines")
@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("%load_ext vibe_jupyter\nprint('kept')", ""),
        ("  %reload_ext vibe_jupyter", ""),
        ("print('kept')\n%vibe status\n%load_ext vibe_jupyter", ""),
        ("%load_ext vibe_jupyter\nimport os\nprint(os.getpid())", "shows"),
    ],
)
def test_lines_that_load_or_ask_vibe_jupyter_are_no_difference(shared_session: Session, source: str, said: str) -> None:
    page = ClickedPage(shared_session.wire, "print('first')")
    page.run(source)  # in a kernel that has the extension: it says so
    told = page.run("%vibe verify").text
    assert ("shows the same from the top" in told) == (said == ""), told
    assert said in told


def test_an_interrupt_ends_the_fresh_kernel_and_its_cells(shared_session: Session) -> None:
    begun = shared_session.folder / "begun.txt"
    begun.unlink(missing_ok=True)
    page = ClickedPage(shared_session.wire)
    page.add("import os, time\nopen('begun.txt', 'w').write(str(os.getpid()))\ntime.sleep(1000)")
    cell = prompt(page, "%vibe verify")
    page.until(lambda: begun.exists() and bool(begun.read_text(encoding="utf-8")), "the fresh kernel")
    shared_session.wire.interrupt()
    page.until(lambda: bool(cell.status), "the end of the command")
    alive = f"import psutil; print(psutil.pid_exists({begun.read_text(encoding='utf-8')}))"
    page.until(lambda: page.run(alive).text.strip() == "False", "the end of the fresh kernel")
