"""The gateway's server: its socket, token, start and shutdown."""

import asyncio
import gc
import math
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

import uvicorn

from vibe_jupyter import config
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.gateway.agents import AgentParts
from vibe_jupyter.gateway.app import BelowPrefix, make_app
from vibe_jupyter.gateway.approvals import APPROVAL_WAIT, PendingApprovals, SessionGrants
from vibe_jupyter.gateway.files import FileStore
from vibe_jupyter.gateway.forwarding import Forwarder
from vibe_jupyter.gateway.metrics import HttpMetrics
from vibe_jupyter.gateway.parts import GatewayParts
from vibe_jupyter.gateway.relay import AGENT
from vibe_jupyter.gateway.run_journals import RunJournals
from vibe_jupyter.gateway.sessions import KeptSessions
from vibe_jupyter.gateway.skills import SkillStore
from vibe_jupyter.gateway.store import SqliteStore, Store, owner_mark
from vibe_jupyter.gateway.work_folders import WorkFolders
from vibe_jupyter.import_guard import work_for_us
from vibe_jupyter.mcp_server.connections import Connection
from vibe_jupyter.safe_imports import without_working_folder

HOST: Final = "127.0.0.1"
PORT: Final = 8642
TOKEN: Final = "VIBE_GATEWAY_TOKEN"  # environment variable with the token; without it, each start generates a new one
TOKEN_BYTES: Final = 32
SHORTEST_TOKEN: Final = 32  # characters of a token from the environment
# Environment variable: milliseconds of silence after which a stream sends a keep-alive
KEEP_ALIVE: Final = "KEEP_ALIVE_INTERVAL"
KEEP_ALIVE_DEFAULT: Final = 10_000
STORE: Final = "gateway/state.db"  # relative to the user's folder
WORK: Final = "gateway/work"  # working folders, relative to the user's folder
MAX_SILENT: Final = 256  # connections without a complete request; beyond this the oldest is closed
MAX_CONNECTIONS: Final = 1024
KEEP_CONNECTION: Final = 75  # seconds to keep an idle connection after a request
START_WAIT: Final = 60.0  # seconds, including the start of MCP servers
STOP_WAIT: Final = 10.0  # seconds after `GRACE` for MCP servers to stop
_LOOK: Final = 0.01  # seconds between checks whether the server has started
# Allocations that trigger a garbage collection, instead of Python's 700. A request allocates a few thousand objects and
# keeps none.
GARBAGE: Final = 50_000
GRACE: Final = 10.0  # seconds for responses in progress to finish at shutdown
LAST_WORDS: Final = 2.0  # seconds after `GRACE` for streams to report that they were aborted


class ServerWaits(NamedTuple):
    """Time limits for users and responses."""

    approval: float = APPROVAL_WAIT  # seconds until an unanswered approval is denied
    grace: float = GRACE  # seconds for responses in progress to finish at shutdown


USUAL_WAITS: Final = ServerWaits()


class GatewayConnection(Connection):
    """HTTP connection with a higher limit of idle connections, as many clients may connect at once."""

    most_silent = MAX_SILENT


class _EndingServer(uvicorn.Server):
    """Uvicorn server that aborts responses after a grace period, so that streams can still report the reason."""

    def __init__(self, made_of: uvicorn.Config, *, parts: GatewayParts, grace: float) -> None:
        super().__init__(made_of)
        self._parts = parts
        self._grace = grace

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down after a grace period for responses in progress."""
        timer = asyncio.get_running_loop().call_later(self._grace, self._end_answers)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _end_answers(self) -> None:
        for one in tuple(self._parts.live):
            one.end()


class GatewayServer:
    """The gateway as a server. Its socket is bound on creation.

    Raises:
        ConfigError: a setting or an environment variable is invalid, or the port can't be listened on.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        host: str = HOST,
        port: int | socket.socket = PORT,
        waits: ServerWaits = USUAL_WAITS,
        metrics: bool = True,
    ) -> None:
        """
        Args:
            folder: the project.
            environ: environment variables.
            host: address to listen on, and a host name that requests may use.
            port: port to listen on, 0 for any free one, or a socket that already listens.
            waits: time limits.
            metrics: whether to count requests.
        """
        self.token, self.is_new_token = _token(environ)
        self.agents = AgentParts(folder, environ)
        gateway = self.agents.current().reading.settings.gateway
        if gateway.store and self.is_new_token:
            raise ConfigError(f"store in [gateway] needs {TOKEN}, the same for every gateway that shares it.")
        store = _open_store(gateway.store, config.vibe_home(environ))
        self.listening = _listen(host, port) if isinstance(port, int) else port
        self._thread: threading.Thread | None = None
        self.host, self.port = host, self.listening.getsockname()[1]
        self.parts = _make_parts(self.agents, environ, store, owner_mark(self.token), waits, metrics=metrics)
        names = {"127.0.0.1", "localhost", "[::1]", _in_url(host)}
        app = make_app(
            self.parts,
            token=self.token,
            hosts={*(f"{name}:{self.port}" for name in names), *gateway.hosts},
            origins=gateway.origins,
            tell=lambda problem: print(problem, file=sys.stderr, flush=True),  # noqa: T201
        )
        self._grace = waits.grace
        self._uvicorn = _EndingServer(
            uvicorn.Config(
                BelowPrefix(app, gateway.prefix),
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="on",
                http=GatewayConnection,
                loop=_loop(),
                ws="none",
                server_header=False,
                date_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_keep_alive=KEEP_CONNECTION,
                timeout_graceful_shutdown=math.ceil(waits.grace + LAST_WORDS),
            ),
            parts=self.parts,
            grace=waits.grace,
        )

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"http://{_in_url(self.host)}:{self.port}/v1"

    def serve(self) -> None:
        """Serve until a signal or `stop`, in a process that does nothing else."""
        gc.freeze()  # collections needn't traverse the modules and settings loaded by now
        gc.set_threshold(GARBAGE)
        self._run()

    def start(self) -> None:
        """Serve on a new thread. Returns when the server accepts requests.

        Raises:
            ConfigError: the server didn't start.
        """
        self._thread = threading.Thread(target=self._run, name=f"gateway-{self.port}", daemon=True)
        self._thread.start()
        until = time.monotonic() + START_WAIT
        while not self._uvicorn.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                self.stop()
                raise ConfigError(f"The gateway did not start within {START_WAIT:.0f} s.")
            time.sleep(_LOOK)

    def _run(self) -> None:
        work_for_us()
        self._uvicorn.run(sockets=[self.listening])

    def stop(self) -> None:
        """Shut down, with a grace period for responses in progress."""
        self._uvicorn.should_exit = True
        if self._thread is not None:
            self._thread.join(self._grace + LAST_WORDS + STOP_WAIT)
        self.listening.close()


def _loop() -> Literal["asyncio", "uvloop"]:
    """Return uvicorn's choice of event loop.

    Uvicorn itself would import a `uvloop.py` from the working folder.
    """
    with without_working_folder():
        try:
            import uvicorn.loops.uvloop  # noqa: F401, PLC0415  # pyright: ignore[reportUnusedImport]
        except ImportError:
            return "asyncio"
    return "uvloop"


def _in_url(host: str) -> str:
    """Return the host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host


def _open_store(url: str, home: Path) -> Store:
    if not url:
        return SqliteStore(home / STORE)
    try:
        from vibe_jupyter.gateway.redis_store import RedisStore  # noqa: PLC0415 - an extra of its own
    except ImportError as error:
        raise ConfigError(f"{error.name} is missing. Install it with: pip install 'vibe-jupyter[redis]'") from error
    return RedisStore(url)


def _make_parts(
    agents: AgentParts, environ: Mapping[str, str], store: Store, owner: str, waits: ServerWaits, *, metrics: bool
) -> GatewayParts:
    grants = SessionGrants(store, owner)
    return GatewayParts(
        agents=agents,
        forwarder=Forwarder(user_agent=AGENT),
        store=store,
        owner=owner,
        approvals=PendingApprovals(store, owner, wait=waits.approval),
        grants=grants,
        sessions=KeptSessions(store, owner, grants),
        files=FileStore(store, owner),
        skills=SkillStore(store, owner),
        folders=WorkFolders(config.vibe_home(environ) / WORK, store, owner),
        journals=RunJournals(environ, agents.workspace),
        metrics=HttpMetrics() if metrics else None,
        keep_alive=_keep_alive(environ),
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket's protocol is given; without it each response is delayed by 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if os.name == "posix":  # on Windows it would let other processes listen on the same port
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()  # before the address is announced
    except OSError as error:
        listening.close()
        raise ConfigError(
            f"{host}:{port} cannot be listened on: {error.strerror}. Name another with --host or --port."
        ) from error
    return listening


def _token(environ: Mapping[str, str]) -> tuple[str, bool]:
    """Return the token, and whether it was generated."""
    given = config.effective_environment(environ).get(TOKEN, "").strip()
    if not given:
        return secrets.token_hex(TOKEN_BYTES), True
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(
            f"{TOKEN} is too short or holds a blank: it needs {SHORTEST_TOKEN} characters or more. "
            "openssl rand -hex 32 makes one."
        )
    return given, False


def _keep_alive(environ: Mapping[str, str]) -> float:
    """Return the interval in seconds."""
    given = environ.get(KEEP_ALIVE, "").strip() or str(KEEP_ALIVE_DEFAULT)
    if not given.isdecimal() or not int(given):
        raise ConfigError(f"{KEEP_ALIVE} is {given!r}; it is a number of milliseconds, such as {KEEP_ALIVE_DEFAULT}.")
    return int(given) / 1000
