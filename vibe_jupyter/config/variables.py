"""``${NAME}`` (or ``${env:NAME}``) and ``${NAME:-otherwise}`` in a text, as the files of many programs write them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from vibe_jupyter.errors import ConfigError

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<otherwise>[^}]*))?\}")
_FOREIGN: Final = re.compile(r"\$\{(?!env:)[A-Za-z]+:[A-Za-z][^}]*\}")
"""What means something in one program alone, such as ``${input:key}``, which asks for it."""


def named(texts: Iterable[str]) -> list[str]:
    """The variables in some texts, each once."""
    return list(dict.fromkeys(match["name"] for text in texts for match in _VARIABLE.finditer(text)))


def expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with the values in it.

    Raises:
        ConfigError: a variable is not set, and the text says no value for that; or it is no variable.
    """
    if foreign := _FOREIGN.search(text):
        raise ConfigError(
            f"{foreign[0]} is known to another program alone; write ${{NAME}}, and set it in .env beside your settings"
        )

    def value(match: re.Match[str]) -> str:
        found = environ.get(match["name"]) or match["otherwise"]
        if found is None:
            raise ConfigError(f"the variable {match['name']} is not set")
        return found

    return _VARIABLE.sub(value, text)
