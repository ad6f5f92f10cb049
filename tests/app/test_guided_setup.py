"""`%vibe setup` and `%vibe model` in a real kernel: what is asked, what is written, what is never."""

import stat
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.app.conftest import Session, running_session
from tests.app.test_model_check import GOOD, NAMES
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import WAIT
from vibe_jupyter.testing import call, hold, say, status

KEY = "sk-very-secret-key-0123456789"
WELL = (say("Hello there."), call("echo", word="hello"))

pytestmark = pytest.mark.xdist_group("app")


class Asked:
    """The questions of one cell, answered in order."""

    def __init__(self, session: Session, code: str, *answers: str) -> None:
        self.prompts: list[tuple[str, bool]] = []
        request = session.wire.send(code, allow_stdin=True)
        for answer in answers:
            content = session.wire.client.get_stdin_msg(timeout=WAIT)["content"]
            self.prompts.append((content["prompt"], content["password"]))
            session.wire.client.input(answer)
        self.text = session.wire.cell(request).text


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Session]:
    """A kernel whose settings are its own."""
    with running_session(INSTALLED, tmp_path) as session:
        yield session


def config(session: Session) -> Path:
    return session.folder / "vibe" / "config.toml"


def settings(session: Session) -> dict[str, Any]:
    return tomllib.loads(config(session).read_text(encoding="utf-8"))


def everything_kept(session: Session) -> str:
    """All files of the user's folder and all messages of the page, but for the one file of keys."""
    files = [path for path in (session.folder / "vibe").rglob("*") if path.is_file() and path.name != ".env"]
    return "\n".join([*(path.read_text(encoding="utf-8") for path in files), repr(session.wire.seen)])


@pytest.mark.requirement("magics.setup.guided")
def test_a_newcomer_is_led_to_a_server_that_answers_and_the_key_is_in_no_toml(fresh: Session) -> None:
    config(fresh).write_text('# mine\n[tools.bash]\npermission = "never"  # as it is\n', encoding="utf-8")
    fresh.model.will_reply(*WELL)
    talk = Asked(fresh, "%vibe setup", "other", fresh.model.url, KEY, "office-1", "1")
    assert "keyring" not in talk.text, "a plain file is no keyring"
    assert [hidden for _, hidden in talk.prompts] == [False, False, True, False, False]
    assert "✓ calls a tool" in talk.text
    assert "Start a cell with %%vibe" in talk.text
    written = config(fresh).read_text(encoding="utf-8")
    assert written.startswith("# mine\n")
    assert 'permission = "never"  # as it is' in written
    port = urlsplit(fresh.model.url).port
    assert settings(fresh) == {
        "active_model": "office-1",
        "tools": {"bash": {"permission": "never"}},
        "providers": [
            {
                "name": f"local-{port}",
                "api_base": fresh.model.url,
                "backend": "generic",
                "api_key_env_var": f"LOCAL_{port}_API_KEY",
            }
        ],
        "models": [{"name": "office-1", "provider": f"local-{port}"}],
    }
    keys = fresh.folder / "vibe" / ".env"
    assert KEY in keys.read_text(encoding="utf-8")
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert fresh.model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    fresh.model.will_reply(say(f"Your key is {KEY}."))
    fresh.run("%vibe hello")
    assert "sk-very-secret" not in everything_kept(fresh)
    fresh.run("assert not any('sk-very' + '-secret' in line for line in In)")


def test_a_file_whose_last_line_has_no_end_is_read_after_something_was_added(fresh: Session) -> None:
    config(fresh).write_text(f"{config(fresh).read_text(encoding='utf-8').rstrip()}", encoding="utf-8")
    fresh.model.will_reply(*WELL, say("Here."))
    Asked(fresh, "%vibe setup", "other", fresh.model.url, KEY, "office-1", "1")
    assert [one["name"] for one in settings(fresh)["models"]] == ["scripted-1", "office-1"]
    assert "Here." in str(fresh.run("%vibe hello").outputs)


def test_the_keyring_keeps_a_key_and_gives_it_back(fresh: Session) -> None:
    place = fresh.folder / "keyring"
    fresh.run(
        "import keyring, keyrings.alt.file\n"
        f"class Ring(keyrings.alt.file.PlaintextKeyring):\n    priority = 5\n    file_path = {str(place)!r}\n"
        "keyring.set_keyring(Ring())"
    )
    fresh.model.will_reply(*WELL)
    talk = Asked(fresh, "%vibe setup", "other", fresh.model.url, KEY, "office-1", "1")
    assert "System keychain" in talk.text
    assert "✓ calls a tool" in talk.text
    assert fresh.model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    fresh.model.will_reply(say(f"Your key is {KEY}."))
    fresh.run("%vibe hello")
    assert "sk-very-secret" not in everything_kept(fresh)
    assert not (fresh.folder / "vibe" / ".env").exists()


def test_who_stops_before_the_last_answer_has_changed_nothing(fresh: Session) -> None:
    before = config(fresh).read_bytes()
    request = fresh.wire.send("%vibe setup", allow_stdin=True)
    fresh.wire.client.get_stdin_msg(timeout=WAIT)
    fresh.wire.client.input("mistral")
    fresh.wire.client.get_stdin_msg(timeout=WAIT)
    fresh.wire.manager.interrupt_kernel()
    assert "Nothing was changed" in fresh.wire.cell(request).text
    assert config(fresh).read_bytes() == before


def test_an_answer_that_cannot_be_used_is_asked_for_again_and_never_repeated(fresh: Session) -> None:
    fresh.model.will_reply(*WELL)
    wrong = (
        "sk-oops-in-the-wrong-place",
        "other",
        "ftp://x",
        "",
        fresh.model.url.removeprefix("http://"),
        "sk-oops this",
    )
    talk = Asked(fresh, "%vibe setup", *wrong, fresh.model.url, "", "1")
    assert "none of the lines" in talk.text
    assert "not an http or https address" in talk.text
    assert "That is not a key" in talk.text
    assert "sk-oops" not in talk.text
    assert "1  scripted" in talk.text, "the models are the server's"
    assert settings(fresh)["active_model"] == f"local-{urlsplit(fresh.model.url).port}-scripted"


def test_what_does_not_work_is_asked_again_and_nothing_is_saved_before_it_does(fresh: Session) -> None:
    before = config(fresh).read_bytes()
    fresh.model.will_reply(status(401, {"error": {"message": "no such key"}}))
    request = fresh.wire.send("%vibe setup", allow_stdin=True)
    for answer in ("other", fresh.model.url, KEY, "office-1", "session"):
        fresh.wire.client.get_stdin_msg(timeout=WAIT)
        fresh.wire.client.input(answer)
    fresh.wire.client.get_stdin_msg(timeout=WAIT)
    assert config(fresh).read_bytes() == before
    fresh.wire.client.input("")
    cell = fresh.type_in(request, "demo")
    assert "rejected the API key" in cell.text
    assert "Demo model: scripted" in cell.text


def test_where_nobody_can_answer_it_says_where_to_write(session: Session) -> None:
    text = session.run("%vibe setup").text
    assert str(config(session)) in text


def test_the_tour_needs_no_further_answer(session: Session) -> None:
    assert "Demo model: scripted" in Asked(session, "%vibe setup", "demo").text
    session.run("%vibe model scripted")


def test_the_check_says_what_works_line_by_line(session: Session) -> None:
    session.model.will_reply(*GOOD)
    first, *lines = session.run("%vibe model check").text.splitlines()
    assert first.startswith("scripted at 127.0.0.1:")
    assert [line[2:].split("  ")[0].strip() for line in lines] == NAMES
    assert {line[0] for line in lines[:-1]} == {"✓"}
    assert session.model.requests[1].body["tools"][0]["function"]["name"] == "echo"


def test_the_check_of_a_model_that_only_talks_names_the_next_step(session: Session) -> None:
    session.model.will_reply(say("Hello there."), say("I would call echo."), GOOD[-1])
    text = session.run("%vibe model check scripted").text
    assert "✗ calls a tool" in text
    assert "Choose a model made for calling tools" in text


def test_the_check_ends_at_the_first_refusal(session: Session) -> None:
    session.model.will_reply(status(401, {"error": {"message": "no"}}))
    lines = session.run("%vibe model check").text.splitlines()
    assert lines[1].startswith("✗ answers")
    assert "requires an API key" in lines[1]
    assert len(lines) == 2
    assert len(session.model.requests) == 1


def test_an_interrupt_ends_the_check(session: Session) -> None:
    going_on = threading.Event()
    session.model.will_reply(hold(going_on))
    request = session.wire.send("%vibe model check", allow_stdin=False)
    session.model.wait_for_request()
    session.wire.manager.interrupt_kernel()
    assert "Interrupted." in session.wire.cell(request).text
    going_on.set()


def test_the_listing_says_host_price_window_and_what_a_model_can(session: Session) -> None:
    text = session.run("%vibe model").text
    assert "● scripted" in text
    (line,) = [line for line in text.splitlines() if "devstral-small" in line]
    for words in ("mistral at api.mistral.ai", "$0.1 in, $0.3 out", "256,000 tokens", "MISTRAL_API_KEY is not set"):
        assert words in line
