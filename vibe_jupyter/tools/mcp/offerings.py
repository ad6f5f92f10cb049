"""What a server offers beside tools: resources to read, and prompts. Asked for when they are wanted, and kept a while.

Loaded when a server runs.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from vibe_jupyter.tools.mcp.server import Server

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import ListPromptsResult, ListResourcesResult, ListResourceTemplatesResult, Prompt

T = TypeVar("T")
P = TypeVar("P", "ListPromptsResult", "ListResourcesResult", "ListResourceTemplatesResult")

KEPT: Final = 30.0
"""Seconds that a list holds."""
PAGES: Final = 20
"""Pages of a list that are read."""
ENTRIES: Final = 500
"""Entries of a list that are kept."""
NAME_LIMIT: Final = 500
"""Characters of a name or an address; what is longer is left out."""
LIST_TIMEOUT: Final = 10.0
"""Seconds for one list."""


class Requests(Protocol):
    """The part of a connection that is used here."""

    server: Server

    async def request(self, work: "Callable[[Client], Awaitable[T]]", *, timeout: float) -> T:  # noqa: ASYNC109
        """Do something with a server that runs."""
        ...


@dataclass(frozen=True)
class Offered:
    """Names of one kind, as a server lists them."""

    name: str
    """A resource's address, or a template of addresses with ``{…}`` in it."""
    title: str = ""
    is_template: bool = False


@dataclass(frozen=True)
class PromptArgument:
    """What a prompt may be told."""

    name: str
    description: str
    required: bool


@dataclass(frozen=True)
class OfferedPrompt:
    """A prompt as its server lists it."""

    name: str
    description: str
    arguments: tuple[PromptArgument, ...]


class Offerings:
    """The lists of one server. Engine loop only."""

    def __init__(self, connection: Requests) -> None:
        self._connection = connection
        self._resources: tuple[float, tuple[Offered, ...]] = (0.0, ())
        """Until when it holds, and the list."""
        self._prompts: tuple[float, tuple[OfferedPrompt, ...]] = (0.0, ())

    async def resources(self) -> Sequence[Offered]:
        """Addresses first, then templates of them.

        Raises:
            ServerError: the server does not answer.
        """
        until, known = self._resources
        if time.monotonic() >= until:
            known = await self._connection.request(_resources, timeout=LIST_TIMEOUT)
            self._resources = (time.monotonic() + KEPT, known)
        return known

    async def prompts(self) -> Sequence[OfferedPrompt]:
        """The prompts.

        Raises:
            ServerError: the server does not answer.
        """
        until, known = self._prompts
        if time.monotonic() >= until:
            known = await self._connection.request(_prompts, timeout=LIST_TIMEOUT)
            self._prompts = (time.monotonic() + KEPT, known)
        return known

    async def values(self, prompt: str, argument: str, begun: str) -> Sequence[str]:
        """What an argument of a prompt may be, as far as the server knows.

        Raises:
            ServerError: the server does not answer.
        """

        async def work(client: "Client") -> tuple[str, ...]:
            from mcp_types import PromptReference  # noqa: PLC0415 - it is loaded: a server runs

            if client.server_capabilities.completions is None:
                return ()
            known = await client.complete(PromptReference(name=prompt), {"name": argument, "value": begun})
            return tuple(one for one in known.completion.values[:ENTRIES] if len(one) <= NAME_LIMIT)

        return await self._connection.request(work, timeout=LIST_TIMEOUT)


async def _resources(client: "Client") -> tuple[Offered, ...]:
    if client.server_capabilities.resources is None:
        return ()
    whole: list[Offered] = []
    async for page in _pages(lambda cursor: client.list_resources(cursor=cursor, cache_mode="bypass")):
        whole += [Offered(one.uri, one.title or one.name) for one in page.resources if len(one.uri) <= NAME_LIMIT]
    async for page in _pages(lambda cursor: client.list_resource_templates(cursor=cursor, cache_mode="bypass")):
        whole += [
            Offered(one.uri_template, one.title or one.name, is_template=True)
            for one in page.resource_templates
            if len(one.uri_template) <= NAME_LIMIT
        ]
    return tuple(whole[:ENTRIES])


async def _prompts(client: "Client") -> tuple[OfferedPrompt, ...]:
    if client.server_capabilities.prompts is None:
        return ()
    whole: list[OfferedPrompt] = []
    async for page in _pages(lambda cursor: client.list_prompts(cursor=cursor, cache_mode="bypass")):
        whole += [_prompt(one) for one in page.prompts if len(one.name) <= NAME_LIMIT]
    return tuple(whole[:ENTRIES])


async def _pages(fetch: Callable[[str | None], Awaitable[P]]):
    cursor: str | None = None
    for _ in range(PAGES):
        page = await fetch(cursor)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def _prompt(prompt: "Prompt") -> OfferedPrompt:
    arguments = [PromptArgument(one.name, one.description or "", bool(one.required)) for one in prompt.arguments or ()]
    return OfferedPrompt(prompt.name, prompt.description or prompt.title or "", tuple(arguments))
