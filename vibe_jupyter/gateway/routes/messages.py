"""``POST /v1/messages``."""

from typing import Any, Final

from fastapi import APIRouter, Request

from vibe_jupyter.gateway.chat_request import ChatRequest, parse_body, read_fields
from vibe_jupyter.gateway.exchange import GatewayExchange
from vibe_jupyter.gateway.messages_request import MessagesFields, chat_body
from vibe_jupyter.gateway.messages_writer import MessagesWriter
from vibe_jupyter.gateway.parts import GatewayParts

_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": MessagesFields.model_json_schema()}}}
}


def messages_routes(parts: GatewayParts) -> APIRouter:
    """Anthropic's Messages."""
    router = APIRouter(tags=["messages"])

    @router.post("/v1/messages", openapi_extra=_BODY)
    async def messages(request: Request) -> GatewayExchange:  # pyright: ignore[reportUnusedFunction]
        """Ask a model in the way of Anthropic's Messages, with the MCP tools of this gateway."""
        body = parse_body(await request.body())
        fields = read_fields(MessagesFields, body)
        asked = ChatRequest.of(chat_body(body, fields))
        return GatewayExchange(parts, asked, MessagesWriter(fields.model, parts.writer_terms(asked)))

    return router
