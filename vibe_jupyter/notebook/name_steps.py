"""What code does with names: the steps of a cell, and what a function does when it is called."""

import builtins
from enum import Enum, auto
from typing import Final, NamedTuple

BUILTINS: Final = frozenset(dir(builtins)) | {"get_ipython", "display", "__name__", "__file__", "exit", "quit"}
"""Names that are there without a cell that binds them."""


class Act(Enum):
    """What code does with a name."""

    READ = auto()
    BIND = auto()
    CHANGE = auto()
    """In place."""
    DELETE = auto()
    FORGET = auto()
    """It was bound in one branch only, so what comes after may read what was there before."""
    SURE = auto()
    """It was bound before or in every branch, and nobody knows to what."""
    CALL = auto()
    ALIAS = auto()
    """Bound to the object, or to a part of the object, of another name."""
    STAR = auto()
    """All names of a module are bound."""


class NameStep(NamedTuple):
    """One thing that code does with a name."""

    act: Act
    name: str
    key: str = ""
    """Of a bind: equal where the same thing is bound for sure, such as a module or a number; empty where it may differ.
    Of a module whose names are bound, its name."""
    later: "FunctionNames | None" = None
    """Of a bind of a function or class: what it does when it is used."""
    others: tuple[str, ...] = ()
    """Of a call, the names given, by place; of a bind, the names that are used later where this one is."""
    method: str = ""
    """Of a call, the method of the object `name`; empty for a function."""


class FunctionNames(NamedTuple):
    """What a function does with names of the notebook when it is called, and with what it is given."""

    reads: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    """Bound or changed."""
    changes: frozenset[int] = frozenset()
    """Places of the parameters it changes in place."""
    methods: frozenset[str] = frozenset()
    """Of a class: methods that change their object."""
    method_reads: tuple[str, ...] = ()
    """Of a class: what its methods read that are not called to make an object."""


class CellNames(NamedTuple):
    """What a cell does with names."""

    steps: tuple[NameStep, ...] = ()
    mentioned: frozenset[str] = frozenset()
    """Every name of the notebook's that the code uses."""
    unknown: str = ""
    """Why not all names can be told; empty where they can."""
    is_prompt: bool = False
    """Whether it gives a prompt to the agent."""
