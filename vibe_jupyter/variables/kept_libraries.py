"""Snapshots of NumPy, pandas, polars and torch objects: arrays by value, frames by a copy that shares memory.

No library is imported for this.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any, Final

from vibe_jupyter.variables.describe import value_kind
from vibe_jupyter.variables.kept_parts import KeptParts, holding, is_of, restore_vars, vars_of, within

# Python objects inspected per column or array. Larger ones are sampled evenly.
OBJECTS_LOOKED_AT: Final = 100_000
# Bytes of columns compared once they no longer share memory. A frame with more counts as changed.
COMPARED: Final = 16 << 20
_PIECE: Final = 1 << 17  # column values compared at a time
_PLAIN_SIZES: Final = (1, 2, 4, 8)  # item sizes that NumPy can compare as integers


def keep_library_object(value: Any, room: int, compared: float = COMPARED) -> KeptParts | None:
    """Snapshot an object of one of these libraries. Returns None for other objects.

    Args:
        value: The object.
        room: Bytes that may be copied.
        compared: Bytes of a frame's columns that may be compared. A frame with more differing bytes counts as changed.

    Raises:
        ValueError: The object can't be saved. The message gives the reason.
    """
    numpy: Any = sys.modules.get("numpy")
    pandas: Any = sys.modules.get("pandas")
    polars: Any = sys.modules.get("polars")
    if numpy is not None and is_of(value, numpy.ndarray):
        return _keep_array(value, numpy, room)
    if numpy is not None and hasattr(numpy, "random") and (kept := _keep_dice(value, numpy.random)) is not None:
        return kept
    if pandas is not None and hasattr(pandas, "DataFrame"):
        if is_of(value, pandas.DataFrame, pandas.Series):
            return _keep_frame(value, pandas, room, compared)
        if is_of(value, pandas.Index):
            return _keep_index(value)
        if is_of(value, pandas.api.extensions.ExtensionArray):
            return _keep_extension_array(value, room)
    if polars is not None and hasattr(polars, "DataFrame") and is_of(value, polars.DataFrame, polars.Series):
        return _keep_polars(value, polars)
    if value_kind(value).startswith("torch.") and hasattr(value, "detach"):
        return _keep_tensor(value, room)
    return None


def _keep_dice(value: Any, random: Any) -> KeptParts | None:
    """Snapshot a random number generator. Returns None for other objects."""
    if is_of(value, random.RandomState):
        state = value.get_state(legacy=False)
        return KeptParts(lambda: repr(value.get_state(legacy=False)) == repr(state), lambda: value.set_state(state))
    if not is_of(value, random.Generator, random.BitGenerator):
        return None
    bits = value.bit_generator if is_of(value, random.Generator) else value
    held = bits.state
    return KeptParts(lambda: repr(bits.state) == repr(held), lambda: setattr(bits, "state", held))


def _keep_array(value: Any, numpy: Any, room: int) -> KeptParts:
    base = numpy.ndarray
    if is_of(value, numpy.memmap):
        raise ValueError("it is a file")
    size = within(room, value.nbytes)
    copy, was_writeable = numpy.array(value, copy=True, subok=False), value.flags.writeable

    def is_same() -> bool:
        return (
            (value.shape, value.dtype, value.flags.writeable) == (copy.shape, copy.dtype, was_writeable)
            and _same_values(*(base.reshape(one.view(base), -1) for one in (value, copy)))
        )  # fmt: skip

    def restore() -> None:
        if was_writeable and not value.flags.writeable:
            value.setflags(write=True)
        with warnings.catch_warnings():  # newer NumPy versions deprecate setting dtype and shape
            warnings.simplefilter("ignore")
            if value.dtype != copy.dtype:
                value.dtype = copy.dtype
            if value.shape != copy.shape:
                base.resize(value, copy.shape, refcheck=False)
        if value.flags.writeable:
            numpy.copyto(value.view(base), copy)
        if not was_writeable:
            value.setflags(write=False)

    return KeptParts(is_same, restore, _objects_in(copy) if copy.dtype.hasobject else (), size)


def _objects_in(items: Any) -> Sequence[object]:
    """Return the mutable Python objects in an array."""
    flat = items.reshape(-1)
    if len(flat) > OBJECTS_LOOKED_AT and not holding(flat[:: len(flat) // OBJECTS_LOOKED_AT + 1].tolist()):
        return ()
    return holding(flat.tolist())


def _keep_frame(value: Any, pandas: Any, room: int, compared: float) -> KeptParts:
    shares = int(pandas.__version__.partition(".")[0]) >= 3
    usage = value.memory_usage(index=False)
    size = 0 if shares else within(room, int(usage.sum() if value.ndim == 2 else usage))
    copy = value.copy(deep=not shares)
    compared = compared if shares else math.inf
    owned = vars_of(copy) or {}
    objects = [part for column in _object_columns(value) for part in _objects_in(column)]

    def restore() -> None:
        again = copy.copy(deep=not shares)
        restore_vars(value, {**(vars_of(value) or {}), **(vars_of(again) or {})})

    return KeptParts(lambda: _same_frame(value, copy, compared), restore, objects, size, owned.__contains__)


def _same_frame(value: Any, copy: Any, compared: float) -> bool:
    return (
        value.shape == copy.shape
        and all(one.identical(other) for one, other in zip(value.axes, copy.axes, strict=True))
        and (value.ndim == 2 or value.name is copy.name)
        and value.attrs == copy.attrs
        and value.flags == copy.flags
        and (_shares_blocks(value, copy) or _same_columns(value, copy, compared))
    )


def _object_columns(value: Any) -> Sequence[Any]:
    if value.ndim == 1:
        return [value._values] if _is_object(value.dtype) else []
    return [column for column in value._iter_column_arrays() if _is_object(column.dtype)]


def _is_object(kind: Any) -> bool:
    """Return whether a dtype stores Python objects. Some pandas dtypes are named "object" but don't."""
    return bool(getattr(kind, "hasobject", False))


def _columns(value: Any) -> Sequence[Any]:
    """Return the columns as arrays without copying."""
    return list(value._iter_column_arrays()) if value.ndim == 2 else [value._values]


def _shares_blocks(value: Any, copy: Any) -> bool:
    """Return whether no column was written to since the copy. Compares only addresses, not values."""
    try:
        return all(_shares(*pair) for pair in zip(value._mgr.arrays, copy._mgr.arrays, strict=True))
    except (AttributeError, ValueError):  # different blocks, or a pandas version without them
        return False


def _same_columns(value: Any, copy: Any, compared: float) -> bool:
    left = [pair for pair in zip(_columns(value), _columns(copy), strict=True) if not _shares(*pair)]
    return sum(one.nbytes for one, _ in left) <= compared and all(_same_values(*pair) for pair in left)


def _shares(one: Any, other: Any) -> bool:
    if hasattr(one, "ctypes") and hasattr(other, "ctypes"):
        sides = [(side.dtype, side.shape, side.strides, side.ctypes.data) for side in (one, other)]
        return sides[0] == sides[1]
    return hasattr(one, "_pa_array") and hasattr(other, "_pa_array") and one._pa_array is other._pa_array


def _same_values(one: Any, other: Any) -> bool:
    """Compare NumPy arrays bit for bit, in pieces, to stop at the first difference; others with `equals`."""
    if one.dtype != other.dtype or len(one) != len(other):
        return False
    if not hasattr(one, "ctypes"):
        return bool(one.equals(other))
    if one.dtype.hasobject or one.dtype.itemsize not in _PLAIN_SIZES:
        return bool(one.tobytes() == other.tobytes())
    numbers, others = (side.view(f"u{one.dtype.itemsize}") for side in (one, other))
    pieces = (slice(first, first + _PIECE) for first in range(0, len(one), _PIECE))
    return all(bool((numbers[piece] == others[piece]).all()) for piece in pieces)


def _keep_index(value: Any) -> KeptParts:
    names = list(value.names)
    return KeptParts(lambda: list(value.names) == names, lambda: setattr(value, "names", names), owns=_owns_all)


def _keep_extension_array(value: Any, room: int) -> KeptParts:
    size = within(room, int(value.nbytes))
    copy = value.copy()

    def restore() -> None:
        value[:] = copy

    return KeptParts(lambda: value.dtype == copy.dtype and bool(value.equals(copy)), restore, (), size, _owns_all)


def _keep_polars(value: Any, polars: Any) -> KeptParts:
    clone = value.clone()
    if polars.Object in (clone.dtypes if is_of(clone, polars.DataFrame) else [clone.dtype]):
        raise ValueError("it holds Python objects")
    return KeptParts(
        lambda: _about(value) == _about(clone) and _same_polars(value, clone, polars),
        lambda: restore_vars(value, {**(vars_of(value) or {}), **(vars_of(clone.clone()) or {})}),
        owns=(vars_of(clone) or {}).__contains__,
    )


def _same_polars(value: Any, clone: Any, polars: Any) -> bool:
    sides = [one.get_columns() if is_of(one, polars.DataFrame) else [one] for one in (value, clone)]
    return all(
        ((place := _place_of(one)) is not None and place == _place_of(other)) or one.equals(other)
        for one, other in zip(*sides, strict=True)
    )


def _place_of(series: Any) -> object:
    """Return the address of a polars column's values, or None if polars can't provide it."""
    if not series.dtype.is_numeric() or series.null_count() or series.n_chunks() != 1:
        return None
    values = series.to_numpy(allow_copy=False)
    return values.ctypes.data, values.shape


def _about(value: Any) -> object:
    return value.schema if hasattr(value, "schema") else (value.name, value.dtype)


def _keep_tensor(value: Any, room: int) -> KeptParts:
    size = within(room, value.numel() * value.element_size())
    tensor = value.detach().clone()
    return KeptParts(
        lambda: value.shape == tensor.shape and bool((value.detach() == tensor).all()),
        lambda: setattr(value, "data", tensor.clone()),
        size=size,
        owns=_owns_all,
    )


def _owns_all(_name: str) -> bool:
    return True
