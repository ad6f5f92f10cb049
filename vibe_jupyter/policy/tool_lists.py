"""``allowlist`` and ``denylist`` of a tool, as they match what its calls touch."""

import fnmatch
import os
from collections.abc import Sequence
from dataclasses import dataclass

from vibe_jupyter.policy.shell.lists import DEFAULT_DENYLIST, DEFAULT_DENYLIST_STANDALONE, ShellLists
from vibe_jupyter.tools.workspace import Located


@dataclass(frozen=True)
class ToolLists:
    """``[tools.NAME]``: globs on paths for file tools, words a command begins with for ``bash``."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    deny_standalone: tuple[str, ...] = ()
    """``bash`` only: commands that are denied where they stand without arguments."""

    def for_shell(self) -> ShellLists:
        """With the denied commands that everybody has."""
        return ShellLists(
            self.allow, (*DEFAULT_DENYLIST, *self.deny), (*DEFAULT_DENYLIST_STANDALONE, *self.deny_standalone)
        )

    def denying(self, places: Sequence[Located]) -> str | None:
        """The pattern that denies one of these places; None if none does."""
        return next((glob for glob in self.deny for place in places if _matches(place, glob)), None)

    def allows(self, places: Sequence[Located]) -> bool:
        """Whether every one of these places is on the allowlist."""
        return bool(places) and all(any(_matches(place, glob) for glob in self.allow) for place in places)


def _matches(place: Located, glob: str) -> bool:
    names = (place.shown, str(place.path))
    return any(fnmatch.fnmatchcase(name, os.path.expanduser(glob)) for name in names)
