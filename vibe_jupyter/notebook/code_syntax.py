"""Whether code is Python as a cell takes it: magics, commands and help become Python first, as in IPython."""

import ast
from typing import Any, Final

from IPython.core.inputtransformer2 import TransformerManager

_LINES: Final = ("cleanup_transforms", "line_transforms", "token_transformers")
_LINE: Final = 200
"""Characters shown of the line that is wrong."""
_PACKAGE: Final = __name__.partition(".")[0]


def syntax_fault(source: str, shell: object) -> str:
    """What is wrong with the syntax of a new source and where; empty where nothing is, or nobody can tell.

    Runs none of the user's code, so the answer is empty where the shell has transformations of its own.

    Args:
        source: of a cell of code.
        shell: IPython's, which knows its magics.
    """
    manager = TransformerManager()
    if _has_more(shell, manager) or _may_be_magic(source, shell):
        return ""
    try:
        code = manager.transform_cell(source)
    except SyntaxError as error:
        return _fault_text(error, source)
    try:
        ast.parse(code)
    except SyntaxError as error:
        return _fault_text(error, code)
    except (ValueError, RecursionError, MemoryError, SystemError):
        return ""
    return ""


def _has_more(shell: object, plain: TransformerManager) -> bool:
    own: Any = getattr(shell, "input_transformer_manager", plain)
    return bool(getattr(shell, "input_transformers_post", ())) or any(
        len([one for one in getattr(own, kind) if not _is_ours(one)]) > len(getattr(plain, kind)) for kind in _LINES
    )


def _is_ours(transformation: object) -> bool:
    """It changes prompts alone."""
    return str(getattr(transformation, "__module__", "")).partition(".")[0] == _PACKAGE


def _may_be_magic(source: str, shell: object) -> bool:
    """IPython takes a line that stands alone for a magic, also without its sign."""
    lines = source.strip().split("\n")
    word = lines[0].split(" ", 1)[0]
    find: Any = getattr(shell, "find_line_magic", None)
    return len(lines) == 1 and find is not None and find(word) is not None


def _fault_text(error: SyntaxError, code: str) -> str:
    lines = code.split("\n")
    number = error.lineno or 0
    shown = f": {lines[number - 1].strip()[:_LINE]}" if 0 < number <= len(lines) else ""
    return f"{type(error).__name__} in line {number}: {error.msg}{shown}"
