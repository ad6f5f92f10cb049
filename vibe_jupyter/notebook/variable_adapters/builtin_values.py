"""Values of built-in types, and of classes made from them, read through the built-in's own functions."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from vibe_jupyter.notebook.plain import (
    BRACKETS,
    DEPTH,
    MAPPINGS,
    mapping_text,
    mark,
    pairs_of,
    plain,
    plain_text,
    sequence_text,
)
from vibe_jupyter.notebook.type_facts import class_dict, is_one_of, type_name, type_of
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, Description, View

_TEXT_WIDTH: Final = 80
"""Characters of a text or of bytes shown in one line."""
_TEXT_SHOWN: Final = 2_000
"""Characters of a text shown when it is inspected."""
_ITEM_WIDTH: Final = 30
"""Characters of one text inside a container, in one line."""
_LINE_LIMIT: Final = 200
"""Characters of a container in one line."""
_FIELDS_SHOWN: Final = 40
"""Fields of a named tuple named."""
_ITEMS_COMPARED: Final = 1_000
"""First items of a container that enter its fingerprint."""

# Each gives the value as its built-in type alone, and only slots of that type run.
_EXACT: Final[dict[object, Callable[[Any], object]]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    complex: lambda value: complex.__add__(value, 0j),
    str: lambda value: str.__getitem__(value, slice(None)),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}


def scalar_adapter(base: type) -> Adapter:
    """For numbers, texts and the like: the value itself. Of a class made from one, the value without its class."""
    long = base in (str, bytes, bytearray)

    def line(value: Any) -> str:
        text = plain(_exact(value, base), width=_TEXT_WIDTH)
        return text if value is None else f"{type_name(value)} {text}"

    def describe(value: Any, view: View) -> Description:
        whole = plain(_exact(value, base), width=_TEXT_SHOWN) if long else ""
        return Description(headline=line(value), body=whole if len(whole) > _TEXT_WIDTH else "")

    def fingerprint(value: Any) -> object:
        return (type_name(value), mark(_exact(value, base)))

    return Adapter(line=line, describe=describe, fingerprint=fingerprint)


def container_adapter(base: Any) -> Adapter:
    """For lists, tuples, sets and mappings: their size and first items."""

    def headline(value: Any) -> str:
        size = base.__len__(value)
        return f"{type_name(value)} of {size:,} {'item' if size == 1 else 'items'}"

    def line(value: Any) -> str:
        text = _items_text(value, base, depth=1, width=_ITEM_WIDTH)
        return f"{headline(value)} {text if len(text) <= _LINE_LIMIT else text[:_LINE_LIMIT] + '…'}"

    def describe(value: Any, view: View) -> Description:
        fields: object = class_dict(type_of(value)).get("_fields")
        lines = [_items_text(value, base)]
        if type(fields) is tuple:
            names = cast("tuple[object, ...]", fields)[:_FIELDS_SHOWN]
            lines.append("fields: " + ", ".join(map(plain_text, names)))
        return Description(headline=headline(value), body="\n".join(lines))

    def fingerprint(value: Any) -> object:
        marks = tuple(mark(item) for item in itertools.islice(_members(value, base), _ITEMS_COMPARED))
        return (id(value), base.__len__(value), hash(marks))

    return Adapter(line=line, describe=describe, fingerprint=fingerprint)


def _exact(value: Any, base: type) -> Any:
    """The value as its built-in type alone; of a class made from a rarer type, the value as it is, which is named."""
    make = _EXACT.get(base)
    return value if type(value) is base or make is None else make(value)


def _items_text(value: Any, base: Any, *, depth: int = DEPTH, width: int = _TEXT_WIDTH) -> str:
    size = base.__len__(value)
    if is_one_of(base, MAPPINGS):
        return mapping_text(pairs_of(value), size, depth, width)
    return sequence_text(base.__iter__(value), size, BRACKETS.get(base) or ("(", ")"), depth, width)


def _members(value: Any, base: Any) -> Iterable[object]:
    if is_one_of(base, MAPPINGS):
        return itertools.chain.from_iterable(pairs_of(value))
    return base.__iter__(value)
