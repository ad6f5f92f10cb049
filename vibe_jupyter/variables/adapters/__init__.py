"""How values of one kind are described: an `Adapter` each, listed in `vibe_jupyter.variables.describe`.

`getattr`, `isinstance`, `len` and `repr` may all call methods of the object or of its metaclass. Everything here goes
through the slots of `type`, `object` and the built-in containers instead.
"""

import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

HEAD_ROWS = 5
"""Rows of a frame shown where nothing else is asked."""

LABELS_COMPARED = 1_000
"""Labels of one value's columns that are compared with words."""

V = TypeVar("V")

_MRO: Final[Any] = type.__dict__["__mro__"]
_CLASS_DICT: Final[Any] = type.__dict__["__dict__"]
_NAME: Final[Any] = type.__dict__["__name__"]
_MODULE_DICT: Final[Any] = _CLASS_DICT.__get__(types.ModuleType)["__dict__"]


class VariableView(NamedTuple):
    """How much of a value is wanted."""

    columns: tuple[str, ...] | None = None
    """Labels of a frame's columns; None for all."""
    rows: int = HEAD_ROWS
    """First rows of a frame to show."""
    stats: bool = True
    """Whether to count nulls and give ranges, from at most 1,000 rows."""


class SampleTable(NamedTuple):
    """A small table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class VariableDescription(NamedTuple):
    """A value in words."""

    headline: str
    """Kind and extent, such as ``pandas DataFrame 344 × 8``."""
    body: str = ""
    """More lines for the model; may be empty."""
    summary: str = ""
    """A few words for the user; empty when the headline says all."""
    table: SampleTable | None = None
    """Columns of a frame for the user; None for everything else."""
    extent: tuple[int, int] | None = None
    """Rows and columns of a frame; None for what is none, or does not know them."""
    schema: SampleTable | None = None
    """Columns with types and counts, and no value; None where no adapter tells them apart from values."""


def no_labels(value: Any) -> Iterable[str]:
    """For values without columns."""
    return ()


class VariableAdapter(NamedTuple):
    """Readings of a value of one kind. None of them runs the value's own code or a lazy computation."""

    line: Callable[[Any], str]
    """Kind and extent in one line and in well under a millisecond."""
    describe: Callable[[Any, VariableView], VariableDescription]
    fingerprint: Callable[[Any], object]
    """Equal as long as the value looks unchanged; holds no reference to it."""
    labels: Callable[[Any], Iterable[str]] = no_labels
    """Of the first columns, at most `LABELS_COMPARED`."""


def line_adapter(line: Callable[[Any], str], fingerprint: Callable[[Any], object] = id) -> VariableAdapter:
    """An adapter for values of which one line says all."""

    def describe(value: Any, view: VariableView) -> VariableDescription:
        return VariableDescription(headline=line(value))

    return VariableAdapter(line=line, describe=describe, fingerprint=fingerprint)


class TypeMap(Generic[V]):
    """A mapping whose keys are classes, compared by identity: a metaclass may define its own hash and equality."""

    def __init__(self, items: Mapping[type, V]) -> None:
        self._values = {id(cls): value for cls, value in items.items()}

    def get(self, cls: type) -> V | None:
        """What stands for exactly this class."""
        return self._values.get(id(cls))

    def __contains__(self, cls: type) -> bool:
        return id(cls) in self._values


def type_of(value: object) -> type:
    """The class of any value, as its memory says and not as its `__class__` does."""
    return type(value)


def is_one_of(cls: object, classes: Iterable[object]) -> bool:
    """Whether it is, by identity, one of these."""
    return any(map(operator.is_, itertools.repeat(cls), classes))


def class_mro(cls: type) -> tuple[type, ...]:
    """The class and its bases, nearest first."""
    return _MRO.__get__(cls)


def class_dict(cls: type) -> Mapping[str, object]:
    """What the class itself defines."""
    return _CLASS_DICT.__get__(cls)


def module_of(cls: type) -> str:
    """The module a class says it is from; empty when it says something else than text."""
    if not _is_heap_type(cls):
        return cls.__module__
    return _text_or_empty(class_dict(cls).get("__module__"))


def class_name(cls: type) -> str:
    """``numpy.ndarray``, or the bare name for built-ins and for the notebook's own classes."""
    name: str = _NAME.__get__(cls)
    module = module_of(cls)
    return name if module in ("", "builtins", "__main__") else f"{module}.{name}"


def type_name(value: object) -> str:
    """`class_name` of the value's class."""
    return class_name(type(value))


def instance_dict(value: object) -> Mapping[str, object]:
    """The attributes stored on the object itself; empty when it has none or hides them."""
    for cls in reversed(class_mro(type(value))):
        slot: Any = class_dict(cls).get("__dict__")
        if type(slot) is types.GetSetDescriptorType or cls is types.SimpleNamespace:
            found = slot.__get__(value)
            return cast("Mapping[str, object]", found) if type(found) is dict else {}
    return {}


def pairs_of(mapping: dict[object, object]) -> Iterable[tuple[object, object]]:
    """Keys and values by the functions of dict itself, whatever a subclass overrides."""
    items: Callable[[object], Iterable[tuple[object, object]]] = dict.__dict__["items"]
    return items(mapping)


def public_names(names: Mapping[str, object], limit: int) -> list[str]:
    """The first names that do not begin with an underscore."""
    shown: list[str] = []
    for name in names:
        if type(name) is str and not name.startswith("_"):
            shown.append(name)
        if len(shown) == limit:
            break
    return shown


def module_dict(name: str) -> Mapping[str, object]:
    """The names of a module that is already imported; empty when it is not. Never imports."""
    module = sys.modules.get(name)
    return names_of_module(module) if is_one_of(types.ModuleType, class_mro(type(module))) else {}


def names_of_module(module: object) -> Mapping[str, object]:
    """What a module defines, without its `__getattr__`."""
    return _MODULE_DICT.__get__(module)


def loaded_attribute(module: str, name: str) -> Any:
    """An attribute of a module that is already imported, or None."""
    return module_dict(module).get(name)


def is_of_package(cls: type, package: str) -> bool:
    """Whether a class is really the package's own, and not one that only says so."""
    module = module_of(cls)
    if module != package and not module.startswith(package + "."):
        return False
    return module_dict(module).get(_NAME.__get__(cls)) is cls


def _is_heap_type(cls: type) -> bool:
    heap_type = 1 << 9  # Py_TPFLAGS_HEAPTYPE
    flags: int = type.__dict__["__flags__"].__get__(cls)
    return bool(flags & heap_type)


def _text_or_empty(value: object) -> str:
    return value if type(value) is str else ""
