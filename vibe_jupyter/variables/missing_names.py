"""Suggestions for names, keys, attributes and columns that code used but that don't exist. Runs no user code."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import RaisedError
from vibe_jupyter.variables.adapters import VariableView
from vibe_jupyter.variables.describe import describe_value
from vibe_jupyter.variables.paths import RUN_CODE, find_value

# Patterns of error messages by exception class, with the missing name as their group.
_MISSING: Final[Mapping[str, re.Pattern[str]]] = {
    "KeyError": re.compile(r"'([^']{1,100})'"),
    "NameError": re.compile(r"name '(\w{1,100})' is not defined"),
    "AttributeError": re.compile(r".* has no attribute '(\w{1,100})'"),
}
_ROOT: Final = re.compile(r"[.\[(]")
_PATHS: Final = 50  # expressions in the code that are examined


class MissingNames:
    """Suggestion finder for the user's variables. Main thread only."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace

    def hint_of_copy(self, code: str, error: RaisedError) -> str:
        """Return `hint` for code that ran in a copy of the kernel, without the variables that it binds there."""
        return self.hint(code, error, in_copy=True)

    def hint(self, code: str, error: RaisedError, *, in_copy: bool = False) -> str:
        """Suggest similar names or list the existing ones, or return "" if nothing is known.

        Args:
            code: The code that raised the error.
            error: The error.
            in_copy: Whether the code ran in a copy of this kernel.
        """
        pattern = _MISSING.get(error.name)
        found = pattern.fullmatch(error.message) if pattern is not None else None
        if found is None:
            return ""
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError):
            return ""
        namespace = self._namespace()
        unseen = _bound_by(tree) if in_copy else frozenset[str]()
        for _, path in zip(range(_PATHS), _paths_to(found[1], tree, namespace), strict=False):
            if _ROOT.split(path, maxsplit=1)[0] in unseen:
                continue
            if text := _what_is_wrong(namespace, path):
                return text
        return ""


def _bound_by(tree: ast.AST) -> frozenset[str]:
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


def _paths_to(missing: str, tree: ast.AST, namespace: Mapping[str, object]) -> Iterator[str]:
    """Yield expressions that end in the missing name, then the code's variables if the name is a string literal."""
    names: dict[str, None] = {}
    is_text = False
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name):
                names[name] = None
                if name == missing:
                    yield name
            case ast.Attribute(attr=attribute) if attribute == missing:
                yield ast.unparse(node)
            case ast.Subscript(slice=ast.Constant(value=key)) if key == missing:
                yield ast.unparse(node)
            case ast.Constant(value=value) if value == missing:
                is_text = True
            case _:
                pass
    if is_text:
        yield from (f"{name}[{missing!r}]" for name in names if name in namespace)


def _what_is_wrong(namespace: Mapping[str, object], path: str) -> str:
    """Look up a path and return the error message, if it contains a suggestion or a list."""
    try:
        found = find_value(namespace, path)
        if found.column is not None:
            describe_value(found.value, VariableView((found.column,), 0, False))
    except ToolError as error:
        text = str(error).removesuffix(f" {RUN_CODE}")
        return text if "Did you mean" in text or " are " in text else ""
    return ""
