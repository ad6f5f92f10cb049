"""Known names, against which a copy's report is checked so that a forged report can't introduce others.

A name is known if the code binds or reads it, or if one of the user's variables has it. A class is known if an imported
module has it, since the report may come from code that named a class arbitrarily.
"""

import ast
import builtins
import re
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, cast

from vibe_jupyter.files.shown_names import LONGEST_SHOWN
from vibe_jupyter.notebook.cell_names import NOT_PARSED, parse_quietly, python_of

_PATH: Final = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*", re.ASCII)
# Descriptors of the built-in types. They bypass overridden attributes, so that no user code runs.
_MRO: Final[Any] = type.__dict__["__mro__"]
_MODULE_DICT: Final[Any] = cast("Any", types.ModuleType.__dict__)["__dict__"]


class NameCheck:
    """Known names for one piece of code: its own, and the user's variables before it ran."""

    def __init__(self, code: str, variables: Collection[str]) -> None:
        self._code = code
        self._variables = variables

    def is_name(self, name: str) -> bool:
        """Return whether a sentence may contain this name: an identifier in the code, or a variable."""
        return len(name) <= LONGEST_SHOWN and name.isidentifier() and (name in self._variables or name in self._named)

    def is_variable(self, name: str) -> bool:
        """Return whether a variable had this name before the code ran."""
        return len(name) <= LONGEST_SHOWN and name.isidentifier() and name in self._variables

    def is_text(self, text: str) -> bool:
        """Return whether the code contains this exact string, as it does for a column's label."""
        return text in self._texts

    def is_class(self, path: str) -> bool:
        """Return whether it is a class in an imported module, or named in the code."""
        return _PATH.fullmatch(path) is not None and (is_loaded_class(path) or self.is_name(path.rpartition(".")[2]))

    def is_package(self, name: str) -> bool:
        """Return whether it is an imported or standard-library module, or named in the code."""
        return name in sys.modules or name in sys.stdlib_module_names or self.is_name(name)

    @cached_property
    def _tree(self) -> ast.AST | None:
        try:
            return parse_quietly(python_of(self._code)[0])
        except NOT_PARSED:
            return None

    @cached_property
    def _named(self) -> frozenset[str]:
        by_magics = (step.name for step in python_of(self._code)[1].steps)
        return frozenset((*by_magics, *(_names_in(self._tree) if self._tree is not None else ())))

    @cached_property
    def _texts(self) -> frozenset[str]:
        found = (node.value for node in ast.walk(self._tree) if isinstance(node, ast.Constant)) if self._tree else ()
        return frozenset(text for text in found if isinstance(text, str))


def is_loaded_class(path: str, base: type = object) -> bool:
    """Return whether an imported module has a class of this name.

    A bare name is looked up in all modules. Runs no code.
    """
    module, _, name = path.rpartition(".")
    modules: list[object] = [sys.modules.get(module)] if module else [builtins, *list(sys.modules.values())]
    for one in modules:
        # issubclass on type() rather than isinstance, which would consult an overridable `__class__`.
        names: Mapping[str, object] = _MODULE_DICT.__get__(one) if issubclass(type(one), types.ModuleType) else {}
        found = names.get(name)
        if issubclass(type(found), type) and any(parent is base for parent in _MRO.__get__(found)):
            return True
    return False


def _names_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=path, asname=name):
                yield from (name,) if name is not None else path.split(".")
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                yield from names
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name
            case _:
                pass
