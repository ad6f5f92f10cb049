"""Objects whose every method must stay unasked: one that runs says so in `ran`, and hangs."""

import threading
import types
from collections.abc import Callable
from functools import cache

ran: list[str] = []
"""Names of the methods that ran."""
NAMES = (
    *("object", "lying class", "false frame", "list", "dict", "str", "int", "in a list", "as key and value"),
    *("in a frame", "index", "frame with such an index", "shadowed frame", "array", "array subclass", "class"),
    *("instance of hostile class", "module", "wrapped function", "zone"),
)
"""Of the objects, some of which need pandas to be made."""


def hostile(name: str) -> Callable[..., object]:
    """A method that must never run: it says that it did, and then hangs."""

    def method(*args: object, **kwargs: object) -> object:
        ran.append(name)
        threading.Event().wait()
        raise AssertionError(name)

    return method


class HostileMeta(type):
    """Of classes that answer nothing."""

    __hash__ = __eq__ = __repr__ = __getattribute__ = hostile("metaclass")  # type: ignore[assignment]
    __instancecheck__ = __subclasscheck__ = hostile("metaclass")  # type: ignore[assignment]


def hostile_class(base: type = object, **more: object) -> type:
    """A class made from another one, each of whose methods must never run."""
    names = (
        "repr str len iter getitem getattr getattribute hash eq bool format dir contains sizeof int float index call"
    )
    methods = {f"__{name}__": hostile(f"{base.__name__}.__{name}__") for name in names.split()}
    return type("Hostile", (base,), methods | more)


@cache
def hostile_objects() -> dict[str, object]:
    """What people put into notebooks at their worst, by what it is."""
    import numpy as np
    import pandas as pd

    plain = hostile_class()
    frame = pd.DataFrame({"a": [1, 2], "b": [0, None]}, dtype=object, index=pd.Index(["x", "y"], dtype=object))
    # Put in afterwards, since pandas itself looks closely at what it is given.
    for values in (frame.index._data, frame._mgr.blocks[0].values[1]):
        values.setflags(write=True)
        values[0] = object.__new__(plain)
    labels = np.array(["x", "y"], dtype=object)
    odd_index = object.__new__(hostile_class(pd.Index))
    object.__setattr__(odd_index, "_data", labels)
    indexed = pd.DataFrame({"a": [1, 2]})
    indexed._mgr.axes[1] = odd_index
    shadowed = pd.DataFrame({"a": [1]})
    object.__setattr__(shadowed, "isna", hostile("instance attribute"))
    array = np.empty(2, dtype=object)
    array[0] = object.__new__(plain)
    with_class = hostile_class(__class__=property(hostile("__class__")), __dict__=property(hostile("__dict__")))
    with_names = hostile_class(__module__="pandas", __qualname__="DataFrame")
    with_names.__name__ = "DataFrame"
    found: dict[str, object] = {
        "object": object.__new__(plain),
        "lying class": object.__new__(with_class),
        "false frame": object.__new__(with_names),
        "list": list.__new__(hostile_class(list)),
        "dict": dict.__new__(hostile_class(dict)),
        "str": str.__new__(hostile_class(str), "text"),
        "int": int.__new__(hostile_class(int), 5),
        "in a list": [object.__new__(plain)],
        "as key and value": _mapping_of(object.__new__(plain)),
        "in a frame": frame,
        "index": odd_index,
        "frame with such an index": indexed,
        "shadowed frame": shadowed,
        "array": array,
        "array subclass": np.zeros(2).view(hostile_class(np.ndarray)),
        "class": type.__new__(HostileMeta, "Named", (), {}),
        "instance of hostile class": object.__new__(type.__new__(HostileMeta, "Named", (), {})),
        "module": _module(),
        "wrapped function": _wrapped(object.__new__(plain)),
        "zone": __import__("datetime").datetime(2024, 1, 1, tzinfo=_zone()),
    }
    assert tuple(found) == NAMES
    return found


def _mapping_of(value: object) -> dict[object, object]:
    class Key:
        __hash__ = object.__hash__
        __repr__ = __eq__ = hostile("key")  # type: ignore[assignment]

    return {Key(): value}


def _module() -> types.ModuleType:
    class Lazy(types.ModuleType):
        __getattribute__ = __repr__ = hostile("module")  # type: ignore[assignment]

    return Lazy("lazy")


def _wrapped(value: object) -> Callable[..., object]:
    def function(given=value): ...

    function.__wrapped__ = value  # type: ignore[attr-defined]
    function.__signature__ = value  # type: ignore[attr-defined]
    return function


def _zone():
    import datetime

    class Zone(datetime.tzinfo):
        utcoffset = tzname = dst = __repr__ = hostile("zone")  # type: ignore[assignment]

    return Zone()
