"""What MCP servers offer and ask, in a kernel: resources and prompts with Tab, and their questions as cards."""

import html
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import Session, running_session
from tests.app.test_completion import Tab
from tests.kernel.fork_server import script_command
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import WAIT
from tests.mcp.conftest import served
from vibe_jupyter.mcp.resources import LIST_TIMEOUT, TAB_WAIT
from vibe_jupyter.testing import call, hold, say

pytestmark = pytest.mark.xdist_group("app")

ASKING = Path(__file__).parents[1] / "mcp" / "asking_server.py"
GUARDED = ASKING.with_name("guarded_server.py")
TAB_GRACE = LIST_TIMEOUT - 2
"""Seconds that a busy machine may take for the rest; who waits for the server takes longer."""
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A kernel with the server that asks, accepted and running."""
    with running_session(INSTALLED, tmp_path_factory.mktemp("offers")) as session:
        config = session.folder / "vibe" / "config.toml"
        command = json.dumps(script_command(ASKING))
        entry = f'\n[[mcp_servers]]\nname = "asking"\ncommand = {command}\nstartup_timeout_sec = 60\n'
        config.write_text(config.read_text(encoding="utf-8") + entry, encoding="utf-8")
        request = session.wire.send("%vibe mcp accept asking")
        view = session.view(request)
        view.command(type="approve", approval_id=view.card())
        assert not session.wire.cell(request).error
        session.model.will_reply(say("ready"))
        session.run("%vibe hello")
        yield session


@pytest.fixture
def session(shared: Session) -> Session:
    shared.model.requests.clear()
    return shared


class PatientTab(Tab):
    """Tab as a user presses it who waits for a server: what it says too late for one press is there for the next."""

    def __call__(self, before: str, after: str = "", *, server_says: str = "") -> list[str]:
        end = time.monotonic() + WAIT
        found = super().__call__(before, after)
        while server_says and server_says not in found and time.monotonic() < end:
            found = super().__call__(before, after)
        return found


def test_tab_offers_resources_after_the_servers_name(session: Session) -> None:
    tab = PatientTab(session)
    assert tab("%vibe see @ask") == ["@asking:"]
    addresses = ["@asking:notes://today", "@asking:notes://long", "@asking:notes://pixel", "@asking:notes://"]
    assert sorted(tab("%vibe see @asking:", server_says="@asking:notes://today")) == sorted(addresses)
    assert tab("%%vibe\nsee @asking:notes://to") == ["@asking:notes://today"]
    assert tab('%vibe see @"asking:notes://to') == ['@"asking:notes://today"']
    assert not [one for one in tab("%vibe see @absent:") if "notes:" in one]


def test_tab_offers_prompts_and_their_arguments(session: Session) -> None:
    tab = PatientTab(session)
    prompts = tab("%vibe /", server_says="/asking:review")
    assert [one for one in prompts if ":" in one] == ["/asking:review", "/asking:dialogue"]
    assert tab("%vibe --max-turns=3 /asking:r") == ["/asking:review"]
    assert tab("%vibe /asking:review ") == ["path=", "tone="]
    assert tab("%%vibe /asking:review path=a.py t") == ["tone="]
    assert tab("%vibe /asking:review path=a.py tone=", server_says="tone=kind") == [
        "tone=kind",
        'tone="very kind"',
        "tone=strict",
    ]
    assert tab("%vibe /asking:review path=a.py tone=s", server_says="tone=strict") == ["tone=strict"]
    assert not [one for one in tab("%vibe /asking:absent ") if one in ("path=", "tone=")]


def test_tab_is_answered_at_once_while_a_server_is_silent(session: Session) -> None:
    tab = Tab(session)
    began = time.monotonic()
    tab("%vibe /asking:review path=a tone=slow")
    took = time.monotonic() - began
    assert took < TAB_WAIT + TAB_GRACE
    # The next question has its own time, however soon it comes.
    assert tab("%vibe /asking:review path=a tone=s") == ["tone=strict"]


def test_a_resource_that_a_cell_names_goes_to_the_model_and_stays_in_the_output(session: Session) -> None:
    session.model.will_reply(say("Bread."))
    cell = session.run("%%vibe\nWhat do I need? @asking:notes://today")
    words = session.model.requests[0].last_user_text
    assert words.index("Buy bread.") < words.index("What do I need? @asking:notes://today")
    html = session.html(cell)
    assert "asking:notes://today" in html
    assert "Buy bread." in html


def test_a_prompt_of_a_server_is_what_the_model_is_asked(session: Session) -> None:
    session.model.will_reply(say("Fine."))
    session.run("%vibe /asking:review path=a.py")
    assert "Review a.py, and be kind." in session.model.requests[0].last_user_text
    wrong = session.html(session.run("%vibe /asking:review"))
    assert "The prompt needs path." in wrong
    assert len(session.model.requests) == 1


def test_a_question_of_a_server_waits_on_a_card_in_the_cell(session: Session) -> None:
    session.model.will_reply(call("mcp__asking__ask", message="Who are you?", schema=NAME), say("done"))
    request = session.wire.send("%vibe --yes=mcp__asking__ask ask me")
    view = session.view(request)
    view.wait_for("Question from the server asking")
    view.wait_for("Who are you?")
    question = view.question()
    view.command(type="answer", question_id=question, answers=[{"question": "", "selected": [], "other": "Ada"}])
    assert not session.wire.cell(request).error
    assert '{"action":"accept","content":{"name":"Ada"}}' in session.model.requests[1].tool_results[0]


@pytest.mark.matrix
def test_a_sign_in_that_was_skipped_is_asked_for_again_after_a_restart(shared: Session) -> None:
    def skip_sign_in(line: str) -> None:
        asked = threading.Event()
        shared.model.will_reply(hold(asked, "Hello."))
        request = shared.wire.send(line)
        view = shared.view(request)
        view.command(type="answer", question_id=view.question(), answers=None)
        asked.set()
        assert not shared.wire.cell(request).error

    config = shared.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    with served(GUARDED) as url:
        config.write_text(f'{before}\n[[mcp_servers]]\nname = "guarded"\nurl = "{url}"\n', encoding="utf-8")
        request = shared.wire.send("%vibe mcp accept guarded")
        view = shared.view(request)
        view.command(type="approve", approval_id=view.card())
        assert not shared.wire.cell(request).error
        skip_sign_in("%vibe hello")
        assert "which a %%vibe cell asks for" in shared.run("%vibe mcp restart guarded").text
        skip_sign_in("%vibe hello again")
    config.write_text(before, encoding="utf-8")


def test_a_server_that_was_removed_and_added_again_asks_for_a_sign_in(session: Session) -> None:
    def sign_in(line: str) -> None:
        session.model.will_reply(say("Hello."))
        request = session.wire.send(line)
        view = session.view(request)
        view.question()
        link = re.search(r'href="(http://127[^"]*/authorize[^"]*)"', view.wait_for("/authorize"))
        assert link is not None
        assert "You are signed in." in httpx.get(html.unescape(link[1]), follow_redirects=True).text
        assert not session.wire.cell(request).error

    with served(GUARDED) as url:
        for _ in range(2):
            session.run(f"%vibe mcp add guarded {url}")
            sign_in("%vibe hello")
            session.run("%vibe mcp remove guarded")
