"""SEARCH/REPLACE blocks, as models write them: markers on lines of their own, anything between blocks is prose.

    <<<<<<< SEARCH
    text to find
    =======
    text to put there
    >>>>>>> REPLACE

Markers have five signs or more. A block that is cut or could be read in several ways is an error, never a guess: the
seed's expression would drop it in silence, or write marker lines into the file (security M10).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vibe_jupyter.tools.edit.errors import EditError

FORM: Final = "<<<<<<< SEARCH\n(text to find)\n=======\n(text to put there)\n>>>>>>> REPLACE"
"""One block, for error texts."""
_BEGIN: Final = re.compile(r"(<{5,}) SEARCH[ \t]*\r?")
_DIVIDER: Final = re.compile(r"(={5,})[ \t]*\r?")
_END: Final = re.compile(r"(>{5,}) REPLACE[ \t]*\r?")


@dataclass(frozen=True)
class Reading:
    """One way to read a block."""

    search: str
    replace: str


@dataclass(frozen=True)
class Block:
    """One change; it has several readings where its texts hold lines that look like its divider."""

    name: str
    """As errors call it."""
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class _Extent:
    """Line numbers of a block's first and last marker."""

    begin: int
    end: int


def parse(content: str) -> tuple[Block, ...]:
    """All blocks, in order.

    Raises:
        EditError: empty_content, no_blocks or malformed.
    """
    if not content.strip():
        raise EditError("empty_content", f"content is empty. Send blocks of this form:\n{FORM}")
    lines = content.split("\n")
    problems: list[str] = []
    extents = list(_extents(lines, problems))
    blocks = [_block(lines, extent, problems) for extent in extents]
    whole = [block for block in blocks if block.readings]
    if not whole:
        why = f" ({problems[0]})" if problems else ""
        raise EditError("no_blocks", f"content holds no SEARCH/REPLACE block{why}. Send blocks of this form:\n{FORM}")
    if problems:
        raise EditError("malformed", f"A block is malformed: {problems[0]}. Nothing was changed; send all whole.")
    if len(whole) == 1:
        return (Block("the SEARCH text", whole[0].readings),)
    return tuple(Block(f"block {n}: the SEARCH text", block.readings) for n, block in enumerate(whole, start=1))


def _extents(lines: Sequence[str], problems: list[str]) -> Iterator[_Extent]:
    """From each first marker to its last; what stands outside of blocks must be no marker."""
    at = 0
    while at < len(lines):
        begin = _BEGIN.fullmatch(lines[at])
        if begin is not None:
            end = _end_of(lines, at, len(begin[1]))
            if end is None:
                problems.append(f"the block that begins on line {at + 1} has no >>>>>>> REPLACE line of its own")
            else:
                yield _Extent(at, end)
                at = end
        elif _END.fullmatch(lines[at]):
            problems.append(f"the REPLACE line {at + 1} ends no block")
        at += 1


def _end_of(lines: Sequence[str], begin: int, signs: int) -> int | None:
    """The line that ends a block: one with as many signs, else any; None when the next block begins before it."""
    after = range(begin + 1, len(lines))
    for exact in (True, False):
        for at in after:
            ends, begins = _END.fullmatch(lines[at]), _BEGIN.fullmatch(lines[at])
            if ends is not None and (not exact or len(ends[1]) == signs):
                return at
            if begins is not None and (not exact or len(begins[1]) == signs):
                break
    return None


def _block(lines: Sequence[str], extent: _Extent, problems: list[str]) -> Block:
    name = f"the block on lines {extent.begin + 1} to {extent.end + 1}"
    begin = _BEGIN.fullmatch(lines[extent.begin])
    assert begin is not None
    dividers = [
        (at, len(found[1]))
        for at in range(extent.begin + 1, extent.end)
        if (found := _DIVIDER.fullmatch(lines[at])) is not None
    ]
    if not dividers:
        problems.append(f"{name} has no ======= line")
    same = [at for at, signs in dividers if signs == len(begin[1])]
    readings = tuple(
        Reading(_text(lines[extent.begin + 1 : at]), _text(lines[at + 1 : extent.end]))
        for at in same or [at for at, _ in dividers]
    )
    return Block(name, readings)


def _text(lines: Sequence[str]) -> str:
    """The lines as one text; the line end before a marker belongs to the marker."""
    return "\n".join(lines).removesuffix("\r")
