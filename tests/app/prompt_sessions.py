"""What the tests of the system prompt share: its text in the next request, settings for a while, and trust."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.app.conftest import Session
from vibe_jupyter.testing import say


def system_prompt(session: Session, prompt: str = "hello") -> str:
    """The system prompt of the next request."""
    session.model.will_reply(say("Hello."))
    session.run(f"%vibe {prompt}")
    return session.model.requests[-1].messages[0]["content"]


def first_prompt(session: Session, prompt: str = "hello") -> str:
    """The system prompt of a new conversation."""
    session.run("%vibe reset")
    return system_prompt(session, prompt)


@contextmanager
def settings(session: Session, top: str = "", tables: str = "") -> Iterator[None]:
    """Have these lines in the user's file, before and behind the rest of it."""
    path = session.folder / "vibe" / "config.toml"
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{top}\n{before}\n{tables}", encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(before, encoding="utf-8")


@contextmanager
def file(path: Path, text: str) -> Iterator[None]:
    """Have a file for a while."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    try:
        yield
    finally:
        path.unlink()


def trusted_prompt(session: Session) -> str:
    """The system prompt of a new conversation, at whose beginning the user trusts the folder."""
    session.run("%vibe reset")
    session.model.will_reply(say("Hello."))
    request = session.wire.send("%vibe hello")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card())
    assert not session.wire.cell(request).error
    return session.model.requests[-1].messages[0]["content"]
