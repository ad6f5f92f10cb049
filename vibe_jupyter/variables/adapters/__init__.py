"""The `VariableAdapter` interface. Adapters are registered in `vibe_jupyter.variables.describe`.

`getattr`, `isinstance`, `len` and `repr` may all call methods of the object or of its metaclass. To run no user code,
everything here goes through the slots of `type`, `object` and the built-in containers instead.
"""

import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

HEAD_ROWS = 5  # rows of a frame shown by default

LABELS_COMPARED = 1_000  # labels of one value's columns that are matched against the prompt

V = TypeVar("V")

_MRO: Final[Any] = type.__dict__["__mro__"]
_CLASS_DICT: Final[Any] = type.__dict__["__dict__"]
_NAME: Final[Any] = type.__dict__["__name__"]
_MODULE_DICT: Final[Any] = _CLASS_DICT.__get__(types.ModuleType)["__dict__"]


class VariableView(NamedTuple):
    """Level of detail of a description."""

    columns: tuple[str, ...] | None = None  # labels of a frame's columns, or None for all
    rows: int = HEAD_ROWS  # first rows of a frame to show
    stats: bool = True  # whether to count nulls and compute ranges, from at most 1,000 rows


class SampleTable(NamedTuple):
    """A small table of text cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class VariableDescription(NamedTuple):
    """Text description of a value."""

    headline: str  # kind and size, such as ``pandas DataFrame 344 × 8``
    body: str = ""  # more lines for the model
    summary: str = ""  # short form for the user; empty if the headline is enough
    table: SampleTable | None = None  # columns of a frame for the user; None for other values
    extent: tuple[int, int] | None = None  # rows and columns of a frame, if known
    # Columns with types and counts but no values, or None if the adapter can't separate them from values.
    schema: SampleTable | None = None


def no_labels(value: Any) -> Iterable[str]:
    """Return no labels: the default for values without columns."""
    return ()


class VariableAdapter(NamedTuple):
    """Functions that describe values of one kind. None of them runs the value's own code or a lazy computation."""

    line: Callable[[Any], str]  # kind and size in one line, in well under a millisecond
    describe: Callable[[Any, VariableView], VariableDescription]
    fingerprint: Callable[[Any], object]  # equal while the value looks unchanged; holds no reference to it
    labels: Callable[[Any], Iterable[str]] = no_labels  # labels of the first columns, at most `LABELS_COMPARED`


def line_adapter(line: Callable[[Any], str], fingerprint: Callable[[Any], object] = id) -> VariableAdapter:
    """Create an adapter for values that fit in one line."""

    def describe(value: Any, view: VariableView) -> VariableDescription:
        return VariableDescription(headline=line(value))

    return VariableAdapter(line=line, describe=describe, fingerprint=fingerprint)


class TypeMap(Generic[V]):
    """A mapping with classes as keys, compared by identity: a metaclass may define its own hash and equality."""

    def __init__(self, items: Mapping[type, V]) -> None:
        self._values = {id(cls): value for cls, value in items.items()}

    def get(self, cls: type) -> V | None:
        """Return the value for exactly this class, not for its bases."""
        return self._values.get(id(cls))

    def __contains__(self, cls: type) -> bool:
        return id(cls) in self._values


def type_of(value: object) -> type:
    """Return the class of any value. Unlike `__class__`, `type` can't be overridden by the object."""
    return type(value)


def is_one_of(cls: object, classes: Iterable[object]) -> bool:
    """Return whether `cls` is one of these classes, compared by identity."""
    return any(map(operator.is_, itertools.repeat(cls), classes))


def class_mro(cls: type) -> tuple[type, ...]:
    """Return the class and its bases in method resolution order."""
    return _MRO.__get__(cls)


def class_dict(cls: type) -> Mapping[str, object]:
    """Return the class's own attributes, without inherited ones."""
    return _CLASS_DICT.__get__(cls)


def module_of(cls: type) -> str:
    """Return the class's `__module__`, or "" if it isn't a string."""
    if not _is_heap_type(cls):
        return cls.__module__
    return _text_or_empty(class_dict(cls).get("__module__"))


def class_name(cls: type) -> str:
    """Return ``numpy.ndarray``, or the bare name of built-ins and classes defined in the notebook."""
    name: str = _NAME.__get__(cls)
    module = module_of(cls)
    return name if module in ("", "builtins", "__main__") else f"{module}.{name}"


def type_name(value: object) -> str:
    return class_name(type(value))


def instance_dict(value: object) -> Mapping[str, object]:
    """Return the attributes stored on the object itself, or {} if it has none or hides them."""
    for cls in reversed(class_mro(type(value))):
        slot: Any = class_dict(cls).get("__dict__")
        if type(slot) is types.GetSetDescriptorType or cls is types.SimpleNamespace:
            found = slot.__get__(value)
            return cast("Mapping[str, object]", found) if type(found) is dict else {}
    return {}


def pairs_of(mapping: dict[object, object]) -> Iterable[tuple[object, object]]:
    """Return keys and values with dict's own method, whatever a subclass overrides."""
    items: Callable[[object], Iterable[tuple[object, object]]] = dict.__dict__["items"]
    return items(mapping)


def public_names(names: Mapping[str, object], limit: int) -> list[str]:
    """Return the first `limit` names without a leading underscore."""
    shown: list[str] = []
    for name in names:
        if type(name) is str and not name.startswith("_"):
            shown.append(name)
        if len(shown) == limit:
            break
    return shown


def module_dict(name: str) -> Mapping[str, object]:
    """Return the names of a module, or {} if it isn't imported yet. Never imports."""
    module = sys.modules.get(name)
    return names_of_module(module) if is_one_of(types.ModuleType, class_mro(type(module))) else {}


def names_of_module(module: object) -> Mapping[str, object]:
    """Return a module's names without calling its `__getattr__`."""
    return _MODULE_DICT.__get__(module)


def loaded_attribute(module: str, name: str) -> Any:
    """Return an attribute of an imported module, or None."""
    return module_dict(module).get(name)


def is_of_package(cls: type, package: str) -> bool:
    """Return whether the package really defines the class, rather than the class merely claiming its module name."""
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
