"""JSON style of a notebook file, preserved on save so that diffs show only actual changes."""

import copy
import json
import re
from typing import Any, Final, NamedTuple, cast

from nbformat.v4.rwbase import split_lines, strip_transient  # pyright: ignore[reportUnknownVariableType] (untyped)

_INDENT: Final = re.compile(r"\A\s*\{\r?\n([ \t]+)")
_ESCAPE: Final = re.compile(rb"\\u(?!00[0-7])[0-9a-fA-F]{4}")  # a character beyond ASCII
HALVES: Final = re.compile("[\ud800-\udfff]")  # lone surrogates, as of a cut emoji; JSON can escape them, UTF-8 can't


class FileStyle(NamedTuple):
    """JSON style of one file. The default is nbformat's."""

    indent: str | None = " "  # None for a single line
    is_ascii: bool = False  # True if characters beyond ASCII are escaped
    sorts_keys: bool = True
    splits_lines: bool = True  # True if multi-line texts are lists of lines
    end: str = "\n"
    newline: str = "\n"  # of all lines

    @classmethod
    def of(cls, raw: bytes, notebook: dict[str, Any]) -> "FileStyle":
        """Detect the style of a file.

        Args:
            raw: Its content.
            notebook: The parsed, otherwise unchanged JSON.
        """
        text = raw.decode("utf-8-sig", "replace")
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
            newline="\r\n" if "\r\n" in text else "\n",
        )

    def text(self, notebook: dict[str, Any]) -> str:
        """Serialize a notebook, given in nbformat's in-memory form, in this style."""
        copied = copy.deepcopy(notebook)
        written = cast("dict[str, Any]", strip_transient(split_lines(copied) if self.splits_lines else copied))
        # Not nbformat.writes, which logs an error for anything outside its schema; such parts are preserved.
        text = json.dumps(
            written,
            indent=self.indent,
            ensure_ascii=self.is_ascii,
            sort_keys=self.sorts_keys,
            separators=(",", ": ") if self.indent is not None else (", ", ": "),
        )
        text = HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text) + self.end
        return text.replace("\n", self.newline)  # JSON escapes those of its texts
