"""``POST /v1/responses``."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import JsonValue

from vibe_jupyter.gateway.chat_request import ChatRequest, parse_body, read_fields
from vibe_jupyter.gateway.exchange import GatewayExchange
from vibe_jupyter.gateway.kept_responses import KeptResponses
from vibe_jupyter.gateway.linked_files import LinkedFiles
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.responses_items import new_id
from vibe_jupyter.gateway.responses_request import ResponsesFields, chat_body, repeated_fields
from vibe_jupyter.gateway.responses_writer import ResponsesWriter, ToolPlace
from vibe_jupyter.gateway.skill_bundles import GivenSkill, skill_files
from vibe_jupyter.mcp.tool_names import published_name

_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ResponsesFields.model_json_schema()}}}
}

OWN_TOOLS: Final = "gateway"
"""The server label of tools that are the gateway's own."""


def responses_routes(parts: GatewayParts) -> APIRouter:
    """OpenAI's Responses."""
    router = APIRouter(tags=["responses"])
    kept = KeptResponses(parts.store, parts.owner)
    directory = parts.agents.mcp.directory

    def published(server: str, tool: str) -> str:
        return directory.resolve(published_name(server, tool))

    def find_tool(name: str) -> ToolPlace:
        found = directory.named(name)
        return ToolPlace(OWN_TOOLS, name) if found is None else ToolPlace(found.server, found.tool.name)

    @router.post("/v1/responses", openapi_extra=_BODY)
    async def responses(request: Request) -> GatewayExchange:  # pyright: ignore[reportUnusedFunction]
        """Ask a model in the way of OpenAI's Responses, with the MCP tools of this gateway."""
        body = parse_body(await request.body())
        origins = parts.agents.current().reading.settings.gateway.file_origins
        body = await LinkedFiles(parts.files, parts.forwarder, origins).fetched(body)
        fields = read_fields(ResponsesFields, body)
        fields.check({one.server for one in directory.published()})
        before = await kept.load(fields.previous_response_id) if fields.previous_response_id else []
        asked = ChatRequest.of(chat_body(body, fields, before, published))
        response_id = new_id("resp")

        async def keep(messages: Sequence[JsonValue]) -> None:
            if fields.store is not False:
                await kept.keep(response_id, messages[1:] if fields.instructions else messages)

        repeated = {"id": response_id, **repeated_fields(body)}
        writer = ResponsesWriter(repeated, find_tool, parts.writer_terms(asked))
        return GatewayExchange(parts, asked, writer, keep=keep, skills=await _skills(parts, fields))

    return router


async def _skills(parts: GatewayParts, fields: ResponsesFields) -> list[GivenSkill]:
    """The skills that a request names.

    Raises:
        Refused: one is unknown, or no shell could use it.
    """
    wanted = fields.skills()
    if wanted and "bash" not in parts.agents.current().reading.settings.gateway.tools:
        words = 'A skill needs the shell: tools = ["bash"] in [gateway] of the settings.'
        raise Refused(400, words, code="shell_disabled", param="tools")
    found: list[GivenSkill] = []
    for one in wanted:
        known, packed = await parts.skills.packed(one.skill_id, one.version)
        files = await asyncio.to_thread(skill_files, packed)
        found.append(GivenSkill(known.name, known.description, files))
    return found
