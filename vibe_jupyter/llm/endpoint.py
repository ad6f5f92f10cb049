"""Where a request goes, and whether its key may go there."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.request import Model


@dataclass(frozen=True)
class Endpoint:
    """One address of one server, for one model."""

    provider: str
    """Empty where the address was given without one."""
    model: str
    """The name sent on the wire."""
    url: str
    host: str
    """Host, and port where one is given: what a person recognises."""
    tls: bool
    loopback: bool
    """This very machine: nothing leaves it, and no proxy is asked."""
    key: str | None = field(repr=False)

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
        """Where the person set the address, for the texts of errors."""
        return f"api_base of provider '{self.provider}'" if self.provider else "the address given as NAME@URL"

    @classmethod
    def of(cls, model: Model, path: str) -> "Endpoint":
        """The address for a model.

        Raises:
            ModelError: the address is none, or the key must not be sent to it.
        """
        server = model.server
        whole = _checked(server.name, server.api_base, path)
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
        )
        endpoint._guard_key()
        return endpoint

    def _guard_key(self) -> None:
        if self.key is None:
            return
        if not self.tls and not self.loopback:
            raise ModelError(
                f"The API key of provider '{self.provider}' is not sent to {self.host}, since plain http would show it "
                "to everyone on the way. Use an https address for its api_base, or no key.",
                kind="auth",
            )
        if not self.key.isascii() or not self.key.isprintable() or " " in self.key:
            raise ModelError(
                f"The API key of provider '{self.provider}' holds a blank, a line break or a character that no header "
                "can carry. Set it again without them.",
                kind="auth",
            )


def _checked(provider: str, api_base: str, path: str) -> str:
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
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + path, parts.query, ""))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
