"""Several processes behind one address, and gateways of several machines behind a Redis, real ones: each answers for
all, and one that is killed takes nothing along."""

import errno
import os
import re
import socket
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
    Gateway,
    chat_body,
    chunks_of,
    gateway_at,
    read_events,
    settings_text,
    text_of,
    until,
)
from tests.gateway.redis_server import RedisServer, redis_server
from tests.gateway.test_approvals import ECHO, REQUIRED
from tests.gateway.worker_processes import START, Stream, Workers, serving
from vibe_jupyter.cli import main
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.server import GatewayServer
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ScriptedModel, answer, call, hold

pytestmark = pytest.mark.xdist_group("gateway workers")

_ALLOWED = """
[gateway]
allow = ["mcp__sample__add", "mcp__sample__wait"]
"""


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(strict=False) as model:
        yield model


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory, own_home: Path, model: ScriptedModel) -> Iterator[Workers]:
    with serving(tmp_path_factory.mktemp("workers"), settings_text(model) + _ALLOWED) as workers:
        yield workers


class Pair(NamedTuple):
    """Clients of two that answer for each other."""

    one: httpx.Client
    other: httpx.Client
    model: ScriptedModel


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, own_home: Path, redis: RedisServer, model: ScriptedModel
) -> Iterator[tuple[Gateway, Gateway]]:
    """Two gateways with nothing in common but a Redis and the token."""
    shared = f'{_ALLOWED}store = "{redis.url}"\n'
    with (
        gateway_at(tmp_path_factory.mktemp("one"), model, shared) as one,
        gateway_at(tmp_path_factory.mktemp("other"), model, shared) as other,
    ):
        yield one, other


@pytest.fixture(params=["two workers", "two machines"])
def pair(request: pytest.FixtureRequest, model: ScriptedModel) -> Iterator[Pair]:
    if request.param == "two workers":
        workers: Workers = request.getfixturevalue("workers")
        with workers.clients() as (one, other):
            yield Pair(one, other, model)
    else:
        machines: tuple[Gateway, Gateway] = request.getfixturevalue("machines")
        yield Pair(machines[0].client, machines[1].client, model)


def test_what_one_keeps_the_other_has(pair: Pair) -> None:
    one, other, model = pair
    made = one.post("/v1/files", files={"file": ("a.txt", b"here")}, data={"purpose": "user_data"}).json()
    assert other.get(f"/v1/files/{made['id']}/content").content == b"here"

    add = call("mcp__sample__add", a=2, b=40)
    model.will_reply(add, "It is 42.", "Still 42.")
    first = one.post("/v1/responses", json={"input": "add 2 and 40", "model": "default"}).json()
    asked = {"input": "and now?", "model": "default", "previous_response_id": first["id"]}
    other.post("/v1/responses", json=asked).raise_for_status()
    roles = [message["role"] for message in model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]

    model.will_reply(answer("Let me see. ", [add]), "It is 42.")
    one.post("/v1/chat/completions", json=chat_body("add", session_id="shared")).raise_for_status()
    assert len(other.get("/v1/sessions/shared").json()["rounds"]) == 1


def test_an_approval_is_answered_once_through_either(pair: Pair) -> None:
    one, other, model = pair
    model.will_reply(call(ECHO, text="hi"), "Said.")
    stream = Stream(one, agent_permission="ask")
    path = f"/v1/agent/approvals/{stream.event(REQUIRED)['approval_id']}"

    said = [other.post(path, json={"decision": "approve"}) for _ in range(2)]
    stream.end()

    assert [one.json()["status"] for one in said] == ["queued", "not_found"]
    assert text_of(chunks_of(read_events(stream.raw))) == "Said."


def test_without_its_redis_a_gateway_says_so_and_with_it_goes_on(
    machines: tuple[Gateway, Gateway], redis: RedisServer
) -> None:
    one, other = machines
    one.will("First.")
    one.chat("hello", session_id="away").raise_for_status()
    redis.stop()
    try:
        refused = [one.client.get("/v1/sessions/away"), one.chat("hello", session_id="away")]
        one.will("Nothing of it is kept.")
        passed = one.chat("hello", mcp_mode="off")
    finally:
        redis.start()
    assert [answer.status_code for answer in refused] == [503, 503]
    assert {answer.json()["error"]["type"] for answer in refused} == {"server_error"}
    assert passed.json()["choices"][0]["message"]["content"] == "Nothing of it is kept."
    assert other.client.get("/v1/sessions/away").json()["id"] == "away"


def test_gateways_that_share_a_redis_need_a_token_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[gateway]\nstore = "redis://127.0.0.1:1"\n', encoding="utf-8")
    variables = {"VIBE_HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match=f"needs {TOKEN_VARIABLE}"):
        GatewayServer(tmp_path, variables, port=0)
    with pytest.raises(ConfigError, match="cannot be used"):
        GatewayServer(tmp_path, {**variables, TOKEN_VARIABLE: TOKEN}, port=0)


def test_requests_of_all_workers_are_counted_together(workers: Workers) -> None:
    def count(client: httpx.Client) -> float:
        text = client.get("/metrics").text
        found = re.search(r'^http_requests_total\{method="GET",.*path="/v1/skills",status="200"\} (\S+)$', text, re.M)
        return 0.0 if found is None else float(found[1])

    with workers.clients() as (one, other):
        before = count(one)
        for client in (one, other):
            client.get("/v1/skills").raise_for_status()
        assert count(one) == count(other) == before + 2


def test_of_a_killed_worker_the_rest_goes_on(workers: Workers, model: ScriptedModel) -> None:
    victim, survivor = workers.all()
    mark = workers.home / "mark"
    go_on = Event()
    with workers.client(victim) as one, workers.client(survivor) as other:
        model.will_reply(hold(go_on, "I am still here."))
        alive = Stream(other)
        until(lambda: len(alive.raw) > 0)
        model.will_reply(call("mcp__sample__wait", period=60, mark=str(mark)))
        broken = Stream(one, session_id="killed")
        until(mark.exists)
        servers = victim.children(recursive=True)

        victim.kill()
        broken.end()
        go_on.set()
        alive.end()

        assert broken.broke is not None
        assert b"[DONE]" not in broken.raw
        assert alive.broke is None
        assert text_of(chunks_of(read_events(alive.raw))).startswith("I am still here.")
        psutil.wait_procs(servers, timeout=PATIENCE)
        assert not any(server.is_running() for server in servers)

        until(lambda: len(workers.all()) == 2)
        (new,) = (worker for worker in workers.all() if worker.pid != survivor.pid)
        model.will_reply("And I am new.")
        with workers.client(new) as third:
            found = third.post("/v1/chat/completions", json=chat_body("hello", session_id="killed")).json()
        assert found["choices"][0]["message"]["content"] == "And I am new."

    journal = max((workers.home / "logs/session/gateway").glob("*/journal.jsonl"), key=os.path.getmtime)
    contents = read_journal(journal)
    assert contents.dropped == ()
    assert contents.notes[0].title == "killed: go on"
    assert [event.type for event in contents.events][-1] == "tool_started"


@pytest.mark.parametrize("count", [1, 2])
def test_who_comes_while_the_last_answers_end_is_sent_away_at_once(
    tmp_path: Path, own_home: Path, model: ScriptedModel, count: int
) -> None:
    with serving(tmp_path, settings_text(model) + _ALLOWED, count=count) as workers:
        first = workers.all()[0] if count > 1 else workers.process
        with workers.client(first) as client:
            model.will_reply(hold(go_on := Event(), "I am still here.", " Done."))
            stream = Stream(client)
            until(lambda: b"here" in stream.raw)
            workers.process.terminate()
            until(lambda: _is_refused(httpx.URL(workers.url)))
            go_on.set()
            stream.end()
    assert text_of(chunks_of(read_events(stream.raw))) == "I am still here. Done."


def _is_refused(address: httpx.URL) -> bool:
    with socket.socket() as client:
        return client.connect_ex((address.host, address.port)) == errno.ECONNREFUSED


def test_a_number_of_workers_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIBE_HOME", str(tmp_path))
    assert main(["serve", "--port", "0", "--workers", "0"]) == 2
    assert "--workers is 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--port", "99999"], "--port is 99999; it is a number from 0 to 65535."),
        (["--accept", "fils"], "--accept names no MCP server: fils. Declared here: files."),
        (["--config", "nowhere"], "There is no folder nowhere."),
    ],
)
def test_an_option_that_names_nothing_is_refused_before_anybody_is_served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
) -> None:
    monkeypatch.setenv("VIBE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    server = '[[mcp_servers]]\nname = "files"\ntransport = "stdio"\ncommand = "true"\n'
    (tmp_path / "config.toml").write_text(server, encoding="utf-8")
    assert main(["serve", "--port", "0", *options]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert not told.out


def test_workers_end_with_the_process_that_started_them(workers: Workers) -> None:
    """The last one: nobody serves afterwards."""
    all_of_them = workers.process.children(recursive=True)
    assert len(all_of_them) >= 4  # each worker has its MCP server

    workers.process.kill()

    _, alive = psutil.wait_procs(all_of_them, timeout=START)
    assert not alive
