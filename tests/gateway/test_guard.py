"""Who may speak to the gateway."""

import asyncio
import socket
from collections.abc import Mapping

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from tests.gateway.conftest import TOKEN, Gateway, chat_body
from vibe_jupyter.gateway.app import BelowPrefix, make_app
from vibe_jupyter.gateway.guard import Guard
from vibe_jupyter.gateway.server import GatewayServer

RIGHT: Mapping[str, str] = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"x-api-key": "1" * 64}, 401),
        ({**RIGHT, "x-api-key": "1" * 64}, 401),
        ({**RIGHT, "host": "evil.example"}, 403),
        ({**RIGHT, "origin": "http://evil.example"}, 403),
        ({**RIGHT, "origin": "null"}, 403),
        ({**RIGHT, "content-type": "text/plain"}, 415),
        ({**RIGHT, "content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_what_is_not_let_through_has_no_effect(gateway: Gateway, headers: Mapping[str, str], status: int) -> None:
    asked = len(gateway.model.requests)
    sent = {"authorization": "", "content-type": "application/json", **headers}
    if not sent["authorization"]:
        del sent["authorization"]
    request = gateway.client.build_request("POST", "/v1/chat/completions", json=chat_body("x"), headers=sent)
    if "authorization" not in sent:
        del request.headers["authorization"]

    assert gateway.client.send(request).status_code == status
    assert len(gateway.model.requests) == asked


@pytest.mark.requirement("gateway.api.auth.anthropic-headers")
def test_the_token_goes_into_either_header(gateway: Gateway) -> None:
    gateway.will("hi")
    request = gateway.client.build_request(
        "POST",
        "/v1/chat/completions",
        json=chat_body("x"),
        headers={"x-api-key": TOKEN, "anthropic-version": "2023-06-01"},
    )
    del request.headers["authorization"]
    assert gateway.client.send(request).status_code == 200
    assert gateway.client.get("/v1/models", headers=RIGHT).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [("GET", "/v1/nothing", 404, "not_found_error"), ("DELETE", "/v1/chat/completions", 405, "invalid_request_error")],
)
def test_what_there_is_no_route_for_gets_an_error_that_sdks_read(
    gateway: Gateway, method: str, path: str, status: int, kind: str
) -> None:
    found = gateway.client.request(method, path)

    assert found.status_code == status
    assert found.json()["error"]["type"] == kind
    assert f"{method} {path}" in found.json()["error"]["message"]


def test_an_ipv6_address_is_printed_as_clients_take_it_and_is_a_name_that_it_is_reached_under(gateway: Gateway) -> None:
    listening = socket.create_server(("127.0.0.1", 0))  # not every machine has the other
    server = GatewayServer(gateway.folder, gateway.variables, host="fd00::5", port=listening)
    assert server.url == f"http://[fd00::5]:{server.port}/v1"
    server.start()
    try:
        request = gateway.client.build_request("GET", f"http://127.0.0.1:{server.port}/v1/models")
        request.headers["host"] = httpx.URL(server.url).netloc.decode()
        assert gateway.client.send(request).status_code == 200
    finally:
        server.stop()


def test_what_nobody_foresaw_is_an_error_like_others_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise ZeroDivisionError("nobody foresaw this")

    app = Guard(fails, token=TOKEN, hosts={"here"}, origins=())

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.get("/v1/models", headers=RIGHT)

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert "nobody foresaw this" not in answer.text
    assert "nobody foresaw this" in caplog.text


@pytest.mark.parametrize(
    ("path", "status"), [("/services/vibe/v1/models", 200), ("/v1/models", 200), ("/services/vibes/v1/models", 404)]
)
def test_a_proxy_may_have_it_below_a_path(gateway: Gateway, path: str, status: int) -> None:
    guarded = make_app(gateway.server.parts, token=TOKEN, hosts={"hub.example"}, origins=())
    app = BelowPrefix(guarded, "/services/vibe")

    async def ask() -> int:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://hub.example") as client:
            assert (await client.get(path)).status_code == 401
            return (await client.get(path, headers=RIGHT)).status_code

    assert asyncio.run(ask()) == status
