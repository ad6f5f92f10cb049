"""MCP servers for a kernel that may never have any: nothing of theirs is imported before one is declared."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vibe_jupyter import config
from vibe_jupyter.app.kernel_parts import McpParts
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.agent.agent import RunHooks
    from vibe_jupyter.app.mcp import McpServers
    from vibe_jupyter.mcp.resources import TabOffers
    from vibe_jupyter.tools.contract import Toolset

_NOTHING: Final[Mapping[str, str]] = {}


class LazyMcp:
    """Answers for the servers while there are none. Main thread."""

    def __init__(self, setup: KernelSettings, around: McpParts) -> None:
        self._setup = setup
        self._around = around
        self._mcp: McpServers | None = None

    @property
    def present(self) -> "McpServers":
        """The servers, there from now on."""
        if self._mcp is None:
            with without_working_folder():
                from vibe_jupyter.app.mcp import McpServers

            self._mcp = McpServers(self._setup, self._around)
        return self._mcp

    @property
    def offers(self) -> "TabOffers | None":
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

    def before_prompt(self, reading: config.SettingsReading) -> list[str]:
        """See `Mcp.before_prompt`."""
        return self.present.before_prompt(reading) if self._are_declared(reading) else []

    def run_hooks(self, text: str) -> "RunHooks | None":
        """See `Mcp.run_hooks`."""
        return None if self._mcp is None else self._mcp.run_hooks(text)

    def names(self) -> list[str]:
        """The servers that are declared.

        Raises:
            ConfigError: a setting is wrong.
        """
        return self.present.names() if self._are_declared(self._setup.read()) else []

    def tool_names(self, reading: config.SettingsReading | None = None) -> list[str]:
        """The tools of accepted servers that are known."""
        try:
            return self.present.tool_names() if self._are_declared(reading or self._setup.read()) else []
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

    def _are_declared(self, reading: config.SettingsReading) -> bool:
        return self._mcp is not None or bool(reading.settings.mcp_servers)
