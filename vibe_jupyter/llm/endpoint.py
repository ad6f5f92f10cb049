"""Where a request goes, with which headers, and whether its key may go there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.request import Model, Server

_WORD = re.compile(r"[A-Za-z]?[a-z]{0,14}|[A-Z]{0,15}")
"""What a header such as ``X-Auth-Mode`` may hold."""

OURS = frozenset(
    {"user-agent", "x-affinity", "content-type", "accept", "accept-encoding", "host", "connection", "content-length"}
    | {"transfer-encoding", "te", "trailer", "upgrade", "expect", "proxy-authorization"}
)
"""What the client says itself, or what says how a request is sent."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SECRET = re.compile(r"auth|key|token|secret|cookie|password|credential|signature", re.IGNORECASE)


@dataclass(frozen=True)
class Endpoint:
    """One address of one server, for one model."""

    provider: str
    """Empty where the address was given without one."""
    model: str
    """The name sent on the wire."""
    url: str
    host: str
    """Host, and port where one is given: what a user recognises."""
    tls: bool
    loopback: bool
    """This very machine: nothing leaves it, and no proxy is asked."""
    key: str | None = field(repr=False)
    key_from: str = field(default="", compare=False)
    """Where the key was found, in words for the user; empty where that is not known."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    """Those the user set for this server; some may hold a key too."""

    @property
    def address(self) -> str:
        """The url as it may be shown: without a password or a query, which may hold a key too."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, self.host, parts.path, "", ""))

    @property
    def place(self) -> str:
        """Provider and host, for the texts of errors."""
        return f"{self.provider} ({self.host})" if self.provider else self.host

    @property
    def setting(self) -> str:
        """Where the user set the address, for the texts of errors."""
        return f"api_base of provider '{self.provider}'" if self.provider else "the address given as NAME@URL"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be shown nowhere. A plain word in a header is none: an error text would be garbled by hiding it."""
        hidden = (value for name, value in self.headers.items() if is_secret(name) and not _WORD.fullmatch(value))
        return tuple(filter(None, (self.key, *hidden)))

    @classmethod
    def of(cls, model: Model, path: str, *, base_ends: tuple[str, ...] = ()) -> "Endpoint":
        """The address for a model.

        Args:
            model: what is asked.
            path: what follows api_base.
            base_ends: ends of api_base that are left out.

        Raises:
            ModelError: the address is none, or the key or a header must not be sent to it.
        """
        server = model.server
        whole = _check_address(server.name, server.api_base, path, base_ends)
        parts = urlsplit(whole)
        host = parts.hostname or ""
        endpoint = cls(
            provider=server.name,
            model=model.name,
            url=whole,
            host=parts.netloc.rpartition("@")[2],
            tls=parts.scheme == "https",
            loopback=_is_loopback(host),
            key=server.api_key or None,
            key_from=server.key_from,
            headers=checked_headers(server),
        )
        endpoint._guard_key()
        return endpoint

    def _guard_key(self) -> None:
        if (self.key is not None or any(map(is_secret, self.headers))) and not self.tls and not self.loopback:
            what = "API key" if self.key is not None else f"header {next(filter(is_secret, self.headers))}"
            raise ModelError(
                f"The {what} of provider '{self.provider}' is not sent to {self.host}, since plain http would show it "
                "to everyone on the way. Use an https address for its api_base, or none.",
                kind="auth",
            )
        if self.key is None:
            return
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise ModelError(
                f"The API key of provider '{self.provider}' holds a blank, a line break or a character that no header "
                "can carry. Set it again without them.",
                kind="auth",
            )


def _check_address(provider: str, api_base: str, path: str, base_ends: tuple[str, ...]) -> str:
    """The whole address; a query in api_base stays at its end."""
    try:
        parts = urlsplit(api_base.strip())
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable:
        what = f"The api_base of provider '{provider}'" if provider else "The address given as NAME@URL"
        raise ModelError(
            f"{what} is no http or https address: '{api_base.rpartition('@')[2]}'. "
            "It should look like https://api.mistral.ai/v1.",
            kind="connection",
        )
    base = parts.path.rstrip("/")
    end = next((end for end in base_ends if base.endswith(end)), "")
    return urlunsplit((parts.scheme, parts.netloc, base.removesuffix(end) + path, parts.query, ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def checked_headers(server: Server) -> Mapping[str, str]:
    """The headers of a server, as they may be sent.

    Raises:
        ModelError: one of them cannot be sent, or would take the place of one of ours.
    """
    for name, value in server.headers.items():
        if not _NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
            raise _header_error(server, name, "holds a character that no header can carry. Set it again without it.")
        if name.lower() in OURS:
            raise _header_error(server, name, "is set by vibe-jupyter itself. Remove it from the provider's headers.")
        if name.lower() == "authorization" and server.api_key:
            raise _header_error(server, name, "would take the place of the API key. Remove one of the two.")
    return dict(server.headers)


def is_secret(name: str) -> bool:
    """Whether the value of a header may be a key: it is guarded and hidden as one."""
    return bool(_SECRET.search(name))


def _header_error(server: Server, name: str, why: str) -> ModelError:
    return ModelError(f"The header {name!r} of provider '{server.name}' {why}", kind="http")
