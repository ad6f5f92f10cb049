"""Lists that choose among names: exact names, globs, and ``re:`` regular expressions (seed 001, Pattern Matching)."""

import fnmatch
import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator

REGEX: Final = "re:"


def _checked(pattern: str) -> str:
    if not pattern.strip():
        raise ValueError("an empty pattern matches nothing")
    if pattern.startswith(REGEX):
        try:
            re.compile(pattern.removeprefix(REGEX))
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_checked)]
"""An exact name, a glob, or ``re:`` with a regular expression for the whole name; capitals count for nothing."""
Patterns = tuple[Pattern, ...]


def matches(pattern: str, name: str) -> bool:
    """Whether one pattern means one name."""
    if pattern.startswith(REGEX):
        return re.fullmatch(pattern.removeprefix(REGEX), name, re.IGNORECASE) is not None
    return fnmatch.fnmatchcase(name.casefold(), pattern.casefold())


def chosen(names: Sequence[str], *, enabled: Patterns, disabled: Patterns) -> bool:
    """Whether something that goes by these names is left by both lists; an empty list of enabled ones means all."""

    def any_of(patterns: Patterns) -> bool:
        return any(matches(pattern, name) for pattern in patterns for name in names)

    return (not enabled or any_of(enabled)) and not any_of(disabled)
