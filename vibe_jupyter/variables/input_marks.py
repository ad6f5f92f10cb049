"""Fingerprints of the variables that a cell reads: a short description and eight hex digits."""

import hashlib
import time
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from vibe_jupyter.protocol import InputMark
from vibe_jupyter.variables.adapters import class_mro, is_one_of, type_name, type_of
from vibe_jupyter.variables.describe import describe_value
from vibe_jupyter.variables.schema_text import schema_headline

TIME_LIMIT: Final = 0.1  # seconds; variables not described by then have no hash
MOST_INPUTS: Final = 40  # variables recorded per cell
_HASH_DIGITS: Final = 8
# Classes of code rather than data.
_NO_DATA: Final = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def input_marks(
    names: Iterable[str], namespace: Mapping[str, object], tells_value: Callable[[str], bool]
) -> dict[str, InputMark]:
    """Return marks for the names that are bound to data. Main thread; takes a millisecond for most variables.

    Unlike `value_fingerprint`, the hash is equal across kernels, so that two notebooks can be compared.

    Args:
        names: Names that the code reads.
        namespace: The user's variables.
        tells_value: Returns whether a name's value may be revealed, even as a hash.
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
    """Hash the description, or return "" if it reveals only the class."""
    described = describe_value(value)
    if described.headline == f"<{type_name(value)}>":
        return ""
    text = f"{described.headline}\n{described.body}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
