"""``POST /v1/chat/completions``."""

from typing import Any, Final

from fastapi import APIRouter, Request

from vibe_jupyter.gateway.chat_request import ChatFields, ChatRequest
from vibe_jupyter.gateway.chat_writer import ChatWriter
from vibe_jupyter.gateway.exchange import GatewayExchange
from vibe_jupyter.gateway.parts import GatewayParts

_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ChatFields.model_json_schema()}}}
}


def chat_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for Chat Completions."""
    router = APIRouter(tags=["chat"])

    @router.post("/v1/chat/completions", openapi_extra=_BODY)
    async def chat_completions(request: Request) -> GatewayExchange:  # pyright: ignore[reportUnusedFunction]
        """Create a chat completion, with the gateway's MCP tools. Other fields are forwarded to the model server."""
        asked = ChatRequest.parse(await request.body())
        return GatewayExchange(parts, asked, ChatWriter(parts.writer_terms(asked)))

    return router
