"""Prometheus metrics of the requests that pass the guard."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vibe_jupyter.gateway.guard import read_again
from vibe_jupyter.llm import json_text

METRICS: Final = "/metrics"
# Environment variable by which prometheus_client finds the counts of all workers
COUNTS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
# Paths whose requests aren't counted
UNCOUNTED: Final = frozenset({"/", "/health", METRICS, "/docs", "/api-doc/openapi.json"})
# Paths whose requests name a model.
ASKS_MODEL: Final = frozenset(
    {"/v1/chat/completions", "/v1/responses", "/v1/messages"},
)
UNMATCHED: Final = "<unmatched>"
UNKNOWN: Final = "unknown"
NONE: Final = "none"
# Other methods share one label. A client can invent any number of them, and each would become a time series.
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER_METHOD: Final = "other"
LEFT: Final = 499  # status of a request whose client disconnected before the response began
# Bucket bounds of the histogram of durations
SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# Bucket bounds of the histogram of body sizes
BYTES: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)

_WHERE: Final = ("method", "path", "model")

ModelOf = Callable[[str], str]  # returns the ID of the model that a request names, or ""


class HttpMetrics:
    """Counters and histograms of HTTP requests."""

    def __init__(self) -> None:
        self.is_ready = False  # True once the gateway has started
        self._all = CollectorRegistry()
        labels = (*_WHERE, "status")
        self._requests = Counter("http_requests", "Completed requests.", labels, registry=self._all)
        self._seconds = Histogram(
            "http_request_duration_seconds", "How long they took.", labels, registry=self._all, buckets=SECONDS
        )
        self._in_flight = Gauge(
            "http_requests_in_flight", "Requests under way.", _WHERE, registry=self._all, multiprocess_mode="livesum"
        )
        self._bytes = Histogram(
            "http_request_body_bytes", "Sizes of bodies.", _WHERE, registry=self._all, buckets=BYTES
        )

    def text(self) -> bytes:
        """Return the metrics of all workers in Prometheus text format."""
        counts = self._all
        if os.environ.get(COUNTS_FOLDER):
            counts = CollectorRegistry()
            multiprocess.MultiProcessCollector(counts)
        return generate_latest(counts)

    def begin(self, where: Sequence[str], size: int | None) -> Callable[[int], None]:
        """Count the start of a request. Returns a function that counts its end; call it with the status."""
        began = time.monotonic()
        self._in_flight.labels(*where).inc()
        if size is not None:
            self._bytes.labels(*where).observe(size)

        def end(status: int) -> None:
            self._in_flight.labels(*where).dec()
            self._requests.labels(*where, status).inc()
            self._seconds.labels(*where, status).observe(time.monotonic() - began)

        return end


class Counted:
    """ASGI middleware that counts requests."""

    def __init__(self, inner: ASGIApp, metrics: HttpMetrics, routes: Sequence[BaseRoute], model_of: ModelOf) -> None:
        """
        Args:
            inner: the wrapped application.
            metrics: receives the counts.
            routes: routes whose patterns become the values of the path label.
            model_of: returns the ID of the model that a request names.
        """
        self._inner = inner
        self._metrics = metrics
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._paths = frozenset(route.path for route in self._routes)
        self._model_of = model_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNCOUNTED or _is_preflight(scope):
            await self._inner(scope, receive, send)
            return
        path, model = self._pattern(scope), NONE
        if path in ASKS_MODEL and scope["method"] == "POST":
            body = (await receive()).get("body", b"")  # complete, since the guard has read it
            receive = read_again(body, receive)
            model = self._model(body)
        method = scope["method"] if scope["method"] in METHODS else OTHER_METHOD
        end = self._metrics.begin((method, path, model), _known_size(scope))
        status, is_over = LEFT, False

        async def count_and_send(message: Message) -> None:
            nonlocal status, is_over
            if message["type"] == "http.response.start":
                status = message["status"]
            elif not message.get("more_body") and not is_over:
                is_over = True
                end(status)  # before the last byte, so that a client with the complete response sees it counted
            await send(message)

        try:
            await self._inner(scope, receive, count_and_send)
        finally:
            if not is_over:
                end(status)

    def _pattern(self, scope: Scope) -> str:
        if scope["path"] in self._paths:
            return scope["path"]
        return next((one.path_format for one in self._routes if one.matches(scope)[0] is not Match.NONE), UNMATCHED)

    def _model(self, body: bytes) -> str:
        try:
            named = json_text.parse_json_object(body.decode("utf-8")).get("model", "")
        except ValueError:
            return UNKNOWN
        return (self._model_of(named) if isinstance(named, str) else "") or UNKNOWN


def _is_preflight(scope: Scope) -> bool:
    names = {name.lower() for name, _ in scope["headers"]}
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in names


def _known_size(scope: Scope) -> int | None:
    length = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), None)
    return None if length is None else int(length)
