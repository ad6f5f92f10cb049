"""The connections that are kept between requests, and what the network said when one failed.

Prices change. These are of the date below, and what the person sets in ``[[models]]`` counts instead. A model is known
on its maker's own server alone: the same name elsewhere may cost something else, or nothing.
"""

import asyncio
import importlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, cast
from urllib.parse import quote

from pydantic import JsonValue

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import failures, json_text
from vibe_jupyter.llm.endpoint import Endpoint
from vibe_jupyter.llm.request import Model
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    import httpx

KEEP_ALIVE = 60.0
"""Seconds an idle connection is kept for the next turn."""

_NETWORK = ("httpx", "httpcore", "h11", "anyio._backends._asyncio", "certifi")
"""What httpx imports by itself when it is first used is among them."""

SMALL = 1024 * 1024
"""Bytes of an answer in JSON."""
READ_GAP = 15.0
"""Seconds to a connection, and between two reads."""
WHOLE = 120.0
"""Seconds for all of it."""

AS_OF: Final = "November 2026"
"""Compared with the table of LiteLLM 1.109.1 then."""


class HttpConnections:
    """One pool for each kind of address, all on one event loop."""

    def __init__(self) -> None:
        self._clients: dict[tuple[bool, bool], httpx.AsyncClient] = {}
        """By whether the address is loopback, and whether it speaks TLS."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def client(self, endpoint: Endpoint) -> "httpx.AsyncClient":
        """The kept client; one that belongs to another event loop cannot be used or closed here, and is dropped.

        Raises:
            ModelError: the environment names a proxy that cannot be used.
        """
        import httpx  # noqa: PLC0415

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients = loop, {}
        kind = (endpoint.loopback, endpoint.tls)
        if kind not in self._clients:
            try:
                self._clients[kind] = httpx.AsyncClient(
                    verify=_ssl_context(tls=endpoint.tls),
                    # A proxy is asked for what is on other machines only.
                    trust_env=not endpoint.loopback,
                    follow_redirects=False,
                    limits=httpx.Limits(keepalive_expiry=KEEP_ALIVE),
                )
            except (ImportError, ValueError) as problem:
                raise failures.unreachable_error(
                    endpoint, f"the proxy that is set cannot be used: {problem}"
                ) from problem
        return self._clients[kind]

    async def close(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()


@cache
def load_http() -> None:
    """Import what speaks HTTP, with what it imports when first used."""
    with without_working_folder():
        for name in _NETWORK:
            importlib.import_module(name)


def _ssl_context(*, tls: bool) -> ssl.SSLContext:
    """The public authorities, and those of the system, SSL_CERT_FILE and SSL_CERT_DIR. For plain http none: reading
    them would take 20 ms for nothing."""
    import httpx  # noqa: PLC0415

    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def network_reason(problem: BaseException) -> str:
    """A few words for a person; HTTP libraries wrap what happened several times."""
    for cause in _exception_causes(problem):
        match cause:
            case ConnectionRefusedError():
                return "connection refused"
            case socket.gaierror():
                return "host not found"
            case ssl.SSLCertVerificationError():
                return f"its certificate is not trusted: {cause.verify_message}"
            case ssl.SSLError():
                return f"TLS failed: {cause or 'broken handshake'}"
            case ConnectionResetError() | BrokenPipeError():
                return "the connection broke"
            case TimeoutError():
                return "timed out"
            case _:
                pass
    return str(problem) or type(problem).__name__


def is_final(problem: BaseException) -> bool:
    """Whether asking again cannot help: a certificate does not become trusted by it."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _exception_causes(problem))


def _exception_causes(problem: BaseException | None) -> Iterator[BaseException]:
    """The exception, what is in it, and what is behind it."""
    while problem is not None:
        yield problem
        if isinstance(problem, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", problem)
            for part in group.exceptions:
                yield from _exception_causes(part)
        problem = problem.__cause__ or problem.__context__


@dataclass(frozen=True)
class FetchRequest:
    """What to ask."""

    method: str
    path: str
    """What follows api_base."""
    body: JsonValue = None
    """None sends none."""
    most: int = SMALL
    """Bytes that are taken."""

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return b"" if self.body is None else json.dumps(self.body).encode()


@dataclass(frozen=True)
class FetchResult:
    """What came back, whatever its status."""

    status: int
    content: bytes

    @property
    def json(self) -> dict[str, JsonValue]:
        """The object it is; empty where it is none."""
        try:
            value = json_text.parse_json(self.content.decode("utf-8", "replace"))
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ResponseBody(Protocol):
    """A response that is coming in."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body, read by read."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


def id_in_path(server_id: str) -> str:
    """An id that a server gave, as one piece of a path: it cannot lead elsewhere.

    Raises:
        ValueError: it is no piece of a path.
    """
    if not server_id.strip("."):
        raise ValueError("The server gave no id.")
    return quote(server_id, safe="", errors="replace")


async def read_whole(response: ResponseBody, endpoint: Endpoint, most: int) -> FetchResult:
    """The whole of a response.

    Raises:
        ModelError: it is longer than wanted.
    """
    content = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                raise ModelError(f"{endpoint.place} sent more than {most:,} bytes; nothing was kept.", kind="limit")
    finally:
        await response.aclose()
    return FetchResult(response.status_code, bytes(content))


@dataclass(frozen=True)
class KnownModel:
    """One model; prices in US dollars per million tokens."""

    input: float
    output: float
    cached: float
    """For input that the server read from its cache."""
    window: int
    """Tokens."""
    images: bool = True


_CODESTRAL = KnownModel(0.3, 0.9, 0.03, 128_000, images=False)
_MISTRAL_MEDIUM = KnownModel(1.5, 7.5, 0.15, 262_144)
_MISTRAL_SMALL = KnownModel(0.15, 0.6, 0.015, 262_144)

KNOWN: Final[Mapping[str, Mapping[str, KnownModel]]] = {
    "api.mistral.ai": {
        "mistral-vibe-cli-latest": _MISTRAL_MEDIUM,
        "mistral-large-latest": KnownModel(0.5, 1.5, 0.05, 262_144),
        "mistral-medium-latest": _MISTRAL_MEDIUM,
        "mistral-small-latest": _MISTRAL_SMALL,
        "magistral-medium-latest": _MISTRAL_MEDIUM,
        "magistral-small-latest": _MISTRAL_SMALL,
        "devstral-latest": KnownModel(0.4, 2.0, 0.04, 256_000, images=False),
        "devstral-medium-latest": KnownModel(0.4, 2.0, 0.04, 256_000, images=False),
        "devstral-small-latest": KnownModel(0.1, 0.3, 0.01, 256_000, images=False),
        "codestral-latest": _CODESTRAL,
        "codestral-2508": _CODESTRAL,
        "ministral-14b-latest": KnownModel(0.2, 0.2, 0.02, 262_144),
        "ministral-8b-latest": KnownModel(0.15, 0.15, 0.015, 262_144),
        "ministral-3b-latest": KnownModel(0.1, 0.1, 0.01, 131_072),
    },
    "api.openai.com": {
        "gpt-4o": KnownModel(2.5, 10.0, 1.25, 128_000),
        "gpt-4o-mini": KnownModel(0.15, 0.6, 0.075, 128_000),
        "gpt-4.1": KnownModel(2.0, 8.0, 0.5, 1_047_576),
        "gpt-4.1-mini": KnownModel(0.4, 1.6, 0.1, 1_047_576),
        "gpt-4.1-nano": KnownModel(0.1, 0.4, 0.025, 1_047_576),
        "gpt-5": KnownModel(1.25, 10.0, 0.125, 272_000),
        "gpt-5-mini": KnownModel(0.25, 2.0, 0.025, 272_000),
        "gpt-5-nano": KnownModel(0.05, 0.4, 0.005, 272_000),
        "o3": KnownModel(2.0, 8.0, 0.5, 200_000),
        "o4-mini": KnownModel(1.1, 4.4, 0.275, 200_000),
    },
    "api.deepseek.com": {
        "deepseek-chat": KnownModel(0.28, 0.42, 0.028, 131_072, images=False),
    },
}
"""Host, then the name sent on the wire."""


def known_model(host: str, name: str) -> KnownModel | None:
    """What is known of a model on a host; None where nothing is."""
    return KNOWN.get(host.lower().removesuffix(":443"), {}).get(name)


def complete_model(model: Model, *, sees_images: bool | None) -> Model:
    """The model, with what nobody set taken from the catalogue.

    Args:
        model: as it was set.
        sees_images: what was set of it; None for nothing.
    """
    found = known_model(model.server.host, model.name)
    if found is None:
        return replace(model, sees_images=bool(sees_images))
    priced = model
    if model.input_price is None and model.output_price is None:
        cached = found.cached if model.cached_input_price is None else model.cached_input_price
        priced = replace(model, input_price=found.input, output_price=found.output, cached_input_price=cached)
    return replace(
        priced,
        context_window=model.context_window or found.window,
        sees_images=found.images if sees_images is None else sees_images,
    )
