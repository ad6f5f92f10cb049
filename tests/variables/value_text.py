"""All of a value as text, bit for bit, so that two states of it can be compared."""

import collections
import functools
import hashlib
import random
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import xarray

_SHOWN = 300
"""Characters of a part; of a longer one there is a digest."""
_Above = tuple[int, ...]
"""Identities of what holds a value."""


def texts(names: Mapping[str, Any]) -> dict[str, str]:
    """Of each variable."""
    return {name: value_text(one) for name, one in names.items()}


def value_text(value: Any, above: _Above = ()) -> str:
    """Of one value."""
    if id(value) in above:
        return f"<{above.index(id(value))}>"
    is_foreign = isinstance(value, type | types.FunctionType) and value.__module__ != "__main__"
    text = repr(value) if is_foreign else f"{type(value).__name__} {_text(value, (*above, id(value)))}"
    return text if len(text) < _SHOWN else f"{text[:100]} {hashlib.sha1(text.encode()).hexdigest()}"


def _all_of(parts: Iterable[Any], above: _Above) -> str:
    return ", ".join(value_text(one, above) for one in parts)


def _attributes(value: Any, above: _Above) -> str:
    held = getattr(value, "__dict__", None)
    return value_text(dict(held), above) if type(held) is dict and held else ""


@functools.singledispatch
def _text(value: Any, above: _Above) -> str:
    slots = [getattr(value, one, "nothing") for one in getattr(type(value), "__slots__", ())]
    return _attributes(value, above) or _all_of(slots, above) or repr(value)


@_text.register
def _(value: types.ModuleType, above: _Above) -> str:
    return value.__name__


@_text.register
def _(value: type, above: _Above) -> str:
    names = {name: one for name, one in sorted(vars(value).items()) if name[:2] != "__"}
    return f"{value.__name__} {value_text(names, above)}"


@_text.register
def _(value: types.FunctionType, above: _Above) -> str:
    closure = [one.cell_contents for one in value.__closure__ or ()]
    return f"{_attributes(value, above)} {_all_of(value.__defaults__ or (), above)} {_all_of(closure, above)}"


@_text.register
def _(value: BaseException, above: _Above) -> str:
    return f"{value.args} {_attributes(value, above)}"


@_text.register
def _(value: dict, above: _Above) -> str:
    kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    made = getattr(value, "default_factory", "")
    return f"{_all_of(kind.items(value), above)} {made} {_attributes(value, above)}"


@_text.register
def _(value: list, above: _Above) -> str:
    return f"{_all_of(list.__iter__(value), above)} {_attributes(value, above)}"


@_text.register(tuple)
@_text.register(collections.deque)
def _(value: Any, above: _Above) -> str:
    return f"{getattr(value, 'maxlen', '')} {_all_of(value, above)} {_attributes(value, above)}"


@_text.register(set)
@_text.register(frozenset)
def _(value: Any, above: _Above) -> str:
    return f"{sorted(value_text(one, above) for one in value)} {_attributes(value, above)}"


@_text.register
def _(value: random.Random, above: _Above) -> str:
    return repr(value.getstate())


@_text.register
def _(value: np.ndarray, above: _Above) -> str:
    has_objects = value.dtype.hasobject
    content = _all_of(value.ravel().tolist(), above) if has_objects else np.ndarray.tobytes(value).hex()
    return f"{value.dtype} {value.shape} {value.flags.writeable} {content} {_attributes(value, above)}"


@_text.register
def _(value: np.random.Generator, above: _Above) -> str:
    return repr(value.bit_generator.state)


@_text.register
def _(value: np.random.BitGenerator, above: _Above) -> str:
    return repr(value.state)


@_text.register
def _(value: np.random.RandomState, above: _Above) -> str:
    return repr(value.get_state(legacy=False))


@_text.register(pd.DataFrame)
@_text.register(pd.Series)
def _(value: Any, above: _Above) -> str:
    columns = [value.iloc[:, one] for one in range(value.shape[1])] if value.ndim == 2 else [value]
    own = value_text(vars(value).get("remark"), above)
    return f"{value.attrs} {value.flags!r} {_all_of(value.axes, above)} {own} " + _all_of(
        ((str(one.name), one.array) for one in columns), above
    )


@_text.register
def _(value: pd.Index, above: _Above) -> str:
    return f"{value.dtype} {value.tolist()} {value.names}"


@_text.register
def _(value: pd.api.extensions.ExtensionArray, above: _Above) -> str:
    if isinstance(value, pd.arrays.NumpyExtensionArray):
        return value_text(value.to_numpy(), above)
    return f"{value!r} {value.dtype!r}"


@_text.register
def _(value: pl.DataFrame, above: _Above) -> str:
    return f"{value.schema} {value.rows()}"


@_text.register
def _(value: pl.Series, above: _Above) -> str:
    return f"{value.name} {value.dtype} {value.to_list()}"


@_text.register
def _(value: xarray.Dataset, above: _Above) -> str:
    return value_text(value.to_dict(), above)
