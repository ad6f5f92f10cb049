"""What a user decides is what happens."""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.agent.conftest import WAIT, Bench, Echo, EchoArguments, one
from vibe_jupyter.agent.approval import StandaloneApproval, StandaloneApprovalRun
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.errors import NothingDone
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.permissions.grants import Grants, GrantStore
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Headline,
    Preview,
    Reject,
    Resource,
    RunFinished,
    ToolFinished,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import answer, call, say
from vibe_jupyter.tools.contract import NotExplored, StaticToolset, ToolContext
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.ui.step import plain_line


def approve(request: ApprovalRequested) -> Approve:
    return Approve(approval_id=request.approval_id)


@pytest.mark.requirement("permission.level.ask", "permission.approve.once")
async def test_allow_once_runs_that_call_and_the_next_equal_one_asks_again(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), call("risky", text="a"), say("done"))
    events = await bench.ask("go", decide=approve)
    requests = [event for event in events if isinstance(event, ApprovalRequested)]
    assert len(requests) == 2
    assert requests[0].approval_id != requests[1].approval_id
    assert requests[0].preview.text == "a"
    assert bench.risky.ran == ["a", "a"]


class Tried(Echo):
    """Prints in a try, and again once it is allowed."""

    tried_in = "a sandbox"

    def can_explore(self, args: EchoArguments) -> bool:
        return True

    async def explore(self, args: EchoArguments, context: ToolContext) -> ToolResult | NotExplored:
        context.progress("seen in the try\n")
        context.progress("held back in the try\n")
        return NotExplored("it writes")

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        context.progress("printed\n")
        while "printed\n" not in self.seen:
            await asyncio.sleep(0.001)
        return ToolResult.text("")

    seen = ""


@pytest.mark.requirement("ui.approval.trial.late")
async def test_what_a_try_printed_last_does_not_come_behind_its_card(bench: Bench) -> None:
    """Pieces wait between two looks through the variables, the longer the more a look takes."""
    tool = Tried("risky", "ask")
    bench.tools, bench.permissions.explore = StaticToolset([tool]), True
    bench.model.will_reply(call("risky", text="a"), say("Done."))

    def slow_look() -> dict[str, str]:
        time.sleep(0.02)
        return {}

    agent = bench.agent()._replace(redactor=Redactor(found=slow_look))
    run = start_run(agent, bench.conversation, "go", terms=RunTerms())
    behind_card: list[str] | None = None
    async with asyncio.timeout(WAIT):
        async for event in run:
            if isinstance(event, ApprovalRequested):
                behind_card = []
                run.send(approve(event))
            if isinstance(event, ToolProgress) and behind_card is not None:
                behind_card.append(event.text)
                tool.seen += event.text
    assert behind_card == ["printed\n"]


async def test_reading_secrets_weighs_high_and_its_button_says_so(bench: Bench) -> None:
    bench.tools = StaticToolset([ReadFileTool(Workspace(bench.folder))])
    (bench.folder / ".env").write_text("KEY=old\n", encoding="utf-8")
    bench.model.will_reply(call("read_file", path=".env"), say("done"))
    request = one(await bench.ask("go", decide=approve), ApprovalRequested)
    assert request.risk == "high"
    assert request.allow == "Read secrets"


@pytest.mark.requirement("permission.level.ask")
async def test_nothing_starts_before_the_decision(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), say("done"))

    def look(request: ApprovalRequested) -> Approve:
        assert bench.risky.ran == []
        return approve(request)

    events = await bench.ask("go", decide=look)
    kinds = [type(e) for e in events if isinstance(e, ApprovalRequested | ApprovalResolved | ToolStarted)]
    assert kinds == [ApprovalRequested, ApprovalResolved, ToolStarted]


@pytest.mark.requirement("permission.approve.session")
async def test_allow_for_this_session_covers_later_calls_of_that_tool_and_of_no_other(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), call("risky", text="b"), say("done"))
    events = await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id, remember="session"))
    assert one(events, ApprovalRequested).remember_as == "risky"
    assert bench.risky.ran == ["a", "b"]
    assert bench.permissions.granted() == ("risky",)


@pytest.mark.requirement("permission.approve.deny", "agent.loop.one-call-per-result")
async def test_deny_gives_the_model_the_persons_words_and_the_run_goes_on(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), say("understood"))
    events = await bench.ask("go", decide=lambda r: Reject(approval_id=r.approval_id, message="not on Fridays"))
    assert bench.risky.ran == []
    assert "not on Fridays" in bench.model.requests[1].tool_results[0]
    assert one(events, ToolFinished).outcome == "denied"
    assert one(events, RunFinished).reason == "stop"
    check_history(bench.conversation.history)


async def test_an_edited_call_runs_as_edited_and_the_model_is_told(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a", times=2), say("done"))
    events = await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id, edited="b"))
    assert bench.risky.ran == ["b"]
    arguments = one(events, ApprovalResolved).arguments
    assert json.loads(arguments) == {"text": "b", "times": 2}
    (result,) = bench.model.requests[1].tool_results
    assert result.startswith("The user edited the call")
    assert result.endswith("bb")


async def test_the_first_decision_wins_and_decisions_for_unknown_cards_do_nothing(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), say("done"))

    def both(request: ApprovalRequested) -> Approve:
        assert bench.run is not None
        bench.run.send(Approve(approval_id="0" * 32))
        bench.run.send(Reject(approval_id=request.approval_id))
        return approve(request)

    await bench.ask("go", decide=both)
    assert bench.risky.ran == []


async def test_each_of_several_calls_gets_its_own_decision(bench: Bench) -> None:
    bench.model.will_reply(answer(text="", calls=[call("risky", text="a"), call("risky", text="b")]), say("done"))
    await bench.ask(
        "go",
        decide=lambda r: approve(r) if r.preview.text == "b" else Reject(approval_id=r.approval_id),
    )
    assert bench.risky.ran == ["b"]


@pytest.mark.requirement("permission.approve.nobody")
async def test_where_nobody_can_approve_the_call_is_denied_with_a_reason_and_nothing_waits(bench: Bench) -> None:
    bench.model.will_reply(call("risky", text="a"), say("done"))
    events = await bench.ask("go", terms=RunTerms(attended=False))
    assert bench.risky.ran == []
    assert "--yes=risky" in bench.model.requests[1].tool_results[0]
    assert not [event for event in events if isinstance(event, ApprovalRequested)]


@pytest.mark.requirement("magics.option.yes")
async def test_tools_allowed_for_one_run_are_not_allowed_in_the_next_nor_others_with_them(bench: Bench) -> None:
    bench.permissions.levels = {"quiet": "ask"}
    for allowed, runs in ((frozenset({"risky"}), ["a"]), (frozenset[str](), ["a"])):
        bench.model.will_reply(call("risky", text="a"), call("quiet", text="a"), say("done"))
        await bench.ask("go", terms=RunTerms(attended=False, allowed=allowed))
        assert bench.risky.ran == runs
        assert bench.quiet.ran == []


@pytest.mark.requirement("permission.level.never")
async def test_a_tool_set_to_never_does_not_run_even_when_allowed_for_the_run(bench: Bench) -> None:
    bench.permissions.levels = {"quiet": "never"}
    bench.model.will_reply(call("quiet", text="a"), say("done"))
    await bench.ask("go", terms=RunTerms(allowed=frozenset({"quiet"})))
    assert bench.quiet.ran == []
    assert "never" in bench.model.requests[1].tool_results[0]


class Commands(Echo):
    """A tool whose text is judged as a shell command."""

    def touches(self, args: EchoArguments) -> Sequence[Resource]:
        return [Resource(kind="command", value=args.text, access="execute")]


async def test_what_is_denied_stays_denied_when_a_person_edits_a_call_into_it(bench: Bench) -> None:
    shell = Commands("shell", "ask")
    bench.tools = StaticToolset([shell])
    bench.model.will_reply(answer(calls=[call("shell", text="make"), call("shell", text="make")]), say("done"))
    events = await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id, edited="vim x"))
    assert shell.ran == []
    assert [event.by for event in events if isinstance(event, ApprovalResolved)] == ["rules", "rules"]
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["denied", "denied"]
    assert "vim is on the denylist" in bench.model.requests[1].tool_results[0]


@pytest.mark.requirement("permission.approve.session")
@pytest.mark.parametrize("remember", ["session", "project"])
async def test_a_grant_given_with_an_edited_call_covers_neither_version_of_it(
    bench: Bench, remember: Literal["session", "project"]
) -> None:
    """The card offered the model's command; the user ran another, once."""
    shell = Commands("shell", "ask")
    bench.tools = StaticToolset([shell])
    bench.permissions.grants = Grants(GrantStore(bench.folder / "home", bench.folder))
    texts = ("make", "make", "make clean")
    bench.model.will_reply(*(call("shell", text=text) for text in texts), say("done"))

    def decide(request: ApprovalRequested) -> Approve:
        if len(shell.ran) == 0:
            assert request.remember_as is not None
            return Approve(approval_id=request.approval_id, edited="make clean", remember=remember)
        return approve(request)

    events = await bench.ask("go", decide=decide)
    assert shell.ran == ["make clean", "make", "make clean"]
    assert sum(isinstance(event, ApprovalRequested) for event in events) == len(texts)
    assert bench.permissions.granted() == ()
    assert GrantStore(bench.folder / "home", bench.folder).patterns() == {}


@pytest.mark.requirement("notebook.run_code.approval")
@pytest.mark.parametrize("kind", ["code", "cell", "mcp", "tool"])
async def test_what_runs_code_is_never_offered_for_the_project_nor_kept_for_it(
    bench: Bench, kind: Literal["code", "cell", "mcp", "tool"]
) -> None:
    class Runs(Echo):
        def touches(self, args: EchoArguments) -> Sequence[Resource]:
            return [Resource(kind=kind, value=args.text, access="execute")]

    bench.tools = StaticToolset([Runs("runs", "ask")])
    kept = GrantStore(bench.folder / "home", bench.folder)
    bench.permissions.grants = Grants(kept)
    bench.permissions.levels = {"run_cells": "always"}
    bench.model.will_reply(call("runs", text="a"), say("done"))
    events = await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id, remember="project"))
    request = one(events, ApprovalRequested)
    assert not request.keepable
    assert request.remember_as is not None
    assert one(events, ApprovalResolved).remember == "session"  # what the journal says is what was granted
    assert kept.patterns() == {}
    assert set(bench.permissions.granted()) == set(request.remember_as.split("+"))


async def test_a_standalone_card_asks_about_names_that_are_not_utf8() -> None:
    name = os.fsdecode(b"caf\xe9")

    async def ask(preview: str, bound_to: str) -> tuple[StandaloneApprovalRun, ApprovalRequested]:
        asked = StandaloneApprovalRun(
            StandaloneApproval(
                name="trust_folder",
                headline=Headline(verb="Asked to trust", doing="Asking to trust", asking="Trust", target=name),
                preview=Preview(kind="text", text=preview),
                reason="it brings settings",
                allow="Trust this folder",
                bound_to=bound_to,
                yes="trusted",
                no="not trusted",
            )
        )
        shown = None
        async for event in asked.run:
            if isinstance(event, ApprovalRequested):
                shown = event
                asked.run.send(approve(event), by="person")
        assert shown is not None
        return asked, shown

    runs = [await ask(name, "1"), await ask(name, "2"), await ask("other", "1")]
    assert [asked.allowed for asked, _ in runs] == [True, True, True]
    assert len({shown.digest for _, shown in runs}) == 3


class Late(Echo):
    """A tool that finds, when it is allowed at last, that it cannot do what was shown."""

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        raise NothingDone("Nothing was done: the cell was changed since you read it.")


async def test_a_call_that_is_refused_after_its_click_is_not_told_as_done(bench: Bench) -> None:
    bench.tools = StaticToolset([Late("late", "ask")])
    bench.model.will_reply(call("late", text="hello"), say("done"))
    events = await bench.ask("go", decide=lambda r: Approve(approval_id=r.approval_id))
    line = plain_line(one(events, ToolFinished))
    assert line == "✕ Say hello · Nothing was done: the cell was changed since you read it."


SWAP = "<<<<<<< SEARCH\nb = 2\n=======\nb = 3\n>>>>>>> REPLACE\n"


def change_cards(bench: Bench) -> Path:
    """A file that the agent wants to change, which asks."""
    file = bench.folder / "work.py"
    file.write_text("a = 1\nb = 2\n", encoding="utf-8")
    bench.tools = StaticToolset([SearchReplaceTool(FileAccess(Workspace(bench.folder)))])
    bench.model.will_reply(call("search_replace", file_path="work.py", content=SWAP), say("done"))
    return file


async def test_a_card_whose_file_changes_is_shown_again_and_a_yes_counts_for_the_new_one_alone(bench: Bench) -> None:
    file, shown = change_cards(bench), list[ApprovalRequested]()

    def decide(request: ApprovalRequested) -> Approve:
        shown.append(request)
        if len(shown) == 1:
            file.write_text("a = 1\nnew = 0\nb = 2\n", encoding="utf-8")
            return Approve(approval_id="0" * 32)  # nobody answers
        assert bench.run is not None
        bench.run.send(Reject(approval_id=shown[0].approval_id))  # to the card that is gone
        return approve(request)

    events = await bench.ask("go", decide=decide)
    first, second = shown
    assert "new = 0" not in first.preview.text
    assert " new = 0\n-b = 2\n+b = 3" in second.preview.text
    assert "changed meanwhile" in second.reason
    resolved = [event for event in events if isinstance(event, ApprovalResolved)]
    assert [(event.outdated, event.allowed) for event in resolved] == [(True, False), (False, True)]
    assert file.read_text(encoding="utf-8") == "a = 1\nnew = 0\nb = 3\n"
    assert one(events, ToolFinished).outcome == "ok"


async def test_a_click_that_comes_before_the_change_is_seen_is_asked_again(bench: Bench) -> None:
    file, shown = change_cards(bench), list[str]()

    def decide(request: ApprovalRequested) -> Approve:
        shown.append(request.preview.text)
        if len(shown) == 1:
            file.write_text("new = 0\nb = 2\n", encoding="utf-8")
        return approve(request)

    await bench.ask("go", decide=decide)
    assert ["new = 0" in text for text in shown] == [False, True]
    assert file.read_text(encoding="utf-8") == "new = 0\nb = 3\n"


async def test_a_change_that_leaves_no_place_for_the_call_takes_its_card_away_and_the_model_hears_why(
    bench: Bench,
) -> None:
    file = change_cards(bench)

    def decide(request: ApprovalRequested) -> Approve:
        file.write_text("nothing of it\n", encoding="utf-8")
        return Approve(approval_id="0" * 32)

    events = await bench.ask("go", decide=decide)
    assert one(events, ApprovalResolved).outdated
    assert one(events, ToolFinished).outcome == "error"
    assert "was not found in the file" in bench.model.requests[1].tool_results[0]
    assert file.read_text(encoding="utf-8") == "nothing of it\n"
