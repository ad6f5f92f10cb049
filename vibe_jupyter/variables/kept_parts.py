"""How one object is kept by its parts, and made again what it was: in place, by none of the code of its class."""

import collections
import contextlib
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from vibe_jupyter.variables.describe import value_kind

_HEAP_TYPE: Final = 1 << 9
_PLAIN: Final = frozenset(
    {
        *(types.NoneType, bool, int, float, complex, str, bytes, range, slice, type, types.EllipsisType, re.Pattern),
        *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType, types.GenericAlias),
    }
)
_PLAIN_MODULES: Final = ("datetime", "decimal", "fractions", "uuid", "pathlib", "zoneinfo", "enum", "pyarrow")
"""Whose objects nothing changes."""
_PLAIN_LIBRARIES: Final = ("numpy", "pandas", "sklearn", "scipy", "polars")
"""Whose classes in C nothing changes, but for those that are kept by their values."""
_BY_ATTRIBUTES: Final = (object, BaseException, Exception, types.SimpleNamespace)
"""Classes in C whose objects have nothing but attributes."""
_DICTIONARY: Final[Any] = dict
"""Whose own methods read and fill a dictionary, whatever a class of the user's makes of them."""
_BY_VALUE: Final = ("ndarray", "RandomState", "Generator")


class KeptParts(NamedTuple):
    """One object as it was."""

    is_same: Callable[[], bool]
    restore: Callable[[], object]
    parts: Iterable[object] = ()
    """What it holds that can change by itself."""
    size: int = 0
    """Bytes that were copied."""


def keep_parts(value: Any, room: int) -> KeptParts:
    """Keep one object.

    Args:
        value: the object.
        room: bytes that may be copied.

    Raises:
        ValueError: it cannot be kept; says why.
    """
    if _is(value, list, collections.deque):
        items: list[Any] = list(value)
        return KeptParts(lambda: _same(list(value), items), lambda: _refill(value, items), holding(items))
    if _is(value, dict):
        pairs = _flat(value)
        return KeptParts(lambda: _same(_flat(value), pairs), lambda: _refill_mapping(value, pairs), holding(pairs))
    if _is(value, set):
        members: set[Any] = set(value)
        return KeptParts(lambda: value == members, lambda: (value.clear(), value.update(members)))
    if _is(value, tuple, frozenset):
        return KeptParts(lambda: True, lambda: None, holding(list(value)))
    if _is(value, bytearray):
        data = bytes(value)
        return KeptParts(lambda: bytes(value) == data, lambda: value.__setitem__(slice(None), data))
    if _is(value, random.Random):
        state = value.getstate()
        return KeptParts(lambda: value.getstate() == state, lambda: value.setstate(state))
    return _keep_library_object(value, room) or _keep_attributes(value)


def is_plain(value: object) -> bool:
    """Whether nothing changes it, or what changes it is not looked into."""
    kind = type(value)
    if kind in _PLAIN or _is(value, type, types.ModuleType):
        return True
    library = kind.__module__.partition(".")[0]
    if library in _PLAIN_MODULES or (library == "pandas" and "Index" in kind.__name__):
        return True
    if library not in _PLAIN_LIBRARIES or (kind.__flags__ & _HEAP_TYPE and vars_of(value) is not None):
        return False
    return not any(one.__module__.startswith("numpy") and one.__name__ in _BY_VALUE for one in kind.__mro__)


def holding(parts: Sequence[object]) -> Sequence[object]:
    """Those parts that can change; found soon for a list of numbers."""
    return () if set(map(type, parts)) <= _PLAIN else [part for part in parts if not is_plain(part)]


def vars_of(value: object) -> dict[str, object] | None:
    """The attributes of an object; None where it has no dictionary of them."""
    with contextlib.suppress(AttributeError):
        return object.__getattribute__(value, "__dict__")
    return None


def _keep_library_object(value: Any, room: int) -> KeptParts | None:
    numpy: Any = sys.modules.get("numpy")
    pandas: Any = sys.modules.get("pandas")
    if numpy is not None and _is(value, numpy.ndarray):
        return _keep_array(value, numpy, room)
    if numpy is not None and _is(value, numpy.random.RandomState):
        state = value.get_state(legacy=False)
        return KeptParts(lambda: repr(value.get_state(legacy=False)) == repr(state), lambda: value.set_state(state))
    if numpy is not None and _is(value, numpy.random.Generator):
        bits = value.bit_generator
        held = bits.state
        return KeptParts(lambda: repr(bits.state) == repr(held), lambda: setattr(bits, "state", held))
    if pandas is not None and _is(value, pandas.DataFrame, pandas.Series):
        shares = int(pandas.__version__.partition(".")[0]) >= 3
        usage = value.memory_usage(index=False)
        size = 0 if shares else _within(room, int(usage.sum() if value.ndim == 2 else usage))
        copy = value.copy(deep=not shares)
        return KeptParts(lambda: _same_frame(value, copy), lambda: _restore_frame(value, copy), size=size)
    polars: Any = sys.modules.get("polars")
    if polars is not None and _is(value, polars.DataFrame, polars.Series):
        clone = value.clone()
        return KeptParts(lambda: value.equals(clone), lambda: _restore_vars(value, vars_of(clone.clone()) or {}))
    if value_kind(value).startswith("torch.") and hasattr(value, "detach"):
        size = _within(room, value.numel() * value.element_size())
        tensor = value.detach().clone()
        return KeptParts(
            lambda: value.shape == tensor.shape and bool((value.detach() == tensor).all()),
            lambda: setattr(value, "data", tensor.clone()),
            size=size,
        )
    return None


def _keep_array(value: Any, numpy: Any, room: int) -> KeptParts:
    if _is(value, numpy.memmap):
        raise ValueError("it is a file")
    size = _within(room, value.nbytes)
    copy = value.copy()

    def is_same() -> bool:
        return (value.shape, value.dtype) == (copy.shape, copy.dtype) and value.tobytes() == copy.tobytes()

    def restore() -> None:
        if value.shape != copy.shape:
            value.resize(copy.shape, refcheck=False)
        numpy.copyto(value, copy)

    return KeptParts(is_same, restore, holding(list(value.flat)) if value.dtype.hasobject else (), size)


def _keep_attributes(value: object) -> KeptParts:
    kind = type(value)
    held, slots = vars_of(value), list(_slots(kind))
    in_python = all(one.__flags__ & _HEAP_TYPE or one in _BY_ATTRIBUTES for one in kind.__mro__)
    if not in_python or (held is None and not slots):
        raise ValueError(f"{value_kind(value)} cannot be kept")
    content = dict(held or {})
    missing = object()

    def filled() -> list[object]:
        return [_slot_of(value, name, missing) for name in slots]

    slotted = filled()

    def restore() -> None:
        _restore_vars(value, content)
        for name, part in zip(slots, slotted, strict=True):
            if part is not missing:
                object.__setattr__(value, name, part)
            elif _slot_of(value, name, missing) is not missing:
                object.__delattr__(value, name)

    def is_same() -> bool:
        return _same(_flat(vars_of(value) or {}), _flat(content)) and _same(filled(), slotted)

    return KeptParts(is_same, restore, holding([*content.values(), *(one for one in slotted if one is not missing)]))


def _slots(kind: type) -> Iterator[str]:
    for one in kind.__mro__:
        given = vars(one).get("__slots__", ())
        for name in (given,) if isinstance(given, str) else given:
            if name in ("__dict__", "__weakref__"):
                continue
            is_private = name.startswith("__") and not name.endswith("__")
            yield f"_{one.__name__.lstrip('_')}{name}" if is_private else name


def _slot_of(value: object, name: str, missing: object) -> object:
    """What stands in a slot; `missing` where nothing does."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return missing


def _is(value: object, *classes: type) -> bool:
    """By its own class: `isinstance` asks the object for another one."""
    return issubclass(type(value), classes)


def _within(room: int, size: int) -> int:
    if size > room:
        raise ValueError("it is too large to keep")
    return size


def _same(first: Sequence[object], second: Sequence[object]) -> bool:
    return len(first) == len(second) and all(one is other for one, other in zip(first, second, strict=True))


def _flat(mapping: Any) -> list[Any]:
    return [part for pair in _DICTIONARY.items(mapping) for part in pair]


def _refill(sequence: Any, items: list[Any]) -> None:
    sequence.clear()
    sequence.extend(items)


def _refill_mapping(mapping: Any, pairs: list[Any]) -> None:
    _DICTIONARY.clear(mapping)
    for key, held in zip(pairs[::2], pairs[1::2], strict=True):
        _DICTIONARY.__setitem__(mapping, key, held)


def _restore_vars(value: object, content: dict[str, object]) -> None:
    held = vars_of(value)
    if held is not None:
        held.clear()
        held.update(content)


def _same_frame(value: Any, copy: Any) -> bool:
    return (
        value.shape == copy.shape
        and (_shares_columns(value, copy) or value.equals(copy))
        and all(one.identical(other) for one, other in zip(value.axes, copy.axes, strict=True))
        and (value.ndim == 2 or value.name is copy.name)
        and value.attrs == copy.attrs
    )


def _shares_columns(value: Any, copy: Any) -> bool:
    """Whether nothing was written to any since they were shared: found without looking at the values."""
    try:
        pairs = list(zip(value._mgr.arrays, copy._mgr.arrays, strict=True))
        return all(
            (one.dtype, one.shape, one.strides, one.ctypes.data) == (two.dtype, two.shape, two.strides, two.ctypes.data)
            for one, two in pairs
        )
    except (AttributeError, ValueError):  # a column is no array of numpy's
        return False


def _restore_frame(value: Any, copy: Any) -> None:
    _restore_vars(value, vars_of(copy.copy(deep=False)) or {})
