"""The gateway as an ASGI application, put together."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.types import ASGIApp

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.guard import Guard
from vibe_jupyter.gateway.metrics import Counted
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import JSON, Refused, error_body, invalid_fields
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
"""In the order in which they are tried: what is asked most comes first."""

Tell = Callable[[str], None]


def make_app(
    parts: GatewayParts, *, token: str, hosts: Collection[str], origins: Collection[str], tell: Tell = print
) -> ASGIApp:
    """The application.

    Args:
        parts: what its routes share.
        token: whoever has it may ask.
        hosts: names under which it is reached.
        origins: of web pages that may ask.
        tell: says what goes wrong at the start.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
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
        docs_url=None,  # it would load its page from elsewhere
        redoc_url=None,
    )
    routers = [routes(parts) for routes in ROUTES]
    for router in routers:
        app.include_router(router)

    @app.exception_handler(Refused)
    async def refuse(_request: Request, refused: Refused) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(refused.body, refused.status, media_type=JSON)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> Response:  # pyright: ignore[reportUnusedFunction]
        wrong = invalid_fields(error.errors())
        return Response(wrong.body, wrong.status, media_type=JSON)

    @app.exception_handler(ConfigError)
    async def misconfigured(_request: Request, error: ConfigError) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(error_body(500, str(error)), 500, media_type=JSON)

    @app.exception_handler(StoreDown)
    async def storeless(_request: Request, error: StoreDown) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(error_body(503, str(error)), 503, media_type=JSON)

    inner: ASGIApp = app
    if parts.metrics is not None:
        routes = [route for router in routers for route in router.routes]
        inner = Counted(app, parts.metrics, routes, parts.agents.model_id)
    return Guard(inner, token=token, hosts=hosts, origins=origins)
