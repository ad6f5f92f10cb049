"""The gateway as an ASGI application, put together."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.types import ASGIApp

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.guard import Guard
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import JSON, Refused, error_body
from vibe_jupyter.gateway.routes.about import about_routes
from vibe_jupyter.gateway.routes.chat import chat_routes
from vibe_jupyter.version import __version__

ROUTES: Final = (about_routes, chat_routes)

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
        yield
        for one in tuple(parts.live):
            one.end()
        await parts.agents.close()
        await parts.forwarder.close()
        await parts.store.close()

    app = FastAPI(
        title="vibe-jupyter gateway",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api-doc/openapi.json",
        redoc_url=None,
    )
    for routes in ROUTES:
        app.include_router(routes(parts))

    @app.exception_handler(Refused)
    async def refuse(_request: Request, refused: Refused) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(refused.body, refused.status, media_type=JSON)

    @app.exception_handler(ConfigError)
    async def misconfigured(_request: Request, error: ConfigError) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(error_body(500, str(error)), 500, media_type=JSON)

    return Guard(app, token=token, hosts=hosts, origins=origins)
