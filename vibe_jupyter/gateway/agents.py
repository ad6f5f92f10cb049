"""Inputs of the gateway's runs that requests share: settings, models, MCP servers and permissions."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter import config
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.compaction import CompactionTerms
from vibe_jupyter.agent.limits import PriceLimit, TimeLimit, TokenLimit, TurnLimit
from vibe_jupyter.agent.middleware import Middleware
from vibe_jupyter.app.deferred_tools import tool_lists
from vibe_jupyter.app.hooks import command_hooks, hold_guards
from vibe_jupyter.app.project import CurrentSettings, KernelSettings
from vibe_jupyter.config.settings import McpMode, Settings
from vibe_jupyter.config.tables import matches_pattern
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.request import Model
from vibe_jupyter.mcp.acceptance import AcceptedServers, PlannedServer, ServerPlan, plan_servers
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.pins import ToolPins
from vibe_jupyter.mcp.server_requests import ServerRequests
from vibe_jupyter.mcp.token_store import KeyringStore
from vibe_jupyter.mcp.tool import ToolWays
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.permissions.decide import Permissions
from vibe_jupyter.permissions.grants import Grants, GrantStore
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.tools.contract import SANDBOXED, Toolset

DEFAULT: Final = "default"  # model name with which a request asks for the gateway's default model
PROFILE: Final = "gateway"  # used as the agent's name, where a notebook has a profile
FRESH: Final = 1.0  # seconds to cache the settings, so that concurrent requests share one read
_MODEL_KEY: Final = "key of the model server"


class McpState(NamedTuple):
    """Numbers of MCP tools offered and of servers connected."""

    tools: int
    connected: int


class AgentTerms(NamedTuple):
    """Parameters of an agent that differ between requests."""

    tools: Toolset
    workspace: Workspace  # root of the tools' relative paths
    middleware: Sequence[Middleware]
    grants: Grants


class AgentParts:
    """Factory for the agents of all requests.

    Settings are reread while the gateway runs; the set of MCP servers is fixed at start. Use it on the gateway's event
    loop only.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        home = config.vibe_home(environ)
        self.environ = environ
        self.workspace = Workspace(folder)
        self.accepted = AcceptedServers(home)
        self._setup = KernelSettings(folder, environ, unsandboxed=SANDBOXED)  # here they have no sandbox
        self._grants = GrantStore(home, self.workspace.root)
        self._pins = ToolPins(home)
        requests = ServerRequests(folder, KeyringStore())
        self._servers = ServerPool(folder, environ, requests)
        self.mcp = McpToolset(self._servers, self._pins, ToolWays(requests.calls, sees_images=lambda: True))
        self._secrets: Mapping[str, str] = {}
        self._current: CurrentSettings | None = None
        self._read_at = 0.0
        self._models: dict[str, Model] = {}  # by the name in the request; cleared with the settings
        self._redactors: dict[str, Redactor] = {}  # by the model server's API key

    def current(self) -> CurrentSettings:
        """Return the settings, rereading them if the cached ones are older than `FRESH`.

        Raises:
            ConfigError: a setting is invalid, or a restriction isn't enforced here. The message names it.
        """
        now = time.monotonic()
        if self._current is None or now - self._read_at > FRESH:
            self._current, self._read_at = None, now
            self._models.clear()
            self._redactors.clear()
            current = self._setup.current()
            hold_guards(current, lambda: False)
            self._current = current
        return self._current

    def declared_servers(self) -> tuple[PlannedServer, ...]:
        """Return all declared MCP servers, including those not accepted yet.

        Raises:
            ConfigError: a setting is invalid.
        """
        self.current()
        return self._plan().servers

    async def start(self) -> list[str]:
        """Start the accepted MCP servers and return the problems, a sentence each.

        Raises:
            ConfigError: a setting is invalid, or an acceptance can't be read.
        """
        plan = self._plan()
        self._secrets = plan.secrets
        self._pins.bind(plan.identities)
        self._servers.declare([one.filled for one in plan.at("accepted") if one.filled is not None])
        problems = [*plan.problems, *await self._servers.start([one.name for one in plan.at("accepted")])]
        for one in self._servers.all():
            if one.tools:
                settled = await asyncio.to_thread(self._pins.settle, one.server.name, one.tools)
                if settled.changed:
                    names = ", ".join(settled.changed)
                    problems.append(f"The MCP server {one.server.name} has changed {names}; not offered.")
        return [*problems, *self.mcp.directory.news()]

    async def close(self) -> None:
        """Stop the MCP servers."""
        await self._servers.close()

    def mcp_state(self) -> McpState:
        """Count the offered tools and the connected servers."""
        connected = sum(one.state == "ready" for one in self._servers.all())
        return McpState(len(self.mcp.offered()), connected)

    def mode_of(self, tool: str, settings: Settings, wanted: McpMode | None) -> McpMode:
        """Return how calls of an MCP tool are handled.

        The request may choose a stricter mode than the settings, never a more permissive one.
        """
        own, modes = settings.gateway.mcp_mode, settings.gateway.mcp_modes
        if modes and (found := self.mcp.directory.named(tool)) is not None:
            own = modes.get(found.server, own)
        return max(own, wanted or own, key=_STRICTNESS.__getitem__)

    def forbids_tool(self, name: str, current: CurrentSettings) -> bool:
        """Return whether a tool isn't offered because every call of it would be denied."""
        found = self.mcp.directory.named(name)
        return current.reading.forbids_tool(*(found.names if found is not None else (name,)))

    def model(self, name: str, settings: Settings) -> Model:
        """Return the model that a request names.

        Raises:
            ConfigError: there is no model of that name, or its API key is missing.
        """
        if (known := self._models.get(name)) is not None:
            return known
        self._models[name] = config.choose_model(settings, self.listed_name(name, settings), self.environ)
        return self._models[name]

    def listed_name(self, name: str, settings: Settings) -> str:
        """Resolve a model name of a request to an entry of `model_names`.

        Raises:
            ConfigError: there is no such entry, or the settings don't allow the model.
        """
        names = self.model_names(settings)
        listed = names[0] if name in ("", DEFAULT) else name
        if listed not in names:
            for entry in settings.models:
                if name in (entry.known_as, entry.name):
                    config.check_allowed(settings, entry.name, name)
            raise ConfigError(f"There is no model {name!r}. Known: {', '.join(settings.model_names())}.")
        return listed

    def model_id(self, name: str) -> str:
        """Return the model's ID at its server, or "" if the model can't be used."""
        try:
            return self.model(name, self.current().reading.settings).name
        except ConfigError:
            return ""

    def model_names(self, settings: Settings) -> Sequence[str]:
        """Return the model names that requests may use, the default first.

        Server addresses are never among them, so a client can't direct the gateway to another host.
        """
        default = settings.active_model or config.DEFAULT_ACTIVE_MODEL
        by_name = (entry.name for entry in settings.models if settings.may_use_model(entry.name))
        return list(dict.fromkeys([default, *settings.model_names(), *by_name]))

    def agent(self, current: CurrentSettings, model: Model, client: LLMClient, terms: AgentTerms) -> Agent:
        """Create the agent for one request."""
        settings = current.reading.settings
        limits = (
            TurnLimit(settings.gateway.max_rounds),
            PriceLimit(settings.max_price),
            TokenLimit(settings.max_tokens or 0),
            TimeLimit(settings.max_seconds or 0),
        )
        return Agent(
            name=PROFILE,
            model=model,
            client=client,
            tools=terms.tools,
            permissions=Permissions(
                terms.workspace,
                settings.levels(),
                tool_lists(settings),
                terms.grants,
                outside=settings.denies_outside(),
                hooks=command_hooks(current, self.environ, lambda: ("", ""), retries=0),
            ),
            middleware=(*terms.middleware, *limits),
            instructions="",
            compaction=CompactionTerms(on_overflow=False),
            redactor=self._redactor(settings, model),
            schema_only=settings.privacy.schema_only,
        )

    def grants(self) -> Grants:
        """Return new grants based on the project's. The caller adds those of the session."""
        return Grants(self._grants)

    def allowed(self, settings: Settings, specs: Sequence[ToolSpec]) -> frozenset[str]:
        """Return the names of the tools that `[gateway] allow` lets run without approval."""
        patterns = settings.gateway.allow
        return frozenset(one.name for one in specs if any(matches_pattern(pattern, one.name) for pattern in patterns))

    def _redactor(self, settings: Settings, model: Model) -> Redactor:
        key = model.server.api_key or ""
        if key not in self._redactors:
            known = {_MODEL_KEY: key, **self._secrets}
            self._redactors[key] = self._setup.redactor(settings, known, known)
        return self._redactors[key]

    def _plan(self) -> ServerPlan:
        reading = self._setup.read()
        return plan_servers(reading, self.environ, folder=self.workspace.root, accepted=self.accepted)


_STRICTNESS: Final[Mapping[McpMode, int]] = {"execute": 0, "passthrough": 1, "off": 2}
