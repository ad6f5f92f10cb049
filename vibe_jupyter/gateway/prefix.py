"""The gateway below a path, where a proxy such as JupyterHub's keeps the path of a request as it is."""

from starlette.types import ASGIApp, Receive, Scope, Send


class BelowPrefix:
    """An ASGI application around another, which sees paths without the prefix. Those without it stay as they are."""

    def __init__(self, inner: ASGIApp, prefix: str) -> None:
        """
        Args:
            inner: gets the requests.
            prefix: ``/services/vibe``; empty for none.
        """
        self._inner = inner
        self._prefix = prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            raw: bytes = scope.get("raw_path") or b""
            path = scope["path"].removeprefix(self._prefix) or "/"
            scope = {**scope, "path": path, "raw_path": raw.removeprefix(self._prefix.encode()) or b"/"}
        await self._inner(scope, receive, send)
