"""Toolsets of a kernel that import their implementation on first use.

Built-in tools are imported with the first call of one, custom tools and MCP servers once any exist. The specs of the
built-in tools come from a JSON file beside this module, which `scripts/offered_tools.py` writes.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unicodedata import normalize

from vibe_jupyter import config
from vibe_jupyter.app.kernel_parts import McpParts, ToolParts
from vibe_jupyter.app.project import TOOLS, CurrentSettings, KernelSettings
from vibe_jupyter.config import DEFAULT_SETTINGS, Settings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.safe_imports import without_collections, without_working_folder
from vibe_jupyter.tools.contract import registered_tools
from vibe_jupyter.tools.shell_path import find_shell

if TYPE_CHECKING:
    from vibe_jupyter.agent.agent import RunHooks
    from vibe_jupyter.app.built_in_tools import BuiltInTools
    from vibe_jupyter.app.custom_tools import CustomTools
    from vibe_jupyter.app.mcp import McpServers
    from vibe_jupyter.mcp.resources import TabOffers
    from vibe_jupyter.tools.contract import Tool, Toolset


SPECS: Final = Path(__file__).with_name("tool_specs.json")
# Words that ask to remember or to forget, by language: prefixes of words, exceptions to these prefixes, and substrings
# for languages without spaces between words or with signs that aren't letters. A false match costs 110 tokens per
# conversation; a missed one leaves the user without `memory`.
MEMORY_WORDS: Final = Path(__file__).with_name("memory_words.json")
_BETWEEN: Final = lazy_pattern(r"\W+")
_CELL_TOOLS: Final = frozenset(
    {"delete_cells", "edit_cell", "insert_cell", "move_cells", "read_notebook", "run_cells", "verify_notebook"}
)


class DeferredTools:
    """Toolset of the built-in tools."""

    def __init__(self, parts: ToolParts) -> None:
        self._parts = parts
        self._settings = DEFAULT_SETTINGS
        missing = {*(_CELL_TOOLS if parts.kernel.notebook is None else ()), *(["bash"] if find_shell() is None else [])}
        self._specs = {spec.name: spec for spec in stored_specs() if spec.name not in missing}
        self._specs_but_memory = tuple(spec for name, spec in self._specs.items() if name != "memory")
        self._offers_memory = False
        self._tools: BuiltInTools | None = None

    def take(self, settings: Settings) -> None:
        """Apply new settings."""
        self._settings = settings
        if self._tools is not None:
            self._tools.take(settings)

    def forget(self) -> None:
        """Reset for a new conversation."""
        self._offers_memory = False
        if self._tools is not None:
            self._tools.forget()

    def before_prompt(self, text: str) -> None:
        """Offer `memory` from now on if the folder has memories or the prompt asks for it."""
        self._offers_memory = self._offers_memory or asks_for_memory(text) or self._has_memory()

    def names(self) -> Sequence[str]:
        """Return the names of all tools, including those that aren't offered now."""
        return tuple(self._specs)

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(self._specs.values()) if self._offers_memory else self._specs_but_memory

    def _has_memory(self) -> bool:
        folder = self._parts.kernel.home / "memory"
        if not folder.is_dir():
            return False
        with without_working_folder():
            from vibe_jupyter.tools.memory import MemoryFile

        return MemoryFile(folder, self._parts.kernel.folder).path.exists()

    def find(self, name: str) -> "Tool[Any] | None":
        if name not in self._specs:
            return None
        if self._tools is None:
            with without_working_folder(), without_collections():
                from vibe_jupyter.app.built_in_tools import BuiltInTools

            self._tools = BuiltInTools(self._parts, self._settings)
        return self._tools.by_name[name]


class DeferredCustomTools:
    """Toolset of the user's custom tools, empty without any."""

    def __init__(self, setup: KernelSettings, parts: ToolParts) -> None:
        self._setup = setup
        self._parts = parts
        self._tools: CustomTools | None = None

    def load(self, current: CurrentSettings) -> list[str]:
        """See `CustomTools.load`."""
        named = current.files or current.reading.settings.tool_paths
        if self._tools is None and not named and not (self._parts.kernel.home / TOOLS).is_dir():
            return []
        return self._present_tools().load(current)

    def specs(self) -> Sequence[ToolSpec]:
        return self._present_tools().specs() if self._may_have_tools() else ()

    def find(self, name: str) -> "Tool[Any] | None":
        return self._present_tools().find(name) if self._may_have_tools() else None

    def forget(self) -> None:
        """Reset per-conversation state of the tools."""
        if self._tools is not None:
            self._tools.forget()

    def _may_have_tools(self) -> bool:
        return self._tools is not None or bool(registered_tools())

    def _present_tools(self) -> "CustomTools":
        if self._tools is None:
            with without_working_folder(), without_collections():
                from vibe_jupyter.app.custom_tools import CustomTools, MainThreadRunner

            runner = MainThreadRunner(self._parts.kernel.shell, self._parts.kernel.pump, self._parts.kernel.main_thread)
            self._tools = CustomTools(self._setup, runner)
        return self._tools


def asks_for_memory(prompt: str) -> bool:
    """Return whether a prompt may ask to remember or to forget something."""
    known = json.loads(MEMORY_WORDS.read_text(encoding="utf-8"))
    text = normalize("NFC", prompt).casefold()
    words = f" {_BETWEEN.sub(' ', text)}"
    for word in known["except"]:
        words = words.replace(f" {word}", " ")
    # Not one large regular expression: compiling it would delay a first prompt by 8 ms.
    begins = map(" {}".format, chain.from_iterable(known["beginnings"].values()))
    anywhere = chain.from_iterable(known["anywhere"].values())
    return any(map(words.__contains__, begins)) or any(map(text.__contains__, anywhere))


def stored_specs() -> list[ToolSpec]:
    """Return the specs of all built-in tools, in order."""
    stored: list[dict[str, Any]] = json.loads(SPECS.read_text(encoding="utf-8"))
    return [ToolSpec.model_construct(**spec) for spec in stored]


# Patterns that Mistral Vibe writes into its config files; these names are always protected here.
ASKED_ANYWAY: Final = frozenset({"**/.env", "**/.env.*"})


def tool_lists(settings: Settings) -> Mapping[str, ToolLists]:
    """Return the allowlists and denylists of the settings by tool."""
    out: dict[str, ToolLists] = {}
    for name, entry in settings.tools.items():
        standalone = entry.options.get("denylist_standalone", ())
        words = tuple(map(str, standalone)) if isinstance(standalone, list | tuple) else ()
        asked = tuple(glob for glob in entry.sensitive_patterns or () if glob not in ASKED_ANYWAY)
        if entry.allowlist or entry.denylist or words or asked:
            out[name] = ToolLists(entry.allowlist, entry.denylist, words, asked)
    return out


_NOTHING: Final[Mapping[str, str]] = {}


class LazyMcp:
    """Lazy stand-in for `McpServers`, which isn't imported until a server is declared. Main thread only."""

    def __init__(self, setup: KernelSettings, around: McpParts) -> None:
        self._setup = setup
        self._around = around
        self._mcp: McpServers | None = None

    @property
    def present(self) -> "McpServers":
        """The MCP servers, created on first access."""
        if self._mcp is None:
            with without_working_folder():
                from vibe_jupyter.app.mcp import McpServers

            self._mcp = McpServers(self._setup, self._around)
        return self._mcp

    @property
    def offers(self) -> "TabOffers | None":
        """Prompts and resources of running servers, for completion."""
        return None if self._mcp is None else self._mcp.offers

    @property
    def toolsets(self) -> "Sequence[Toolset]":
        """Toolset of the servers, in a list; empty without servers."""
        return [] if self._mcp is None else [self._mcp.toolset]

    @property
    def secrets(self) -> Mapping[str, str]:
        """Values that servers receive and that must be redacted, keyed by their label."""
        return _NOTHING if self._mcp is None else self._mcp.plan.secrets

    def before_prompt(self, reading: config.SettingsReading) -> list[str]:
        """See `McpServers.before_prompt`."""
        return self.present.before_prompt(reading) if self._are_declared(reading) else []

    def offering(self, reading: config.SettingsReading) -> Sequence[str]:
        """See `McpServers.offering`."""
        return () if self._mcp is None else self._mcp.offering(reading)

    def run_hooks(self, text: str) -> "RunHooks | None":
        """See `McpServers.run_hooks`."""
        return None if self._mcp is None else self._mcp.run_hooks(text)

    def names(self) -> list[str]:
        """Return the names of the declared servers.

        Raises:
            ConfigError: A setting is invalid.
        """
        return self.present.names() if self._are_declared(self._setup.read()) else []

    def tool_names(self, reading: config.SettingsReading | None = None) -> list[str]:
        """Return the known tool names of accepted servers."""
        try:
            return self.present.tool_names() if self._are_declared(reading or self._setup.read()) else []
        except ConfigError:  # the next prompt reports the invalid setting
            return []

    def may_have(self, name: str) -> bool:
        """Return whether a server that hasn't started yet may offer a tool of this name."""
        return self._mcp is not None and self._mcp.may_have(name)

    def why_unused(self, name: str) -> str:
        """See `McpServers.why_unused`."""
        return "" if self._mcp is None else self._mcp.why_unused(name)

    def forget(self) -> None:
        """Reset the tools offered in the conversation that ended."""
        if self._mcp is not None:
            self._mcp.toolset.forget()

    def close(self) -> None:
        """Stop all servers."""
        if self._mcp is not None:
            self._mcp.close()

    def _are_declared(self, reading: config.SettingsReading) -> bool:
        return self._mcp is not None or bool(reading.settings.mcp_servers)
