"""Operations of code on names: the steps of a cell, and the effects of calling a function."""

import builtins
from enum import Enum, auto
from typing import Final, NamedTuple

# Names that exist without being bound by a cell.
BUILTINS: Final = frozenset(dir(builtins)) | {"get_ipython", "display", "__name__", "__file__", "exit", "quit"}


class Act(Enum):
    """An operation on a name."""

    READ = auto()
    BIND = auto()
    CHANGE = auto()  # in place
    DELETE = auto()
    FORGET = auto()  # bound in only one branch, so a later read may see the earlier value
    SURE = auto()  # bound before or in every branch, to an unknown value
    CALL = auto()
    ALIAS = auto()  # bound to the object of another name, or to a part of it
    STAR = auto()  # `from module import *`


class NameStep(NamedTuple):
    """An operation on a name, in one step of the code."""

    act: Act
    name: str
    # For a bind: equal if the same thing is surely bound, such as a module or number; "" if it may differ. For a star
    # import: the module.
    key: str = ""
    later: "FunctionNames | None" = None  # for a bind of a function or class: effects of using it
    # For a call: names of the arguments, by position; for a bind: names used later wherever this one is.
    others: tuple[str, ...] = ()
    method: str = ""  # for a method call on the object `name`: the method; "" for a function


class FunctionNames(NamedTuple):
    """Effects of calling a function on the notebook's names and on its arguments."""

    reads: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()  # bound or changed
    changes: frozenset[int] = frozenset()  # indices of parameters changed in place
    methods: frozenset[str] = frozenset()  # for a class: methods that change their object
    method_reads: tuple[str, ...] = ()  # for a class: names read by methods other than those that create an object


class CellNames(NamedTuple):
    """Operations of a cell on names."""

    steps: tuple[NameStep, ...] = ()
    mentioned: frozenset[str] = frozenset()  # every notebook name that the code uses
    unknown: str = ""  # why not all names can be determined, or ""
    is_prompt: bool = False  # True if it sends a prompt to the agent
