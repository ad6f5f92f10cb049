"""The snapshot of one object, and the rules for immutable objects, which need none."""

import re
import struct
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, cast

MOST_PARTS: Final = 200_000  # objects saved per run
TOO_MANY: Final = "it has too many parts to keep"
# Py_TPFLAGS_HEAPTYPE, set for classes created at run time, some of them by C extensions.
_HEAP_TYPE: Final = 1 << 9
_POINTER: Final = struct.calcsize("P")
_OWN_POINTERS: Final = 2  # pointers for `__dict__` and `__weakref__`
_PLAIN: Final = frozenset(
    {
        *(types.NoneType, bool, int, float, complex, str, bytes, range, slice, types.EllipsisType, re.Pattern),
        *(types.ModuleType, types.GenericAlias, types.UnionType, types.CodeType, types.MappingProxyType, object),
        *(types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType),
        *(types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType),
        *(property, staticmethod, classmethod),
    }
)
# Modules whose classes have immutable instances.
_PLAIN_MODULES: Final = ("datetime", "fractions", "uuid", "pathlib", "zoneinfo", "enum")
# Immutable classes, by module.
_PLAIN_CLASSES: Final = {
    "decimal": ("Decimal",),
    "pyarrow": ("Array", "ChunkedArray", "DataType", "Field", "RecordBatch", "Scalar", "Schema", "Table"),
}
# Libraries whose C types are immutable, except `_CHANGING`.
_PLAIN_LIBRARIES: Final = ("numpy", "pandas", "sklearn", "scipy", "polars")
# NumPy's mutable C types.
_CHANGING: Final = ("ndarray", "RandomState", "Generator", "BitGenerator", "nditer", "flatiter")


def _owns_none(_name: str) -> bool:
    return False


class KeptParts(NamedTuple):
    """Snapshot of one object."""

    is_same: Callable[[], bool]
    restore: Callable[[], object]
    parts: Sequence[object] = ()  # contained objects that can change independently
    size: int = 0  # bytes copied
    # Whether an attribute is part of this snapshot rather than saved separately.
    owns: Callable[[str], bool] = _owns_none


def is_plain(value: object) -> bool:
    """Return whether a value is immutable, or of a kind that isn't searched for changes."""
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
    """Return whether the class was defined in the notebook."""
    return type.__getattribute__(kind, "__dict__").get("__module__") == "__main__"


def is_in_python(kind: type) -> bool:
    """Return whether the class itself, regardless of its bases, is written in Python.

    Its instances then add only a `__dict__` and slots to those of its base.
    """
    if not kind.__flags__ & _HEAP_TYPE or kind.__base__ is None:
        return False
    more = kind.__basicsize__ - kind.__base__.__basicsize__
    return more <= (len(slots_of(kind)) + _OWN_POINTERS) * _POINTER


def slots_of(kind: type) -> Sequence[str]:
    """Return the class's own slot names, as declared."""
    given = type.__getattribute__(kind, "__dict__").get("__slots__", ())
    return (given,) if isinstance(given, str) else tuple(given)


def holding(parts: Sequence[object]) -> Sequence[object]:
    """Return the mutable parts. Decides by class, since even a list of millions contains few classes.

    Raises:
        ValueError: There are too many to save.
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
    """Return whether a class has both immutable and mutable instances."""
    return kind in (types.FunctionType, types.BuiltinFunctionType) or issubclass(kind, type)


def vars_of(value: object) -> dict[str, object] | None:
    """Return an object's attribute dictionary, or None if it has none."""
    for kind in reversed(type(value).__mro__):  # base classes first: a subclass may shadow `__dict__` with a property
        slot = type.__getattribute__(kind, "__dict__").get("__dict__")
        if type(slot) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            return slot.__get__(value)
    return None


def is_of(value: object, *classes: type) -> bool:
    """Check by the actual class: `isinstance` also consults `__class__`, which the object may override."""
    return issubclass(type(value), classes)


def within(room: int, size: int) -> int:
    """Return `size` if that many bytes may be copied.

    Raises:
        ValueError: The size exceeds `room`.
    """
    if size > room:
        raise ValueError("it is too large to keep")
    return size


def restore_vars(value: object, content: Mapping[str, object]) -> None:
    """Replace all of an object's attributes."""
    held = vars_of(value)
    if held is not None:
        held.clear()
        held.update(content)
