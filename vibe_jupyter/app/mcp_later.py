"""MCP servers for a kernel that may never have any: nothing of theirs is imported before one is declared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vibe_jupyter import config
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.host import ShellHost
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.app.stage import Stage
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.own_imports import without_working_folder
from vibe_jupyter.policy.grants import Grants

if TYPE_CHECKING:
    from vibe_jupyter.agent.companion import Companion
    from vibe_jupyter.app.mcp import Mcp
    from vibe_jupyter.app.mcp_offers import McpOffers
    from vibe_jupyter.tools.base import Toolset

_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class Around:
    """The parts of the kernel's app that the servers use."""

    engine: Engine
    stage: Stage
    host: ShellHost
    grants: Grants
    sees_images: Callable[[], bool]
    taken: Callable[[], frozenset[str]]
    """Names of tools that always win."""


class McpLater:
    """Answers for the servers while there are none. Main thread."""

    def __init__(self, setup: Setup, around: Around) -> None:
        self._setup = setup
        self._around = around
        self._mcp: Mcp | None = None

    @property
    def present(self) -> "Mcp":
        """The servers, there from now on."""
        if self._mcp is None:
            with without_working_folder():
                from vibe_jupyter.app.mcp import Mcp

            self._mcp = Mcp(self._setup, self._around)
        return self._mcp

    @property
    def offers(self) -> "McpOffers | None":
        """What running servers offer, for Tab."""
        return None if self._mcp is None else self._mcp.offers

    @property
    def toolsets(self) -> "Sequence[Toolset]":
        """Their tools, in a set of their own."""
        return [] if self._mcp is None else [self._mcp.toolset]

    @property
    def secrets(self) -> Mapping[str, str]:
        """What is given to servers and never shown, by what it is called."""
        return _NOTHING if self._mcp is None else self._mcp.plan.secrets

    def before_prompt(self, reading: config.Reading) -> list[str]:
        """See `Mcp.before_prompt`."""
        return self.present.before_prompt(reading) if self._are_declared(reading) else []

    def companion(self, text: str) -> "Companion | None":
        """See `Mcp.companion`."""
        return None if self._mcp is None else self._mcp.companion(text)

    def names(self) -> list[str]:
        """The servers that are declared.

        Raises:
            ConfigError: a setting is wrong.
        """
        return self.present.names() if self._are_declared(self._setup.read()) else []

    def tool_names(self) -> list[str]:
        """The tools of accepted servers that are known."""
        try:
            return self.present.tool_names() if self._are_declared(self._setup.read()) else []
        except ConfigError:  # the prompt says what is wrong
            return []

    def may_have(self, name: str) -> bool:
        """Whether a tool of this name may come with a server that was not started yet."""
        return self._mcp is not None and self._mcp.may_have(name)

    def forget(self) -> None:
        """A conversation is over, and with it what was offered in it."""
        if self._mcp is not None:
            self._mcp.toolset.forget()

    def close(self) -> None:
        """End all servers."""
        if self._mcp is not None:
            self._mcp.close()

    def _are_declared(self, reading: config.Reading) -> bool:
        return self._mcp is not None or bool(reading.settings.mcp_servers)
