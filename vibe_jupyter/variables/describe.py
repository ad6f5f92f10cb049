"""Describe the user's variables as text, bounded in time and size, without running any of their code.

A failing adapter never fails its caller: the value is then described by its class and the name of the error.

An adapter is looked up along the value's method resolution order by class identity. Libraries that aren't imported
yet stay unimported. To support a new kind of value, add a line to `vibe_jupyter.variables.kinds` and an adapter to
`vibe_jupyter.variables.adapters`.
"""

import collections
import datetime
import decimal
import enum
import fractions
import logging
import pathlib
import types
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Final, Protocol, TypeVar

from vibe_jupyter.errors import ToolError
from vibe_jupyter.variables.adapters import (
    TypeMap,
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_mro,
    loaded_attribute,
    type_name,
)
from vibe_jupyter.variables.adapters.python_values import (
    builtin_function_adapter,
    class_adapter,
    container_adapter,
    enum_adapter,
    function_adapter,
    module_adapter,
    object_adapter,
    scalar_adapter,
)
from vibe_jupyter.variables.kinds import library_adapter
from vibe_jupyter.variables.own_words import in_own_words

T = TypeVar("T")

logger = logging.getLogger(__name__)

_SCALARS: Final = (
    types.NoneType,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    range,
    decimal.Decimal,
    fractions.Fraction,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    pathlib.PurePosixPath,
    pathlib.PosixPath,
    pathlib.PureWindowsPath,
    pathlib.WindowsPath,
)
_CONTAINERS: Final = (
    list,
    tuple,
    set,
    frozenset,
    dict,
    collections.OrderedDict,
    collections.defaultdict,
    collections.deque,
)
_BUILTIN_ADAPTERS: Final[TypeMap[VariableAdapter]] = TypeMap(
    {
        **{cls: scalar_adapter(cls) for cls in _SCALARS},
        **{cls: container_adapter(cls) for cls in _CONTAINERS},
        types.ModuleType: module_adapter(),
        types.FunctionType: function_adapter(),
        types.BuiltinFunctionType: builtin_function_adapter(),
        type: class_adapter(),
        enum.Enum: enum_adapter(),
    }
)
_OBJECT_ADAPTER: Final = object_adapter()


class CallMain(Protocol):
    """Callable that runs a function on the kernel's main thread, where variables are read."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return or raise what `work` does."""
        ...


def describe_value(value: object, view: VariableView | None = None) -> VariableDescription:
    """Describe one value in full.

    Raises:
        ToolError: `view` names a column that the value doesn't have.
    """
    return _guarded(
        value,
        lambda: _find_adapter(value).describe(value, view or VariableView()),
        lambda error: VariableDescription(_undescribed(value, error), summary="could not be described"),
    )


def value_kind(value: object) -> str:
    """Return a value's class in the form people search for: ``pandas.DataFrame``, ``int``, ``function``, ``module``."""
    return type_name(value)


def summary_line(name: str, value: object) -> str:
    """Return ``penguins: pandas DataFrame 344 × 8 (species str, …)``, in at most a millisecond."""
    return f"{name}: {value_line(value)}"


def value_line(value: object) -> str:
    """Return a value's kind and size in one line."""
    return _guarded(value, lambda: _find_adapter(value).line(value), lambda error: _undescribed(value, error))


def column_labels(value: object) -> Sequence[str]:
    """Return labels of a frame's first columns or a data set's variables; empty for other values."""
    return _guarded(value, lambda: tuple(_find_adapter(value).labels(value)), lambda error: ())


def column_types(value: object, labels: Sequence[str]) -> Mapping[str, str]:
    """Return types of some of a frame's columns; empty if the adapter can't separate them from values."""
    if not labels:
        return {}
    table = describe_value(value, VariableView(columns=tuple(labels), rows=0, stats=False)).table
    return {row[0]: row[1] for row in table.rows} if table is not None else {}


def value_fingerprint(value: object) -> object:
    """Return a value that stays equal while the variable looks unchanged. Keeps no reference to it.

    Compares identity, shape, types and a sample.
    """
    return _guarded(value, lambda: _find_adapter(value).fingerprint(value), lambda error: id(value))


def _guarded(value: object, read: Callable[[], T], fallback: Callable[[BaseException], T]) -> T:
    """Return the result of `read`, or `fallback` if an adapter fails. NumPy's floating-point warnings are silenced."""
    errstate = loaded_attribute("numpy", "errstate")
    try:
        with errstate(all="ignore") if errstate else nullcontext():
            return read()
    except (ToolError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of Rust libraries derive from BaseException
        logger.warning("A value of class %s could not be described.", type_name(value), exc_info=True)
        return fallback(error)


def _undescribed(value: object, error: BaseException) -> str:
    return f"<{type_name(value)}> (could not be described: {type(error).__name__})"


def _adapter_of_class(cls: type) -> VariableAdapter | None:
    return _BUILTIN_ADAPTERS.get(cls) or library_adapter(cls)


def _find_adapter(value: object) -> VariableAdapter:
    found = (adapter for cls in class_mro(type(value)) if (adapter := _adapter_of_class(cls)))
    return in_own_words(value, next(found, _OBJECT_ADAPTER))
