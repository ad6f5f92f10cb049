"""Resources and prompts of servers: listing, fetching and tab completion.

Import this module only when a server runs.
"""

import concurrent.futures
import difflib
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.config.tool_servers import ToolServer
from vibe_jupyter.errors import ConfigError, VibeError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.mcp.connection import ServerConnection, ServerPool
from vibe_jupyter.mcp.results import ResultSource, tool_result
from vibe_jupyter.protocol import ImagePart, TextPart, ToolResult

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import (
        BlobResourceContents,
        ContentBlock,
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        Prompt,
        TextResourceContents,
    )

T = TypeVar("T")
P = TypeVar("P", "ListPromptsResult", "ListResourcesResult", "ListResourceTemplatesResult")

KEPT: Final = 30.0  # seconds that a list is cached
PAGES: Final = 20  # pages read of a list
ENTRIES: Final = 500  # entries kept of a list
NAME_LIMIT: Final = 500  # characters of a name or URI; longer ones are left out
LIST_TIMEOUT: Final = 10.0  # seconds for one list

PROMPT_LIMIT: Final = 60_000  # characters of one text of a prompt

PROMPT_TIMEOUT: Final = 60.0  # seconds for a server to generate a prompt
MESSAGES: Final = 50  # messages of one prompt
_CALL: Final = re.compile(r"/(?P<server>[A-Za-z0-9_-]{1,64}):(?P<name>[^\s=]+)")
_ARGUMENT: Final = re.compile(
    r"""[ \t]+(?P<name>[A-Za-z_][\w.-]*)="""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^\s"']\S*|(?=\s|$)))"""
)
_ESCAPED: Final = re.compile(r"\\(.)")

Key = tuple[ServerConnection, *tuple[str, ...]]

# Seconds that completion waits for a response, counted from the request; later responses serve the next attempt
TAB_WAIT: Final = 0.8


class RequestSender(Protocol):
    """The part of a connection that this module uses."""

    server: ToolServer

    async def request(self, work: "Callable[[Client], Awaitable[T]]", *, timeout: float) -> T:  # noqa: ASYNC109
        """Run an SDK request on the server."""
        ...


@dataclass(frozen=True)
class OfferedNames:
    """A listed resource or resource template."""

    name: str  # URI, or URI template with ``{…}``
    title: str = ""
    is_template: bool = False


@dataclass(frozen=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True)
class OfferedPrompt:
    """A prompt as listed by its server."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...]


class ServerOfferings:
    """Cached lists of one server. Engine loop only."""

    def __init__(self, connection: RequestSender) -> None:
        self._connection = connection
        self._resources: tuple[float, tuple[OfferedNames, ...]] = (0.0, ())  # expiry (monotonic seconds) and list
        self._prompts: tuple[float, tuple[OfferedPrompt, ...]] = (0.0, ())

    async def resources(self) -> Sequence[OfferedNames]:
        """Return resources, followed by resource templates.

        Raises:
            ServerError: the server does not respond.
        """
        until, known = self._resources
        if time.monotonic() >= until:
            known = await self._connection.request(_list_resources, timeout=LIST_TIMEOUT)
            self._resources = (time.monotonic() + KEPT, known)
        return known

    async def prompts(self) -> Sequence[OfferedPrompt]:
        """Return the server's prompts.

        Raises:
            ServerError: the server does not respond.
        """
        until, known = self._prompts
        if time.monotonic() >= until:
            known = await self._connection.request(_list_prompts, timeout=LIST_TIMEOUT)
            self._prompts = (time.monotonic() + KEPT, known)
        return known

    async def values(self, prompt: str, argument: str, begun: str) -> Sequence[str]:
        """Return the server's completions for an argument of a prompt.

        Raises:
            ServerError: the server does not respond.
        """

        async def work(client: "Client") -> tuple[str, ...]:
            from mcp_types import PromptReference  # noqa: PLC0415 - already loaded: a server runs

            if client.server_capabilities.completions is None:
                return ()
            known = await client.complete(PromptReference(name=prompt), {"name": argument, "value": begun})
            return tuple(one for one in known.completion.values[:ENTRIES] if len(one) <= NAME_LIMIT)

        return await self._connection.request(work, timeout=LIST_TIMEOUT)


async def _list_resources(client: "Client") -> tuple[OfferedNames, ...]:
    if client.server_capabilities.resources is None:
        return ()
    whole: list[OfferedNames] = []
    async for page in _list_pages(lambda cursor: client.list_resources(cursor=cursor, cache_mode="bypass")):
        whole += [OfferedNames(one.uri, one.title or one.name) for one in page.resources if len(one.uri) <= NAME_LIMIT]
    async for page in _list_pages(lambda cursor: client.list_resource_templates(cursor=cursor, cache_mode="bypass")):
        whole += [
            OfferedNames(one.uri_template, one.title or one.name, is_template=True)
            for one in page.resource_templates
            if len(one.uri_template) <= NAME_LIMIT
        ]
    return tuple(whole[:ENTRIES])


async def _list_prompts(client: "Client") -> tuple[OfferedPrompt, ...]:
    if client.server_capabilities.prompts is None:
        return ()
    whole: list[OfferedPrompt] = []
    async for page in _list_pages(lambda cursor: client.list_prompts(cursor=cursor, cache_mode="bypass")):
        whole += [_offered_prompt(one) for one in page.prompts if len(one.name) <= NAME_LIMIT]
    return tuple(whole[:ENTRIES])


async def _list_pages(fetch: Callable[[str | None], Awaitable[P]]):
    cursor: str | None = None
    for _ in range(PAGES):
        page = await fetch(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def _offered_prompt(prompt: "Prompt") -> OfferedPrompt:
    arguments = [PromptArgument(one.name, one.description or "", bool(one.required)) for one in prompt.arguments or ()]
    return OfferedPrompt(prompt.name, prompt.description or prompt.title or "", tuple(arguments))


@dataclass(frozen=True)
class NamedSource(ResultSource):
    """A resource or prompt as the source of a result, in place of a tool."""

    name: str = ""
    kind: str = "resource"

    @property
    def words(self) -> str:
        return f"MCP server {self.server}, {self.kind} {self.tool}"


def resource_result(
    contents: "Sequence[TextResourceContents | BlobResourceContents]", source: NamedSource, *, sees_images: bool
) -> ToolResult:
    """Convert a resource's contents to a result for the model, the user and the log."""
    from mcp_types import CallToolResult, EmbeddedResource  # noqa: PLC0415 - already loaded: one of our servers is running

    blocks: list[ContentBlock] = [EmbeddedResource(resource=one) for one in contents]
    return tool_result(CallToolResult(content=blocks), source, sees_images=sees_images)


def prompt_parts(block: "ContentBlock", source: NamedSource, *, sees_images: bool) -> tuple[TextPart | ImagePart, ...]:
    """Convert one message of a prompt.

    Its text is the prompt the user chose; anything attached to it is labeled as data.
    """
    from mcp_types import CallToolResult, TextContent  # noqa: PLC0415 - already loaded: one of our servers is running

    if isinstance(block, TextContent):
        return (TextPart(text=head_and_tail(block.text, PROMPT_LIMIT)),)
    return tool_result(CallToolResult(content=[block]), source, sees_images=sees_images).parts


@dataclass(frozen=True)
class PromptCall:
    """A prompt call as typed by the user."""

    server: str
    name: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    words: str = ""  # text after the call


def parse_prompt_call(text: str) -> PromptCall | None:
    """Parse the prompt call at the start of a cell, or return None."""
    found = _CALL.match(text)
    if found is None:
        return None
    arguments: dict[str, str] = {}
    end = found.end()
    while (argument := _ARGUMENT.match(text, end)) is not None:
        double = argument["double"]
        value = _ESCAPED.sub(r"\1", double) if double is not None else argument["single"] or argument["plain"] or ""
        arguments[argument["name"]] = value
        end = argument.end()
    return PromptCall(found["server"], found["name"], arguments, text[end:].strip())


async def fetch_prompt(
    call: PromptCall, connection: RequestSender, offerings: ServerOfferings, *, sees_images: bool
) -> list[TextPart | ImagePart]:
    """Fetch a prompt's messages for these arguments.

    Raises:
        ConfigError: the prompt doesn't exist or its arguments are wrong. The message lists what is available.
        ServerError: the server did not respond.
    """
    _check_arguments(call, await offerings.prompts())
    result = await connection.request(
        lambda client: client.get_prompt(call.name, call.arguments or None), timeout=PROMPT_TIMEOUT
    )
    source = NamedSource(call.server, call.name, kind="prompt")
    messages = result.messages[:MESSAGES]
    several = any(message.role != "user" for message in messages)
    parts: list[TextPart | ImagePart] = []
    for message in messages:
        if several:
            parts.append(TextPart(text="User:" if message.role == "user" else "Assistant:"))
        parts += prompt_parts(message.content, source, sees_images=sees_images)
    if not parts:
        raise ConfigError(f"The prompt /{call.server}:{call.name} is empty. Nothing was sent.")
    return [*parts, *([TextPart(text=call.words)] if call.words else ())]


def _check_arguments(call: PromptCall, prompts: Sequence[OfferedPrompt]) -> None:
    prompt = next((one for one in prompts if one.name == call.name), None)
    if prompt is None:
        names = [one.name for one in prompts]
        near = difflib.get_close_matches(call.name, names, 5) or names[:10]
        has = f"It has: {', '.join(near)}." if near else "It has none."
        raise ConfigError(f"The MCP server {call.server} has no prompt {call.name!r}. {has} Nothing was sent.")
    known = [argument.name for argument in prompt.arguments]
    usage = " ".join(f"{one.name}=…" if one.required else f"[{one.name}=…]" for one in prompt.arguments)
    usage = f"/{call.server}:{call.name} {usage}".strip()
    unknown = [name for name in call.arguments if name not in known]
    missing = [one.name for one in prompt.arguments if one.required and not call.arguments.get(one.name)]
    if unknown:
        raise ConfigError(f"The prompt has no argument {', '.join(unknown)}. Write: {usage}. Nothing was sent.")
    if missing:
        raise ConfigError(f"The prompt needs {', '.join(missing)}. Write: {usage}. Nothing was sent.")


class _Question(NamedTuple):
    """A request in flight."""

    answer: concurrent.futures.Future[Any]
    until: float  # monotonic seconds until which completion waits for it


class TabOffers:
    """Tab completion of resources and prompts. Main thread only."""

    def __init__(self, servers: ServerPool, engine: Engine) -> None:
        self._servers = servers
        self._engine = engine
        self._lists: dict[ServerConnection, ServerOfferings] = {}
        self._asked: dict[Key, _Question] = {}

    def servers(self) -> Sequence[str]:
        """Return running servers that have resources."""
        running = self._running_servers()
        for one in running:
            self._start_asking((one, "resources"), self._offerings_of(one).resources)
        return [one.server.name for one in running if self._known_resources(one)]

    def resources(self, server: str) -> Sequence[str]:
        """Return a server's resource URIs; of a template only the part before its first placeholder."""
        found = next((one for one in self._running_servers() if one.server.name == server), None)
        listed = self._known_resources(found) if found is not None else ()
        return list(dict.fromkeys(one.name.partition("{")[0] if one.is_template else one.name for one in listed))

    def prompts(self) -> Sequence[str]:
        """Return all prompts as ``/server:prompt``."""
        running = self._running_servers()
        for one in running:
            self._start_asking((one, "prompts"), self._offerings_of(one).prompts)
        return [f"/{one.server.name}:{prompt.name}" for one in running for prompt in self._known_prompts(one)]

    def arguments(self, words: str, last: str) -> Sequence[str]:
        """Complete the next argument of a prompt call: ``name=``, or ``name=value`` if the server offers values.

        Args:
            words: the call so far, without the word at its end.
            last: that word.
        """
        call = parse_prompt_call(words)
        server = next(
            (one for one in self._running_servers() if call is not None and one.server.name == call.server), None
        )
        if call is None or server is None or call.words:
            return ()
        prompt = next((one for one in self._known_prompts(server) if one.name == call.name), None)
        name, is_begun, value = last.partition("=")
        if prompt is not None and is_begun:
            lists = self._offerings_of(server)
            values = self._wait_for((server, call.name, last), lambda: lists.values(call.name, name, value), ())
            return [f'{name}="{one}"' if " " in one else f"{name}={one}" for one in values]
        return [f"{one.name}=" for one in (prompt.arguments if prompt else ()) if one.name not in call.arguments]

    def _running_servers(self) -> list[ServerConnection]:
        running = [one for one in self._servers.all() if one.state == "ready"]
        self._lists = {one: lists for one, lists in self._lists.items() if one in running}
        self._asked = {key: question for key, question in self._asked.items() if key[0] in running}
        return running

    def _offerings_of(self, connection: ServerConnection) -> ServerOfferings:
        return self._lists.setdefault(connection, ServerOfferings(connection))

    def _known_resources(self, connection: ServerConnection) -> Sequence[OfferedNames]:
        nothing: Sequence[OfferedNames] = ()
        return self._wait_for((connection, "resources"), self._offerings_of(connection).resources, nothing)

    def _known_prompts(self, connection: ServerConnection) -> Sequence[OfferedPrompt]:
        nothing: Sequence[OfferedPrompt] = ()
        return self._wait_for((connection, "prompts"), self._offerings_of(connection).prompts, nothing)

    def _wait_for(self, key: Key, ask: Callable[[], Coroutine[Any, Any, T]], otherwise: T) -> T:
        """Return the response if it arrives in time."""
        self._start_asking(key, ask)
        try:
            question = self._asked[key]
            answer = question.answer.result(max(0.0, question.until - time.monotonic()))
        except concurrent.futures.TimeoutError:
            return otherwise
        except (VibeError, concurrent.futures.CancelledError):
            answer = otherwise
        del self._asked[key]
        return answer

    def _start_asking(self, key: Key, ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Send a request unless the same one is in flight."""
        if key not in self._asked:
            self._asked[key] = _Question(self._engine.submit(ask()), time.monotonic() + TAB_WAIT)
