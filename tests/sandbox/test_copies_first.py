"""Code without `keep` runs in a copy of the kernel, whatever allows it, and leaves the kernel as it was."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.sandbox.kernel_state import CHANGES, WORLD
from tests.sandbox.test_exploring_runs import ON
from tests.tiers import runs_matrix
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import call, say

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("exploring"),
]
IN_COPY = "in a copy of the kernel: nothing was changed"
STATE = "__import__('tests.sandbox.kernel_state', fromlist=['_']).report()"
"""Binds no name of the user's."""
CODER = """\
description = "runs code unasked"
{kind}
[tools.run_code]
permission = "always"
"""
Prompt = Callable[[Session], None]


class LookedAt:
    """A session, and what each look at its kernel saw."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.states: list[dict[str, str]] = []

    def look(self) -> None:
        told = self.session.wire.run(STATE)
        assert not told.error, told.error
        self.states.append(json.loads(told.text))

    def changes(self, before: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
        """What differs now, before and after."""
        after = self.states[-1]
        both = {name: (before.get(name), after.get(name)) for name in before | after}
        return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookedAt]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("copies_first")) as session:
        (session.folder / "data.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
        agents = session.folder / "vibe" / "agents"
        agents.mkdir()
        (agents / "coder.toml").write_text(CODER.format(kind=""), encoding="utf-8")
        (agents / "subcoder.toml").write_text(CODER.format(kind='agent_type = "subagent"'), encoding="utf-8")
        session.wire.run(f"import os; os.environ['VIBE_TEST_FOLDER'] = os.getcwd()\n{ON}")
        assert not session.wire.run(WORLD).error
        session.model.will_reply(call("run_code", code="1"), call("run_code", code="2", keep=True), say("Warm."))
        session.run("%vibe --yes=run_code warm up")
        kernel = LookedAt(session)
        kernel.look()
        kernel.look()  # the first one imports
        yield kernel


@contextmanager
def environment(session: Session, name: str, value: str) -> Iterator[None]:
    session.wire.run(f"os.environ[{name!r}] = {value!r}")
    try:
        yield
    finally:
        session.wire.run(f"del os.environ[{name!r}]")


@contextmanager
def granted(session: Session) -> Iterator[None]:
    """Allow `run_code` for the session, on the card of code that is to keep something."""
    session.model.will_reply(call("run_code", code="None", keep=True), say("Allowed."))
    request = session.wire.send("%%vibe\nkeep it")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card(), remember="session")
    session.wire.cell(request)
    try:
        yield
    finally:
        session.run("%vibe permissions revoke session")


def on_the_card(session: Session) -> None:
    """Allow one call, where the settings ask for each."""
    request = session.wire.send("%%vibe\ngo")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card())
    session.wire.cell(request)


def saying(line: str) -> Prompt:
    return lambda session: void(session.run(line))


def void(_: object) -> None:
    """Give nothing."""


def nothing_set(_: Session) -> AbstractContextManager[None]:
    return nullcontext()


def setting(name: str, value: str) -> Callable[[Session], AbstractContextManager[None]]:
    return lambda session: environment(session, name, value)


WAYS: dict[str, tuple[Callable[[Session], AbstractContextManager[None]], Prompt]] = {
    "unasked": (nothing_set, saying("%vibe go")),
    "--yes": (nothing_set, saying("%vibe --yes=run_code go")),
    "always": (setting("VIBE_TOOLS__RUN_CODE__PERMISSION", "always"), saying("%vibe go")),
    "bypass": (setting("VIBE_BYPASS_TOOL_PERMISSIONS", "true"), saying("%vibe go")),
    "agent auto-approve": (nothing_set, saying("%vibe --agent=auto-approve go")),
    "agent file": (nothing_set, saying("%vibe --agent=coder go")),
    "sub-agent": (nothing_set, saying("%vibe --yes=task,run_code go")),
    "for this session": (granted, saying("%vibe go")),
    "allowed once": (setting("VIBE_TOOLS__RUN_CODE__PERMISSION", "ask"), on_the_card),
    "where nobody may read": (setting("VIBE_TOOLS__READ_FILE__PERMISSION", "ask"), saying("%vibe --yes=run_code go")),
}
STEP = 23
"""Pieces between those that `make test` tries, one of each way."""
CASES = [
    pytest.param(way, code, id=f"{way}-{at}")
    for number, way in enumerate(WAYS)
    for at, code in enumerate(CHANGES)
    if runs_matrix() or at == STEP * number
]
"""Each piece under each way."""


@pytest.mark.attack("code without keep")
@pytest.mark.requirement("notebook.run_code.copy-first")
@pytest.mark.parametrize(("way", "code"), CASES)
def test_code_without_keep_changes_nothing_of_the_kernel_whatever_allows_it(
    kernel: LookedAt, way: str, code: str
) -> None:
    around, prompt = WAYS[way]
    before = kernel.states[-1]
    with around(kernel.session):
        run = call("run_code", code=code)
        calls = [call("task", agent="subcoder", task="look"), run, say("Seen.")] if way == "sub-agent" else [run]
        kernel.session.model.will_reply(*calls, say("Looked."))
        prompt(kernel.session)
    kernel.look()
    told = [request.tool_results[-1] for request in kernel.session.model.requests[-3:] if request.tool_results]
    assert [text for text in told if IN_COPY in text], told
    assert kernel.changes(before) == {}


WRITES = "frame['z'] = 1\nmade = 1\nprint('once')\nopen('kept.txt', 'w').write('kept')"
ITEMS = "print(items)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A kernel that may be changed."""
    with running_session(INSTALLED, tmp_path_factory.mktemp("allowed")) as session:
        session.wire.run(f"{ON}\nimport pandas as pd\nframe, items = pd.DataFrame({{'x': [1]}}), [1]")
        yield session


def answers(session: Session, line: str, **arguments: Any) -> tuple[str, str]:
    """What the model and the user are told of one call."""
    session.model.will_reply(call("run_code", **arguments), say("Done."))
    cell = session.run(line)
    return session.model.requests[-1].tool_results[-1], session.html(cell)


@pytest.mark.requirement("notebook.run_code.copy-first")
def test_what_a_copy_cannot_do_runs_in_the_kernel_where_it_is_allowed_and_both_are_told_what_stays(
    session: Session,
) -> None:
    told, html = answers(session, "%vibe --yes=run_code go", code=WRITES)
    status, *rest = told.splitlines()
    assert status.endswith("s, in the kernel: a copy of the kernel may not write kept.txt")
    assert rest == [
        *("once", "4", "names created: made (taken back; keep=true keeps them)"),
        "changed in place: frame (in the kernel itself: this stays)",
    ]
    assert "in your kernel: a copy of the kernel may not write kept.txt" in html
    assert (session.folder / "kept.txt").read_text() == "kept"
    assert session.wire.run("print(list(frame), 'made' in globals())").text == "['x', 'z'] False\n"


@pytest.mark.requirement("notebook.run_code.copy-first")
def test_code_that_is_to_keep_its_names_runs_in_the_kernel_alone(session: Session) -> None:
    told, html = answers(session, "%vibe --yes=run_code go", code="bound = items + [2]; items.append(3)", keep=True)
    assert "copy" not in told + html.replace("Copy", "")
    assert session.wire.run("print(bound, items)").text == "[1, 2] [1, 3]\n"
    session.wire.run("items.pop()")


@pytest.mark.attack("code without keep")
@pytest.mark.requirement("notebook.run_code.copy-first")
@pytest.mark.parametrize(
    "code", ["import os\nos._exit(3)", "import ctypes\nctypes.string_at(0)", "import os\nos.abort()"]
)
def test_code_that_ends_its_copy_is_not_run_in_the_kernel_on_a_permission_given_in_advance(
    session: Session, code: str
) -> None:
    process = session.wire.run("import os\nprint(os.getpid())").text
    told, _ = answers(session, "%vibe --yes=run_code go", code=code)
    assert told.startswith("Not run in the kernel: it ended the copy of the kernel that ran it")
    assert "keep=true" in told
    assert session.wire.run("print(os.getpid())").text == process


def test_where_copies_are_switched_off_code_that_is_allowed_runs_in_the_kernel(session: Session) -> None:
    with environment(session, "VIBE_SANDBOX__EXPLORE", "ask"):
        told, _ = answers(session, "%vibe --yes=run_code go", code="items.append(2); name = 1")
    session.wire.run(ON)
    assert "copy" not in told
    assert "changed in place: items (in the kernel itself: this stays)" in told
    assert session.wire.run(f"{ITEMS}\nitems.pop()").text.startswith("[1, 2]\n")


@pytest.mark.requirement("notebook.run_code.copy-first")
def test_where_no_value_may_be_sent_the_model_does_not_hear_what_the_copy_could_not_do(session: Session) -> None:
    with environment(session, "VIBE_PRIVACY__MODE", "schema"):
        told, html = answers(session, "%vibe --yes=run_code go", code="open('secret-name.txt', 'w').close()")
    assert told.splitlines()[0].endswith("s, in the kernel")
    assert "secret-name" not in str(session.model.requests[-1].body["messages"][-1])
    assert "in your kernel: a copy of the kernel may not write a file" in html
    session.run("%vibe reset")
