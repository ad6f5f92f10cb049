"""Who may speak to the gateway."""

from collections.abc import Mapping

import pytest

from tests.gateway.conftest import TOKEN, Gateway, chat_body

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
