"""Routes for health checks and the list of models."""

from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel

from vibe_jupyter import config
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.refusals import Refused

OBJECT: Final = "model"
MODELS: Final = "/v1/models"


class ListedModel(BaseModel):
    """Model that a request can name."""

    id: str
    object: str = OBJECT
    created: int = 0
    owned_by: str  # the provider
    status: str  # ``loaded``, or ``unloaded`` if its API key is missing
    tools_available: bool
    mcp_tools_count: int
    mcp_servers_connected: int


class ModelList(BaseModel):
    """List of models, the default first."""

    object: str = "list"
    data: list[ListedModel]


class Health(BaseModel):
    """Status of the gateway itself, not of the model server."""

    status: str = "ok"


def about_routes(parts: GatewayParts) -> APIRouter:
    """Create the router for ``/``, ``/health`` and ``/v1/models``."""
    router = APIRouter(tags=["about"])

    @router.head("/", include_in_schema=False)
    @router.head("/health", include_in_schema=False)
    @router.get("/", response_model=Health)
    @router.get("/health", response_model=Health)
    async def health() -> Health:  # pyright: ignore[reportUnusedFunction]
        """Return the gateway's status, without contacting the model server."""
        return Health()

    @router.get(MODELS, response_model=ModelList)
    @router.get(MODELS + "/", include_in_schema=False)
    async def models() -> ModelList:  # pyright: ignore[reportUnusedFunction]
        """List the models that a request can name."""
        settings = parts.agents.current().reading.settings
        names = parts.agents.model_names(settings)
        return ModelList(data=[_entry(parts, settings, name) for name in names])

    @router.get(MODELS + "/{model_id:path}", response_model=ListedModel)
    async def model(model_id: str) -> ListedModel:  # pyright: ignore[reportUnusedFunction]
        """Return a model by name; `default` is the first."""
        settings = parts.agents.current().reading.settings
        try:
            name = parts.agents.listed_name(model_id, settings)
        except ConfigError as error:
            raise Refused(404, str(error), code="model_not_found", param="model") from None
        return _entry(parts, settings, name)

    return router


def _entry(parts: GatewayParts, settings: config.Settings, name: str) -> ListedModel:
    mcp = parts.agents.mcp_state()
    try:
        model = config.choose_model(settings, name, parts.agents.environ)
        status, owner = "loaded", model.server.name or model.server.host
    except ConfigError:
        entry = next((one for one in settings.models if name in (one.known_as, one.name)), None)
        status, owner = "unloaded", entry.provider if entry is not None else ""
    return ListedModel(
        id=name,
        owned_by=owner,
        status=status,
        tools_available=mcp.tools > 0,
        mcp_tools_count=mcp.tools,
        mcp_servers_connected=mcp.connected,
    )
