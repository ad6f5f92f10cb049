"""Access control of the gateway: host, origin, token, content type and body size are checked before routing."""

import asyncio
import base64
import hmac
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vibe_jupyter.gateway.refusals import JSON, Refused

OPEN: Final = frozenset({"/", "/health"})  # paths that need no token
# read-only paths that a browser may open with the token as a password
DOCS: Final = frozenset({"/docs", "/api-doc/openapi.json"})
MAX_JSON: Final = 16 * 1024 * 1024  # bytes of a JSON body
MAX_UPLOAD: Final = 64 * 1024 * 1024  # bytes of an upload or an imported session
BODY_WAIT: Final = 30.0  # seconds to receive a JSON body
UPLOAD_WAIT: Final = 300.0  # seconds to receive an upload
UPLOADS: Final = ("/v1/files", "/v1/skills")  # path prefixes that accept multipart bodies
SESSIONS: Final = "/v1/sessions/"

_log = logging.getLogger(__name__)
_FAILED: Final = "The gateway failed, through no fault of the request. What it prints says more."
_NO_TOKEN: Final = "The token is missing or wrong. It goes into Authorization: Bearer, or x-api-key."
_FORM: Final = "multipart/form-data"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Guard:
    """ASGI middleware that passes on only permitted requests."""

    def __init__(self, inner: ASGIApp, *, token: str, hosts: Collection[str], origins: Collection[str]) -> None:
        """
        Args:
            inner: the wrapped application.
            token: token that requests must present.
            hosts: allowed Host headers, including the port.
            origins: allowed origins of web pages. An address in `hosts` isn't an allowed origin by itself.
        """
        self._inner = inner
        self._token = token.encode()
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            self._check(scope)
            receive = await _bounded_body(scope, receive)
        except Refused as refused:
            await send_refusal(refused, send)
            return
        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._inner(scope, receive, send_on)
        except Exception:
            _log.exception("%s %s", scope["method"], scope["path"])
            if has_begun:
                raise  # too late for an error response: uvicorn closes the connection
            await send_refusal(Refused(500, _FAILED), send)

    def _check(self, scope: Scope) -> None:
        def values(name: bytes) -> list[str]:
            return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]

        hosts, origins = values(b"host"), values(b"origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            raise Refused(403, "Not allowed under this name. [gateway] hosts in config.toml names others.")
        if any(origin.lower() not in self._origins for origin in origins):
            raise Refused(403, "Not allowed for web pages of this origin. [gateway] origins in config.toml names some.")
        if scope["path"] in OPEN and scope["method"] in ("GET", "HEAD"):
            return
        reads_docs = scope["path"] in DOCS and scope["method"] in ("GET", "HEAD")
        if not (self._has_token(values) or (reads_docs and self._has_password(values(b"authorization")))):
            raise Refused(401, _NO_TOKEN, code="docs" if reads_docs else "")
        if scope["method"] in _WITH_BODY:
            _check_type(scope["path"], values(b"content-type"))

    def _has_password(self, given: list[str]) -> bool:
        """Return whether the Basic password is the token. The user name is ignored."""
        kind, _, packed = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        try:
            password = base64.b64decode(packed, validate=True).partition(b":")[2]
        except ValueError:
            return False
        return kind.lower() == "basic" and hmac.compare_digest(password, self._token)

    def _has_token(self, values: Callable[[bytes], list[str]]) -> bool:
        """Return whether the token is in one of the two headers, or the same in both."""
        bearers, keys = values(b"authorization"), values(b"x-api-key")
        given = [value[len("bearer ") :] for value in bearers if value[: len("bearer ")].lower() == "bearer "]
        if len(bearers) > 1 or len(keys) > 1 or len(given) != len(bearers) or not (given or keys):
            return False
        return all([hmac.compare_digest(one.encode("latin-1"), self._token) for one in (*given, *keys)])


def _check_type(path: str, kinds: list[str]) -> None:
    kind = kinds[0].partition(";")[0].strip().lower() if len(kinds) == 1 else ""
    wanted = _FORM if path.startswith(UPLOADS) else JSON
    if kind != wanted:
        raise Refused(415, f"Only {wanted} is accepted here.")


async def _bounded_body(scope: Scope, receive: Receive) -> Receive:
    """Read a JSON body completely, or bound an upload while it is read.

    Raises:
        Refused: the body is too long, too slow or incomplete.
    """
    if scope["method"] not in _WITH_BODY:
        return receive
    is_upload = scope["path"].startswith(UPLOADS)
    most = MAX_UPLOAD if is_upload or scope["path"].startswith(SESSIONS) else MAX_JSON
    length = next((value for key, value in scope["headers"] if key.lower() == b"content-length"), b"0")
    if not length.isdigit() or int(length) > most:
        raise Refused(413, f"The body has more than {most:,} bytes.")
    if is_upload:
        return _counted(receive, most)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WAIT):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refused(400, "The body did not come whole.")
                body += message.get("body", b"")
                if len(body) > most:
                    raise Refused(413, f"The body has more than {most:,} bytes.")
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        raise Refused(408, f"The body did not come within {BODY_WAIT:.0f} s.") from None
    return read_again(bytes(body), receive)


def read_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays a body that was already read."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _counted(receive: Receive, most: int) -> Receive:
    """Return a `receive` that aborts an upload if it is too long or too slow."""
    read = 0
    until = asyncio.get_running_loop().time() + UPLOAD_WAIT

    async def counted() -> Message:
        nonlocal read
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise Refused(408, f"The upload did not come within {UPLOAD_WAIT:.0f} s.") from None
        read += len(message.get("body", b""))
        if read > most:
            raise Refused(413, f"The body has more than {most:,} bytes.")
        return message

    return counted


async def send_refusal(refused: Refused, send: Send) -> None:
    """Send an error response and close the connection, so that the rest of the request needn't be read."""
    body = refused.body
    headers: Mapping[bytes, bytes] = {
        b"content-type": JSON.encode(),
        b"content-length": str(len(body)).encode(),
        b"connection": b"close",
        **({b"www-authenticate": b"Basic" if refused.code == "docs" else b"Bearer"} if refused.status == 401 else {}),
    }
    await send({"type": "http.response.start", "status": refused.status, "headers": list(headers.items())})
    await send({"type": "http.response.body", "body": body})
