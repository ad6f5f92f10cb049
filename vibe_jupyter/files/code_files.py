"""Which files hold code and no data: what is read where no value of the user's data may be sent."""

from pathlib import PurePath
from typing import Final

WITHHELD: Final = "withheld: no values are sent in this privacy mode"
"""Stands where values would."""
_CODE: Final = frozenset(
    {".c", ".cpp", ".go", ".h", ".java", ".jl", ".js", ".py", ".pyi", ".pyx", ".r", ".rs", ".scala", ".sh", ".sql"}
    | {".ts"}
)


def is_code_file(path: PurePath) -> bool:
    """Whether it is one, by its name."""
    return path.suffix.lower() in _CODE
