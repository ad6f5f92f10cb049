"""Assembly of the gateway's ASGI application."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from vibe_jupyter.agent.engine import use_own_threads
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.guard import Guard
from vibe_jupyter.gateway.metrics import ASKS_MODEL, Counted
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import JSON, Refused, invalid_fields
from vibe_jupyter.gateway.routes.about import about_routes
from vibe_jupyter.gateway.routes.approvals import approval_routes
from vibe_jupyter.gateway.routes.chat import chat_routes
from vibe_jupyter.gateway.routes.docs import docs_routes
from vibe_jupyter.gateway.routes.files import file_routes
from vibe_jupyter.gateway.routes.messages import messages_routes
from vibe_jupyter.gateway.routes.metrics import metrics_routes
from vibe_jupyter.gateway.routes.responses import responses_routes
from vibe_jupyter.gateway.routes.sessions import session_routes
from vibe_jupyter.gateway.routes.skills import skill_routes
from vibe_jupyter.gateway.store import StoreDown
from vibe_jupyter.version import __version__

# In matching order: the most frequent requests come first.
ROUTES: Final = (
    chat_routes,
    responses_routes,
    messages_routes,
    about_routes,
    docs_routes,
    approval_routes,
    session_routes,
    file_routes,
    skill_routes,
    metrics_routes,
)

# Exceptions of routes that become error responses.
ANSWERED: Final = (Refused, RequestValidationError, HTTPException, ConfigError, StoreDown)

Tell = Callable[[str], None]


def make_app(
    parts: GatewayParts, *, token: str, hosts: Collection[str], origins: Collection[str], tell: Tell = print
) -> ASGIApp:
    """Build the gateway's ASGI application.

    Args:
        parts: objects shared by the routes.
        token: token that requests must present.
        hosts: allowed values of the Host header.
        origins: origins of web pages that may send requests.
        tell: prints problems found at start.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        use_own_threads(asyncio.get_running_loop())
        for problem in await parts.agents.start():
            tell(problem)
        if parts.metrics is not None:
            parts.metrics.is_ready = True
        yield
        await parts.agents.close()
        await parts.forwarder.close()
        await parts.store.close()

    app = FastAPI(
        title="vibe-jupyter gateway",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api-doc/openapi.json",
        docs_url=None,  # FastAPI's page loads its scripts from a CDN; see routes/docs.py
        redoc_url=None,
    )
    routers = [routes(parts) for routes in ROUTES]
    for router in routers:
        app.include_router(router)

    for kind in ANSWERED:
        app.add_exception_handler(kind, _answer_error)
    routes = [route for router in routers for route in router.routes]
    inner: ASGIApp = AsksModel(app, routes)
    if parts.metrics is not None:
        inner = Counted(inner, parts.metrics, routes, parts.agents.model_id)
    guarded = Guard(inner, token=token, hosts=hosts, origins=origins)
    if not origins:
        return guarded
    # Outside the guard: preflight requests carry no token, and error responses need CORS headers to be readable.
    named = [origin.lower() for origin in origins]
    return CORSMiddleware(
        guarded, allow_origins=named, allow_methods=("*",), allow_headers=("*",), expose_headers=("*",)
    )


class AsksModel:
    """ASGI middleware that dispatches model requests straight to their endpoints, which read the body themselves.

    Routing through FastAPI takes 0.15 ms per request. FastAPI still has these routes, for the OpenAPI document.
    """

    def __init__(self, inner: ASGIApp, routes: Iterable[BaseRoute]) -> None:
        """
        Args:
            inner: the FastAPI application, which handles all other requests.
            routes: all routes of that application.
        """
        self._inner = inner
        self._answers = {one.path: one.endpoint for one in routes if isinstance(one, Route) and one.path in ASKS_MODEL}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answers.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if answer is None:
            await self._inner(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response: Response = await answer(request)
            await response(scope, receive, send)
        except ANSWERED as error:
            await (await _answer_error(request, error))(scope, receive, send)


async def _answer_error(request: Request, error: Exception) -> Response:
    headers: Mapping[str, str] | None = None
    match error:
        case Refused():
            refused = error
        case RequestValidationError():
            refused = invalid_fields(error.errors())
        case HTTPException():  # unknown route, or method not allowed
            headers = error.headers
            words = f"{error.detail}: {request.method} {request.url.path}. /docs has all routes."
            refused = Refused(error.status_code, words)
        case _:
            refused = Refused(503 if isinstance(error, StoreDown) else 500, str(error))
    return Response(refused.body, refused.status, headers, media_type=JSON)


class BelowPrefix:
    """ASGI middleware that strips a prefix from request paths. Paths without the prefix are left alone."""

    def __init__(self, inner: ASGIApp, prefix: str) -> None:
        """
        Args:
            inner: the wrapped application.
            prefix: for example ``/services/vibe``, or "" for none.
        """
        self._inner = inner
        self._prefix = prefix.rstrip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and f"{scope['path']}/".startswith(f"{self._prefix}/"):
            raw: bytes = scope.get("raw_path") or b""
            path = scope["path"].removeprefix(self._prefix) or "/"
            scope = {**scope, "path": path, "raw_path": raw.removeprefix(self._prefix.encode()) or b"/"}
        await self._inner(scope, receive, send)
