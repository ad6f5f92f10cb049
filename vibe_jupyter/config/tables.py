"""What all tables of the settings have in common, and lists that choose among names."""

import fnmatch
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Final

from pydantic import AfterValidator, ConfigDict

from vibe_jupyter.protocol import LazyModel

REGEX: Final = "re:"


class Entry(LazyModel):
    """One table. Unknown keys are reported by `vibe_jupyter.config.validation`, which knows their lines."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    unused: ClassVar[frozenset[str]] = frozenset()
    """Keys of Mistral Vibe's files that mean nothing here, and are no reason for a word."""


def _check_pattern(pattern: str) -> str:
    if not pattern.strip():
        raise ValueError("an empty pattern matches nothing")
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as error:
            raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_check_pattern)]
"""An exact name, a glob, or ``re:`` with a regular expression for the whole name; capitals count for nothing."""
Patterns = tuple[Pattern, ...]


def matches_pattern(pattern: str, name: str) -> bool:
    """Whether one pattern means one name."""
    if pattern.startswith(REGEX):
        return re.fullmatch(pattern.removeprefix(REGEX), name, re.IGNORECASE) is not None
    return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())


def is_chosen(names: Sequence[str], *, enabled: Patterns, disabled: Patterns) -> bool:
    """Whether something that goes by these names is left by both lists; an empty list of enabled ones means all."""

    def any_of(patterns: Patterns) -> bool:
        return any(matches_pattern(pattern, name) for pattern in patterns for name in names)

    return (not enabled or any_of(enabled)) and not any_of(disabled)
