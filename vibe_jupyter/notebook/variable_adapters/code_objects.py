"""Modules, functions, classes, and every object of which nothing else is known."""

import types
from typing import Any

from vibe_jupyter.notebook.plain import plain
from vibe_jupyter.notebook.type_facts import (
    class_dict,
    class_name,
    instance_dict,
    mro,
    names_of_module,
    public_names,
    type_name,
)
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, Description, View, line_adapter

_NAMES_SHOWN = 40
"""Public names of a class, a module or an object."""
_DOC_WIDTH = 200
"""Characters of a doc string's first line."""
_DEFAULT_WIDTH = 20
"""Characters of a parameter's default."""
_VARIADIC = 0x04
_VARIADIC_KEYWORDS = 0x08


def module_adapter() -> Adapter:
    """For modules: name, version and file."""
    return line_adapter(_module_line)


def function_adapter() -> Adapter:
    """For functions written in Python: their parameters, read from the code and not from what it says of itself."""
    return Adapter(line=_function_line, describe=_describe_function, fingerprint=_function_fingerprint)


def builtin_function_adapter() -> Adapter:
    """For functions written in C."""
    return line_adapter(lambda value: f"built-in function {value.__name__}")


def class_adapter() -> Adapter:
    """For classes: bases and public names."""
    return Adapter(line=_class_line, describe=_describe_class, fingerprint=id)


def enum_adapter() -> Adapter:
    """For members of enumerations: class and name."""
    return line_adapter(lambda value: f"{type_name(value)}.{_text(instance_dict(value).get('_name_'))}")


def object_adapter() -> Adapter:
    """For everything else: the class, and the names it and the object define. Nothing of either is run."""
    return Adapter(line=_object_line, describe=_describe_object, fingerprint=id)


def _module_line(value: Any) -> str:
    names = names_of_module(value)
    version = names.get("__version__")
    return f"module {_text(names.get('__name__'))}" + (f" {version}" if type(version) is str else "")


def _function_line(value: types.FunctionType) -> str:
    return f"function {value.__name__}({', '.join(_parameters(value))})"


def _parameters(function: types.FunctionType) -> list[str]:
    code = function.__code__
    names = code.co_varnames
    positional = list(names[: code.co_argcount])
    defaults = function.__defaults__ or ()
    shown = positional[: len(positional) - len(defaults)]
    shown += [_default(name, default) for name, default in zip(positional[len(shown) :], defaults, strict=True)]
    keywords = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    rest = list(names[code.co_argcount + code.co_kwonlyargcount :])
    if code.co_flags & _VARIADIC:
        shown.append(f"*{rest.pop(0)}")
    elif keywords:
        shown.append("*")
    given = function.__kwdefaults__ or {}
    shown += [_default(name, given[name]) if name in given else name for name in keywords]
    return [*shown, f"**{rest[0]}"] if code.co_flags & _VARIADIC_KEYWORDS else shown


def _default(name: str, value: object) -> str:
    return f"{name}={plain(value, depth=0, width=_DEFAULT_WIDTH)}"


def _describe_function(value: types.FunctionType, view: View) -> Description:
    code = value.__code__
    lines = [f"defined in {code.co_filename}, line {code.co_firstlineno}"]
    doc = _text(value.__doc__).strip().split("\n", 1)[0][:_DOC_WIDTH]
    return Description(headline=_function_line(value), body="\n".join([*lines, doc] if doc else lines))


def _function_fingerprint(value: types.FunctionType) -> object:
    return (id(value), hash(value.__code__.co_code))


def _class_line(value: type) -> str:
    bases = [class_name(base) for base in mro(value)[1:] if base is not object]
    return f"class {class_name(value)}" + (f"({bases[0]})" if bases else "")


def _describe_class(value: type, view: View) -> Description:
    return Description(headline=_class_line(value), body=_defines(value))


def _object_line(value: object) -> str:
    return f"<{type_name(value)}>"


def _describe_object(value: object, view: View) -> Description:
    stored = public_names(instance_dict(value), _NAMES_SHOWN)
    lines = [f"attributes: {', '.join(stored)}"] if stored else []
    lines.append(_defines(type(value)))
    return Description(headline=_object_line(value), body="\n".join(line for line in lines if line))


def _defines(cls: type) -> str:
    names = public_names(class_dict(cls), _NAMES_SHOWN)
    return f"{class_name(cls)} defines: {', '.join(names)}" if names else ""


def _text(value: object) -> str:
    return value if type(value) is str else ""
