"""Keys and passwords by their values, so that they can be struck out of what we store, show and send (security C25).

Struck out wherever they stand, also in what approved code printed: the model never needs them, and a text that is told
apart by who wrote it would leak by the one path nobody thought of.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

V = TypeVar("V", bound=BaseModel)

SHORTEST: Final = 8
"""Characters; a shorter value is no key, and striking it out would garble texts."""
_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_HARMLESS: Final = re.compile(r"[a-z]+|[A-Z]+|[\d.,:-]+|[~.]{0,2}/.*|\\.*|[A-Za-z]:\\.*|https?://[^@]*", re.DOTALL)
"""A plain word, a number, a path or an address: what SECRET_NAME or SSL_KEY_FILE may hold."""


def is_secret_name(name: str) -> bool:
    """Whether a variable or setting of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


@dataclass(frozen=True)
class Redactor:
    """Puts a mark in the place of each known secret."""

    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Value to the name of the variable that holds it."""

    @classmethod
    def of(cls, environ: Mapping[str, str], key_variables: Iterable[str] = ()) -> "Redactor":
        """The secrets of an environment.

        Args:
            environ: variables and their values.
            key_variables: those that hold keys whatever they are called.
        """
        named = {name: environ.get(name, "").strip() for name in key_variables}
        found = {value: name for name, value in named.items() if len(value) >= SHORTEST}
        for name, value in environ.items():
            if is_secret_name(name) and len(value.strip()) >= SHORTEST and not _harmless(name, value.strip()):
                found.setdefault(value.strip(), name)
        spelled = {spelling: name for value, name in found.items() for spelling in _spellings(value)}
        # The longest first: one may be the beginning of another.
        return cls({value: spelled[value] for value in sorted(spelled, key=len, reverse=True)})

    def __call__(self, text: str) -> str:
        """The text without them."""
        for value, name in self.secrets.items():
            if value in text:
                text = text.replace(value, f"[redacted: {name}]")
        return text

    def value(self, value: V) -> V:
        """The same in every text of a message or an event; the very value where there is nothing to strike out."""
        if not self.secrets or not self._is_in(value):
            return value
        return type(value).model_validate(_mapped(value.model_dump(), self))

    def _is_in(self, value: BaseModel) -> bool:
        try:
            text = value.model_dump_json()
        except PydanticSerializationError:  # half a surrogate pair: no JSON, but it may be there all the same
            return True
        return any(_as_json(secret) in text for secret in self.secrets)


def _mapped(value: object, change: Callable[[str], str]) -> object:
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [_mapped(item, change) for item in cast("Iterable[object]", value)]
        case dict():
            return {key: _mapped(item, change) for key, item in cast("dict[object, object]", value).items()}
        case _:
            return value


def _spellings(value: str) -> set[str]:
    """As it is, and as Python and JSON write it."""
    return {value, repr(value)[1:-1], json.dumps(value)[1:-1], _as_json(value)}


def _as_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _harmless(name: str, value: str) -> bool:
    return "PASSW" not in name.upper() and _HARMLESS.fullmatch(value) is not None
