"""When a notebook is served no more: what stays, and what is gone."""

import json
import os
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import WAIT
from tests.mcp_server.conftest import Served, patience, serve
from tests.mcp_server.outsider import Outsider, over_stdio, text


def notes(session: Session) -> list[dict[str, str]]:
    files = (session.folder / "runtime").glob("vibe-*.json")
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def answers(served: Served) -> bool:
    place = urlsplit(served.url)
    with socket.socket() as client:
        return client.connect_ex((place.hostname or "", place.port or 0)) == 0


def until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("how", ["cell", "button", "reset", "unload"])
def test_the_end_closes_the_port_and_leaves_a_plain_form(
    session: Session, connect: Callable[..., Outsider], how: str
) -> None:
    served = serve(session)
    connect(served).call("inspect", names=["nothing_like_it*"])
    assert [note["url"] for note in notes(session)] == [served.url]
    match how:
        case "cell":
            assert (
                served.run("%vibe mcp serve stop").text == "External clients can no longer use this notebook's tools.\n"
            )
        case "button":
            served.view.command(type="interrupt")
        case "reset":
            served.run("%vibe reset")
        case _:
            served.run("%reload_ext vibe_jupyter")
    kept = served.kept()
    assert "Listed <code>nothing_like_it</code>" in kept or "nothing_like_it" in kept
    assert "<b>Stopped</b>" in kept
    assert "<button" not in kept
    assert served.run("%vibe mcp serve stop").text == "This notebook is not served.\n"
    assert notes(session) == []
    until(lambda: not answers(served))


def test_a_call_that_waits_is_answered_when_it_ends(served: Served, outsider: Outsider) -> None:
    call = outsider.start("run_code", code="1")
    card = served.view.card()
    served.view.command(type="interrupt")
    served.kept()
    served.view.command(type="approve", approval_id=card)
    result = call.result(WAIT)
    assert result.is_error
    assert text(result).startswith("Not run")


def test_serving_again_while_served_says_the_same(served: Served) -> None:
    again = served.run("%vibe mcp serve --url").text
    assert served.url in again
    assert served.token in again


def test_without_being_asked_the_token_is_shown_nowhere(session: Session) -> None:
    session.wire.run("%vibe reset")
    said = session.wire.run("%vibe mcp serve").text
    token = notes(session)[0]["token"]
    assert len(token) == 64
    assert token not in said
    assert token not in json.dumps(session.wire.seen, default=str)
    assert '"mcp"' in said
    session.wire.run("%vibe reset")


def test_where_no_page_draws_the_view_what_asks_is_denied(session: Session, connect: Callable[..., Outsider]) -> None:
    session.wire.run("%vibe reset")
    with patience(session, "vibe_jupyter.app.serving_session", ALIVE_GRACE=0.2):
        cell = session.wire.run("%vibe mcp serve --url")
        outsider = connect(Served(session, "", None, cell.text))  # type: ignore[arg-type]
        result = outsider.call("run_code", code="1")
        assert result.is_error
        assert "nobody is here to approve it" in text(result)
        assert text(result).endswith('[tools.run_code] permission = "always", and then serve the notebook again.'), (
            "an external client cannot pass --yes"
        )
        assert not outsider.call("inspect").is_error
    session.wire.run("%vibe reset")


def test_the_printed_entry_leads_a_client_of_another_environment_to_this_notebook(session: Session) -> None:
    session.wire.run("%vibe reset")
    said = session.wire.run("%vibe mcp serve").text
    entry = json.loads(said[said.index("{") :])["mcpServers"]["vibe-jupyter"]
    assert entry["env"] == {"JUPYTER_RUNTIME_DIR": str(session.folder / "runtime")}
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "XDG"))}
    client = Outsider(over_stdio(entry["command"], *entry["args"], env={**bare, **entry["env"]}))
    try:
        assert not client.call("inspect").is_error
    finally:
        client.close()
    session.wire.run("%vibe reset")


def test_an_unattended_notebook_is_not_served(session: Session) -> None:
    cell = session.run("%vibe mcp serve")
    assert "No one can allow a call here" in cell.text
    assert notes(session) == []


def test_a_misspelt_form_is_explained(session: Session) -> None:
    assert "There is no %vibe mcp serve strop." in session.wire.run("%vibe mcp serve strop").text


def test_the_end_of_the_kernel_leaves_nothing_to_be_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_session(INSTALLED, tmp_path_factory.mktemp("ends")) as session:
        served = serve(session)
        assert len(notes(session)) == 1
        session.wire.client.shutdown()
        session.wire.manager.provisioner.process.wait(WAIT)  # type: ignore[union-attr]
        assert notes(session) == []
        assert not answers(served)
