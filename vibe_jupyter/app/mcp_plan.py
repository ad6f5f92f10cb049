"""Which MCP servers are declared, and how each stands: accepted, waiting for the person, or not to be used."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from vibe_jupyter import config
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.policy.accepted_servers import AcceptedServers, Identity, identity
from vibe_jupyter.protocol import Level
from vibe_jupyter.tools.mcp.names import PREFIX
from vibe_jupyter.tools.mcp.server import Server

Standing = Literal["accepted", "refused", "unknown", "disabled", "incomplete"]
"""``incomplete``: a variable that it wants is not set."""


@dataclass(frozen=True)
class Planned:
    """One declared server."""

    declared: config.Declared
    standing: Standing
    filled: Server | None = None
    """With its keys; None where it is not to be used."""
    identity: Identity | None = None
    """What is accepted of it; None where that is not known."""
    problem: str = ""

    @property
    def name(self) -> str:
        return self.declared.name


@dataclass(frozen=True)
class Plan:
    """All of them, as the settings are just now."""

    servers: tuple[Planned, ...] = ()
    problems: tuple[str, ...] = ()
    """Sentences for the person."""
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """What is given to servers and never shown, by what it is called."""

    def at(self, *standings: Standing) -> tuple[Planned, ...]:
        """Those that stand so."""
        return tuple(one for one in self.servers if one.standing in standings)

    def find(self, name: str) -> Planned | None:
        """The server of that name; None when there is none."""
        return next((one for one in self.servers if one.name == name), None)

    @property
    def identities(self) -> dict[str, str]:
        """What each usable server is accepted as, by name."""
        return {one.name: one.identity.digest for one in self.at("accepted") if one.identity is not None}


def plan(reading: config.Reading, environ: Mapping[str, str], *, folder: Path, accepted: AcceptedServers) -> Plan:
    """Look at what is declared; start nothing.

    Args:
        reading: the settings.
        environ: the process's environment.
        folder: the project.
        accepted: the person's decisions.

    Raises:
        ConfigError: the decisions cannot be read.
    """
    declared = config.mcp_servers(reading)
    if not declared.servers:
        return Plan(problems=declared.problems)
    known = config.effective(environ)
    found = (_planned(one, known, folder, accepted) for one in declared.servers)
    levels = reading.settings.levels()
    servers = tuple(_with_allowed(one, levels) if one.declared.of_project else one for one in found)
    secrets: dict[str, str] = {}
    for one in declared.servers:
        if not one.written.disabled:
            secrets |= one.secrets(known)
    return Plan(servers, (*declared.problems, *(one.problem for one in servers if one.problem)), secrets)


def _planned(one: config.Declared, environ: Mapping[str, str], folder: Path, accepted: AcceptedServers) -> Planned:
    if one.written.disabled:
        return Planned(one, "disabled")
    try:
        filled = one.filled(environ)
    except ConfigError as error:
        return Planned(one, "incomplete", problem=str(error))
    what = identity(one.written, filled, variables=one.variables, folder=folder)
    return Planned(one, accepted.state(what), filled, what)


def _with_allowed(one: Planned, levels: Mapping[str, Level]) -> Planned:
    """A folder's server with what runs of it unasked: it may bear the name of another, which that was meant for."""
    forms = (f"{PREFIX}{one.name}__", f"{one.name}_")
    unasked = sorted(name for name, level in levels.items() if level == "always" and name.startswith(forms))
    if not unasked or one.identity is None:
        return one
    told = f"  without asking each time, as your settings say: {', '.join(unasked)}"
    return replace(one, identity=replace(one.identity, shown=(*one.identity.shown, told)))
