"""What a card shows and what runs is exact; what is left of it, kept and sent is redacted. The whole loop."""

import html
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.testing import call, say

pytestmark = [pytest.mark.xdist_group("app"), pytest.mark.requirement("permission.data.no-secrets")]

SECRET = "Rb5Tn8vYc3Wd6Fj1"
STANDS = "[redacted: password, 16 characters]"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("cards")) as session:
        yield session


@pytest.fixture
def fresh(shared: Session) -> Session:
    shared.run("%vibe reset")
    shared.model.requests.clear()
    shared.wire.forget()
    return shared


def sent(session: Session) -> str:
    return json.dumps([request.body for request in session.model.requests], ensure_ascii=False)


def journals(session: Session) -> str:
    """What is kept, but for what files held before a change: undo restores those to the letter."""
    kept = (session.folder / "vibe" / "logs").rglob("*")
    files = [path for path in kept if path.is_file() and "undo" not in path.parts]
    return "\n".join(path.read_text(encoding="utf-8") for path in files)


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_a_card_shows_what_would_run_and_only_what_stays_of_it_is_redacted(fresh: Session, answer: str) -> None:
    code = f'password = "{SECRET}"\nprint(len(password), password[::-1])'
    fresh.model.will_reply(call("run_code", code=code, keep=True), say("Done."))
    request = fresh.wire.send("%vibe connect")
    view = fresh.view(request)
    approval = view.card()
    view.wait_for(SECRET)
    view.command(type=answer, approval_id=approval)
    cell = fresh.wire.cell(request)
    assert SECRET not in fresh.html(cell)
    assert STANDS in fresh.html(cell)
    result = fresh.model.requests[1].tool_results[0]
    assert (f"16 {SECRET[::-1]}" in result) is (answer == "approve")
    assert SECRET not in sent(fresh) + journals(fresh)
    assert STANDS in sent(fresh)
    assert STANDS in journals(fresh)


@pytest.mark.parametrize("tool", ["write_file", "search_replace", "run_code", "bash"])
def test_a_call_that_would_write_a_placeholder_is_refused_and_nothing_is_lost(fresh: Session, tool: str) -> None:
    path = fresh.folder / "settings.ini"
    before = f"[db]\npassword = {SECRET}\nport = 1\n"
    path.write_text(before, encoding="utf-8")
    after = f"[db]\npassword = {STANDS}\nport = 2\n"
    arguments = {
        "write_file": {"path": "settings.ini", "content": after, "overwrite": True},
        "search_replace": {
            "file_path": "settings.ini",
            "content": f"<<<<<<< SEARCH\nport = 1\n=======\npassword = {STANDS}\n>>>>>>> REPLACE",
        },
        "run_code": {"code": f"open('settings.ini', 'w').write({after!r})"},
        "bash": {"command": f"printf %s '{after}' > settings.ini"},
    }[tool]
    fresh.model.will_reply(call("read_file", path="settings.ini"), call(tool, **arguments), say("Done."))
    fresh.run(f"%vibe --yes=read_file,{tool} set the port to 2")
    assert path.read_text(encoding="utf-8") == before
    assert STANDS in fresh.model.requests[1].tool_results[0]
    assert "That stands for a secret which is not shown to you" in fresh.model.requests[2].tool_results[-1]


def test_a_line_beside_the_secret_is_changed_and_the_secret_stays(fresh: Session) -> None:
    path = fresh.folder / "beside.ini"
    path.write_text(f"[db]\npassword = {SECRET}\nport = 1\n", encoding="utf-8")
    edit = "<<<<<<< SEARCH\nport = 1\n=======\nport = 2\n>>>>>>> REPLACE"
    fresh.model.will_reply(
        call("read_file", path="beside.ini"),
        call("search_replace", file_path="beside.ini", content=edit),
        say("Done."),
    )
    fresh.run("%vibe --yes=read_file,search_replace set the port to 2")
    assert path.read_text(encoding="utf-8") == f"[db]\npassword = {SECRET}\nport = 2\n"
    assert SECRET not in sent(fresh)


def test_exceptions_are_yours_alone_and_the_rules_are_listed(fresh: Session) -> None:
    config = fresh.folder / "vibe" / "config.toml"
    mine = config.read_text(encoding="utf-8")
    own = fresh.folder / ".vibe"
    own.mkdir()
    try:
        theirs = '[privacy]\nallow = ["*"]\n[tools.bash]\npermission = "always"\n'
        (own / "config.toml").write_text(theirs, encoding="utf-8")
        request = fresh.wire.send("%vibe trust")
        view = fresh.view(request)
        view.command(type="approve", approval_id=view.card())
        assert not fresh.wire.cell(request).error
        config.write_text(f'{mine}\n[privacy]\nallow = ["demo_password"]\n', encoding="utf-8")
        fresh.model.will_reply(say("Hello."))
        fresh.run(f"%vibe connect with password={SECRET} or demo_password=Qx7Gh2kQw9Lm4Pz8")
        assert f"password={STANDS} or demo_password=Qx7Gh2kQw9Lm4Pz8" in fresh.model.requests[0].last_user_text
        listed = fresh.run("%vibe config").text
        assert 'tools.bash.permission = "always"' in listed  # it is trusted, and counts
        assert "exceptions: demo_password\n" in listed
        for rule in ("by name: values", "by shape: addresses", "by value: the secrets", "by your own rules: none"):
            assert rule in listed
        assert "password (" in listed.partition("caught so far: ")[2]
        assert SECRET not in listed
    finally:
        config.write_text(mine, encoding="utf-8")
        fresh.run("%vibe trust forget")
        (own / "config.toml").unlink()
        own.rmdir()


def test_a_secret_in_your_prompt_is_said_with_the_exception_that_sends_it(fresh: Session) -> None:
    fresh.model.will_reply(say("Hello."), say("Hello again."))
    shown = fresh.html(cell := fresh.wire.cell(fresh.wire.send(f"%vibe use password={SECRET}")))
    assert not cell.error
    assert f"the model got {STANDS} in its place" in shown
    assert '[privacy] allow = ["password"]' in html.unescape(shown)
    assert SECRET not in sent(fresh) + journals(fresh) + shown
    assert "in its place" not in fresh.html(fresh.run("%vibe what is a password?"))


@pytest.mark.skipif(sys.platform == "win32", reason="The mode says nothing there.")
def test_keys_that_others_can_read_are_warned_of_once(fresh: Session) -> None:
    path: Path = fresh.folder / "vibe" / ".env"
    path.write_text("OTHER_API_KEY='Rb5Tn8vYc3Wd6Fj2'\n", encoding="utf-8")
    path.chmod(0o644)
    fresh.model.will_reply(say("Hello."), say("Hello again."))
    try:
        first, second = (fresh.html(fresh.run("%vibe hello")) for _ in range(2))
    finally:
        os.unlink(path)
    assert f"chmod 600 {path}" in first
    assert "chmod" not in second


def test_no_warning_of_keys_that_are_yours_alone(fresh: Session) -> None:
    path: Path = fresh.folder / "vibe" / ".env"
    path.touch(mode=0o600)
    fresh.model.will_reply(say("Hello."))
    try:
        assert "chmod" not in fresh.html(fresh.run("%vibe hello"))
    finally:
        path.unlink()
