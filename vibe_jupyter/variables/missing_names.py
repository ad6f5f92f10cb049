"""A name, key, attribute or column that code asked for and that is not there: what is near it. Runs no user code."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import RaisedError
from vibe_jupyter.variables.adapters import VariableView
from vibe_jupyter.variables.describe import describe_value
from vibe_jupyter.variables.paths import RUN_CODE, find_value

_MISSING: Final[Mapping[str, re.Pattern[str]]] = {
    "KeyError": re.compile(r"'([^']{1,100})'"),
    "NameError": re.compile(r"name '(\w{1,100})' is not defined"),
    "AttributeError": re.compile(r".* has no attribute '(\w{1,100})'"),
}
"""Class of an error to its message, with what is missing."""
_ROOT: Final = re.compile(r"[.\[(]")
_PATHS: Final = 50
"""Places in the code that are looked at."""


class MissingNames:
    """Looks at the user's variables. Main thread."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace

    def hint_of_copy(self, code: str, error: RaisedError) -> str:
        """Return `hint` for code that ran in a copy of the kernel, without the variables that it binds there."""
        return self.hint(code, error, in_copy=True)

    def hint(self, code: str, error: RaisedError, *, in_copy: bool = False) -> str:
        """What is near the thing that was missing, or what there is; empty where nobody can tell.

        Args:
            code: that raised the error.
            error: as it was raised.
            in_copy: whether it ran in a copy of this kernel.
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
    """Names that code binds."""
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    )


def _paths_to(missing: str, tree: ast.AST, namespace: Mapping[str, object]) -> Iterator[str]:
    """Paths in the code that end in what is missing; then the variables of the code, where it is a text in it."""
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
    """What there is in place of what a path leads to, where that is known."""
    try:
        found = find_value(namespace, path)
        if found.column is not None:
            describe_value(found.value, VariableView((found.column,), 0, False))
    except ToolError as error:
        text = str(error).removesuffix(f" {RUN_CODE}")
        return text if "Did you mean" in text or " are " in text else ""
    return ""
