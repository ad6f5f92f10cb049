"""NumPy arrays: shape, dtype, and the range of up to 1,000 sampled elements."""

import math
from typing import Any

from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_mro,
    class_name,
    instance_dict,
    is_of_package,
    line_adapter,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.frames import SAMPLE_ROWS, number_text, spread_rows
from vibe_jupyter.variables.plain_values import plain_line

_NUMBER_KINDS = "biuf"
_TIME_KINDS = "mM"
# Units whose values always fit into Python's `timedelta`, which rounds them to microseconds.
_FINE_UNITS = ("ns", "ps", "fs", "as")
_ELEMENTS_SHOWN = 6  # first elements shown


def numpy_adapter() -> VariableAdapter:
    """Return an adapter for `numpy.ndarray` and subclasses."""
    return VariableAdapter(line=_array_line, describe=_describe_array, fingerprint=_array_fingerprint)


def numpy_scalar_adapter() -> VariableAdapter:
    return line_adapter(lambda value: f"{type_name(value)} {plain_line(value)}", fingerprint=plain_line)


def dtype_text(dtype: Any) -> str:
    """Return a dtype's name. Dtypes that NumPy doesn't own are named by class, without calling their code."""
    return str(dtype) if is_of_numpy(type_of(dtype)) else f"<{type_name(dtype)}>"


def is_of_numpy(cls: type) -> bool:
    """Return whether a class is NumPy's own. Its dtype classes report a misleading module."""
    dtype: Any = loaded_attribute("numpy", "dtype")
    return is_of_package(cls, "numpy") or (dtype in class_mro(cls) and cls.__module__.startswith("numpy."))


def array_figures(array: Any) -> tuple[int, str, str]:
    """Return nulls, range and mean of a one-dimensional array of numbers or times."""
    kind = array.dtype.kind
    if kind in _TIME_KINDS or kind == "f":
        missing = loaded_attribute("numpy", "isnat")(array) if kind in _TIME_KINDS else array != array
        nulls = int(missing.sum())
        array = array[~missing] if nulls else array
    else:
        nulls = 0
    if not array.size:
        return nulls, "", ""
    low, high = array.min(), array.max()
    if kind in _TIME_KINDS:
        return nulls, f"{_time_text(low)} … {_time_text(high)}", ""
    if kind == "b":
        return nulls, str(low) if low == high else "False, True", ""
    mean = float(array.mean(dtype="f8"))
    # The mean isn't finite if there are infinities, or if the sum overflows.
    detail = f"mean {number_text(mean)}" if math.isfinite(mean) else ""
    return nulls, f"{_number_of(low)} … {_number_of(high)}", detail


def _number_of(value: Any) -> str:
    # `item()` of a long double returns a long double again.
    return number_text(float(value) if value.dtype.kind == "f" else value.item())


def has_figures(dtype: Any) -> bool:
    """Return whether `array_figures` supports this dtype."""
    return is_of_numpy(type_of(dtype)) and dtype.kind in _NUMBER_KINDS + _TIME_KINDS


def _time_text(value: Any) -> str:
    if value.dtype.kind == "m":
        short = value.astype("m8[us]")
        unit: str = loaded_attribute("numpy", "datetime_data")(value.dtype)[0]
        return str(short.item()) if unit in _FINE_UNITS or short.astype(value.dtype) == value else str(value)
    text = str(value)
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}".replace("T", " ") if fraction else whole.removesuffix("T00:00:00").replace("T", " ")


def _plain_array(value: Any) -> Any:
    """Return a plain array on the same memory, without a subclass's methods."""
    ndarray = loaded_attribute("numpy", "ndarray")
    return value if type(value) is ndarray else ndarray.view(value, ndarray)


def _array_kind(value: Any) -> str:
    cls = type_of(value)
    if cls is loaded_attribute("numpy", "ndarray"):
        return "numpy array"
    return f"{class_name(cls)} (numpy array)"


def _array_line(value: Any) -> str:
    array = _plain_array(value)
    shape = " × ".join(f"{side:,}" for side in array.shape) or "scalar"
    return f"{_array_kind(value)} {shape} {dtype_text(array.dtype)}"


def _describe_array(value: Any, view: VariableView) -> VariableDescription:
    array = _plain_array(value)
    lines: list[str] = []
    mask = _mask_of(value)
    sample = _array_sample(array, mask)
    if view.stats and sample is not None and array.size:
        nulls, span, mean = array_figures(sample)
        scope = f" (of {SAMPLE_ROWS:,} sampled elements)" if array.size > SAMPLE_ROWS else ""
        missing = f"{nulls:,} nan" if nulls else ""
        hidden = min(array.size, SAMPLE_ROWS) - sample.size
        masked = f"{hidden:,} masked" if hidden else ""
        lines.append("values: " + ", ".join(part for part in (span, mean, missing, masked) if part) + scope)
    if array.size and (sample is not None or array.dtype.kind in "OSUc"):
        first = [
            "masked" if mask is not None and mask.flat[place] else plain_line(array.flat[place], depth=0)
            for place in range(min(array.size, _ELEMENTS_SHOWN))
        ]
        lines.append("first: " + ", ".join(first))
    if array.dtype.names is not None:
        lines.append("fields: " + ", ".join(array.dtype.names[:40]))
    return VariableDescription(
        headline=_array_line(value), body="\n".join(lines), summary=_array_line(value).removeprefix("numpy array ")
    )


def _mask_of(value: Any) -> Any:
    """Return the mask of a masked array as a plain array, or None."""
    ndarray = loaded_attribute("numpy", "ndarray")
    mask: Any = instance_dict(value).get("_mask")
    is_masked = type(mask) is ndarray and loaded_attribute("numpy.ma", "MaskedArray") in class_mro(type_of(value))
    # The mask of a structured array is structured too.
    return mask if is_masked and mask.dtype.kind == "b" and mask.shape == _plain_array(value).shape else None


def _array_sample(array: Any, mask: Any) -> Any:
    """Return sampled unmasked elements as a new array, or None unless they are numbers or times."""
    if not has_figures(array.dtype):
        return None
    sample = _spread_elements(array)
    return sample if mask is None else sample[~_spread_elements(mask)]


def _spread_elements(array: Any) -> Any:
    places = spread_rows(array.size)
    # Indexing the flat iterator avoids copying a non-contiguous array.
    return array.flat[list(places)] if places is not None else array.flatten()


def _array_fingerprint(value: Any) -> object:
    array = _plain_array(value)
    sample = _array_sample(array, _mask_of(value))
    content = hash(sample.tobytes()) if sample is not None else 0
    return (id(value), array.shape, dtype_text(array.dtype), content)
