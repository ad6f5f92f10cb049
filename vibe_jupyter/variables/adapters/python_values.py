"""Values of built-in types, modules, functions, classes, and objects without an adapter of their own."""

import itertools
import types
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_dict,
    class_mro,
    class_name,
    instance_dict,
    is_one_of,
    line_adapter,
    names_of_module,
    public_names,
    type_name,
    type_of,
)
from vibe_jupyter.variables.plain_values import (
    BRACKETS,
    DEPTH,
    MAPPINGS,
    comparison_mark,
    mapping_text,
    pairs_of,
    plain_cell_text,
    plain_line,
    sequence_text,
)

_TEXT_WIDTH: Final = 80  # characters of a string or bytes in one line
_TEXT_SHOWN: Final = 2_000  # characters of an inspected string
_ITEM_WIDTH: Final = 30  # characters of a string inside a container, in one line
_LINE_LIMIT: Final = 200  # characters of a container in one line
_FIELDS_SHOWN: Final = 40  # fields listed of a named tuple
_ITEMS_COMPARED: Final = 1_000  # first items that enter a container's fingerprint

# Each converts a value to exactly its built-in type, running only that type's slots.
_EXACT: Final[dict[object, Callable[[Any], object]]] = {
    int: lambda value: int.__add__(value, 0),
    float: lambda value: float.__add__(value, 0.0),
    complex: lambda value: complex.__add__(value, 0j),
    str: lambda value: str.__getitem__(value, slice(None)),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
}

_NAMES_SHOWN = 40  # public names listed of a class, module or object
_DOC_WIDTH = 200  # characters of a docstring's first line
_DEFAULT_WIDTH = 20  # characters of a parameter's default
_VARIADIC = 0x04
_VARIADIC_KEYWORDS = 0x08


def scalar_adapter(base: type) -> VariableAdapter:
    """Return an adapter for numbers, strings and the like. Values of subclasses are converted to the built-in type."""
    long = base in (str, bytes, bytearray)

    def line(value: Any) -> str:
        text = plain_line(_exact_value(value, base), width=_TEXT_WIDTH)
        return text if value is None else f"{type_name(value)} {text}"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        whole = plain_line(_exact_value(value, base), width=_TEXT_SHOWN) if long else ""
        return VariableDescription(headline=line(value), body=whole if len(whole) > _TEXT_WIDTH else "")

    def fingerprint(value: Any) -> object:
        return (type_name(value), comparison_mark(_exact_value(value, base)))

    return VariableAdapter(line=line, describe=describe, fingerprint=fingerprint)


def container_adapter(base: Any) -> VariableAdapter:
    """Return an adapter for lists, tuples, sets and mappings: their size and first items."""

    def headline(value: Any) -> str:
        size = base.__len__(value)
        return f"{type_name(value)} of {size:,} {'item' if size == 1 else 'items'}"

    def line(value: Any) -> str:
        text = _items_text(value, base, depth=1, width=_ITEM_WIDTH)
        return f"{headline(value)} {text if len(text) <= _LINE_LIMIT else text[:_LINE_LIMIT] + '…'}"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        fields: object = class_dict(type_of(value)).get("_fields")
        lines = [_items_text(value, base)]
        if type(fields) is tuple:
            names = cast("tuple[object, ...]", fields)[:_FIELDS_SHOWN]
            lines.append("fields: " + ", ".join(map(plain_cell_text, names)))
        return VariableDescription(headline=headline(value), body="\n".join(lines))

    def fingerprint(value: Any) -> object:
        marks = tuple(comparison_mark(item) for item in itertools.islice(_member_values(value, base), _ITEMS_COMPARED))
        return (id(value), base.__len__(value), hash(marks))

    return VariableAdapter(line=line, describe=describe, fingerprint=fingerprint)


def _exact_value(value: Any, base: type) -> Any:
    """Convert to exactly the built-in type. Instances of subclasses of rarer types are returned unchanged."""
    make = _EXACT.get(base)
    return value if type(value) is base or make is None else make(value)


def _items_text(value: Any, base: Any, *, depth: int = DEPTH, width: int = _TEXT_WIDTH) -> str:
    size = base.__len__(value)
    if is_one_of(base, MAPPINGS):
        return mapping_text(pairs_of(value), size, depth, width)
    return sequence_text(base.__iter__(value), size, BRACKETS.get(base) or ("(", ")"), depth, width)


def _member_values(value: Any, base: Any) -> Iterable[object]:
    if is_one_of(base, MAPPINGS):
        return itertools.chain.from_iterable(pairs_of(value))
    return base.__iter__(value)


def module_adapter() -> VariableAdapter:
    """Return an adapter for modules: name and version."""
    return line_adapter(_module_line)


def function_adapter() -> VariableAdapter:
    """Return an adapter for Python functions. Parameters are read from the code object, not from `__signature__`."""
    return VariableAdapter(line=_function_line, describe=_describe_function, fingerprint=_function_fingerprint)


def builtin_function_adapter() -> VariableAdapter:
    """Return an adapter for functions written in C."""
    return line_adapter(lambda value: f"built-in function {value.__name__}")


def class_adapter() -> VariableAdapter:
    """Return an adapter for classes: bases and public names."""
    return VariableAdapter(line=_class_line, describe=_describe_class, fingerprint=id)


def enum_adapter() -> VariableAdapter:
    """Return an adapter for enum members: class and name."""
    return line_adapter(lambda value: f"{type_name(value)}.{_name_text(instance_dict(value).get('_name_'))}")


def object_adapter() -> VariableAdapter:
    """Return the fallback adapter: an object's class, and the names both define. No code of either runs."""
    return VariableAdapter(line=_object_line, describe=_describe_object, fingerprint=id)


def _module_line(value: Any) -> str:
    names = names_of_module(value)
    version = names.get("__version__")
    return f"module {_name_text(names.get('__name__'))}" + (f" {version}" if type(version) is str else "")


def _function_line(value: types.FunctionType) -> str:
    return f"function {value.__name__}({', '.join(_parameter_texts(value))})"


def _parameter_texts(function: types.FunctionType) -> list[str]:
    code = function.__code__
    names = code.co_varnames
    positional = list(names[: code.co_argcount])
    defaults = function.__defaults__ or ()
    shown = positional[: len(positional) - len(defaults)]
    shown += [_default_text(name, default) for name, default in zip(positional[len(shown) :], defaults, strict=True)]
    keywords = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = list(names[code.co_argcount + code.co_kwonlyargcount :])
    if code.co_flags & _VARIADIC:
        shown.append(f"*{rest.pop(0)}")
    elif keywords:
        shown.append("*")
    given = function.__kwdefaults__ or {}
    shown += [_default_text(name, given[name]) if name in given else name for name in keywords]
    return [*shown, f"**{rest[0]}"] if code.co_flags & _VARIADIC_KEYWORDS else shown


def _default_text(name: str, value: object) -> str:
    return f"{name}={plain_line(value, depth=0, width=_DEFAULT_WIDTH)}"


def _describe_function(value: types.FunctionType, view: VariableView) -> VariableDescription:
    code = value.__code__
    lines = [f"defined in {code.co_filename}, line {code.co_firstlineno}"]
    doc = _name_text(value.__doc__).strip().split("\n", 1)[0][:_DOC_WIDTH]
    return VariableDescription(headline=_function_line(value), body="\n".join([*lines, doc] if doc else lines))


def _function_fingerprint(value: types.FunctionType) -> object:
    return (id(value), hash(value.__code__.co_code))


def _class_line(value: type) -> str:
    bases = [class_name(base) for base in class_mro(value)[1:] if base is not object]
    return f"class {class_name(value)}" + (f"({bases[0]})" if bases else "")


def _describe_class(value: type, view: VariableView) -> VariableDescription:
    return VariableDescription(headline=_class_line(value), body=_defined_names(value))


def _object_line(value: object) -> str:
    return f"<{type_name(value)}>"


def _describe_object(value: object, view: VariableView) -> VariableDescription:
    stored = instance_dict(value)
    shown = [
        f"{name}={plain_line(stored[name], depth=1, width=_ITEM_WIDTH)}" for name in public_names(stored, _NAMES_SHOWN)
    ]
    lines = [f"attributes: {', '.join(shown)}"] if shown else []
    lines.append(_defined_names(type(value)))
    return VariableDescription(headline=_object_line(value), body="\n".join(line for line in lines if line))


def _defined_names(cls: type) -> str:
    names = public_names(class_dict(cls), _NAMES_SHOWN)
    return f"{class_name(cls)} defines: {', '.join(names)}" if names else ""


def _name_text(value: object) -> str:
    return value if type(value) is str else ""
