"""The least that a relay of Chat Completions does: httpx behind uvicorn. ``gateway_relay.py PORT UPSTREAM``."""

import sys
from collections.abc import AsyncIterator

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

CLIENT = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))


async def relay(request: Request) -> StreamingResponse:
    """Pass a request on, and the pieces of its answer back."""
    body = await request.body()
    asked = CLIENT.build_request("POST", f"{sys.argv[2]}/chat/completions", content=body)
    answer = await CLIENT.send(asked, stream=True)

    async def pieces() -> AsyncIterator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
        finally:
            await answer.aclose()

    return StreamingResponse(pieces(), media_type="text/event-stream")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/v1/chat/completions", relay, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
