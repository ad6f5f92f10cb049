"""Requests that must have no effect: other names, pages, tokens, forms, paths; bodies and connections without end."""

import base64
import json
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import PATIENCE, TOKEN, Gateway, gateway_at
from vibe_jupyter.gateway.guard import MAX_JSON
from vibe_jupyter.mcp_server.connections import HEADER_WAIT
from vibe_jupyter.testing import ScriptedModel

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "default", "messages": [{"role": "user", "content": "x"}]})
BEARER = f"Bearer {TOKEN}"
BASIC = "Basic " + base64.b64encode(f"me:{TOKEN}".encode()).decode()

Changed = Mapping[str, str | None]

WITHOUT_TOKEN: list[Changed] = [
    {"authorization": None},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer null"},
    {"authorization": f"Bearer {TOKEN[:-1]}"},
    {"authorization": f"Bearer {TOKEN}0"},
    {"authorization": f"Bearer {TOKEN.upper()}"},
    {"authorization": f"Bearer  {TOKEN}"},
    {"authorization": TOKEN},
    {"authorization": BASIC},
    {"authorization": None, "x-api-key": TOKEN[:32]},
    {"authorization": None, "x-api-key": BEARER},
    {"authorization": None, "api-key": TOKEN},
    {"authorization": None, "cookie": f"token={TOKEN}"},
    {"x-api-key": "0" * 64},
    {"authorization": "Bearer wrong", "x-api-key": TOKEN},
]
FROM_ELSEWHERE: list[Changed] = [
    {"host": "evil.example"},
    {"host": "127.0.0.1.evil.example"},
    {"host": "127.0.0.1"},
    {"host": "localhost:1"},
    {"host": None},
    {"host": ""},
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://localhost"},
]
OTHER_FORMS: list[Changed] = [
    {"content-type": None},
    {"content-type": "text/plain"},
    {"content-type": "text/plain;application/json"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": "multipart/form-data; boundary=x"},
    {"content-type": "application/jsonp"},
]
PATHS = [
    f"{CHAT}?token={TOKEN}",
    "/health/../v1/models",
    "/health/v1/models",
    "//v1/models",
    "/v1/models/scripted",
    "/v1/%2e%2e/v1/models",
    "/docs",
    "/api-doc/openapi.json",
    "/v1/agent/approvals/appr_0",
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path) -> Iterator[Gateway]:
    with ScriptedModel() as model, gateway_at(tmp_path_factory.mktemp("abused"), model) as gateway:
        yield gateway
        assert model.requests == []


def ask(gateway: Gateway, changed: Changed, *, method: str = "POST", path: str = CHAT, body: str = BODY) -> int:
    """The status of the answer to a request that is right but for what was changed."""
    headers: dict[str, str | None] = {
        "host": f"127.0.0.1:{gateway.server.port}",
        "authorization": BEARER,
        "content-type": "application/json",
        "content-length": str(len(body)),
        **changed,
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
    with closing(_connected(gateway)) as connection:
        connection.sendall("\r\n".join([*lines, "", body]).encode())
        return int(connection.recv(64).split()[1])


def _connected(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.server.port), timeout=PATIENCE)


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("changed", WITHOUT_TOKEN)
def test_without_the_token_nothing_is_done(gateway: Gateway, changed: Changed) -> None:
    assert ask(gateway, changed) == 401


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("changed", FROM_ELSEWHERE)
def test_other_names_and_pages_are_refused(gateway: Gateway, changed: Changed) -> None:
    assert ask(gateway, changed) in (400, 403)


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("changed", OTHER_FORMS)
def test_only_json_is_taken(gateway: Gateway, changed: Changed) -> None:
    assert ask(gateway, changed) == 415


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_around_the_token(gateway: Gateway, path: str) -> None:
    for method in ("GET", "POST"):
        assert ask(gateway, {"authorization": None}, method=method, path=path) in (401, 404)


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE"])
def test_other_methods_have_no_effect_and_no_page_is_let_in_by_asking_first(gateway: Gateway, method: str) -> None:
    assert ask(gateway, {"authorization": None}, method=method) == 401
    found = gateway.client.request(method, CHAT, headers={"content-type": "application/json"})
    assert found.status_code == 405
    assert not [name for name in found.headers if name.startswith("access-control")]


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("length", [str(MAX_JSON + 1), "9" * 30, "-1", "1e3"])
def test_a_body_that_is_too_long_is_refused_before_it_comes(gateway: Gateway, length: str) -> None:
    assert ask(gateway, {"content-length": length}, body="") in (400, 413)


@pytest.mark.attack("gateway", always=True)
def test_a_body_without_a_length_is_cut_off_at_the_same_size(gateway: Gateway) -> None:
    piece = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    with closing(_connected(gateway)) as connection:
        connection.sendall(
            f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1:{gateway.server.port}\r\nauthorization: {BEARER}\r\n"
            "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )
        try:
            for _ in range(MAX_JSON // 65_536 + 2):
                connection.sendall(piece)
        except OSError:
            pass  # it was refused before all was sent
        assert b" 413 " in connection.recv(64)


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("body", ["", "[]", "null", "{", "1", '{"messages": 1}', '{"messages": []}'])
def test_bodies_that_mean_nothing_are_refused(gateway: Gateway, body: str) -> None:
    assert ask(gateway, {}, body=body) in (400, 422)


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/responses", {"input": [{"type": ["message"], "role": "user", "content": "hi"}]}),
        ("/v1/responses", {"input": [{"role": "user", "content": [{"type": {}, "text": "hi"}]}]}),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": [{"type": [], "text": "hi"}]}]}),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": {}}]}),
        ("/v1/responses", {"input": "hi", "tools": [{"type": "mcp", "server_label": {}}]}),
    ],
)
def test_a_part_whose_type_is_no_text_is_the_fault_of_the_request(gateway: Gateway, path: str, body: Any) -> None:
    assert ask(gateway, {}, path=path, body=json.dumps({"model": "default", **body})) == 422


@pytest.mark.attack("gateway", always=True)
def test_a_body_nested_without_end_is_refused(gateway: Gateway) -> None:
    assert ask(gateway, {}, body='{"messages": ' + "[" * 100_000) == 400


@pytest.mark.attack("gateway", always=True)
@pytest.mark.parametrize("field", [{"session_id": "../../etc"}, {"session_id": "a b"}, {"mcp_mode": "all"}])
def test_fields_of_the_gateway_hold_what_they_may(gateway: Gateway, field: dict[str, Any]) -> None:
    assert gateway.chat("x", **field).status_code == 422


@pytest.mark.attack("gateway", always=True)
def test_connections_that_say_nothing_are_ended_and_keep_nobody_out(gateway: Gateway) -> None:
    began = time.monotonic()
    silent = [_connected(gateway) for _ in range(40)]
    half = _connected(gateway)
    half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: ")
    assert gateway.client.get("/health").status_code == 200
    for connection in (*silent, half):
        with closing(connection):
            assert connection.recv(1) == b""
    assert time.monotonic() - began < HEADER_WAIT + PATIENCE


def test_a_browser_may_read_the_docs_with_the_token_as_password_and_nothing_else(gateway: Gateway) -> None:
    for path in ("/docs", "/api-doc/openapi.json"):
        assert ask(gateway, {"authorization": BASIC}, method="GET", path=path, body="") == 200
    assert ask(gateway, {"authorization": BASIC}, method="GET", path="/v1/models", body="") == 401
    assert ask(gateway, {"authorization": BASIC.replace("M", "N", 1)}, method="GET", path="/docs", body="") == 401


@pytest.mark.requirement("gateway.api.docs.swagger", "gateway.api.docs.openapi")
def test_the_docs_are_of_this_build_and_load_nothing_from_elsewhere(gateway: Gateway) -> None:
    page = gateway.client.get("/docs")
    document = gateway.client.get("/api-doc/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert {CHAT, "/v1/models/{model_id}"} <= document["paths"].keys()
    for path in document["paths"]:
        assert path in page.text
    assert "http" not in page.text.replace("/api-doc/openapi.json", "")
    assert "<script" not in page.text
