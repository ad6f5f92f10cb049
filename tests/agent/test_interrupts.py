"""However a run ends, every call is answered once, nothing writes later, and the next run works."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.conftest import WAIT, Bench, Echo, EchoArguments, one
from vibe_jupyter.agent.loop import start_run
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    ApprovalRequested,
    AssistantMessage,
    Event,
    Interrupt,
    MessageAdded,
    Notice,
    Reject,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnStarted,
)
from vibe_jupyter.session.conversation import check_history, fold_history
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import answer, call, hold, say, status
from vibe_jupyter.tools.contract import StaticToolset, ToolContext

CALLS = answer(text="Working.", calls=[call("risky", text="wait"), call("risky", text="b")])


def at_first(kind: type[Event], bench: Bench) -> Callable[[Event], None]:
    """Interrupt when the first event of a kind is seen."""

    def look(event: Event) -> None:
        if isinstance(event, kind) and bench.run is not None:
            bench.run.send(Interrupt())

    return look


@pytest.mark.requirement("agent.events.interrupt", "agent.loop.one-call-per-result", "magics.command.stop")
@pytest.mark.parametrize("moment", [TurnStarted, TextDelta, MessageAdded, ApprovalRequested, ToolStarted])
async def test_an_interrupt_at_any_moment_leaves_a_valid_history_and_a_working_agent(
    bench: Bench, moment: type[Event]
) -> None:
    terms = RunTerms(allowed=frozenset({"risky"})) if moment is ToolStarted else RunTerms()
    bench.model.will_reply(CALLS)
    events = await bench.ask("go", on_event=at_first(moment, bench), terms=terms)
    finished = one(events, RunFinished)
    assert finished.reason == "interrupted"
    assert finished.turns <= 1
    assert events[-1] is finished
    check_history(bench.conversation.history)
    ended = [event.call_id for event in events if isinstance(event, ToolFinished)]
    assert len(ended) == len(set(ended))
    # The first reply may still be unread, when the interrupt came before the request.
    bench.model.will_reply(say("Here again."))
    again = await bench.ask("again", decide=lambda request: Reject(approval_id=request.approval_id))
    assert one(again, RunFinished).reason == "stop"
    check_history(bench.conversation.history)


async def test_an_interrupt_ends_a_wait_that_is_counted_down(bench: Bench) -> None:
    bench.model.will_reply(status(429, headers={"retry-after": "100"}), say("Here again."))
    began = time.monotonic()
    events = await bench.ask("go", on_event=at_first(Notice, bench))
    assert time.monotonic() - began < WAIT
    assert one(events, Notice).wait == 100
    assert one(events, RunFinished).reason == "interrupted"
    assert len(bench.model.requests) == 1
    assert one(await bench.ask("again"), RunFinished).reason == "stop"


@pytest.mark.requirement("agent.events.interrupt")
async def test_text_that_streamed_before_the_interrupt_is_kept_and_marked(bench: Bench) -> None:
    release = threading.Event()
    bench.model.will_reply(hold(release, text="The first half"))
    events = await bench.ask("go", on_event=at_first(TextDelta, bench))
    release.set()
    message = bench.conversation.history[-1]
    assert isinstance(message, AssistantMessage)
    assert message.stop_reason == "interrupted"
    assert "The first half".startswith(message.text)
    assert one(events, RunFinished).reason == "interrupted"


@pytest.mark.requirement("agent.events.interrupt")
async def test_closing_the_event_stream_early_ends_the_tool_before_it_returns(bench: Bench) -> None:
    bench.model.will_reply(call("quiet", text="wait"))
    run = start_run(bench.agent(), bench.conversation, "go", terms=RunTerms())
    stream = run.__aiter__()
    async with asyncio.timeout(WAIT):
        async for event in stream:
            if isinstance(event, ToolStarted):
                await bench.quiet.waiting.wait()
                break
        await stream.aclose()
    written = len(read_journal(bench.journal.path).events)
    check_history(bench.conversation.history)
    await asyncio.sleep(0)
    assert len(read_journal(bench.journal.path).events) == written
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.requirement("session.log.saved")
async def test_the_journal_folds_to_the_history_in_memory(bench: Bench) -> None:
    bench.model.will_reply(CALLS, say("done"))
    await bench.ask("go", on_event=at_first(ApprovalRequested, bench))
    bench.model.will_reply(say("more"))
    await bench.ask("again")
    assert fold_history(read_journal(bench.journal.path).events) == bench.conversation.history


async def test_an_interrupt_while_the_journal_writes_leaves_memory_and_disk_alike(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow while it takes the answer of the model; nothing of ours is replaced."""
    real_write = os.write
    writing, go_on = threading.Event(), threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "vibe-journal" and b"Working." in bytes(data) and not writing.is_set():
            writing.set()
            go_on.wait(WAIT)
        return real_write(descriptor, data)

    async def press() -> None:
        assert await asyncio.to_thread(writing.wait, WAIT)
        assert bench.run is not None
        bench.run.send(Interrupt())
        for _ in range(10):  # turns of the loop: the step is cancelled before the disk goes on
            await asyncio.sleep(0)
        go_on.set()

    monkeypatch.setattr(os, "write", write)
    bench.model.will_reply(CALLS)
    events, _ = await asyncio.gather(bench.ask("go"), press())
    assert one(events, RunFinished).reason == "interrupted"
    check_history(bench.conversation.history)
    assert fold_history(read_journal(bench.journal.path).events) == bench.conversation.history
    bench.model.will_reply(say("Here again."))
    assert one(await bench.ask("again"), RunFinished).reason == "stop"


@pytest.mark.requirement("session.log.saved")
async def test_a_full_disk_stops_the_run_before_the_effect_and_says_so(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file layer fails from the moment the call would be recorded; nothing of ours is replaced."""
    real_write = os.write
    full = threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        if full.is_set() and threading.current_thread().name == "vibe-journal":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    bench.model.will_reply(call("quiet", text="a"))
    events = await bench.ask("go", on_event=lambda event: full.set() if isinstance(event, TurnStarted) else None)
    finished = one(events, RunFinished)
    assert finished.reason == "error"
    assert "record" in finished.error
    assert bench.quiet.ran == []
    check_history(bench.conversation.history)
    full.clear()
    bench.model.will_reply(say("Space is back."))
    assert one(await bench.ask("again"), RunFinished).reason == "stop"


class Stubborn(Echo):
    """A tool that deals with its interrupt."""

    async def run(self, args: EchoArguments, context: ToolContext) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult.text("half of it")
        raise AssertionError("nobody sets it")


async def test_a_tool_that_deals_with_an_interrupt_still_ends_the_run(bench: Bench) -> None:
    bench.tools = StaticToolset([Stubborn("quiet", "always")])
    bench.model.will_reply(call("quiet", text="a"), say("never asked"))
    events = await bench.ask("go", on_event=at_first(ToolStarted, bench))
    finished = one(events, RunFinished)
    assert (finished.reason, finished.turns, len(bench.model.requests)) == ("interrupted", 1, 1)
    check_history(bench.conversation.history)
