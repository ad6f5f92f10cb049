"""Resolve paths such as `df["price"]`, `config["db"]["host"]` or `model.params[0]` without running user code.

Items of built-in containers, stored attributes, names of modules and columns of frames are looked up with the built-in
types' own functions. Anything that Python would compute is refused with an explanation.
"""

import ast
import difflib
import itertools
import types
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from vibe_jupyter.errors import ToolError
from vibe_jupyter.variables.adapters import (
    VariableView,
    class_dict,
    class_mro,
    instance_dict,
    is_one_of,
    loaded_attribute,
    names_of_module,
    pairs_of,
    type_name,
    type_of,
)
from vibe_jupyter.variables.plain_values import is_scalar, plain_line

NEAR_NAMES: Final = 3  # suggestions for a missing name
LOOKED_AT: Final = 1_000_000  # keys of one mapping that are compared
_NAMED: Final = 1_000  # names compared for suggestions
_FRAMES: Final = (
    ("pandas", "DataFrame"),
    ("polars", "DataFrame"),
    ("pyarrow", "Table"),
    ("pyarrow", "RecordBatch"),
)
_SEQUENCES: Final = (list, tuple, deque)
# Descriptors of slots and named tuples, which only read stored values.
_SLOTS: Final = (types.MemberDescriptorType, type_of(class_dict(VariableView)["rows"]))
# Class attributes that instances return unchanged.
_STORED: Final = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
RUN_CODE: Final = "run_code evaluates it."  # suffix of messages about paths that only code can evaluate


class FoundValue(NamedTuple):
    """The value that a path leads to."""

    value: object
    column: str | None = None  # label of the frame's column, or None for the whole value


def find_value(namespace: Mapping[str, object], path: str) -> FoundValue:
    """Return the value of a name or path.

    Raises:
        ToolError: It doesn't exist, or only user code could compute it. The message suggests similar names.
    """
    name, *steps = _path_steps(path)
    if name not in namespace:
        hint = near_names(str(name), namespace) or " Call inspect without names for the list."
        raise ToolError(f"There is no variable {name!r}.{hint}")
    found = FoundValue(namespace[str(name)])
    for step in steps:
        if found.column is not None:
            raise ToolError(f"{path}: a path ends at a column. {RUN_CODE}")
        found = _attribute(found.value, step.name) if isinstance(step, _Attribute) else _item(found.value, step)
    return found


def near_names(name: str, known: Iterable[object]) -> str:
    """Return `` Did you mean …?`` with similar names, or ""."""
    names = [one for one in itertools.islice(known, _NAMED) if type(one) is str]
    near = difflib.get_close_matches(name, names, NEAR_NAMES, 0.6)
    near = near or [one for one in names if one.casefold() == name.casefold()]
    return f" Did you mean {' or '.join(near)}?" if near else ""


class _Attribute(NamedTuple):
    name: str


def _path_steps(path: str) -> list[Any]:
    """Split a path into the variable's name and the keys and attributes after it."""
    try:
        node: ast.expr = ast.parse(path.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
        raise _no_path(path) from None
    steps: list[object] = []
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner, attr=attribute):
                steps.append(_Attribute(attribute))
            case ast.Subscript(value=inner, slice=key):
                steps.append(_constant(key, path))
            case _:
                raise _no_path(path)
        node = inner
    return [node.id, *reversed(steps)]


def _constant(node: ast.expr, path: str) -> object:
    try:
        key: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise _no_path(path) from None
    if not _is_plain_key(key):
        raise _no_path(path)
    return key


def _is_plain_key(key: object) -> bool:
    return all(map(_is_plain_key, cast("tuple[object, ...]", key))) if type(key) is tuple else is_scalar(key)


def _no_path(path: str) -> ToolError:
    return ToolError(
        f"{path!r} is neither a variable's name nor a path of names, keys and attributes, such as "
        f'df["price"], d["k"][0] or obj.attr. {RUN_CODE}'
    )


def _item(value: Any, key: object) -> FoundValue:
    mro = class_mro(type_of(value))
    if _is_frame(mro):
        return FoundValue(value, key if isinstance(key, str) else plain_line(key))
    if is_one_of(dict, mro):
        return FoundValue(_entry(value, key))
    if _is_dataset(value):
        if not _has_variable(value, key):
            names: list[object] = list(value._variables)
            near = near_names(key, names) if type(key) is str else ""
            raise ToolError(f"There is no variable {plain_line(key)} in it.{near}")
        return FoundValue(value[key])
    kind: Any = next((cls for cls in mro if is_one_of(cls, _SEQUENCES)), None)
    if kind is None:
        raise ToolError(f"Only its own code can look up an item of a {type_name(value)}. {RUN_CODE}")
    if type(key) is not int:
        raise ToolError(f"{plain_line(key)} is no place in a {type_name(value)}: give a whole number.")
    size: int = kind.__len__(value)
    if not -size <= key < size:
        raise ToolError(f"There is no item {key}: the {type_name(value)} has {size:,}.")
    take: Callable[[Any, int], object] = kind.__getitem__
    return FoundValue(take(value, key))


def _entry(value: dict[object, object], key: object) -> object:
    """Find a key by comparing keys of the same built-in class; others may override equality."""
    for known, entry in itertools.islice(pairs_of(value), LOOKED_AT):
        if known is key or (type(known) is type(key) and _is_plain_key(known) and known == key):
            return entry
    names = (known for known, _ in pairs_of(value))
    if type(key) is str and (near := near_names(key, names)):
        raise ToolError(f"There is no key {key!r}.{near}")
    first = ", ".join(plain_line(known) for known, _ in itertools.islice(pairs_of(value), 10))
    raise ToolError(f"There is no key {plain_line(key)}. The first keys are {first or 'none'}.")


def _is_frame(mro: tuple[type, ...]) -> bool:
    return any(is_one_of(loaded_attribute(*place), mro) for place in _FRAMES if loaded_attribute(*place) is not None)


def _is_dataset(value: Any) -> bool:
    """Return whether this is exactly `xarray.Dataset`, since subclasses may override lookups."""
    dataset = loaded_attribute("xarray", "Dataset")
    return dataset is not None and type_of(value) is dataset


def _has_variable(dataset: Any, name: object) -> bool:
    return type(name) is str and any(type(one) is str and one == name for one in dataset._variables)


def _attribute(value: Any, name: str) -> FoundValue:
    mro = class_mro(type_of(value))
    if is_one_of(types.ModuleType, mro):
        stored = names_of_module(value)
    elif is_one_of(type, mro):
        stored = {key: one for cls in reversed(class_mro(value)) for key, one in class_dict(cls).items()}
    else:
        return _attribute_of_object(value, name, mro)
    if name not in stored:
        raise ToolError(f"There is no attribute {name!r}.{near_names(name, stored)}")
    return FoundValue(stored[name])


def _attribute_of_object(value: Any, name: str, mro: tuple[type, ...]) -> FoundValue:
    in_class = next((class_dict(cls)[name] for cls in mro if name in class_dict(cls)), None)
    if is_one_of(type_of(in_class), _SLOTS):
        slot: Any = in_class
        try:
            return FoundValue(slot.__get__(value))
        except AttributeError:
            raise ToolError(f"The attribute {name!r} has no value yet.") from None
    stored = instance_dict(value)
    if in_class is None and name in stored:
        return FoundValue(stored[name])
    if in_class is None and _is_frame(mro):
        return FoundValue(value, name)
    if in_class is None and _is_dataset(value) and _has_variable(value, name):
        return FoundValue(value[name])
    if in_class is not None and (is_scalar(in_class) or is_one_of(type_of(in_class), _STORED)):
        return FoundValue(stored.get(name, in_class))
    if in_class is not None:
        raise ToolError(f"{name!r} is computed by the code of {type_name(value)}. {RUN_CODE}")
    raise ToolError(f"There is no stored attribute {name!r}.{near_names(name, stored)} {RUN_CODE}")
