"""Allowlists and denylists of tools, and the user's own rows on commands.

Imports little, because `vibe-jupyter permission` uses it.
"""

import fnmatch
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vibe_jupyter.files.workspace import Located
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.permissions.decide import ToolNames
    from vibe_jupyter.permissions.shell.effect_rows import EffectRow
    from vibe_jupyter.permissions.shell.patterns import ShellLists


class OwnEffects:
    """What the user's settings say about the effects of commands, for the cards of this process."""

    rows: "tuple[EffectRow, ...]" = ()


class ToolLists(NamedTuple):
    """Lists in ``[tools.NAME]``: path globs for file tools, argument globs for MCP tools, command prefixes for
    ``bash``."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    deny_standalone: tuple[str, ...] = ()  # ``bash`` only: commands that are denied if they have no arguments
    ask: tuple[str, ...] = ()  # path globs that need approval each time

    def for_shell(self) -> "ShellLists":
        """Return the lists with the commands that are denied by default added."""
        with without_working_folder():
            from vibe_jupyter.permissions.shell.patterns import (  # noqa: PLC0415 - it comes with the first command
                DEFAULT_DENYLIST,
                DEFAULT_DENYLIST_STANDALONE,
                ShellLists,
            )

        return ShellLists(
            self.allow, (*DEFAULT_DENYLIST, *self.deny), (*DEFAULT_DENYLIST_STANDALONE, *self.deny_standalone)
        )

    def denying(self, places: Sequence[Located], texts: Sequence[str] = ()) -> str | None:
        """Return the pattern that denies one of these locations or texts, or None."""
        by_place = (glob for glob in self.deny for place in places if _matches_glob(place, glob))
        by_text = (glob for glob in self.deny for text in texts if fnmatch.fnmatchcase(text, glob))
        return next(by_place, None) or next(by_text, None)

    def asking(self, places: Sequence[Located]) -> str | None:
        """Return the pattern by which one of these locations needs approval each time, or None."""
        return next((glob for glob in self.ask for place in places if _matches_glob(place, glob)), None)

    def allows(self, places: Sequence[Located], texts: Sequence[str] = ()) -> bool:
        """Return whether the allowlist covers all of these locations and texts."""
        return (
            bool(places or texts)
            and all(any(_matches_glob(place, glob) for glob in self.allow) for place in places)
            and all(any(fnmatch.fnmatchcase(text, glob) for glob in self.allow) for text in texts)
        )


def lists_under(names: "ToolNames", lists: Mapping[str, ToolLists]) -> ToolLists:
    """Merge the lists under all names of a tool."""
    found = [lists[name] for name in names.all if name in lists]
    return ToolLists(
        tuple(glob for name in names.own if name in lists for glob in lists[name].allow),
        tuple(glob for one in found for glob in one.deny),
        tuple(word for one in found for word in one.deny_standalone),
        tuple(glob for one in found for glob in one.ask),
    )


def _matches_glob(place: Located, glob: str) -> bool:
    names = (place.shown, str(place.path))
    return any(fnmatch.fnmatchcase(name, os.path.expanduser(glob)) for name in names)
