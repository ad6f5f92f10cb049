"""A server that asks: questions, pages, words of the model, folders. It has resources and prompts, too.

python asking_server.py            over its pipes
python asking_server.py legacy     the same, in the older protocol
python asking_server.py http       over HTTP on a free port, which it prints first
"""

import asyncio
import base64
import socket
import sys
from collections.abc import Mapping
from typing import Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import AssistantMessage, UserMessage
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    Completion,
    CompletionArgument,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    EmbeddedResource,
    ErrorData,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCRequest,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SLOW = 60.0
"""Seconds until it completes this word."""

Ctx = Context[Any, Any]
server = MCPServer("asking")


def is_modern(context: Ctx) -> bool:
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


async def answer_of(context: Ctx, request: Any, legacy: Any) -> Any:
    """What the client says, the way its protocol wants to be asked; an `InputRequiredResult` has to be passed on."""
    if not is_modern(context):
        return await legacy()
    answers: Mapping[str, Any] | None = context.input_responses
    return answers["it"] if answers else InputRequiredResult(input_requests={"it": request})


def told(answer: Any) -> Any:
    if isinstance(answer, InputRequiredResult):
        return answer
    return answer.model_dump_json(by_alias=True, exclude_none=True, exclude={"meta", "result_type"})


@server.tool(structured_output=False)
async def ask(context: Ctx, message: str, schema: dict[str, Any], then: float = 0) -> Any:
    """Ask the user to fill in a form, and work so many seconds with the answer."""
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    session = context.session
    answer = told(
        await answer_of(
            context, ElicitRequest(params=params), lambda: session.elicit_form(message, schema, context.request_id)
        )
    )
    if isinstance(answer, str):
        await anyio.sleep(then)
    return answer


@server.tool(structured_output=False)
async def ask_often(context: Ctx, times: int) -> Any:
    """Ask so many questions at once."""
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    params = [ElicitRequestFormParams(message=f"Number {one}?", requested_schema=schema) for one in range(times)]
    if not is_modern(context):
        asked = (context.session.elicit_form(one.message, schema, context.request_id) for one in params)
        return " ".join(sorted(one.action for one in await asyncio.gather(*asked)))
    if not context.input_responses:
        return InputRequiredResult(
            input_requests={str(number): ElicitRequest(params=one) for number, one in enumerate(params)}
        )
    return " ".join(sorted(one.action for one in context.input_responses.values()))


@server.tool(structured_output=False)
async def page(context: Ctx, url: str) -> Any:
    """Ask the user to open a page."""
    params = ElicitRequestURLParams(message="Sign the form.", url=url, elicitation_id="1")
    session = context.session
    return told(
        await answer_of(
            context,
            ElicitRequest(params=params),
            lambda: session.elicit_url("Sign the form.", url, "1", context.request_id),
        )
    )


@server.tool(structured_output=False)
async def think(context: Ctx, prompt: str, max_tokens: int = 100, system: str = "") -> Any:
    """Ask the model."""
    messages = [SamplingMessage(role="user", content=TextContent(text=prompt))]
    params = CreateMessageRequestParams(messages=messages, max_tokens=max_tokens, system_prompt=system or None)
    session = context.session
    return told(
        await answer_of(
            context,
            CreateMessageRequest(params=params),
            lambda: session.create_message(
                messages, max_tokens=max_tokens, system_prompt=system or None, related_request_id=context.request_id
            ),
        )
    )


@server.tool(structured_output=False)
async def roots(context: Ctx) -> Any:
    """Ask for the folders."""
    return told(await answer_of(context, ListRootsRequest(), lambda: context.session.list_roots()))


@server.tool()
async def say(context: Ctx, text: str) -> str:
    """Write a line to the client's log."""
    await context.warning(text)
    return "said"


@server.tool()
async def grow(context: Ctx, name: str) -> str:
    """Offer one more tool from now on."""
    server.add_tool(lambda: name, name=name, description="A new one.")
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "grown"


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    return "Buy bread."


@server.resource("notes://{day}/all", mime_type="text/plain")
def of_day(day: str) -> str:
    return f"Notes of {day}."


@server.resource("notes://long", mime_type="text/plain")
def long() -> str:
    return "x" * 100_000


@server.resource("notes://pixel", mime_type="image/png")
def pixel() -> bytes:
    return base64.b64decode(PIXEL)


@server.prompt()
def review(path: str, tone: str = "kind") -> list[Any]:
    """Review a file."""
    carried = TextResourceContents(uri="notes://rules", mime_type="text/plain", text="Be brief.")
    return [
        UserMessage(f"Review {path}, and be {tone}."),
        UserMessage(EmbeddedResource(resource=carried)),
    ]


@server.completion()
async def complete(reference: Any, argument: CompletionArgument, context: Any) -> Completion:
    if argument.value == "slow":
        await anyio.sleep(SLOW)
    known = ["kind", "very kind", "strict"] if argument.name == "tone" else []
    return Completion(values=[one for one in known if one.startswith(argument.value)])


@server.prompt()
def dialogue() -> list[Any]:
    """Begin in the middle."""
    return [UserMessage("One?"), AssistantMessage("Two."), UserMessage("Three?")]


async def run_older() -> None:
    """Over the pipes, as one that has never heard of the newer protocol."""
    inner = server._lowlevel_server
    into, out = anyio.create_memory_object_stream[SessionMessage | Exception](1)
    async with stdio_server() as (read, write), anyio.create_task_group() as group:

        async def filtered() -> None:
            async with into:
                async for item in read:
                    message = item.message if isinstance(item, SessionMessage) else None
                    if isinstance(message, JSONRPCRequest) and message.method == "server/discover":
                        no = ErrorData(code=METHOD_NOT_FOUND, message="Method not found")
                        await write.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=message.id, error=no)))
                    else:
                        await into.send(item)

        group.start_soon(filtered)
        await inner.run(out, write, inner.create_initialization_options())


def main() -> None:
    if "legacy" in sys.argv:
        anyio.run(run_older)
    elif "http" in sys.argv:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run(sockets=[listener])
    else:
        server.run("stdio")


if __name__ == "__main__":
    main()
