"""Marks of the variables that a piece of code reads: what each was, in a few words and eight digits."""

import hashlib
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from vibe_jupyter.protocol import InputMark
from vibe_jupyter.variables.adapters import class_mro, is_one_of, type_name, type_of
from vibe_jupyter.variables.describe import describe_value
from vibe_jupyter.variables.schema_text import schema_headline

TIME_LIMIT: Final = 0.1
"""Seconds in which variables are described; those that are left have no hash."""
MOST_INPUTS: Final = 40
"""Variables of one cell that are marked."""
_HASH_DIGITS: Final = 8
_NO_DATA: Final = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
"""Classes of what is code, and no input."""


def input_marks(
    names: Iterable[str], namespace: Mapping[str, object], tells_value: Callable[[str], bool]
) -> dict[str, InputMark]:
    """Marks of those of the names that are data. Main thread; a millisecond for most variables.

    The hash is equal in another kernel too, unlike `value_fingerprint`, so that two notebooks can be compared.

    Args:
        names: what the code reads.
        namespace: the user's variables.
        tells_value: whether anything may be told of the value that a name has.
    """
    until = time.monotonic() + TIME_LIMIT
    marks: dict[str, InputMark] = {}
    for name in names:
        if name not in namespace or any(is_one_of(cls, _NO_DATA) for cls in class_mro(type_of(namespace[name]))):
            continue
        if len(marks) == MOST_INPUTS:
            break
        is_told = tells_value(name) and time.monotonic() < until
        value = namespace[name]
        marks[name] = InputMark(shape=schema_headline(value), hash=_value_hash(value) if is_told else "")
    return marks


def _value_hash(value: object) -> str:
    """Empty where a description tells nothing but the class."""
    described = describe_value(value)
    if described.headline == f"<{type_name(value)}>":
        return ""
    text = f"{described.headline}\n{described.body}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
