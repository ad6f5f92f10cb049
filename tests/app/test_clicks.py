"""A click while the cell runs decides: on the installed ipykernel, and on older ones."""

import threading
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.conftest import kernels, target_of
from tests.kernel.wire import WAIT
from vibe_jupyter.testing import answer, call, hold, say

STOPPED = "RunStopped: the run was stopped; the cells queued after this one do not run"


@pytest.fixture(scope="module", params=kernels())
def clicked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    target = target_of(request.param)
    with running_session(target, tmp_path_factory.mktemp("clicks")) as session:
        yield session


def start(session: Session, code: str) -> str:
    session.wire.run("%vibe reset")
    return session.wire.send(code)


@pytest.mark.requirement("project.approval.inline", "permission.approve.once", "notebook.run_code.await")
def test_a_click_during_the_cell_lets_the_code_run_and_queued_cells_run_after(clicked: Session) -> None:
    code = "import asyncio\nawait asyncio.sleep(0.01)\nclicked_value = 6 * 7\nclicked_value"
    clicked.model.will_reply(call("run_code", code=code, keep=True), say("It is 42."))
    request = start(clicked, "%%vibe\ncompute it")
    view = clicked.view(request)
    approval = view.card()
    queued = [clicked.wire.send(f"print('queued {n}', clicked_value)") for n in range(3)]
    view.command(type="approve", approval_id=approval)
    cell = clicked.wire.cell(request)
    assert not cell.error
    assert "It is 42." in clicked.html(cell)
    assert [clicked.wire.cell(one).text for one in queued] == [f"queued {n} 42\n" for n in range(3)]
    counts = [clicked.wire.cell(one).count for one in (request, *queued)]
    assert counts == list(range(counts[0], counts[0] + 4))


def test_where_no_text_can_be_typed_a_page_that_draws_the_view_still_answers(clicked: Session) -> None:
    clicked.model.will_reply(call("run_code", code="40 + 2"), say("It is 42."))
    clicked.wire.run("%vibe reset")
    request = clicked.wire.send("%vibe compute it", allow_stdin=False)
    view = clicked.view(request)
    view.command(type="approve", approval_id=view.card())
    cell = clicked.wire.cell(request)
    assert not cell.error
    assert "It is 42." in clicked.html(cell)
    assert clicked.model.requests[-1].tool_results[0].endswith("42")


@pytest.mark.parametrize("ask", ["input('Your name? ')", "__import__('getpass').getpass('Your name? ')"])
def test_while_code_waits_for_what_you_type_the_state_says_so(clicked: Session, ask: str) -> None:
    begun, seen = threading.Event(), threading.Event()
    code = call("run_code", code=f"print('hello', {ask})")
    clicked.model.will_reply(answer("Look:", [code], hold=begun, after=""), hold(seen, "Went on."))
    request = start(clicked, "%%vibe --yes=run_code\ngo")
    view = clicked.view(request)
    view.wait_for("Look:")
    begun.set()
    view.wait_for("Waiting for you")
    clicked.wire.client.get_stdin_msg(timeout=WAIT)
    clicked.wire.client.input("Ada")
    view.wait_for("Went on.")
    assert view.states() == ["Working", "Waiting for you", "Working"]
    seen.set()
    assert "hello Ada" in str(clicked.wire.cell(request).outputs)


@pytest.mark.requirement("permission.approve.deny", "ui.approval.choices")
def test_deny_with_words_reaches_the_model(clicked: Session) -> None:
    clicked.model.will_reply(call("run_code", code="1/0"), say("Understood."))
    before = len(clicked.model.requests)
    request = start(clicked, "%vibe go")
    view = clicked.view(request)
    view.command(type="reject", approval_id=view.card(), message="use the other file")
    assert "Understood." in clicked.html(clicked.wire.cell(request))
    assert "use the other file" in clicked.model.requests[before + 1].tool_results[0]


@pytest.mark.requirement("notebook.run_code.approval", "ui.approval.whole")
def test_the_edited_code_is_what_runs(clicked: Session) -> None:
    clicked.model.will_reply(call("run_code", code="'as written'"), say("Done."))
    before = len(clicked.model.requests)
    request = start(clicked, "%vibe go")
    view = clicked.view(request)
    view.command(type="approve", approval_id=view.card(), edited="'as ' + 'edited'")
    clicked.wire.cell(request)
    result = clicked.model.requests[before + 1].tool_results[0]
    assert "as edited" in result
    assert "as written" not in result.split("\n", 1)[1]


@pytest.mark.requirement("permission.approve.session")
def test_allow_for_this_session_asks_no_more(clicked: Session) -> None:
    clicked.model.will_reply(call("run_code", code="1"), call("run_code", code="2"), say("Done."))
    request = start(clicked, "%vibe go")
    view = clicked.view(request)
    view.command(type="approve", approval_id=view.card(), remember="session")
    assert "Done." in clicked.html(clicked.wire.cell(request))
    clicked.wire.run("%vibe reset")


@pytest.mark.requirement("ui.stop.button", "magics.command.stop")
@pytest.mark.parametrize("how", ["stop button", "interrupt", "queued stop cell"])
@pytest.mark.parametrize("moment", ["streaming", "approval"])
def test_a_run_ends_at_once_and_the_next_cell_works(clicked: Session, how: str, moment: str) -> None:
    import threading

    release = threading.Event()
    clicked.model.will_reply(hold(release, "Thinking aloud") if moment == "streaming" else call("run_code", code="1"))
    request = start(clicked, "%vibe go")
    view = clicked.view(request)
    if moment == "streaming":
        view.wait_for("aloud")
    else:
        view.card()
    stop_cell = ""
    match how:
        case "stop button":
            view.command(type="interrupt")
        case "interrupt":
            clicked.wire.interrupt()
        case _:
            stop_cell = clicked.wire.send("%vibe stop")
    cell = clicked.wire.cell(request)
    release.set()
    assert cell.error == ("" if stop_cell else STOPPED)
    assert "Stopped" in clicked.html(cell) or "nterrupted" in clicked.html(cell)
    if stop_cell:
        assert clicked.wire.cell(stop_cell).text == "Stopped.\n"
    clicked.model.will_reply(say("Here again."))
    assert "Here again." in clicked.html(clicked.run("%vibe again"))


@pytest.mark.parametrize("between", [(), ("print('between')",)])
def test_a_stop_sent_with_the_prompt_ends_the_run_that_begins(clicked: Session, between: tuple[str, ...]) -> None:
    clicked.wire.run("%vibe reset")
    asked = len(clicked.model.requests)
    codes = ("import time; time.sleep(0.3)", "%vibe go", *between, "%vibe stop", "print('next')")
    _, prompt, *rest, stop, after = [clicked.wire.send(code) for code in codes]
    cell = clicked.wire.cell(prompt)
    assert "<b>Stopped</b>" in clicked.html(cell)
    queued = [clicked.wire.cell(one) for one in (*rest, stop, after)]
    if between:  # a cell that relied on the run does not run, nor does what came behind it
        assert cell.error == STOPPED
        assert [one.reply["status"] for one in queued] == ["aborted"] * 3
    else:
        assert not cell.error
        assert [one.text for one in queued] == ["Stopped.\n", "next\n"]
    assert len(clicked.model.requests) == asked
    clicked.model.will_reply(say("Here again."))
    assert "Here again." in clicked.html(clicked.run("%vibe again"))


@pytest.mark.requirement("magics.interrupt.prompt-back", "notebook.run_code.scratch")
@pytest.mark.parametrize(
    "code", ["while True: pass", "import time; time.sleep(60)", "import asyncio; await asyncio.sleep(60)", "!sleep 60"]
)
def test_an_interrupt_in_the_agents_code_ends_the_run(clicked: Session, code: str) -> None:
    import threading

    # Code that runs lets the kernel hear nothing of the page: it comes when the page has said that it is there.
    heard = threading.Event()
    clicked.model.will_reply(
        answer("Look:", [call("run_code", code="print('begun', flush=True)\n" + code)], hold=heard, after="")
    )
    request = start(clicked, "%%vibe --yes=run_code\ngo")
    view = clicked.view(request)
    view.wait_for("Look:")
    heard.set()
    view.wait_for("begun")
    clicked.wire.interrupt()
    cell = clicked.wire.cell(request)
    assert "nterrupted" in clicked.html(cell)
    clicked.model.will_reply(say("Here again."))
    assert "Here again." in clicked.html(clicked.run("%vibe again"))


def test_load_and_run_in_one_cell_keeps_queued_cells(clicked: Session) -> None:
    clicked.model.will_reply(call("run_code", code="import asyncio; await asyncio.sleep(0.05)"), say("Done."))
    clicked.wire.run("%unload_ext vibe_jupyter")
    request = clicked.wire.send(
        "%load_ext vibe_jupyter\nget_ipython().run_cell_magic('vibe', '--yes=run_code', 'go')", allow_stdin=False
    )
    queued = [clicked.wire.send(f"print({n})") for n in range(3)]
    assert "Done." in clicked.html(clicked.wire.cell(request))
    assert [clicked.wire.cell(one).text for one in queued] == ["0\n", "1\n", "2\n"]


def test_reloading_the_extension_leaves_a_working_one_and_no_thread_behind(clicked: Session) -> None:
    count = "import threading; print(sum(t.name.startswith('vibe-') for t in threading.enumerate()))"
    clicked.model.will_reply(say("One."), say("Two."))
    clicked.run("%vibe hello")
    clicked.wire.run("%reload_ext vibe_jupyter")
    assert clicked.run(count).text == "0\n"
    assert "Two." in clicked.html(clicked.run("%vibe hello"))
