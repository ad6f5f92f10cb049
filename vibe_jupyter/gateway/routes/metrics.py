"""``GET /metrics``."""

from typing import Final

from fastapi import APIRouter, Response

from vibe_jupyter.gateway.metrics import METRICS
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused

FORMAT: Final = "text/plain; version=0.0.4; charset=utf-8"  # Prometheus text format


def metrics_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for Prometheus metrics."""
    router = APIRouter(tags=["about"])

    @router.get(METRICS, response_class=Response, responses={200: {"content": {FORMAT: {}}}})
    async def metrics() -> Response:  # pyright: ignore[reportUnusedFunction]
        """Return counts, durations and sizes of requests in Prometheus's text format."""
        if parts.metrics is None or not parts.metrics.is_ready:
            raise Refused(503, "There are no metrics." if parts.metrics is None else "The gateway is starting.")
        return Response(parts.metrics.text(), media_type=FORMAT)

    return router
