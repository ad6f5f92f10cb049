"""``[tools.NAME]``: how a tool is allowed, and what else can be set of it."""

from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.protocol import Level
from vibe_jupyter.tools.builtin.bash import BashOptions
from vibe_jupyter.tools.builtin.grep import GrepOptions
from vibe_jupyter.tools.builtin.read_file import ReadFileOptions
from vibe_jupyter.tools.builtin.search_replace import SearchReplaceOptions
from vibe_jupyter.tools.builtin.todo import TodoOptions
from vibe_jupyter.tools.builtin.write_file import WriteFileOptions

M = TypeVar("M", bound=BaseModel)


class ToolEntry(BaseModel):
    """One tool. Other keys than these are the tool's own options."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: Level | None = None
    """None leaves the tool's own level."""
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()

    @property
    def options(self) -> Mapping[str, JsonValue]:
        """The tool's own, as written."""
        return self.model_extra or {}


TOOL_OPTIONS: Final[Mapping[str, type[BaseModel]]] = {
    "bash": BashOptions,
    "grep": GrepOptions,
    "read_file": ReadFileOptions,
    "search_replace": SearchReplaceOptions,
    "todo": TodoOptions,
    "write_file": WriteFileOptions,
}
"""Tool to the model of its options, which stands beside the tool. Tools that are missing here have none of ours."""

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {"read_file": ("read",), "search_replace": ("edit",)}
"""What later versions of Mistral Vibe call our tools; settings may use these names too."""

UNUSED_OPTIONS: Final = frozenset(
    {"codeignore_file", "denylist_standalone", "exclude_patterns", "max_content_bytes", "max_output_bytes", "max_todos"}
    | {"max_read_bytes", "max_state_history", "max_timeout", "model", "sensitive_patterns", "timeout", "user_agent"}
    | {"chunk_size", "create_backup", "create_parent_dirs", "default_max_matches", "default_timeout"}
    | {"fuzzy_threshold", "max_content_size", "max_write_bytes"}
)
"""Options of Mistral Vibe's tools. Where ours have no such option, it means nothing and is no reason for a word."""
OTHER_TOOLS: Final = frozenset({"exit_plan_mode", "skill", "task", "web_fetch", "web_search"})
"""Tools of Mistral Vibe's that files may speak of, whether there is one here or not."""


def options_of(entry: ToolEntry | None, model: type[M]) -> M:
    """A tool's options, with its defaults for the rest."""
    written = (entry or ToolEntry()).options
    return model.model_validate({key: value for key, value in written.items() if key in model.model_fields})
