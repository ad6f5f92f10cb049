"""Base class of all tables in the settings, and lists of name patterns."""

import fnmatch
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, ConfigDict

from vibe_jupyter.protocol import LazyModel

REGEX: Final = "re:"


class Entry(LazyModel):
    """A table of the settings. Unknown keys are reported by `vibe_jupyter.config.validation`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Keys of Mistral Vibe's files that are ignored here without a warning.
    unused: ClassVar[frozenset[str]] = frozenset()


def _check_pattern(pattern: str) -> str:
    if not pattern.strip():
        raise ValueError("an empty pattern matches nothing")
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


# An exact name, a glob, or `re:` with a regular expression for the whole name; case-insensitive.
Pattern = Annotated[str, AfterValidator(_check_pattern)]
Patterns = tuple[Pattern, ...]


def matches_pattern(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name."""
    if pattern.startswith(REGEX):
        return re.fullmatch(pattern.removeprefix(REGEX), name, re.IGNORECASE) is not None
    return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())


def is_chosen(names: Sequence[str], *, enabled: Patterns, disabled: Patterns) -> bool:
    """Return whether something with these names passes both lists. An empty `enabled` allows all."""

    def any_of(patterns: Patterns) -> bool:
        return any(matches_pattern(pattern, name) for pattern in patterns for name in names)

    return (not enabled or any_of(enabled)) and not any_of(disabled)
