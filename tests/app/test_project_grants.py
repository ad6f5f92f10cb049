"""What is allowed in a project stays allowed, until it is taken back."""

import pytest

from tests.app.conftest import Session
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")
MAKE = "mkdir -p made"


def ask(session: Session) -> str:
    session.model.will_reply(call("bash", command=MAKE), say("Made."))
    return session.wire.send("%vibe make a folder")


def test_a_command_allowed_in_the_project_asks_no_more_until_it_is_revoked(session: Session) -> None:
    request = ask(session)
    view = session.view(request)
    view.command(type="approve", approval_id=view.card(), remember="project")
    session.wire.cell(request)
    assert (session.folder / "made").is_dir()

    session.run("%vibe reset")
    assert "Made." in session.html(session.wire.cell(ask(session)))

    listed = session.run("%vibe permissions").text
    assert MAKE in listed
    session.run("%vibe permissions revoke 1")
    assert MAKE not in session.run("%vibe permissions").text
    request = ask(session)
    view = session.view(request)
    view.command(type="reject", approval_id=view.card())
    session.wire.cell(request)
