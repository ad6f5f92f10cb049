"""Files that contain code rather than data, and so may be read in the privacy mode that sends no values."""

from pathlib import PurePath
from typing import Final

WITHHELD: Final = "withheld: no values are sent in this privacy mode"  # replaces withheld values
_CODE: Final = frozenset(
    {".c", ".cpp", ".go", ".h", ".java", ".jl", ".js", ".py", ".pyi", ".pyx", ".r", ".rs", ".scala", ".sh", ".sql"}
    | {".ts"}
)


def is_code_file(path: PurePath) -> bool:
    """Return whether this is a code file, judging by its suffix."""
    return path.suffix.lower() in _CODE
