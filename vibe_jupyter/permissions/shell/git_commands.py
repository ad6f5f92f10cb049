"""Git's read-only commands and groups of their options, from the table `read_only_commands.toml`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from vibe_jupyter.permissions.shell.git_config import Trait
from vibe_jupyter.permissions.shell.options import OptionTable, option_table
from vibe_jupyter.permissions.shell.read_only_commands import reading_table

_GROUPS: Final[Mapping[str, str]] = reading_table()["git_options"]
GLOBAL_OPTIONS: Final = tuple(_GROUPS["global_options"].split())
SETTINGS: Final = tuple(_GROUPS["settings"].split())
WITHOUT_PATCH: Final = tuple(_GROUPS["without_patch"].split())
WITH_PATCH: Final = tuple(_GROUPS["with_patch"].split())
SILENT: Final = tuple(_GROUPS["silent"].split())
IGNORING_CHANGES: Final = tuple(_GROUPS["ignoring_changes"].split())
NARROWING: Final = tuple(_GROUPS["narrowing"].split())


@dataclass(frozen=True)
class SubCommand:
    """A row of the table, which describes its fields."""

    text: str
    clusters: bool = True
    revisions: bool = True
    names_files: bool = True
    needs: Sequence[str] = ()
    most: int | None = None
    traits: Sequence[Trait] = ()
    shows_changes: bool = False
    outside: bool = True

    @cached_property
    def options(self) -> OptionTable:
        """The read-only options, parsed on first use."""
        return option_table(_with_groups(self.text), clusters=self.clusters)


def _with_groups(text: str) -> str:
    return re.sub(r"@(\w+)", lambda match: _with_groups(_GROUPS[match[1]]), text)


def _sub_command(options: str, **row: Any) -> SubCommand:
    return SubCommand(options, **row)


SUBCOMMANDS: Final[Mapping[str, SubCommand]] = {
    name: _sub_command(**row) for name, row in reading_table()["git"].items()
}
