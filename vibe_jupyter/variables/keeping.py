"""Snapshot one object and restore it in place, without running code of its class.

An object's own content (list items, array values) and its attributes are saved separately, since a user-defined
subclass may have both.
"""

import array
import collections
import functools
import itertools
import operator
import random
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from vibe_jupyter.variables.describe import value_kind
from vibe_jupyter.variables.kept_libraries import COMPARED, keep_library_object
from vibe_jupyter.variables.kept_parts import (
    KeptParts,
    holding,
    is_in_python,
    is_of,
    is_own_class,
    restore_vars,
    slots_of,
    vars_of,
    within,
)

_BOUND: Final = (types.MethodType, types.BuiltinFunctionType)
# C types whose instances have only attributes.
_BY_ATTRIBUTES: Final = (object, BaseException, Exception, types.SimpleNamespace, types.FunctionType, types.CellType)
# Settable attributes that C types provide outside `__dict__`.
_ATTRIBUTES_IN_C: Final[Mapping[type, tuple[str, ...]]] = {
    types.FunctionType: ("__code__", "__defaults__", "__kwdefaults__"),
    types.CellType: ("cell_contents",),
    BaseException: ("args",),
    collections.defaultdict: ("default_factory",),
}
# Names that Python itself stores in a class.
_OF_CLASS: Final = frozenset(
    {
        *("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"),
        *("__annotations__", "__annotations_cache__", "__annotate__", "__annotate_func__"),
        *("__slotnames__", "__firstlineno__"),  # cached when an instance is copied or pickled; a line of the cell
    }
)
_NO_ATTRIBUTES: Final = frozenset({list, dict, set, bytearray, array.array, collections.deque})
MISSING: Final = object()  # marks an absent attribute


def keep_parts(value: Any, room: int, compared: float = COMPARED) -> KeptParts:
    """Snapshot one object.

    Args:
        value: The object.
        room: Bytes that may be copied.
        compared: See `keep_library_object`.

    Raises:
        ValueError: The object can't be saved. The message gives the reason.
    """
    if is_of(value, type):
        return _keep_class(value)
    if is_of(value, tuple, frozenset, functools.partial, *_BOUND):
        content = KeptParts(lambda: True, lambda: None, holding(_held_by(value)))
    else:
        content = _keep_content(value, room) or keep_library_object(value, room, compared)
    if content is None:
        _must_be_in_python(value)
    return _joined(content, _keep_attributes(value, content))


def class_names(kind: type) -> Mapping[str, object]:
    """Return a user-defined class's names, without Python's internal ones; empty for other classes."""
    if not is_own_class(kind):
        return {}
    return {name: one for name, one in type.__getattribute__(kind, "__dict__").items() if name not in _OF_CLASS}


def _keep_content(value: Any, room: int) -> KeptParts | None:
    """Snapshot a built-in container or a random number generator. Returns None for other objects."""
    if is_of(value, list):
        return _keep_sequence(value, list)
    if is_of(value, collections.deque):
        return _keep_sequence(value, collections.deque)
    if is_of(value, collections.OrderedDict):
        return _keep_mapping(value, collections.OrderedDict)
    if is_of(value, dict):
        return _keep_mapping(value, dict)
    if is_of(value, set):
        return _keep_set(value, set)
    if is_of(value, bytearray, array.array):
        size = within(room, memoryview(value).nbytes)
        data = bytes(memoryview(value).cast("B"))
        return KeptParts(
            lambda: memoryview(value).cast("B") == memoryview(data), lambda: _refill_bytes(value, data), size=size
        )
    if is_of(value, random.Random):
        state = random.Random.getstate(value)
        return KeptParts(lambda: random.Random.getstate(value) == state, lambda: random.Random.setstate(value, state))
    return None


def _keep_sequence(value: Any, kind: Any) -> KeptParts:
    items: list[Any] = list(kind.__iter__(value))

    def restore() -> None:
        kind.clear(value)
        kind.extend(value, items)

    return KeptParts(lambda: _same(list(kind.__iter__(value)), items), restore, holding(items))


def _keep_mapping(value: Any, kind: Any) -> KeptParts:
    def flat() -> list[Any]:
        return list(itertools.chain.from_iterable(kind.items(value)))

    pairs = flat()

    def restore() -> None:
        kind.clear(value)
        for key, held in zip(pairs[::2], pairs[1::2], strict=True):
            kind.__setitem__(value, key, held)

    return KeptParts(lambda: _same(flat(), pairs), restore, holding(pairs))


def _keep_set(value: Any, kind: Any) -> KeptParts:
    members: list[Any] = list(kind.__iter__(value))

    def is_same() -> bool:
        now: list[Any] = list(kind.__iter__(value))
        return _same(now, members) or set(map(id, now)) == set(map(id, members))

    def restore() -> None:
        kind.clear(value)
        kind.update(value, members)

    return KeptParts(is_same, restore, holding(members))


def _refill_bytes(value: Any, data: bytes) -> None:
    kind: Any = bytearray if is_of(value, bytearray) else array.array
    fill = kind.extend if kind is bytearray else kind.frombytes
    kind.__delitem__(value, slice(None))
    fill(value, data)


def _held_by(value: Any) -> list[object]:
    """Return the objects that an immutable container refers to."""
    if is_of(value, functools.partial):
        return [value.func, value.args, value.keywords]
    return [object.__getattribute__(value, "__self__")] if is_of(value, *_BOUND) else list(value)


def _keep_class(value: Any) -> KeptParts:
    content = class_names(value)

    def is_same() -> bool:
        now = class_names(value)
        return now.keys() == content.keys() and all(now[name] is one for name, one in content.items())

    def restore() -> None:
        now = class_names(value)
        for name in now.keys() - content.keys():
            type.__delattr__(value, name)
        for name, one in content.items():
            if now.get(name, MISSING) is not one:
                type.__setattr__(value, name, one)

    state = [part for part in content.values() if not hasattr(type(part), "__get__")]
    return KeptParts(is_same, restore, holding(state))


def _must_be_in_python(value: object) -> None:
    kind = type(value)
    known = all(is_in_python(one) or one in _BY_ATTRIBUTES or issubclass(one, BaseException) for one in kind.__mro__)
    if not known or (vars_of(value) is None and not any(attribute_places(kind))):
        raise ValueError(f"{value_kind(value)} cannot be kept")


def _keep_attributes(value: object, content: KeptParts | None) -> KeptParts | None:
    """Snapshot attributes not covered by `content`. Returns None if there can't be any."""
    kind = type(value)
    held, places = vars_of(value), [] if kind in _NO_ATTRIBUTES else list(attribute_places(kind))
    if held is None and not places:
        return None

    def present(*, owned: bool = False) -> dict[str, object]:
        names = (vars_of(value) or {}).items()
        return {name: one for name, one in names if (content is not None and content.owns(name)) == owned}

    attributes, placed = present(), [read_attribute(value, name) for name in places]

    def is_same() -> bool:
        return (
            type(value) is kind
            and _same_names(present(), attributes)
            and _same([read_attribute(value, name) for name in places], placed)
        )

    def restore() -> None:
        if type(value) is not kind:
            object.__setattr__(value, "__class__", kind)
        restore_vars(value, attributes | present(owned=True))
        for name, part in zip(places, placed, strict=True):
            if part is not MISSING:
                object.__setattr__(value, name, part)
            elif read_attribute(value, name) is not MISSING:
                object.__delattr__(value, name)

    return KeptParts(is_same, restore, holding([kind, *attributes.values(), *placed, *_closure(value)]))


def _joined(content: KeptParts | None, attributes: KeptParts | None) -> KeptParts:
    if content is None or attributes is None:
        kept = content or attributes
        assert kept is not None
        return kept
    return KeptParts(
        lambda: content.is_same() and attributes.is_same(),
        lambda: (content.restore(), attributes.restore()),
        [*content.parts, *attributes.parts],
        content.size,
    )


def _closure(value: object) -> Sequence[object]:
    return object.__getattribute__(value, "__closure__") or () if type(value) is types.FunctionType else ()


def attribute_places(kind: type) -> Iterator[str]:
    """Yield names of attributes that aren't in `__dict__`: slots and C-level attributes."""
    for one in kind.__mro__:
        yield from _ATTRIBUTES_IN_C.get(one, ())
        for name in slots_of(one):
            if name in ("__dict__", "__weakref__"):
                continue
            is_private = name.startswith("__") and not name.endswith("__")
            yield f"_{one.__name__.lstrip('_')}{name}" if is_private else name


def read_attribute(value: object, name: str) -> object:
    """Return an attribute, or `MISSING`."""
    try:
        return object.__getattribute__(value, name)
    except (AttributeError, ValueError):  # an empty closure cell raises ValueError
        return MISSING


def _same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(map(operator.is_, first, second))


def _same_names(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    return list(first) == list(second) and _same(list(first.values()), list(second.values()))
