"""The tools of a kernel as the first request names them: the tools themselves are imported with the first call of one.

What the model reads of the built-in tools stands in a file beside this one, which `scripts/offered_tools.py` writes.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vibe_jupyter.app.kernel_parts import ToolParts
from vibe_jupyter.app.project import TOOLS, CurrentSettings, KernelSettings
from vibe_jupyter.config import Settings
from vibe_jupyter.permissions.rules import ToolLists
from vibe_jupyter.protocol import ToolSpec
from vibe_jupyter.safe_imports import without_collections, without_working_folder
from vibe_jupyter.tools.contract import registered_tools
from vibe_jupyter.tools.shell_path import find_shell

if TYPE_CHECKING:
    from vibe_jupyter.app.built_in_tools import BuiltInTools
    from vibe_jupyter.app.custom_tools import CustomTools
    from vibe_jupyter.tools.contract import Tool

SPECS: Final = Path(__file__).with_name("tool_specs.json")
_CELL_TOOLS: Final = frozenset(
    {"delete_cells", "edit_cell", "insert_cell", "move_cells", "read_cell", "read_notebook", "read_output", "run_cell"}
)


class DeferredTools:
    """The toolset of the built-in tools."""

    def __init__(self, parts: ToolParts) -> None:
        self._parts = parts
        self._settings = Settings()
        missing = {*(_CELL_TOOLS if parts.notebook is None else ()), *(["bash"] if find_shell() is None else [])}
        self._specs = {spec.name: spec for spec in stored_specs() if spec.name not in missing}
        self._tools: BuiltInTools | None = None

    def take(self, settings: Settings) -> None:
        """Use these settings from now on."""
        self._settings = settings
        if self._tools is not None:
            self._tools.take(settings)

    def forget(self) -> None:
        """Begin a new conversation."""
        if self._tools is not None:
            self._tools.forget()

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(self._specs.values())

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
        named = current.reading.tree.table.get("tool_paths")
        if self._tools is None and named is None and not current.look.files and not (self._parts.home / TOOLS).is_dir():
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


def stored_specs() -> list[ToolSpec]:
    """What the model reads of all built-in tools, in their order."""
    stored: list[dict[str, Any]] = json.loads(SPECS.read_text(encoding="utf-8"))
    return [ToolSpec(**spec) for spec in stored]


def tool_lists(settings: Settings) -> Mapping[str, ToolLists]:
    """The allowlists and denylists of the settings."""
    out: dict[str, ToolLists] = {}
    for name, entry in settings.tools.items():
        standalone = entry.options.get("denylist_standalone", ())
        words = tuple(map(str, standalone)) if isinstance(standalone, list | tuple) else ()
        if entry.allowlist or entry.denylist or words:
            out[name] = ToolLists(entry.allowlist, entry.denylist, words)
    return out
