"""Syntax check of cell code: magics, shell commands and help are first transformed as in IPython."""

import ast
from typing import Any, Final

from IPython.core.inputtransformer2 import TransformerManager

_LINES: Final = ("cleanup_transforms", "line_transforms", "token_transformers")
_LINE: Final = 200  # characters shown of the wrong line
_PACKAGE: Final = __name__.partition(".")[0]


def syntax_fault(source: str, shell: object) -> str:
    """Return the syntax error of a new source, or "" if there is none or it can't be determined.

    Runs no user code, so it returns "" if the shell has custom input transformations.

    Args:
        source: Source of a code cell.
        shell: IPython's shell, which knows its magics.
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
    """Return whether the transformation is ours, which only changes prompts."""
    return str(getattr(transformation, "__module__", "")).partition(".")[0] == _PACKAGE


def _may_be_magic(source: str, shell: object) -> bool:
    """Return whether IPython would run a single line as a magic, even without its ``%``."""
    lines = source.strip().split("\n")
    word = lines[0].split(" ", 1)[0]
    find: Any = getattr(shell, "find_line_magic", None)
    return len(lines) == 1 and find is not None and find(word) is not None


def _fault_text(error: SyntaxError, code: str) -> str:
    lines = code.split("\n")
    number = error.lineno or 0
    shown = f": {lines[number - 1].strip()[:_LINE]}" if 0 < number <= len(lines) else ""
    return f"{type(error).__name__} in line {number}: {error.msg}{shown}"
