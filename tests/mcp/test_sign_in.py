"""Signing in to a remote server: on a card of the run, in a browser of the user's, with an authority of ours."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.mcp.bench import McpBench, all_of, asking, mcp_bench, one
from tests.mcp.conftest import call as call_tool
from tests.mcp.conftest import connection, declared, served, until
from vibe_jupyter.agent.run import Run
from vibe_jupyter.config.tool_servers import ServerAddress
from vibe_jupyter.errors import ServerError
from vibe_jupyter.mcp.oauth_redirect import RedirectListener, SignInError, free_port, read_redirect
from vibe_jupyter.mcp.token_store import MemoryStore
from vibe_jupyter.protocol import (
    Answer,
    Answered,
    Event,
    Interrupt,
    Notice,
    QuestionAnswered,
    QuestionAsked,
    RunFinished,
    ToolFinished,
)
from vibe_jupyter.testing import ScriptedModel, call, hold, say

GUARDED = Path(__file__).with_name("guarded_server.py")

Act = Callable[[QuestionAsked, Run], None]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that wants a sign-in, which the tests of this module share."""
    with served(GUARDED) as url:
        yield url


@pytest.fixture
async def bench(tmp_path: Path, url: str) -> AsyncIterator[McpBench]:
    async with mcp_bench(tmp_path, store=MemoryStore()) as bench:
        bench.declare(declared("guarded", ServerAddress(url)))
        bench.model.will_reply(say("done"), say("done"))
        yield bench


class Browser:
    """Opens the page of the card, and goes where it is sent."""

    def __init__(self, *, to_the_end: bool = True) -> None:
        self.address = ""
        """Where it came in the end."""
        self.page = ""
        self._to_the_end = to_the_end
        self._visits: set[asyncio.Task[None]] = set()

    def __call__(self, event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            self._visits.add(asyncio.ensure_future(self._visit(event, run)))

    async def _visit(self, event: QuestionAsked, run: Run) -> None:
        async with httpx.AsyncClient(follow_redirects=self._to_the_end) as client:
            answer = await client.get(event.questions[0].link)
        self.page = answer.text
        self.address = str(answer.url) if self._to_the_end else answer.headers["location"]
        if not self._to_the_end:
            typed = Answered(question="", other=self.address)
            run.send(Answer(question_id=event.question_id, answers=(typed,)), by="person")


async def test_the_page_is_shown_on_a_card_and_the_server_is_usable_when_the_browser_came_back(bench: McpBench) -> None:
    browser = Browser()
    events = await bench.ask("go", browser)
    asked = one(events, QuestionAsked)
    question = asked.questions[0]
    host = urlsplit(question.link).netloc
    assert asked.asker == "the server guarded"
    assert f"sign in at {host}" in question.question
    wanted = parse_qs(urlsplit(question.link).query)
    assert wanted["code_challenge_method"] == ["S256"]
    redirect = urlsplit(wanted["redirect_uri"][0])
    assert (redirect.scheme, redirect.hostname, redirect.path) == ("http", "127.0.0.1", "/callback")
    assert "You are signed in." in browser.page
    assert one(events, QuestionAnswered).by == "server"
    step = one(events, ToolFinished)
    assert (step.name, step.outcome) == ("sign_in", "ok")
    assert "as long as this kernel runs" in step.summary
    assert "exchanged" in await call_tool(connection(bench.servers, "guarded"), "history")


async def test_where_the_browser_cannot_come_back_the_person_pastes_the_address(bench: McpBench) -> None:
    events = await bench.ask("go", Browser(to_the_end=False))
    assert one(events, QuestionAnswered).by == "person"
    assert connection(bench.servers, "guarded").state == "ready"


async def test_what_is_not_the_address_of_the_last_page_is_asked_for_again_with_the_reason(bench: McpBench) -> None:
    browser = Browser(to_the_end=False)
    cards: list[QuestionAsked] = []

    def paste_the_wrong_one_first(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            cards.append(event)
            if len(cards) == 1:
                typed = Answered(question="", other=event.questions[0].link)
                run.send(Answer(question_id=event.question_id, answers=(typed,)), by="person")
            else:
                browser(event, run)

    events = await bench.ask("go", paste_the_wrong_one_first)
    assert ["is not the whole address of the last page" in card.questions[0].question for card in cards] == [
        False,
        True,
    ]
    assert (one(events, ToolFinished).outcome, one(events, ToolFinished).summary) == ("ok", "address pasted")
    assert connection(bench.servers, "guarded").state == "ready"


async def test_an_authority_that_registers_nobody_leads_to_a_key(tmp_path: Path) -> None:
    with served(GUARDED, "3600", "closed") as closed:
        async with mcp_bench(tmp_path, store=MemoryStore()) as bench:
            bench.declare(declared("guarded", ServerAddress(closed)))
            bench.model.will_reply(say("done"))
            (told,) = all_of(await bench.ask("go"), Notice)
    assert "Registration failed: 404" in told.text
    assert "get a key there, and name it with --key" in told.text


async def test_a_sign_in_is_kept_and_asked_for_once(tmp_path: Path, url: str) -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            bench = await stack.enter_async_context(mcp_bench(folder, store=store))
            bench.declare(declared("guarded", ServerAddress(url)))
            bench.model.will_reply(say("done"))
            events = await bench.ask("go", Browser())
            assert len(all_of(events, QuestionAsked)) == (1 if number == 0 else 0)
            assert connection(bench.servers, "guarded").state == "ready"


async def test_a_token_that_ran_out_is_renewed_without_the_person(tmp_path: Path) -> None:
    with served(GUARDED, "1") as short:
        async with mcp_bench(tmp_path, store=MemoryStore()) as bench:
            bench.declare(declared("guarded", ServerAddress(short)))
            bench.model.will_reply(say("done"))
            await bench.ask("go", Browser())
            server = connection(bench.servers, "guarded")
            async with asyncio.timeout(20):
                while "refreshed" not in (done := await call_tool(server, "history")):
                    await asyncio.sleep(0.1)
            assert done.split().count("authorized") == 1


async def test_a_token_that_the_server_forgot_is_renewed_without_the_person(tmp_path: Path) -> None:
    with served(GUARDED) as forgetful:
        async with mcp_bench(tmp_path, store=MemoryStore()) as bench:
            bench.declare(declared("guarded", ServerAddress(forgetful)))
            bench.model.will_reply(say("done"))
            await bench.ask("go", Browser())
            server = connection(bench.servers, "guarded")
            await call_tool(server, "forget")
            done = (await call_tool(server, "history")).split()
            assert (done.count("authorized"), done.count("refreshed")) == (1, 1)


@pytest.fixture
async def later_kernel(tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[McpBench]]]:
    """Starts one kernel after the other, which share a keyring, with a server of their own."""
    with served(GUARDED) as own:
        async with AsyncExitStack() as stack:

            async def start() -> McpBench:
                folder = tmp_path / str(len(list(tmp_path.iterdir())))
                folder.mkdir()
                bench = await stack.enter_async_context(mcp_bench(folder, store=KEYRING))
                bench.declare(declared("guarded", ServerAddress(own)))
                bench.model.will_reply(say("done"), say("done"), say("done"))
                return bench

            yield start
    KEYRING.clear()


class Keyring(MemoryStore):
    """What several kernels share."""

    def change(self, **values: object) -> None:
        """Have something else in what is kept; None takes it out."""
        for name in self._kept:
            kept = json.loads(self._kept[name]) | values
            self._kept[name] = json.dumps({key: value for key, value in kept.items() if value is not None})

    def clear(self) -> None:
        self._kept.clear()


KEYRING = Keyring()


async def test_a_kept_sign_in_that_ran_out_is_renewed_by_a_later_kernel_without_the_person(
    later_kernel: Callable[[], Awaitable[McpBench]],
) -> None:
    await (await later_kernel()).ask("go", Browser())
    KEYRING.change(expires_at=1.0)
    bench = await later_kernel()
    assert not all_of(await bench.ask("go", Browser()), QuestionAsked)
    assert "refreshed" in await call_tool(connection(bench.servers, "guarded"), "history")


async def test_two_kernels_renew_one_sign_in_without_the_person(
    later_kernel: Callable[[], Awaitable[McpBench]],
) -> None:
    benches = [await later_kernel(), await later_kernel()]
    for bench in benches:
        await bench.ask("go", Browser())
    first, second = (connection(bench.servers, "guarded") for bench in benches)
    for round_ in range(1, 3):
        await call_tool(first, "forget")
        for server in (first, second):  # what the other one renewed holds: a renewal uses up the one before
            done = (await call_tool(server, "history")).split()
            assert (done.count("authorized"), done.count("refreshed")) == (1, round_)


async def test_two_kernels_that_sign_in_at_once_are_both_signed_in_and_renew_what_they_got(
    later_kernel: Callable[[], Awaitable[McpBench]],
) -> None:
    await (await later_kernel()).ask("go", Browser())
    KEYRING.change(tokens=None)  # both know the address to come back to
    benches = [await later_kernel(), await later_kernel()]
    await asyncio.gather(*(bench.ask("go", Browser()) for bench in benches))
    servers = [connection(bench.servers, "guarded") for bench in benches]
    assert [server.state for server in servers] == ["ready", "ready"]
    for server in servers:
        await call_tool(server, "forget")
        assert "refreshed" in await call_tool(server, "history")


async def test_an_authority_that_forgot_us_gives_us_a_new_name_before_the_page_is_shown(
    later_kernel: Callable[[], Awaitable[McpBench]],
) -> None:
    first = await later_kernel()
    await first.ask("go", Browser())
    await call_tool(connection(first.servers, "guarded"), "forget_all")
    browser = Browser()
    await (await later_kernel()).ask("go", browser)
    assert "You are signed in." in browser.page


async def test_after_a_page_that_did_not_know_us_a_restart_and_a_prompt_lead_to_one_that_does(
    later_kernel: Callable[[], Awaitable[McpBench]],
) -> None:
    first = await later_kernel()
    await first.ask("go", Browser())
    await call_tool(connection(first.servers, "guarded"), "forget_all")
    KEYRING.change(tokens=None)
    bench = await later_kernel()
    dead = Browser()

    def skip_when_seen(event: Event, run: Run) -> None:
        dead(event, run)
        if isinstance(event, QuestionAsked):
            run.send(Answer(question_id=event.question_id, answers=None))

    await bench.ask("go", skip_when_seen)
    bench.requests.sign_ins.ask_again("guarded")
    with pytest.raises(ServerError, match="which a %%vibe cell asks for"):
        await bench.servers.restart("guarded")
    browser = Browser()
    await bench.ask("go", browser)
    assert "You are signed in." in browser.page
    assert connection(bench.servers, "guarded").state == "ready"


async def test_a_call_whose_sign_in_ended_says_so_where_nobody_is_there(bench: McpBench) -> None:
    await bench.ask("go", Browser())
    calls = [call("mcp__guarded__forget_all"), call("mcp__guarded__history"), say("done")]
    with ScriptedModel(calls) as bench.model:
        events = await bench.ask("go", attended=False)
    assert "nobody is here to do that" in all_of(events, ToolFinished)[-1].summary


async def test_a_sign_in_that_is_skipped_fails_the_server_alone_and_is_not_asked_for_again(bench: McpBench) -> None:
    cards: list[QuestionAsked] = []

    def skip(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            cards.append(event)
            run.send(Answer(question_id=event.question_id, answers=None))

    events = await bench.ask("go", skip)
    assert [notice.text for notice in all_of(events, Notice) if "you did not" in notice.text]
    server = connection(bench.servers, "guarded")
    assert server.state == "failed"
    over = threading.Event()
    with ScriptedModel([hold(over, "done")]) as bench.model:
        again = asyncio.ensure_future(bench.ask("again", skip))
        await until(lambda: "which you declined" in server.error or len(cards) > 1, "the end of the second start")
        over.set()
        await again
    assert len(cards) == 1


async def test_where_nobody_is_there_the_server_fails_and_says_why(bench: McpBench) -> None:
    events = await bench.ask("go", attended=False)
    assert not all_of(events, QuestionAsked)
    assert [notice for notice in all_of(events, Notice) if "nobody is here to do that" in notice.text]


async def test_an_interrupt_ends_the_waiting_for_the_browser(bench: McpBench) -> None:
    def interrupt(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            run.send(Interrupt())

    events = await bench.ask("go", interrupt)
    assert one(events, QuestionAnswered).by == "interrupt"
    assert one(events, ToolFinished).outcome == "interrupted"


async def test_a_card_that_still_waits_when_the_run_ends_is_taken_back_before_that(bench: McpBench, url: str) -> None:
    bench.declare(asking(), declared("guarded", ServerAddress(url)))
    (problem,) = await bench.servers.start(["guarded"])
    assert "which a %%vibe cell asks for" in problem
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    open_cards: dict[str, str] = {}

    def when_both_are_shown(event: Event, run: Run) -> None:
        if isinstance(event, QuestionAsked):
            open_cards[event.asker] = event.question_id
            if len(open_cards) == 2:
                run.send(
                    Answer(question_id=open_cards["the server asking"], answers=(Answered(question="", other="a"),))
                )

    asks = call("mcp__asking__ask", message="A word?", schema=schema)
    with ScriptedModel([asks, say("done")]) as bench.model:
        events = await bench.ask("go", when_both_are_shown)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].reason == "stop"
    step = next(event for event in all_of(events, ToolFinished) if event.name == "sign_in")
    assert step.outcome == "interrupted"
    assert len(all_of(events, QuestionAnswered)) == 2


async def test_a_server_with_a_key_is_never_signed_in_to(bench: McpBench, url: str) -> None:
    bench.declare(declared("guarded", ServerAddress(url, {"Authorization": "Bearer wrong"})))
    events = await bench.ask("go")
    assert not all_of(events, QuestionAsked)
    assert connection(bench.servers, "guarded").state == "failed"


@pytest.fixture
async def redirect() -> AsyncIterator[tuple[RedirectListener, str]]:
    port = free_port()
    redirect = RedirectListener(port, "the-state")
    await redirect.open()
    yield redirect, f"http://127.0.0.1:{port}"
    redirect.close()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/callback?code=1&state=another", {}, 400),
        ("/callback?code=1", {}, 400),
        ("/callback?state=the-state", {}, 400),
        ("/?code=1&state=the-state", {}, 404),
        ("/callback?code=1&state=the-state", {"Host": "evil.example"}, 404),
    ],
)
async def test_who_does_not_know_the_state_is_turned_away_and_ends_nothing(
    redirect: tuple[RedirectListener, str], path: str, headers: dict[str, str], status: int
) -> None:
    waiting, base = redirect
    async with httpx.AsyncClient() as client:
        assert (await client.get(base + path, headers=headers)).status_code == status
        assert not waiting.came.done()
        assert (await client.get(f"{base}/callback?code=1&state=the-state")).status_code == 200
    assert waiting.came.result().code == "1"


async def test_the_way_back_is_open_on_this_machine_alone_and_closed_afterwards(
    redirect: tuple[RedirectListener, str],
) -> None:
    waiting, base = redirect
    waiting.close()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{base}/callback?code=1&state=the-state")
    with pytest.raises(asyncio.CancelledError):
        await waiting.came


async def test_a_port_that_is_taken_meanwhile_is_said() -> None:
    first = RedirectListener(free_port(), "a")
    await first.open()
    second = RedirectListener(first._port, "b")
    with pytest.raises(SignInError, match="is taken"):
        await second.open()
    first.close()


def test_an_address_says_what_came_of_it() -> None:
    good = read_redirect("http://127.0.0.1:1/callback?code=c&state=s&iss=https%3A%2F%2Fa.example")
    assert good is not None
    assert (good.code, good.state, good.issuer, good.error) == ("c", "s", "https://a.example", "")
    bad = read_redirect("http://x/?error=access_denied&state=s")
    assert bad is not None
    assert bad.error == "access_denied"
    assert read_redirect("what?") is None
    assert read_redirect("http://[") is None


@pytest.mark.parametrize("page", ["http://evil.example/sign", "javascript:alert(1)", "file:///etc/passwd", "https://"])
async def test_a_page_that_is_not_encrypted_is_never_shown(page: str) -> None:
    from vibe_jupyter.mcp.hooks import ServerPause
    from vibe_jupyter.mcp.sign_in import SignIn

    shown: list[str] = []

    async def show(address: str, host: str, take: Callable[[str], bool]) -> bool:
        shown.append(address)
        return False

    signer = SignIn("https://a.example/mcp", MemoryStore(), show, ServerPause())
    handler = signer.context.redirect_handler
    assert handler is not None
    with pytest.raises(SignInError, match="is not shown"):
        await handler(page)
    assert shown == []
