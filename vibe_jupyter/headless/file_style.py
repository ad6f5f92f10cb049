"""JSON style of a notebook file: kept when the file is written, so that a diff shows the changes alone."""

import copy
import json
import re
from typing import Any, Final, NamedTuple, cast

from nbformat.v4.rwbase import split_lines, strip_transient  # pyright: ignore[reportUnknownVariableType] (untyped)

_INDENT: Final = re.compile(r"\A\s*\{\r?\n([ \t]+)")
_ESCAPE: Final = re.compile(rb"\\u(?!00[0-7])[0-9a-fA-F]{4}")  # of a character beyond ASCII
HALVES: Final = re.compile("[\ud800-\udfff]")  # of a cut emoji: JSON has an escape for them, UTF-8 has none


class FileStyle(NamedTuple):
    """Style of one file; the default is nbformat's own."""

    indent: str | None = " "
    """None for a file of one line."""
    is_ascii: bool = False
    """True if characters beyond ASCII are escaped."""
    sorts_keys: bool = True
    splits_lines: bool = True
    """True if texts of several lines are lists of lines."""
    end: str = "\n"

    @classmethod
    def of(cls, raw: bytes, notebook: dict[str, Any]) -> "FileStyle":
        """Return the style of a file.

        Args:
            raw: its content.
            notebook: its JSON, parsed and otherwise unchanged.
        """
        text = raw.decode("utf-8", "replace")
        found = _INDENT.match(text)
        found_cells = cast("list[object]", notebook.get("cells", []))
        cells = [cast("dict[str, Any]", cell) for cell in found_cells if isinstance(cell, dict)]
        sources = [cell.get("source") for cell in cells]
        return cls(
            indent=found[1] if found else None if "\n" not in text.strip() else " ",
            is_ascii=raw.isascii() and _ESCAPE.search(raw) is not None,
            sorts_keys=all(list(one) == sorted(one) for one in (notebook, *cells)),
            splits_lines=not any(isinstance(source, str) and "\n" in source for source in sources),
            end="\n" if text.endswith("\n") else "",
        )

    def text(self, notebook: dict[str, Any]) -> str:
        """Return the notebook, as nbformat has it in memory, as JSON of this style."""
        copied = copy.deepcopy(notebook)
        written = cast("dict[str, Any]", strip_transient(split_lines(copied) if self.splits_lines else copied))
        # Not nbformat.writes: what isn't in its schema would be logged as an error, and is kept as it was found.
        text = json.dumps(
            written,
            indent=self.indent,
            ensure_ascii=self.is_ascii,
            sort_keys=self.sorts_keys,
            separators=(",", ": ") if self.indent is not None else (", ", ": "),
        )
        return HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text) + self.end
