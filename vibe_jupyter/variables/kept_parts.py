"""One object as it was, and which objects need not be kept, since nothing changes them."""

import re
import struct
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

MOST_PARTS: Final = 200_000
"""Objects that are kept for one run."""
TOO_MANY: Final = "it has too many parts to keep"
_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that are made while Python runs, some of them in C."""
_POINTER: Final = struct.calcsize("P")
_OWN_POINTERS: Final = 2
"""What each object has for its dictionary and for weak references to it."""
_PLAIN: Final = frozenset(
    {
        *(types.NoneType, bool, int, float, complex, str, bytes, range, slice, types.EllipsisType, re.Pattern),
        *(types.ModuleType, types.GenericAlias, types.UnionType, types.CodeType, types.MappingProxyType, object),
        *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
        *(types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType),
        *(property, staticmethod, classmethod),
    }
)
_PLAIN_MODULES: Final = ("datetime", "fractions", "uuid", "pathlib", "zoneinfo", "enum")
"""Whose objects nothing changes."""
_PLAIN_CLASSES: Final = {
    "decimal": ("Decimal",),
    "pyarrow": ("Array", "ChunkedArray", "DataType", "Field", "RecordBatch", "Scalar", "Schema", "Table"),
}
"""Of which nothing changes an object, by their module."""
_PLAIN_LIBRARIES: Final = ("numpy", "pandas", "sklearn", "scipy", "polars")
"""Whose classes in C nothing changes, but for some of numpy."""
_CHANGING: Final = ("ndarray", "RandomState", "Generator", "BitGenerator", "nditer", "flatiter")
"""Classes in C of numpy that something changes."""


def _owns_none(_name: str) -> bool:
    return False


class KeptParts(NamedTuple):
    """One object as it was."""

    is_same: Callable[[], bool]
    restore: Callable[[], object]
    parts: Sequence[object] = ()
    """What it holds that can change by itself."""
    size: int = 0
    """Bytes that were copied."""
    owns: Callable[[str], bool] = _owns_none
    """Whether an attribute is kept with it, and not for itself."""


def is_plain(value: object) -> bool:
    """Whether nothing changes it, or what changes it is not looked into."""
    kind = type(value)
    if kind in _PLAIN or is_of(value, types.ModuleType):
        return True
    if is_of(value, type):
        return not is_own_class(cast("type", value))
    if kind is types.FunctionType:
        return object.__getattribute__(value, "__module__") != "__main__"
    if kind is types.BuiltinFunctionType:
        return is_plain(object.__getattribute__(value, "__self__"))
    library = kind.__module__.partition(".")[0]
    if library in _PLAIN_MODULES:
        return True
    names = {one.__name__ for one in kind.__mro__}
    if library in _PLAIN_CLASSES:
        return not names.isdisjoint(_PLAIN_CLASSES[library])
    if library not in _PLAIN_LIBRARIES or (is_in_python(kind) and vars_of(value) is not None):
        return False
    return names.isdisjoint(_CHANGING)


def is_own_class(kind: type) -> bool:
    """Whether the user made it in the notebook."""
    return type.__getattribute__(kind, "__dict__").get("__module__") == "__main__"


def is_in_python(kind: type) -> bool:
    """Whether the class itself is, of whatever bases: its objects have no more than a dictionary and slots."""
    if not kind.__flags__ & _HEAP_TYPE or kind.__base__ is None:
        return False
    more = kind.__basicsize__ - kind.__base__.__basicsize__
    return more <= (len(slots_of(kind)) + _OWN_POINTERS) * _POINTER


def slots_of(kind: type) -> Sequence[str]:
    """The names of its own, as the class gives them."""
    given = type.__getattribute__(kind, "__dict__").get("__slots__", ())
    return (given,) if isinstance(given, str) else tuple(given)


def holding(parts: Sequence[object]) -> Sequence[object]:
    """Those parts that can change, found by their classes, of which a list of millions has few.

    Raises:
        ValueError: they are too many to keep.
    """
    if set(map(type, parts)) <= _PLAIN:
        return ()
    one_of_each = dict(zip(map(type, parts), parts, strict=True))
    changing = {kind for kind, one in one_of_each.items() if _is_by_itself(kind) or not is_plain(one)}
    if not changing:
        return ()
    found = [part for part in parts if type(part) in changing]
    if len(found) > MOST_PARTS:
        raise ValueError(TOO_MANY)
    return [part for part in found if not is_plain(part)]


def _is_by_itself(kind: type) -> bool:
    """Whether some objects of this class are plain, and others are not."""
    return kind in (types.FunctionType, types.BuiltinFunctionType) or issubclass(kind, type)


def vars_of(value: object) -> dict[str, object] | None:
    """The attributes of an object; None where it has no dictionary of them."""
    for kind in reversed(type(value).__mro__):  # the class that made room for it: a later one may have a property
        slot = type.__getattribute__(kind, "__dict__").get("__dict__")
        if type(slot) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return slot.__get__(value)
    return None


def is_of(value: object, *classes: type) -> bool:
    """By its own class: `isinstance` asks the object for another one."""
    return issubclass(type(value), classes)


def within(room: int, size: int) -> int:
    """So many bytes, where they may be copied.

    Raises:
        ValueError: they may not.
    """
    if size > room:
        raise ValueError("it is too large to keep")
    return size


def restore_vars(value: object, content: Mapping[str, object]) -> None:
    """Give an object these attributes, and no others."""
    held = vars_of(value)
    if held is not None:
        held.clear()
        held.update(content)
