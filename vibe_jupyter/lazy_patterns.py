"""Regular expressions that are compiled when they are first used: a first request needs few of those there are."""

import re
from typing import Any, AnyStr, cast


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, but what is wrong with a pattern is known at its first use."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, *source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._source), name)
        setattr(self, name, found)  # from now on it is found without this
        return found
