"""One change after another on a text: exact, exactly once, all or nothing (security C44)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.tools.edit.blocks import Block, Reading
from vibe_jupyter.tools.edit.errors import EditError
from vibe_jupyter.tools.edit.near_miss import near_miss

_PLACES: Final = 5
"""Line numbers named where a text occurs more than once."""
_ANY_LINE_END: Final = re.compile(r"\r?\n")


@dataclass(frozen=True)
class Edited:
    """A text after all changes."""

    text: str
    lines: tuple[int, ...]
    """Where each change begins, from 1, in the text as it was then."""
    lines_changed: int


def apply(text: str, blocks: Sequence[Block], *, threshold: float | None, replace_all: bool = False) -> Edited:
    """Every block in order, each on what those before it left; or none.

    What nearly fits is shown where it is as alike as `threshold`; None shows nothing of the text.

    Raises:
        EditError: empty_search, not_found, ambiguous, malformed or no_change.
    """
    result, places, changed = text, list[int](), 0
    for block in blocks:
        search, replace, count = _found(result, block, threshold)
        if count > 1 and not replace_all:
            raise _ambiguous(result, block, search, count)
        places.append(_line(result, result.index(search)))
        changed += count * max(search.count("\n"), replace.count("\n")) + count
        result = result.replace(search, replace)
    if result == text:
        raise EditError("no_change", "Nothing would change: the file reads so already.")
    return Edited(result, tuple(places), changed)


def _found(text: str, block: Block, threshold: float | None) -> tuple[str, str, int]:
    """What to look for and to put there, and how often it occurs."""
    if any(not reading.search for reading in block.readings):
        raise EditError("empty_search", f"{_start(block)} is empty. Give the lines to replace, or use write_file.")
    fitting = [fit for reading in block.readings if (fit := _fitting(text, reading)) is not None]
    if len(fitting) > 1:
        raise EditError(
            "malformed",
            f"{_start(block)} can be read in {len(fitting)} ways: lines of = signs stand in it. Nothing was changed; "
            "write all markers of this block with nine signs.",
        )
    if not fitting:
        raise EditError("not_found", _not_found(text, block, threshold))
    search, replace, _ = fitting[0]
    if search == replace:
        raise EditError("no_change", f"{_start(block)} and its replacement are the same: nothing would change.")
    return fitting[0]


def _fitting(text: str, reading: Reading) -> tuple[str, str, int] | None:
    """The reading as it fits the text's line ends; None where it is not found.

    Models write line feeds whatever a file has, and some write CR LF throughout.
    """
    for search, replace in _with_line_ends(text, reading):
        if count := text.count(search):
            return search, replace, count
    return None


def _with_line_ends(text: str, reading: Reading) -> Iterator[tuple[str, str]]:
    crlf = text.count("\r\n")
    if not crlf or crlf == text.count("\n"):
        end = "\r\n" if crlf else "\n"
        yield _with_end(reading.search, end), _with_end(reading.replace, end)
        return
    # Line ends are mixed: as they were sent, else as one of both.
    if "\n" in reading.search or reading.search not in text:
        yield reading.search, reading.replace
    else:
        yield reading.search, _with_end(reading.replace, _end_after(text, reading.search))
    for end in ("\r\n", "\n"):
        yield _with_end(reading.search, end), _with_end(reading.replace, end)


def _end_after(text: str, found: str) -> str:
    """The line end behind the found text, or before it where it stands in the last line."""
    at = text.index(found)
    end = text.find("\n", at + len(found))
    end = text.rfind("\n", 0, at) if end < 0 else end
    return "\r\n" if text[:end].endswith("\r") else "\n"


def _with_end(text: str, end: str) -> str:
    return _ANY_LINE_END.sub(end, text)


def _ambiguous(text: str, block: Block, search: str, count: int) -> EditError:
    places: list[str] = []
    at = text.find(search)
    while at >= 0 and len(places) < _PLACES:
        places.append(str(_line(text, at)))
        at = text.find(search, at + len(search))
    more = ", …" if count > len(places) else ""
    return EditError(
        "ambiguous",
        f"{_start(block)} is ambiguous: it occurs {count} times (lines {', '.join(places)}{more}). Nothing was "
        "changed; give more of the lines around it.",
    )


def _not_found(text: str, block: Block, threshold: float | None) -> str:
    shown = near_miss(text, block.readings[0].search, threshold) if threshold is not None else ""
    said = f"{_start(block)} was not found in the file. Nothing was changed."
    return f"{said} {shown or 'Read the file again; blanks and indentation count.'}"


def _start(block: Block) -> str:
    return block.name[0].upper() + block.name[1:]


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
