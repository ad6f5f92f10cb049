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
    """Create the router for Anthropic's Messages API."""
    router = APIRouter(tags=["messages"])

    @router.post("/v1/messages", openapi_extra=_BODY)
    async def messages(request: Request) -> GatewayExchange:  # pyright: ignore[reportUnusedFunction]
        """Create a message with Anthropic's Messages API, with the gateway's MCP tools."""
        body = parse_body(await request.body())
        fields = read_fields(MessagesFields, body)
        fields.check()
        asked = ChatRequest.of(chat_body(body, fields), left_out=fields.left_out())
        return GatewayExchange(
            parts, asked, MessagesWriter(fields.model, parts.writer_terms(asked), fields.tool_names())
        )

    return router
