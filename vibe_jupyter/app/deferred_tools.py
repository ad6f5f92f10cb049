"""The tools of a kernel as the first request names them; what they are made of is imported when it is needed.

The built-in ones come with the first call of one, custom tools and MCP servers when there is any.

What the model reads of the built-in tools stands in a file beside this one, which `scripts/offered_tools.py` writes.
"""

import json
from collections.abc import Mapping, Sequence
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
MEMORY_WORDS: Final = Path(__file__).with_name("memory_words.json")
"""Words that ask to remember or to forget, by language: how words begin, words that begin so and do not ask, and for
languages in which a word need not follow a blank, or has signs that are no letters, what stands anywhere.

A word too many costs 110 tokens of one conversation; a word too few leaves the user without `memory`.
"""
_BETWEEN: Final = lazy_pattern(r"\W+")
_CELL_TOOLS: Final = frozenset(
    {"delete_cells", "edit_cell", "insert_cell", "move_cells", "read_notebook", "run_cells", "verify_notebook"}
)


class DeferredTools:
    """The toolset of the built-in tools."""

    def __init__(self, parts: ToolParts) -> None:
        self._parts = parts
        self._settings = DEFAULT_SETTINGS
        missing = {*(_CELL_TOOLS if parts.notebook is None else ()), *(["bash"] if find_shell() is None else [])}
        self._specs = {spec.name: spec for spec in stored_specs() if spec.name not in missing}
        self._specs_but_memory = tuple(spec for name, spec in self._specs.items() if name != "memory")
        self._offers_memory = False
        self._tools: BuiltInTools | None = None

    def take(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self._settings = settings
        if self._tools is not None:
            self._tools.take(settings)

    def forget(self) -> None:
        """Begin a new conversation."""
        self._offers_memory = False
        if self._tools is not None:
            self._tools.forget()

    def before_prompt(self, text: str) -> None:
        """Offer `memory` from now on if something is remembered of the folder, or the prompt asks for it."""
        self._offers_memory = self._offers_memory or asks_for_memory(text) or self._has_memory()

    def names(self) -> Sequence[str]:
        """Of all tools, also of those that are not offered now."""
        return tuple(self._specs)

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(self._specs.values()) if self._offers_memory else self._specs_but_memory

    def _has_memory(self) -> bool:
        folder = self._parts.home / "memory"
        if not folder.is_dir():
            return False
        with without_working_folder():
            from vibe_jupyter.tools.memory import MemoryFile

        return MemoryFile(folder, self._parts.folder).path.exists()

    def find(self, name: str) -> "Tool[Any] | None":
        if name not in self._specs:
            return None
        if self._tools is None:
            with without_working_folder(), without_collections():
                from vibe_jupyter.app.built_in_tools import BuiltInTools

            self._tools = BuiltInTools(self._parts, self._settings)
        return self._tools.by_name[name]


class DeferredCustomTools:
    """The toolset of the user's custom tools, empty while there are none."""

    def __init__(self, setup: KernelSettings, parts: ToolParts) -> None:
        self._setup = setup
        self._parts = parts
        self._tools: CustomTools | None = None

    def load(self, current: CurrentSettings) -> list[str]:
        """See `CustomTools.load`."""
        named = current.files or current.reading.settings.tool_paths
        if self._tools is None and not named and not (self._parts.home / TOOLS).is_dir():
            return []
        return self._present_tools().load(current)

    def specs(self) -> Sequence[ToolSpec]:
        return self._present_tools().specs() if self._may_have_tools() else ()

    def find(self, name: str) -> "Tool[Any] | None":
        return self._present_tools().find(name) if self._may_have_tools() else None

    def forget(self) -> None:
        """A conversation is over, and with it what tools remember of it."""
        if self._tools is not None:
            self._tools.forget()

    def _may_have_tools(self) -> bool:
        return self._tools is not None or bool(registered_tools())

    def _present_tools(self) -> "CustomTools":
        if self._tools is None:
            with without_working_folder(), without_collections():
                from vibe_jupyter.app.custom_tools import CustomTools, MainThreadRunner

            runner = MainThreadRunner(self._parts.shell, self._parts.pump, self._parts.main_thread)
            self._tools = CustomTools(self._setup, runner)
        return self._tools


def asks_for_memory(prompt: str) -> bool:
    """Return whether a prompt may ask to remember or to forget something."""
    known = json.loads(MEMORY_WORDS.read_text(encoding="utf-8"))
    text = normalize("NFC", prompt).casefold()
    words = f" {_BETWEEN.sub(' ', text)}"
    for word in known["except"]:
        words = words.replace(f" {word}", " ")
    # Without one large pattern: a first prompt would wait 8 ms until it is compiled.
    begins = (f" {one}" in words for language in known["beginnings"].values() for one in language)
    stands = (one in text for language in known["anywhere"].values() for one in language)
    return any(begins) or any(stands)


def stored_specs() -> list[ToolSpec]:
    """What the model reads of all built-in tools, in their order."""
    stored: list[dict[str, Any]] = json.loads(SPECS.read_text(encoding="utf-8"))
    return [ToolSpec.model_construct(**spec) for spec in stored]


ASKED_ANYWAY: Final = frozenset({"**/.env", "**/.env.*"})
"""The patterns that Mistral Vibe writes into its files; these names are protected here in any case."""


def tool_lists(settings: Settings) -> Mapping[str, ToolLists]:
    """The allowlists and denylists of the settings."""
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

    def offering(self, reading: config.SettingsReading) -> Sequence[str]:
        """See `McpServers.offering`."""
        return () if self._mcp is None else self._mcp.offering(reading)

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

    def why_unused(self, name: str) -> str:
        """See `McpServers.why_unused`."""
        return "" if self._mcp is None else self._mcp.why_unused(name)

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
