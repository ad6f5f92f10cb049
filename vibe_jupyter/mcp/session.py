"""A link to a server through the SDK's Client, opened, kept open and closed by one task, and requests over it.

anyio's cancel scopes must be exited by the task that entered them, so each link has an owner task.

Imports the SDK, so import this module only when the first server starts.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypedDict, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, ElicitationFnT, IncomingMessage, ListRootsFnT, SamplingFnT
from mcp_types import (
    CONNECTION_CLOSED,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    Implementation,
    ListRootsResult,
    LoggingMessageNotificationParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import to_json

from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer
from vibe_jupyter.mcp.hooks import ServerHooks, ServerPause
from vibe_jupyter.mcp.http import SESSION_LOST, UNREACHABLE, http_transport
from vibe_jupyter.mcp.log import LinkFault, ServerLog, logging_to
from vibe_jupyter.mcp.sdk_errors import failure_reason, unknown_version
from vibe_jupyter.mcp.stdio import StdioTransport
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.mcp.tool_sanitizer import ToolSanitizer, Transport, sanitized
from vibe_jupyter.tools.child_environment import ProcessEnvironment
from vibe_jupyter.version import __version__

T = TypeVar("T")

CANCEL_GRACE: Final = 1.0  # seconds for notifying a server of a cancellation

_OF_THE_SDK: Final = (
    ValidationError,
    RuntimeError,
    ValueError,
    OSError,
    httpx2.HTTPError,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
    ExceptionGroup,
)
# Cancelled requests that have not ended yet; asyncio keeps only weak references to tasks
_abandoned: set[asyncio.Future[Any]] = set()

CLOSE_LIMIT: Final = 3.0  # seconds for closing a connection before its task is cancelled

Mode = Literal["auto", "legacy"]

_ATTEMPTS: Final = 3  # consecutive attempts to listen
_GAP: Final = 1.0  # seconds between attempts

PAGES: Final = 100  # pages read of a list
TOOLS: Final = 2_000  # tools accepted from one server


async def run_request(
    work: Callable[[Client], Awaitable[T]], client: Client, *, seconds: float, pause: ServerPause
) -> T:
    """Run an SDK request with a timeout.

    Raises:
        LinkFault: there was no response, or it is an error.
    """
    task = asyncio.ensure_future(work(client))
    try:
        await pause.wait({task}, seconds)
    except asyncio.CancelledError:
        await _abandon_request(task)
        raise
    if not task.done():
        await _abandon_request(task)
        raise LinkFault("slow", f"did not answer within {seconds:g} s")
    return _request_answer(task)


async def _abandon_request(task: "asyncio.Future[T]") -> None:
    """Cancel a request. The SDK notifies the server, in the background if that takes long."""
    task.cancel()
    _abandoned.add(task)
    task.add_done_callback(_forget_request)
    await asyncio.wait({task}, timeout=CANCEL_GRACE)


def _forget_request(task: "asyncio.Future[Any]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # mark the exception as retrieved, or asyncio logs it


def _request_answer(task: "asyncio.Future[T]") -> T:
    try:
        return task.result()
    except MCPError as problem:
        if problem.data == SESSION_LOST:
            raise LinkFault("session", "no longer knows this session") from problem
        if problem.data == UNREACHABLE:
            raise LinkFault("gone", f"did not answer: {failure_reason(problem)}") from problem
        if problem.code == CONNECTION_CLOSED:
            raise LinkFault("gone", "disconnected before it answered") from problem
        raise LinkFault("answer", f"answered with an error: {failure_reason(problem)}") from problem
    except asyncio.CancelledError as problem:  # the connection was closed during the request
        raise LinkFault("gone", "was ended before it answered") from problem
    except _OF_THE_SDK as problem:
        what = (
            f"answered with something that cannot be used ({failure_reason(problem)}); "
            "the request may have been carried out"
        )
        raise LinkFault("answer", what) from problem


class CallbackTable(TypedDict, total=False):
    """Callbacks of the SDK's Client. The SDK advertises only the capabilities that have one."""

    elicitation_callback: ElicitationFnT
    sampling_callback: SamplingFnT
    list_roots_callback: ListRootsFnT


class SessionCallbacks:
    """Callbacks of one connection. While one is pending, the timeout of the server's calls is suspended."""

    def __init__(self, server: ToolServer, hooks: ServerHooks, log: ServerLog) -> None:
        self.pause = ServerPause()
        self._server = server
        self._hooks = hooks
        self._log = log

    def callbacks(self) -> CallbackTable:
        """Return the callbacks to register."""
        found = CallbackTable()
        if "elicitation" in self._hooks.offers:
            found["elicitation_callback"] = self._answer_elicit
        if "sampling" in self._hooks.offers and self._server.sampling:
            found["sampling_callback"] = self._answer_sample
        if "roots" in self._hooks.offers:
            found["list_roots_callback"] = self._answer_roots
        return found

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        """Add a log message to the server's log."""
        text = params.data if isinstance(params.data, str) else _as_json(params.data)
        self._log.add(params.level, text)
        self._hooks.log(self._server.name, params.level, text)

    async def _answer_elicit(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult | ErrorData:
        with self.pause.running():
            return await self._hooks.elicit(self._server.name, params)

    async def _answer_sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | ErrorData:
        with self.pause.running():
            return await self._hooks.sample(self._server.name, params)

    async def _answer_roots(self, context: ClientRequestContext) -> ListRootsResult | ErrorData:
        return await self._hooks.roots()


class ServerLink:
    """Link to one server from start to end. Not reusable."""

    def __init__(
        self,
        transport: StdioTransport | Transport,
        sieve: ToolSanitizer,
        answers: SessionCallbacks,
        *,
        log: ServerLog,
        mode: Mode,
    ) -> None:
        self.changed = asyncio.Event()  # set when the server reports that its tools changed
        self.tools: tuple[RemoteTool, ...] = ()
        self.instructions = ""
        self.protocol_version = ""
        self.opened_at = 0.0  # monotonic seconds; 0 until it is open
        self._program = transport if isinstance(transport, StdioTransport) else None
        self._answers = answers
        self._log = log
        self._sieve = sieve
        self._client = Client(
            sanitized(transport, sieve),
            mode=mode,
            log_level="info",
            logging_callback=answers.log,
            message_handler=self._hear_message,
            client_info=Implementation(name="vibe-jupyter", version=__version__),
            **answers.callbacks(),
        )
        self._open = asyncio.Event()
        self._leave = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._cause: Exception | None = None

    @property
    def is_alive(self) -> bool:
        """True if requests can be sent."""
        return self._open.is_set() and self._owner is not None and not self._owner.done() and not self._leave.is_set()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Sentences about listed tools that can't be used."""
        return self._sieve.left_out

    @property
    def heard(self) -> int:
        """Number of messages received from a local server; always 0 for a remote one."""
        return self._program.pipes.due.heard if self._program else 0

    @property
    def trouble(self) -> str:
        """Exit description if a local server ended on its own, else ""."""
        return self._program.trouble if self._program else ""

    async def open(self, seconds: float) -> None:
        """Start the server and list its tools.

        Raises:
            LinkFault: the server failed or took too long. The link is closed.
        """
        self._owner = asyncio.create_task(self._own_client(), name="mcp link")
        opened = asyncio.ensure_future(self._open.wait())
        try:
            await self._answers.pause.wait({self._owner, opened}, seconds)
        finally:
            opened.cancel()
            if not self._open.is_set():
                await self.close()
        if self._open.is_set():
            return
        if self._cause is None:
            raise LinkFault("slow start", f"did not list its tools within {seconds:g} s")
        if self.trouble:
            what = f"ended while it started: {self.trouble}"
        elif self._sieve.versions and not {*self._sieve.versions} & {*KNOWN_PROTOCOL_VERSIONS}:
            what = f"did not start: {unknown_version(self._sieve.versions)}"
        else:
            what = f"did not start: {failure_reason(self._cause)}"
        raise LinkFault("start", what) from self._cause

    async def run(self, work: Callable[[Client], Awaitable[T]], seconds: float) -> T:
        """Send a request.

        Raises:
            LinkFault: there was no response, or it is an error.
        """
        try:
            with logging_to(self._log):
                return await run_request(work, self._client, seconds=seconds, pause=self._answers.pause)
        except LinkFault as fault:
            if fault.kind != "gone":
                raise
            await self.close()  # the exit code is known only after the process ended
            why = await self.ended()
            what = f"ended before it answered: {self.trouble}" if self.trouble else fault.what
            raise LinkFault("gone", what if why in what else f"{what}: {why}") from fault

    async def list_again(self, seconds: float) -> tuple[RemoteTool, ...]:
        """List the tools again.

        Raises:
            LinkFault: the server did not return them.
        """
        return await self.run(list_tools, seconds)

    async def ended(self) -> str:
        """Wait for the end of the link and return its reason."""
        if self._owner is not None:
            await asyncio.wait({self._owner})
        return self.trouble or (failure_reason(self._cause) if self._cause else "")

    async def close(self) -> None:
        """Close the link and stop the program with its child processes."""
        owner = self._owner
        if owner is None:
            return
        was_open = self._open.is_set()
        self._leave.set()
        if not was_open:
            owner.cancel()
        ending = asyncio.ensure_future(_end_task(owner))
        await asyncio.shield(ending)

    async def _own_client(self) -> None:
        try:
            with logging_to(self._log):
                async with self._client as client:
                    self.tools = await list_tools(client)
                    self.instructions = client.instructions or ""
                    self.protocol_version = client.protocol_version
                    self.opened_at = time.monotonic()
                    self._open.set()
                    await self._stay_open(client)
        except Exception as problem:  # noqa: BLE001 any error of the SDK ends this link and is reported to the callers
            self._cause = problem

    async def _stay_open(self, client: Client) -> None:
        """Wait until the link is closed or the program ends."""
        waits = [asyncio.ensure_future(self._leave.wait())]
        if self._program:
            waits.append(asyncio.ensure_future(self._program.pipes.incoming.over.wait()))
        listener = asyncio.ensure_future(listen_for_changes(client, self.changed))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*waits, listener):
                task.cancel()
            await asyncio.wait({*waits, listener})

    async def _hear_message(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.changed.set()


def make_link(
    server: ToolServer, surroundings: ProcessEnvironment, hooks: ServerHooks, *, log: ServerLog, mode: Mode
) -> ServerLink:
    """Create a link without opening it."""
    answers = SessionCallbacks(server, hooks, log)
    sieve = ToolSanitizer(server.name)
    if isinstance(server.at, ServerProgram):
        transport = StdioTransport(server.at, surroundings, log=log, pending=sieve.pending)
    else:
        transport = http_transport(server.at, hooks.auth(server, answers.pause))
    return ServerLink(transport, sieve, answers, log=log, mode=mode)


async def _end_task(owner: "asyncio.Task[None]") -> None:
    done, _ = await asyncio.wait({owner}, timeout=CLOSE_LIMIT)
    if not done:
        owner.cancel()
        await asyncio.wait({owner}, timeout=CLOSE_LIMIT)


def _as_json(value: Any) -> str:
    return to_json(value, fallback=str).decode()


async def listen_for_changes(client: Client, changed: asyncio.Event) -> None:
    """Subscribe to change notifications if the server supports them.

    They are delivered to the client's message handler.
    """
    can = client.server_capabilities
    tools = bool(can.tools and can.tools.list_changed)
    prompts = bool(can.prompts and can.prompts.list_changed)
    resources = bool(can.resources and can.resources.list_changed)
    if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or prompts or resources):
        return
    for attempt in range(_ATTEMPTS):
        if attempt:
            await asyncio.sleep(_GAP)
            changed.set()  # a change may have been missed in between
        with contextlib.suppress(MCPError, RuntimeError, ValueError, OSError):
            async with client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as changes:
                async for _ in changes:
                    pass
            return


async def list_tools(client: Client) -> tuple[RemoteTool, ...]:
    """List all tools, page by page. Of tools with the same name the first is used."""
    if client.server_capabilities.tools is None:
        return ()
    found: dict[str, RemoteTool] = {}
    cursor: str | None = None
    for _ in range(PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            found.setdefault(tool.name, _remote_tool(tool))
        cursor = page.next_cursor
        if cursor is None or len(found) >= TOOLS:
            break
    return tuple(found.values())[:TOOLS]


def _remote_tool(tool: Tool) -> RemoteTool:
    annotations = tool.annotations.model_dump(by_alias=True, exclude_none=True) if tool.annotations else {}
    return RemoteTool(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        title=tool.title or annotations.get("title") or "",
        output_schema=tool.output_schema,
        annotations=annotations,
    )
