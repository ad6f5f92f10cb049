"""Who may speak to the server: programs of this machine that know the token, and no page (security C32)."""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

PATH: Final = "/mcp"
GONE: Final = "vibe_jupyter.gone"
"""In the scope of a request: an event that is set when its client went away."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_REFUSALS: Final = {
    401: "Not allowed: the token is missing or wrong. It is new each time the notebook is served.",
    403: "Not allowed: this is for programs on this machine, not for pages.",
    404: f"There is nothing here but {PATH}.",
    415: "Only application/json is taken.",
}


class Guard:
    """Lets requests through to an ASGI application."""

    def __init__(self, inner: Application, *, token: str, port: int) -> None:
        self._inner = inner
        self._token = f"Bearer {token}".encode()
        self._hosts = {f"{name}:{port}".encode() for name in ("127.0.0.1", "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(refusal, send)
            return
        gone = scope[GONE] = asyncio.Event()

        async def watched() -> MutableMapping[str, Any]:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        await self._inner(scope, watched, send)

    def _refusal(self, scope: Scope) -> int | None:
        """Status of the refusal; None where there is no reason for one."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]

        def values(name: bytes) -> list[bytes]:
            return [value for key, value in headers if key.lower() == name]

        hosts, origins, tokens, kinds = map(values, (b"host", b"origin", b"authorization", b"content-type"))
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts or not self._origins.issuperset(origins):
            return 403
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
            return 401
        if scope["path"] != PATH:
            return 404
        if scope["method"] == "POST" and (len(kinds) != 1 or _media_type(kinds[0]) != b"application/json"):
            return 415
        return None


def _media_type(value: bytes) -> bytes:
    return value.split(b";", 1)[0].strip().lower()


async def _refuse(status: int, send: Send) -> None:
    body = json.dumps({"error": _REFUSALS[status]}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": body})
