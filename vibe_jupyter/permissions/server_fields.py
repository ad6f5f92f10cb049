"""Redact secrets in extra fields of a model server's responses, which are sent back to it."""

from collections.abc import Callable
from typing import Final, cast

from vibe_jupyter.lazy_patterns import lazy_pattern

# Names of fields without text. Their random values would be mistaken for secrets.
_SEALED: Final = lazy_pattern(r"(?i)signature|encrypted|\A(?:data|id|digest)\Z|_id\Z")


def redact_fields(fields: object, redact: Callable[[str], str], may_know: Callable[[str], bool]) -> object:
    """Redact the fields.

    A structured field with a secret is dropped rather than changed, since a signature in it would no longer match.

    Args:
        fields: fields of a message or call, by name.
        redact: redacts a text.
        may_know: returns whether a text may contain a known secret; signatures are checked only for these.
    """
    if not isinstance(fields, dict):
        return {}

    def redacted(name: str, value: object) -> object:
        match value:
            case str():
                return redact(value) if _SEALED.search(name) is None or may_know(value) else value
            case list():
                return [redacted(name, one) for one in cast("list[object]", value)]
            case dict():
                inner = cast("dict[str, object]", value)
                return {key: redacted(key, one) for key, one in inner.items()}
            case _:
                return value

    made = {name: (value, redacted(name, value)) for name, value in cast("dict[str, object]", fields).items()}
    return {name: new for name, (old, new) in made.items() if isinstance(new, str) or new == old}
