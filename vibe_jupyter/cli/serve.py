"""`vibe-jupyter serve`: the agent and its MCP tools behind the APIs of model servers (docs/gateway.md)."""

import argparse
import os
import sys
from pathlib import Path

from vibe_jupyter.errors import ConfigError

_LAST_PORT = 65_535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter serve`."""
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8642, metavar="N", help="0 for one that is free (default: 8642)")
    parser.add_argument("--config", type=Path, metavar="FOLDER", help="in the place of ~/.vibe, which has config.toml")
    parser.add_argument(
        "--accept", default="", metavar="SERVERS", help="MCP servers to accept as they are declared now: files,github"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes that answer (default: 1)")
    parser.add_argument("--disable-metrics", action="store_true", help="no /metrics for Prometheus")
    parser.set_defaults(command=_serve_chosen)


def _serve_chosen(chosen: argparse.Namespace) -> int:
    if not 0 <= chosen.port <= _LAST_PORT:
        raise ConfigError(f"--port is {chosen.port}; it is a number from 0 to {_LAST_PORT}.")
    if chosen.config is not None:
        if not chosen.config.is_dir():
            raise ConfigError(f"There is no folder {chosen.config}. --config takes the one that has config.toml.")
        os.environ["VIBE_HOME"] = str(chosen.config.resolve())
    try:
        from vibe_jupyter.gateway.server import TOKEN, GatewayServer
        from vibe_jupyter.gateway.workers import GatewayWorkers, check_count
    except ImportError as error:
        raise ConfigError(f"{error.name} is missing. Install it with: pip install 'vibe-jupyter[gateway]'") from error
    check_count(chosen.workers)
    metrics = not chosen.disable_metrics
    server = GatewayServer(Path.cwd(), os.environ, host=chosen.host, port=chosen.port, metrics=metrics)
    several = GatewayWorkers(server, chosen.workers, os.environ, metrics=metrics) if chosen.workers != 1 else None
    accept: str = chosen.accept
    wanted = {name for name in accept.split(",") if name}
    declared = server.agents.declared_servers()
    if missing := wanted - {one.name for one in declared}:
        server.stop()
        known = ", ".join(one.name for one in declared) or "none"
        raise ConfigError(f"--accept names no MCP server: {', '.join(sorted(missing))}. Declared here: {known}.")
    for one in declared:
        if one.standing != "unknown" or one.identity is None:
            continue
        print("\n".join(one.identity.shown), file=sys.stderr)
        if one.name in wanted:
            server.agents.accepted.remember([one.identity], accepted=True)
            print(f"The MCP server {one.name} is accepted as shown.", file=sys.stderr)
        else:
            print(f"The MCP server {one.name} is not started: accept it with --accept {one.name}.", file=sys.stderr)
    print(f"vibe-jupyter serve: {server.url}", flush=True)
    told = f"{TOKEN}={server.token}" if server.is_new_token else f"as {TOKEN} says"
    print(f"The token, as API key: {told}", flush=True)
    (server if several is None else several).serve()
    return 0
