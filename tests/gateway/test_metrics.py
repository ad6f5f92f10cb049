"""What the gateway counts."""

import asyncio
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message, Receive, Scope, Send

from tests.gateway.conftest import PATIENCE, TOKEN, Gateway, chat_body, until
from tests.tiers import further
from vibe_jupyter.gateway.app import make_app
from vibe_jupyter.gateway.metrics import Counted, HttpMetrics
from vibe_jupyter.testing import hold

CHAT = {"method": "POST", "path": "/v1/chat/completions", "model": "scripted"}


Counts = Counter[tuple[str, str, str, str]]
"""By method, path, model and status."""


def value(gateway: Gateway, sample: str, labels: Mapping[str, str]) -> float:
    """That of one sample; 0 where there is none."""
    families = text_string_to_metric_families(gateway.client.get("/metrics").text)
    return sum(
        one.value for family in families for one in family.samples if one.name == sample and one.labels == labels
    )


def counted(gateway: Gateway) -> Counts:
    """All requests that were counted."""
    families = text_string_to_metric_families(gateway.client.get("/metrics").text)
    return Counter(
        {
            (one.labels["method"], one.labels["path"], one.labels["model"], one.labels["status"]): int(one.value)
            for family in families
            for one in family.samples
            if one.name == "http_requests_total"
        }
    )


@pytest.mark.requirement("gateway.api.metrics.format", "gateway.api.metrics.requests")
def test_requests_and_their_durations_are_counted(gateway: Gateway) -> None:
    durations = "http_request_duration_seconds_count"
    before = [value(gateway, name, {**CHAT, "status": "200"}) for name in ("http_requests_total", durations)]
    gateway.will("one", "two")
    gateway.chat()
    gateway.chat()

    found = gateway.client.get("/metrics")

    assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE http_requests_total counter" in found.text
    assert "# TYPE http_request_duration_seconds histogram" in found.text
    after = [value(gateway, name, {**CHAT, "status": "200"}) for name in ("http_requests_total", durations)]
    assert after == [count + 2 for count in before]


def test_who_has_the_whole_answer_finds_it_counted() -> None:
    metrics, is_counted = HttpMetrics(), list[bool]()

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        is_counted.append(b'status="204"} 1.0' in metrics.text())

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    scope = {"type": "http", "method": "GET", "path": "/v1/skills", "headers": []}
    asyncio.run(Counted(answer, metrics, [], str)(scope, receive, send))
    assert is_counted == [False, False, True]


@pytest.mark.requirement("gateway.api.metrics.in-flight")
def test_requests_under_way_and_sizes_of_bodies_are_counted(gateway: Gateway) -> None:
    name, size = "http_requests_in_flight", "http_request_body_bytes_sum"
    before, go_on = value(gateway, size, CHAT), threading.Event()
    gateway.will(hold(go_on))
    body = b'{"messages": [{"role": "user", "content": "x"}], "stream": true}'
    with gateway.client.stream(
        "POST", "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    ) as stream:
        until(lambda: value(gateway, name, CHAT) == 1)
        go_on.set()
        stream.read()
    until(lambda: value(gateway, name, CHAT) == 0)
    gateway.client.get("/v1/models")

    text = gateway.client.get("/metrics").text
    assert "# TYPE http_requests_in_flight gauge" in text
    assert "# TYPE http_request_body_bytes histogram" in text
    assert value(gateway, size, CHAT) == before + len(body)
    unsized = {"method": "GET", "path": "/v1/models", "model": "none"}
    assert value(gateway, "http_request_body_bytes_count", unsized) == 0


@pytest.mark.requirement("gateway.api.metrics.in-flight")
@pytest.mark.parametrize("mode", ["execute", "off"])
@pytest.mark.parametrize("streams", [True, further(False)])
def test_a_client_that_leaves_is_under_way_no_more(gateway: Gateway, mode: str, streams: bool) -> None:
    name, go_on = "http_requests_in_flight", threading.Event()
    gateway.will(hold(go_on))
    body = {**chat_body("x"), "model": "scripted", "stream": streams, "mcp_mode": mode}
    patience = PATIENCE if streams else 0.5  # seconds: an answer that isn't streamed begins with its end
    headers = gateway.client.headers
    with (
        suppress(httpx.ReadTimeout),
        httpx.Client(base_url=gateway.client.base_url, headers=headers, timeout=patience) as client,
        client.stream("POST", "/v1/chat/completions", json=body),
    ):
        until(lambda: value(gateway, name, CHAT) == 1)
    until(lambda: value(gateway, name, CHAT) == 0)
    go_on.set()


@pytest.mark.requirement("gateway.api.metrics.path-label", "gateway.api.metrics.model-label")
def test_labels_are_patterns_and_known_models(gateway: Gateway) -> None:
    before, json_type = counted(gateway), {"content-type": "application/json"}
    gateway.will("one", "two", "three")
    gateway.chat()
    gateway.client.post("/v1/chat/completions", json={"messages": chat_body("x")["messages"]})
    gateway.client.post("/v1/chat/completions", json={**chat_body("x"), "model": "other-name"})
    gateway.client.post("/v1/chat/completions", content=b"{no json", headers=json_type)
    gateway.client.post("/v1/chat/completions", json={**chat_body("x"), "model": "made-up"})
    gateway.client.post("/v1/agent/approvals/appr_1", json={"decision": "approve"})
    gateway.client.get("/v1/chat/completions")
    gateway.client.get("/v1/models")
    gateway.client.get("/v1/models/scripted")
    gateway.client.get("/v1/models/org/unknown")
    gateway.client.get("/no/such/path")
    gateway.client.request("INVENTED", "/v1/models")

    chat = "/v1/chat/completions"
    assert counted(gateway) - before == {
        ("POST", chat, "scripted", "200"): 3,
        ("POST", chat, "unknown", "400"): 1,
        ("POST", chat, "unknown", "404"): 1,
        ("GET", chat, "none", "405"): 1,
        ("POST", "/v1/agent/approvals/{approval_id}", "none", "404"): 1,
        ("GET", "/v1/models", "none", "200"): 1,
        ("GET", "/v1/models/{model_id}", "none", "200"): 1,
        ("GET", "/v1/models/{model_id}", "none", "404"): 1,
        ("GET", "<unmatched>", "none", "404"): 1,
        ("other", "/v1/models", "none", "405"): 1,
    }


@pytest.mark.requirement("gateway.api.metrics.excluded")
def test_what_asks_for_nothing_is_not_counted(gateway: Gateway) -> None:
    before = counted(gateway)
    for path in ("/", "/health", "/metrics", "/docs", "/api-doc/openapi.json"):
        assert gateway.client.get(path).status_code == 200
    gateway.client.options("/v1/models", headers={"access-control-request-method": "POST"})

    assert counted(gateway) == before


@pytest.mark.requirement("gateway.api.metrics.disabled")
def test_metrics_are_unavailable_before_the_start(gateway: Gateway) -> None:
    parts = gateway.server.parts
    starting = replace(parts, metrics=HttpMetrics())
    app = make_app(starting, token=TOKEN, hosts={"here"}, origins=())

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            return await client.get("/metrics", headers={"x-api-key": TOKEN})

    assert asyncio.run(ask()).status_code == 503
