"""A person's own tool, however it was written, as one value."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.tools.base import ToolContext
from vibe_jupyter.tools.truncate import head_and_tail

LONGEST_DESCRIPTION: Final = 4_000
"""Characters; every request carries it."""
BUILT_IN: Final = frozenset(
    {"ask_user_question", "bash", "checkpoint", "delete_cells", "edit_cell", "grep", "insert_cell", "inspect_variable"}
    | {"list_variables", "memory", "move_cells", "read_cell", "read_file", "read_notebook", "read_output", "run_cell"}
    | {"run_code", "search_replace", "skill", "stale_cells", "task", "todo", "trust_folder", "verify_notebook"}
    | {"write_file"}
)
"""Names that mean our own tools, built or to come: another tool of the name would be allowed by the grants of ours."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Definition:
    """What a tool is called, takes and does."""

    name: str
    description: str
    arguments: type[BaseModel]
    call: Callable[[BaseModel, ToolContext], Any]
    """Gives the result, or something to wait for, or something that yields progress and last the result."""
    is_async: bool
    """Whether `call` returns at once."""
    source: str
    """Where it was written, for the person."""
    result: type[BaseModel] | None = None
    """What each result must be; None where the tool does not say."""


def checked_name(name: str) -> str:
    """A name a tool may have.

    Raises:
        ConfigError: it may not; says why.
    """
    if name in BUILT_IN or name.startswith("mcp__"):
        raise ConfigError(f"There is a tool {name} already. Give yours another name: @vibe_jupyter.tool(name=…).")
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"{name!r} is no name for a tool: letters, digits, _ and - only, at most 64.")
    return name


def description_of(words: str, prompt: str | None) -> str:
    """What the model reads: a usage text of the tool's own, else the words."""
    return head_and_tail((prompt or "").strip() or words.strip(), LONGEST_DESCRIPTION)
