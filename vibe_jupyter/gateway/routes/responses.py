"""``POST /v1/responses``."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from pydantic import JsonValue

from vibe_jupyter.gateway.chat_request import ChatRequest, parse_body, read_fields
from vibe_jupyter.gateway.client_tools import ClientTools
from vibe_jupyter.gateway.exchange import GatewayExchange
from vibe_jupyter.gateway.kept_responses import KeptResponses
from vibe_jupyter.gateway.linked_files import LinkedFiles
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused
from vibe_jupyter.gateway.responses_items import SHELL, new_id
from vibe_jupyter.gateway.responses_request import KnownTools, ResponsesFields, chat_body, repeated_fields
from vibe_jupyter.gateway.responses_writer import ResponsesWriter, ShownTools, ToolPlace
from vibe_jupyter.gateway.skill_bundles import GivenSkill, skill_files
from vibe_jupyter.mcp.tool_names import published_name

_BODY: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": ResponsesFields.model_json_schema()}}}
}

_SERVED: Final = frozenset({"mcp", "shell"})  # types of tools that the gateway runs
OWN_TOOLS: Final = "gateway"  # server label of the gateway's own tools


def responses_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for OpenAI's Responses API."""
    router = APIRouter(tags=["responses"])
    kept = KeptResponses(parts.store, parts.owner)
    directory = parts.agents.mcp.directory

    def published(server: str, tool: str) -> str:
        return directory.resolve(published_name(server, tool))

    def of_server(server: str) -> list[str]:
        return [one.name for one in directory.published() if one.server == server]

    def find_tool(name: str) -> ToolPlace:
        found = directory.named(name)
        return ToolPlace(OWN_TOOLS, name) if found is None else ToolPlace(found.server, found.tool.name)

    @router.post("/v1/responses", openapi_extra=_BODY)
    async def responses(request: Request) -> GatewayExchange:  # pyright: ignore[reportUnusedFunction]
        """Create a response with OpenAI's Responses API, with the gateway's MCP tools."""
        body = parse_body(await request.body())
        settings = parts.agents.current().reading.settings.gateway
        body = await LinkedFiles(parts.files, parts.forwarder, settings.file_origins).fetched(body)
        fields = read_fields(ResponsesFields, body)
        fields.check({one.server for one in directory.published()})
        before = await kept.load(fields.previous_response_id) if fields.previous_response_id else []
        client = ClientTools(fields.tools or (), _SERVED if SHELL in settings.tools else _SERVED - {"shell"})
        made = chat_body(body, fields, before, KnownTools(client, published, of_server))
        asked = ChatRequest.of(made, left_out=client.left_out)
        response_id = new_id("resp")

        async def keep(messages: Sequence[JsonValue]) -> None:
            if fields.store is not False:
                await kept.keep(response_id, messages[1:] if fields.instructions else messages)

        repeated = {"id": response_id, **repeated_fields(body)}
        tools = ShownTools(find_tool, client, client.left_out if fields.begins else ())
        writer = ResponsesWriter(repeated, tools, parts.writer_terms(asked))
        return GatewayExchange(parts, asked, writer, keep=keep, skills=await _skills(parts, fields))

    return router


async def _skills(parts: GatewayParts, fields: ResponsesFields) -> list[GivenSkill]:
    """Return the skills that a request references.

    Raises:
        Refused: a skill is unknown, or the shell that would use it is disabled.
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
