"""The gateway as a service of a real JupyterHub, behind the Hub's proxy, as docs/gateway.md has it."""

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import NamedTuple

import httpx
import psutil
import pytest

from tests.gateway.conftest import (
    PATIENCE,
    TOKEN,
    TOKEN_VARIABLE,
    chat_body,
    chunks_of,
    model_settings,
    read_events,
    text_of,
    until,
)
from tests.gateway.hub import HUB_TOKEN, START, Hub, free_port, jupyterhub
from tests.gateway.worker_processes import Stream
from vibe_jupyter.testing import ScriptedModel, hold

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("JupyterHub"), pytest.mark.timeout(900)]

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"
_HERE = """
service = c.JupyterHub.services[0]
service["url"] = "http://127.0.0.1:{port}"
service["command"] = [*service["command"], "--port", "{port}"]
service["environment"]["VIBE_HOME"] = "{home}"
service["environment"]["VIBE_GATEWAY__HOSTS"] = '["127.0.0.1:{proxy}"]'
service["environment"]["VIBE_GATEWAY__PREFIX"] = "{base}" + service["environment"]["VIBE_GATEWAY__PREFIX"]
"""
"""What differs on this machine from the page."""


class Served(NamedTuple):
    """The gateway behind a Hub."""

    hub: Hub
    client: httpx.Client
    """Of the gateway's address there."""
    model: ScriptedModel


@pytest.fixture(scope="module", params=["", "/jupyter"], ids=["hub", "hub below a path"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_home: Path
) -> Iterator[Served]:
    block = re.search(r"```python\n(c\.JupyterHub\.services = .*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert block is not None
    folder, port, proxy = tmp_path_factory.mktemp("hub"), free_port(), free_port()
    home = folder / "home"
    home.mkdir()
    services = block[1] + _HERE.format(port=port, home=home, proxy=proxy, base=request.param)
    with pytest.MonkeyPatch.context() as patch, ScriptedModel(strict=False) as model:
        patch.setenv(TOKEN_VARIABLE, TOKEN)
        (home / "config.toml").write_text(model_settings(model.url), encoding="utf-8")
        with (
            jupyterhub(folder, services, port=proxy, base=request.param) as hub,
            httpx.Client(base_url=f"{hub.url}/services/vibe", timeout=PATIENCE) as client,
        ):
            until(lambda: client.get("/health").status_code == 200, within=START)
            yield Served(hub, client, model)
        with pytest.raises(httpx.ConnectError):  # it has ended with the Hub
            httpx.get(f"http://127.0.0.1:{port}/health")


def test_whoever_has_the_token_reaches_it_through_the_proxy_and_the_login_does_not_count(served: Served) -> None:
    login = served.client.get(f"{served.hub.url}/hub/login")
    form = {"username": "mara", "password": "any", "_xsrf": login.cookies["_xsrf"]}
    assert served.client.post(f"{served.hub.url}/hub/login", data=form).status_code == 302

    assert served.client.get("/health").json() == {"status": "ok"}
    asked = len(served.model.requests)
    for refused in ({}, {"authorization": f"token {HUB_TOKEN}"}, {"authorization": f"Bearer {HUB_TOKEN}"}):
        found = served.client.post("/v1/chat/completions", json=chat_body("hello"), headers=refused)
        assert found.status_code == 401
    assert len(served.model.requests) == asked

    served.model.will_reply("It is up.")
    found = served.client.post("/v1/chat/completions", json=chat_body("hello"), headers={"x-api-key": TOKEN})
    assert found.json()["choices"][0]["message"]["content"] == "It is up."


def test_streams_pass_the_proxy_piece_by_piece(served: Served) -> None:
    go_on = Event()
    served.model.will_reply(hold(go_on, "Here it is."))
    served.client.headers["x-api-key"] = TOKEN
    stream = Stream(served.client)
    until(lambda: b'"role"' in stream.raw)
    assert not stream.is_over
    go_on.set()
    stream.end()
    assert text_of(chunks_of(read_events(stream.raw))).startswith("Here it is.")


def test_the_hub_knows_it_as_its_service(served: Served) -> None:
    said = served.hub.api("/services/vibe").json()
    assert (said["name"], said["prefix"]) == ("vibe", f"{httpx.URL(served.hub.url).path.rstrip('/')}/services/vibe/")
    assert psutil.pid_exists(said["pid"])
