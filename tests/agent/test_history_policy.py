"""What is sent of a long conversation: append-only, rewritten once, then summarised; always valid, never too long."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from tests.agent.conftest import WAIT, Bench, one
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.compaction import FITS, MADE_LINES, CompactionTerms
from vibe_jupyter.agent.context_size import ContextMeter, count_messages
from vibe_jupyter.agent.limits import TimeLimit
from vibe_jupyter.agent.loop import start_compaction, start_run
from vibe_jupyter.agent.middleware import AutoCompact, ContextWarning, Middleware
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.request import Model
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    Event,
    Headline,
    HistoryEdit,
    HistoryRewritten,
    ImagePart,
    Notice,
    Preview,
    Resource,
    RunFinished,
    TextPart,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnStarted,
    UserMessage,
)
from vibe_jupyter.session.conversation import check_history, fold_history
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import Call, Tokens, answer, call, hold, say, status
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.wire import Reply
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.todo import TodoTool

WINDOW = 12_000  # tokens
PICTURE = 1_500  # tokens, as the scripted server counts one
SUMMARISE = "Write a summary of this conversation"
FACT = "The sentinel for missing depths is -999.25."


class DrawArguments(BaseModel):
    what: str


class Draw(Tool[DrawArguments]):
    """Writes a cell, and shows a picture with a long text beside it. What is called broken fails."""

    name = "draw"
    description = "Draws."
    level = "always"
    arguments = DrawArguments

    def __init__(self, characters: int) -> None:
        self.characters = characters

    def headline(self, args: DrawArguments) -> Headline:
        return Headline(verb="Drew", doing="Drawing", asking="Draw", target=args.what)

    def preview(self, args: DrawArguments) -> Preview:
        return Preview(kind="text", text=args.what)

    def touches(self, args: DrawArguments) -> Sequence[Resource]:
        return [Resource(kind="cell", value=args.what, access="write")]

    async def run(self, args: DrawArguments, context: ToolContext) -> ToolResult:
        if args.what.endswith("broken"):
            raise ToolError("It could not be drawn.")
        text = f"cell #3 {args.what}\nscatter of {args.what}\n[image/png shown to the user; image 1 of #3]\n"
        data = "aGVs" + args.what.encode().hex() * 20
        return ToolResult(
            parts=(TextPart(text=text + "x" * self.characters), ImagePart(media_type="image/png", data=data))
        )


def tokens_of(request: ModelRequest) -> int:
    """A strict server's own count: text at four characters, pictures at a price."""
    text, pictures = json.dumps(request.body, ensure_ascii=False), 0
    for message in request.messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                pictures += 1
                text = text.replace(part["image_url"]["url"], "")
    return len(text) // 4 + pictures * PICTURE


class Sent(NamedTuple):
    """A request as the server got it."""

    tokens: int
    text: str
    is_summary: bool


class Server:
    """Counts as a server does, and refuses what is longer than its window."""

    def __init__(self, reply: Callable[[ModelRequest], Reply], *, window: int = WINDOW, counts: bool = True) -> None:
        self.reply = reply
        self.window = window
        self.counts = counts
        self.summary: Reply = "Everything of note."
        self.sent: list[Sent] = []

    def __call__(self, request: ModelRequest) -> Reply:
        tokens = tokens_of(request)
        is_summary = SUMMARISE in request.last_user_text
        self.sent.append(Sent(tokens, request.raw.decode(), is_summary))
        if tokens > self.window:
            return status(400, {"error": {"message": f"maximum context length is {self.window} tokens"}})
        reply = self.summary if is_summary else self.reply(request)
        usage = Tokens(prompt=tokens, completion=30) if self.counts else Tokens(prompt=0, completion=0)
        if isinstance(reply, str):
            return say(reply, usage=usage)
        return answer(calls=[reply], usage=usage) if isinstance(reply, Call) else reply

    @property
    def turns(self) -> list[Sent]:
        """What was no request for a summary."""
        return [one for one in self.sent if not one.is_summary]


class Desk:
    """An agent with a window, and its server."""

    def __init__(self, bench: Bench, server: Server, *, window: int | None = WINDOW, result: int = 1_500) -> None:
        self.bench = bench
        self.server = server
        self.folder = bench.journal.path.parent
        self.tools = StaticToolset(
            [Draw(result), bench.quiet, ReadFileTool(Workspace(bench.folder), session_folder=lambda: self.folder)]
        )
        self.window = window
        self.middleware: Sequence[Middleware] = [AutoCompact()]
        self.compaction = CompactionTerms()

    def agent(self) -> Agent:
        plain = self.bench.agent()
        model: Model = plain.model._replace(
            context_window=self.window, sees_images=True, input_price=1.0, output_price=1.0
        )
        return plain._replace(model=model, tools=self.tools, middleware=self.middleware, compaction=self.compaction)

    async def ask(self, prompt: str, context: str = "") -> list[Event]:
        run = start_run(self.agent(), self.bench.conversation, prompt, terms=RunTerms(), context=context)
        async with asyncio.timeout(WAIT):
            events = [event async for event in run]
        check_history(self.bench.conversation.history)
        return events

    async def compact(self, instructions: str = "") -> list[Event]:
        run = start_compaction(self.agent(), self.bench.conversation, instructions, terms=RunTerms())
        async with asyncio.timeout(WAIT):
            return [event async for event in run]

    def rewrites(self) -> list[HistoryRewritten]:
        """Of the journal, in order."""
        events = read_journal(self.bench.journal.path).events
        return [event for event in events if isinstance(event, HistoryRewritten)]


@pytest.fixture
def desk(bench: Bench) -> Callable[..., Desk]:
    def make(reply: Callable[[ModelRequest], Reply], **options: Any) -> Desk:
        server = Server(reply, window=options.pop("served", WINDOW), counts=options.pop("counts", True))
        bench.model._script = server  # pyright: ignore[reportPrivateUsage]
        return Desk(bench, server, **options)

    return make


def drawing(request: ModelRequest) -> Reply:
    """A picture for each prompt, then an answer."""
    if request.tool_results or request.last_user_text.startswith("From the result of"):
        return "There it is."
    words = request.last_user_text.rsplit("\n", 1)[-1]
    return call("draw", what=words.replace(" ", "_")[:40])


def reused_share(before: str, after: str) -> float:
    """Share of a request, up to the end of its last message, that the next one begins with."""
    whole = before.removesuffix("]}")
    if after.startswith(whole):
        return 1.0
    return next(place for place, pair in enumerate(zip(whole, after, strict=False)) if len({*pair}) > 1) / len(whole)


async def test_three_hundred_turns_through_compactions_still_know_the_first_prompt(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    at.server.summary = "Depths were looked at."
    await at.ask(f"{FACT} Draw the first.", "<notebook>\na.ipynb: 3 cells\n</notebook>")
    turns = 2
    number = 0
    while turns < 300:
        number += 1
        report = f"<notebook>\nthe user changed cell {number}\n</notebook>"
        turns += one(await at.ask(f"Draw number {number}", report), RunFinished).turns
    assert all(FACT in sent.text for sent in at.server.sent)
    assert max(sent.tokens for sent in at.server.sent) <= WINDOW
    kinds = [event.kind for event in at.rewrites()]
    assert kinds.count("compacted") >= 3
    assert "shortened" in kinds
    # The journal folds to exactly what the model was sent.
    assert fold_history(read_journal(at.bench.journal.path).events) == at.bench.conversation.history
    assert all(
        later.tokens_before - earlier.tokens_after >= 0.24 * WINDOW for earlier, later in pairwise(at.rewrites())
    )


async def test_between_two_rewrites_each_request_begins_with_all_of_the_one_before(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    turns: list[bool] = []
    """Whether the history of each was rewritten just before it."""
    is_rewritten = True
    for number in range(30):
        report = f"<notebook>\nthe user changed cell {number}\n</notebook>"
        for event in await at.ask(f"Draw number {number}", report):
            is_rewritten = is_rewritten or isinstance(event, HistoryRewritten)
            if isinstance(event, TurnStarted):
                turns.append(is_rewritten)
                is_rewritten = False
    sent = [one.text for one in at.server.turns]
    shares = [reused_share(*pair) for pair in pairwise(sent)]
    assert len(turns) == len(sent)
    assert {share for share, is_new in zip(shares, turns[1:], strict=True) if not is_new} == {1.0}
    assert len(at.rewrites()) >= 2


async def test_old_results_and_pictures_are_a_line_each_and_can_be_read_again(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    shortened: list[HistoryRewritten] = []
    events: list[Event] = []
    for number in range(20):
        events = await at.ask(f"Draw number {number}")
        shortened = [event for event in events if isinstance(event, HistoryRewritten)]
        if shortened:
            break
    (event,) = shortened
    assert event.kind == "shortened"
    assert 0.60 <= event.tokens_before / WINDOW < 0.85
    assert event.tokens_after < event.tokens_before
    started, finished = one_step(events, "shorten")
    assert started.headline.verb == finished.headline.verb == "Shortened"
    sent = at.server.turns[-1].text
    assert "[image: scatter of Draw_number_0, of #3]" in sent
    results = [message["content"] for message in json.loads(sent)["messages"] if message["role"] == "tool"]
    assert [len(result) < 300 for result in results] == [True] * (len(results) - 3) + [False] * 3
    assert results[0].startswith("cell #3 Draw_number_0\n[All 1,")
    handle = results[0].rpartition("read_file path=")[2].split("]")[0]
    at.server.reply = lambda request: "Seen." if request.tool_results else call("read_file", path=handle)
    await at.ask("What was in the first?")
    assert "xxxx" in at.bench.model.requests[-1].tool_results[0]


def one_step(events: Sequence[Event], name: str) -> tuple[ToolStarted, ToolFinished]:
    (started,) = [event for event in events if isinstance(event, ToolStarted) and event.name == name]
    (finished,) = [event for event in events if isinstance(event, ToolFinished) and event.name == name]
    return started, finished


async def test_what_a_server_counted_before_a_rewrite_is_not_the_size_after_it(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    await at.ask("Draw one.")
    conversation, model = at.bench.conversation, at.agent().model
    counted = ContextMeter(conversation, model, "").size(list).tokens
    assert counted >= tokens_of(at.bench.model.requests[-1])
    prompt = HistoryEdit(at=0, length=1, by=(UserMessage(parts=(TextPart(text="Draw."),)),))
    length = len(conversation.history)
    await conversation.record(
        HistoryRewritten(kind="shortened", length=length, edits=(prompt,), tokens_before=counted, tokens_after=1)
    )
    estimate = ContextMeter(conversation, model, "").size(list).tokens
    assert estimate == count_messages(conversation.history) != counted


async def test_the_latest_count_of_a_server_and_the_answer_that_it_counted_are_in_the_next_request(
    desk: Callable[..., Desk],
) -> None:
    at = desk(drawing)
    for number in range(3):
        at.bench.model._script = lambda _, number=number: say(  # pyright: ignore[reportPrivateUsage]
            "Long.", usage=Tokens(prompt=1_000 * (number + 1), completion=700 + number)
        )
        await at.ask("Go on.")
    size = ContextMeter(at.bench.conversation, at.agent().model, "").size(list)
    assert size.tokens == 3_000 + 702
    started = next(event for event in await at.ask("Go on.") if isinstance(event, TurnStarted))
    assert started.context is not None
    assert round(started.context * WINDOW) - 3_702 in range(30)


async def test_of_the_models_window_and_one_that_was_refused_the_smaller_counts(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    for overflowed, window in ((9_000, 9_000), (90_000, WINDOW)):
        at.bench.conversation.overflowed_at = overflowed
        assert ContextMeter(at.bench.conversation, at.agent().model, "").size(list).window == window


async def test_without_a_folder_for_results_the_line_says_how_to_get_one_again(desk: Callable[..., Desk]) -> None:
    from vibe_jupyter.files.truncation import brief_text

    assert brief_text("first\n" + "x" * 2_000, None, again="draw gets it again") == (
        "first\n[2,006 characters are not sent again; draw gets it again]"
    )


@pytest.mark.requirement("middleware.auto-compact.threshold")
async def test_it_is_compacted_at_the_threshold_and_never_at_0(desk: Callable[..., Desk]) -> None:
    at = desk(drawing, window=100_000, served=100_000)
    for threshold, compacted in ((0, False), (5_000, True)):
        at.middleware = [AutoCompact(threshold)]
        for number in range(6):
            await at.ask(f"Draw number {number}")
        assert any(event.kind == "compacted" for event in at.rewrites()) is compacted
    (event,) = at.rewrites()[:1]
    assert event.tokens_before >= 5_000


@pytest.mark.requirement("compaction.trigger.auto")
async def test_a_conversation_that_would_overflow_is_compacted_before_the_request(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    for number in range(30):
        assert one(await at.ask(f"Draw number {number}"), RunFinished).reason == "stop"
    assert "compacted" in [event.kind for event in at.rewrites()]
    assert max(sent.tokens for sent in at.server.sent) <= WINDOW


@pytest.mark.requirement("compaction.tokens.bounded")
@pytest.mark.parametrize(
    "miscount",
    [
        pytest.param(lambda _tokens: Tokens(0, 0), id="zero"),
        pytest.param(lambda _tokens: Tokens(-7, -1), id="negative"),
        pytest.param(lambda _tokens: Tokens(12, 3), id="of another request"),
        pytest.param(lambda tokens: Tokens(tokens // 20, 30), id="without what was cached"),
    ],
)
async def test_counts_that_are_too_small_for_what_was_sent_do_not_keep_a_history_from_being_compacted(
    desk: Callable[..., Desk], miscount: Callable[[int], Tokens]
) -> None:
    at = desk(lambda request: say("A long answer. " * 150, usage=miscount(tokens_of(request))))
    for number in range(20):
        assert one(await at.ask(f"Question {number}"), RunFinished).reason == "stop"
    assert "compacted" in [event.kind for event in at.rewrites()]
    assert max(sent.tokens for sent in at.server.sent) <= WINDOW


async def test_one_refused_as_too_long_is_compacted_once_and_asked_again(desk: Callable[..., Desk]) -> None:
    at = desk(drawing, window=None, counts=False)  # nobody knows the window, and the server counts nothing
    reasons = [one(await at.ask(f"Draw number {number}"), RunFinished).reason for number in range(12)]
    assert set(reasons) == {"stop"}
    refused = [sent for sent in at.server.sent if sent.tokens > WINDOW]
    assert 1 <= len(refused) <= 2
    assert at.bench.conversation.overflowed_at is not None

    at.compaction = CompactionTerms(on_overflow=False)
    at.server.window = 100
    before = at.rewrites()
    finished = one(await at.ask("Again"), RunFinished)
    assert (finished.reason, at.rewrites()) == ("error", before)
    assert "%vibe compact" in finished.error


async def test_one_that_is_refused_whole_for_its_summary_is_sent_as_a_transcript(desk: Callable[..., Desk]) -> None:
    at = desk(drawing, window=100_000, served=16_000)  # the window of the settings is too large
    at.server.summary = "Depths were looked at."
    assert {one(await at.ask(f"Draw number {number}"), RunFinished).reason for number in range(12)} == {"stop"}
    refused, asked = [sent for sent in at.server.sent if sent.is_summary][:2]
    assert refused.tokens > 16_000 >= asked.tokens
    assert "Depths were looked at." in carried(at.bench.model.requests[-1])


@pytest.mark.requirement("programmatic.limits.running-tool")
@pytest.mark.parametrize("served", [WINDOW, 5_000])
async def test_time_is_limited_also_while_a_summary_is_written(desk: Callable[..., Desk], served: int) -> None:
    """Before a turn, and after a request that the server refused as too long."""
    at = desk(drawing, window=None, counts=False, result=20_000)
    for what in ("one", "another"):
        await at.ask(f"Draw {what}.")
    at.server.window, at.server.summary = served, hold(threading.Event())
    at.middleware = [AutoCompact(100 if served == WINDOW else 0), TimeLimit(1.0)]
    history = at.bench.conversation.history

    events = await at.ask("Go on.")

    finished = one(events, RunFinished)
    assert finished.reason == "time_limit"
    assert finished.seconds < WAIT / 2
    assert one_step(events, "compact")[1].outcome == "interrupted"
    *before, asked = at.bench.conversation.history
    assert tuple(before) == history
    assert isinstance(asked, UserMessage)
    at.server.summary, at.middleware = "Everything of note.", [AutoCompact()]
    assert one(await at.ask("Go on."), RunFinished).reason == "stop"


@pytest.mark.requirement("compaction.summary.sections", "compaction.trigger.manual")
async def test_the_user_can_compact_at_any_time_with_own_instructions(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    await at.ask(f"{FACT} Draw one.")
    at.server.summary = "1. Goal: draw. 3. Facts: a sentinel."
    events = await at.compact("Keep all numbers.")
    asked = at.bench.model.requests[-1].last_user_text
    assert [f"\n{number}. " in asked for number in range(1, 9)] == [True] * 7 + [False]
    assert asked.endswith("The user adds: Keep all numbers.")
    assert one(events, RunFinished).reason == "stop"
    await at.ask("Go on.")
    opening, acknowledged, *_ = at.bench.model.requests[-2].messages[1:]
    for kept in ("1. Goal: draw. 3. Facts: a sentinel.", f"1. {FACT} Draw one.", "- Drew", "read_file path=result:"):
        assert kept in json.dumps(opening["content"], ensure_ascii=False)
    assert acknowledged["role"] == "assistant"


def carried(request: ModelRequest) -> str:
    """The summary that a request begins with."""
    content = request.messages[1]["content"]
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


@pytest.mark.requirement("compaction.kept.prompts")
async def test_of_many_prompts_the_first_and_the_latest_are_kept_in_their_order(desk: Callable[..., Desk]) -> None:
    at = desk(lambda _: "Noted.")  # a tenth of the window is for prompts: 4,800 characters
    for begin, end in ((0, 5), (5, 9)):
        for number in range(begin, end):
            await at.ask(f"Prompt {number}. " + "x" * 1_200)
        await at.compact()
    await at.ask("Go on.", "<notebook>\na.ipynb: 3 cells\n</notebook>")
    text = carried(at.bench.model.requests[-1])
    assert re.findall(r"(\d)\. Prompt (\d)\.", text) == [("1", "0"), ("2", "7"), ("3", "8")]


@pytest.mark.requirement("compaction.kept.made")
async def test_of_what_was_made_the_latest_lines_are_kept_and_of_plans_the_last(desk: Callable[..., Desk]) -> None:
    at = desk(drawing, window=100_000, served=100_000, result=10)
    at.tools = StaticToolset([Draw(10), TodoTool()])

    async def write_plan(words: str) -> None:
        todos = [{"content": words, "status": "pending"}]
        at.server.reply = lambda request: "Noted." if request.tool_results else call("todo", todos=todos)
        await at.ask(f"Plan {words}")
        at.server.reply = drawing

    await write_plan("the old way")
    await write_plan("the new way")
    for begin, end in ((0, 40), (40, 76)):
        for number in range(begin, end):
            await at.ask(f"Draw {number} {'broken' if number % 20 == 13 else 'there'}")
        await at.compact()
    await at.ask("Go on.")
    text = carried(at.bench.model.requests[-2])
    made = [int(number) for number in re.findall(r"- Drew Draw_(\d+)_", text)]
    assert made == [number for number in range(76) if number % 20 != 13][-MADE_LINES:]
    plan_kept = text.partition("The list of steps as it was written last:")[2]
    assert "the new way" in plan_kept
    assert "the old way" not in plan_kept


@pytest.mark.requirement("compaction.summary.fallback")
@pytest.mark.parametrize("summary", ["", "  ", call("draw", what="more")])
async def test_without_a_summary_the_prompts_are_kept_all_the_same(desk: Callable[..., Desk], summary: Reply) -> None:
    at = desk(drawing)
    await at.ask(f"{FACT} Draw one.")
    await at.ask("Draw two.")
    at.server.summary = summary
    events = await at.compact()
    assert one(events, RunFinished).reason == "stop"
    check_history(at.bench.conversation.history)
    assert one(await at.ask("Draw three."), RunFinished).reason == "stop"
    for words in (FACT, "2. Draw two."):
        assert words in at.server.turns[-1].text


async def test_where_a_summary_is_required_its_lack_is_an_error_and_the_history_stays(
    desk: Callable[..., Desk],
) -> None:
    at = desk(drawing)
    await at.ask("Draw one.")
    before = at.bench.conversation.history
    at.compaction = CompactionTerms(must_succeed=True)
    at.server.summary = " "
    finished = one(await at.compact(), RunFinished)
    assert (finished.reason, at.bench.conversation.history, at.rewrites()) == ("error", before, [])
    assert finished.error.startswith("The model wrote no summary")


@pytest.mark.parametrize(("own", "smaller"), [(None, WINDOW), (5_000, 5_000), (1_000, 1_000)])
async def test_a_request_for_a_summary_fits_the_window_of_the_model_that_writes_it(
    desk: Callable[..., Desk], own: int | None, smaller: int
) -> None:
    at = desk(drawing)
    at.middleware = []
    for number in range(10):
        await at.ask(f"Draw number {number}")
    at.compaction = CompactionTerms(model=at.agent().model._replace(context_window=own))
    await at.compact()
    (asked,) = [sent for sent in at.server.sent if sent.is_summary]
    event = at.rewrites()[-1]
    assert 5_000 < event.tokens_before < FITS * WINDOW
    assert asked.tokens <= FITS * smaller
    assert ("Draw number 0" in asked.text, "Draw number 9" in asked.text) == (True, True)


@pytest.mark.requirement("compaction.events.shown", "compaction.tokens.count")
async def test_both_ends_are_shown_and_cost_and_counts_go_on(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    before = one(await at.ask("Draw one."), RunFinished).usage.prompt_tokens
    events = await at.compact()
    started, finished = one_step(events, "compact")
    assert (started.headline.doing, finished.outcome) == ("Compacting", "ok")
    (event,) = at.rewrites()
    assert finished.summary == f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    end = one(events, RunFinished)
    assert end.usage.prompt_tokens == at.server.sent[-1].tokens
    assert end.cost == pytest.approx((end.usage.prompt_tokens + end.usage.completion_tokens) / 1_000_000)
    assert at.bench.conversation.usage.prompt_tokens == before + end.usage.prompt_tokens
    # The size is counted again: what servers counted before means nothing now.
    first = next(event for event in await at.ask("Go on.") if isinstance(event, TurnStarted))
    assert first.context is not None
    assert first.context * WINDOW == pytest.approx(at.server.turns[-2].tokens, rel=0.25)


async def test_in_the_midst_of_a_run_the_unread_results_stay_and_a_fresh_report_follows(
    desk: Callable[..., Desk],
) -> None:
    drawn = 0

    def draw(request: ModelRequest) -> Reply:
        nonlocal drawn
        drawn += 1
        return call("draw", what=f"figure_{drawn}") if drawn < 12 else "All drawn."

    async def report() -> str:
        return "<notebook>\nnow: 12 cells\n</notebook>"

    at = desk(draw)
    at.compaction = CompactionTerms(report=report)
    events = await at.ask("Draw twelve.")
    assert one(events, RunFinished).reason == "stop"
    assert {event.kind for event in at.rewrites()} == {"compacted"}
    place = next(number for number, sent in enumerate(at.server.sent) if sent.is_summary)
    messages = json.loads(at.server.sent[place + 1].text)["messages"]
    assert [message["role"] for message in messages[1:4]] == ["user", "assistant", "tool"]
    assert "now: 12 cells" in json.dumps(messages[1])
    assert "1. Draw twelve." in json.dumps(messages[1])


async def test_an_interrupt_while_it_is_compacted_leaves_the_old_history(desk: Callable[..., Desk]) -> None:
    import threading

    from vibe_jupyter.protocol import Interrupt
    from vibe_jupyter.testing import hold

    at = desk(drawing)
    await at.ask("Draw one.")
    before = at.bench.conversation.history
    at.server.summary = hold(threading.Event())
    run = start_compaction(at.agent(), at.bench.conversation, "", terms=RunTerms())
    async with asyncio.timeout(WAIT):
        events: list[Event] = []
        async for event in run:
            events.append(event)
            if isinstance(event, ToolStarted):
                run.send(Interrupt())
    assert one(events, RunFinished).reason == "interrupted"
    assert one_step(events, "compact")[1].outcome == "interrupted"
    assert (at.bench.conversation.history, at.rewrites()) == (before, [])
    assert fold_history(read_journal(at.bench.journal.path).events) == before


@pytest.mark.requirement("middleware.context-warning.once")
async def test_a_filling_context_is_pointed_out_once_with_used_and_possible_tokens(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    warning = ContextWarning()
    at.middleware = [warning]
    told: list[str] = []
    for number in range(5):
        told += [event.text for event in await at.ask(f"Draw number {number}") if isinstance(event, Notice)]
    (text,) = told
    used, possible = (int(word.replace(",", "")) for word in text.split() if word.replace(",", "").isdecimal())
    assert possible == int(0.85 * WINDOW)
    assert possible / 2 <= used <= possible
    assert "%vibe context" in text
    asked = [
        request for request in at.bench.model.requests if "of the context is used" in json.dumps(request.messages[-1])
    ]
    assert len(asked) == 1


@pytest.mark.requirement("middleware.context-warning.once")
async def test_a_context_that_fills_again_after_each_compaction_is_pointed_out_again(desk: Callable[..., Desk]) -> None:
    at = desk(drawing)
    at.middleware = [ContextWarning(), AutoCompact()]
    seen: list[str] = []
    for number in range(60):
        for event in await at.ask(f"Draw number {number}"):
            if isinstance(event, HistoryRewritten) and event.kind == "compacted":
                seen.append("compacted")
            elif isinstance(event, Notice):
                seen.append("warned")
    assert seen.count("compacted") >= 2
    assert seen[: 2 * seen.count("compacted")] == ["warned", "compacted"] * seen.count("compacted")
