"""Outline of the notebook: a line per cell, and for long notebooks the headings with their cells."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from vibe_jupyter.files.truncation import cut_end
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.addresses import address
from vibe_jupyter.notebook.cell_names import gives_prompt, is_of_other_language
from vibe_jupyter.protocol import SKIP_TAG, Cell

WHOLE_OUTLINE: Final = 60  # cells; longer notebooks are outlined by their headings
LISTED: Final = 8  # cells or names per line
HEADINGS: Final = 25  # headings per line
_TAGS: Final = 5  # tags shown per cell
_TAG_WIDTH: Final = 30  # characters of one tag
# MIME type prefixes of visual outputs.
_DRAWN: Final[Mapping[str, str]] = {
    "image/": "image",
    "application/vnd.vega": "chart",
    "application/vnd.plotly": "chart",
    "application/vnd.jupyter.widget-view": "widget",
}
# Table borders, as printed by polars and others.
_BORDERS: Final = lazy_pattern("[\N{BOX DRAWINGS LIGHT HORIZONTAL}-\N{BOX DRAWINGS LIGHT ARC UP AND RIGHT}]+")
_COMMENT: Final = lazy_pattern(r"#[^\w\n]*\w")  # a comment with text rather than a line of dashes
_HEADING: Final = lazy_pattern(r"^#{1,6}[ \t]+\S.*", re.MULTILINE)


def outline_line(cell: Cell, short: Mapping[str, str], width: int) -> str:
    """Describe a cell in one line: address, state, first line and output.

    Args:
        cell: The cell.
        short: Short ids from `short_ids`.
        width: Characters of the source to show, and of the output (at most 60).
    """
    if cell.kind == "code" and gives_prompt(cell.source):
        return f"{place_and_id(cell, short)} (a prompt)"
    facts = [address(cell, short)]
    if cell.kind == "code" and cell.state != "fresh":
        facts.append(f"({cell.state}: {cell.why})" if cell.why else f"({cell.state})")
    elif cell.kind == "raw":
        facts.append("(raw)")
    facts += [f"(tags: {tags})"] if (tags := _tags_text(cell)) else []
    result = cut_end(_result_words(cell), min(width, 60))
    return " ".join([*facts, telling_line(cell, width, f" -> {result}" if result else "")])


def place_and_id(cell: Cell, short: Mapping[str, str]) -> str:
    """Return the address without the execution count, for use where the count is shown elsewhere."""
    return f"#{cell.number} {short[cell.id]}"


def telling_line(cell: Cell, width: int, result: str = "") -> str:
    """Return the first line of code, then the comment above it; for other languages, the magic and the next line.

    Args:
        cell: The cell.
        width: Characters of code and comment.
        result: Text to put between the two.
    """
    lines = [line.strip() for line in cell.source.split("\n") if line.strip()]
    if cell.kind != "code":
        return cut_end(next(iter(lines), "(empty)"), width) + result
    if is_of_other_language(cell.source):
        return cut_end(" ".join(lines[:2]), width) + result
    code = next((line for line in lines if not line.startswith(("#", "%%"))), "")
    words = takewhile(lambda line: line != code, lines)
    comment = next((line for line in words if _COMMENT.match(line)), "")
    if not code or not comment:
        return cut_end(code or comment or next(iter(lines), "(empty)"), width) + result
    behind = f"  {cut_end(comment, width // 2)}"
    return cut_end(code, width - len(behind)) + result + behind


def heading_line(cells: Sequence[Cell], limit: int = HEADINGS) -> str:
    """Return up to `limit` headings, each with the cells below it."""
    headings = [
        (cell.number, found.group())
        for cell in cells
        if cell.kind == "markdown" and (found := _HEADING.search(cell.source))
    ]
    if not headings:
        return f"#1-{len(cells)} (no heading)"
    ends = [number - 1 for number, _ in headings[1:]] + [len(cells)]
    parts = [
        f"#{number}{f'-{end}' if end > number else ''} {cut_end(text, 50)}"
        for (number, text), end in zip(headings, ends, strict=True)
    ]
    if headings[0][0] > 1:
        parts.insert(0, f"#1-{headings[0][0] - 1} (no heading)")
    if len(parts) > limit:
        parts = [*parts[:limit], f"{len(parts) - limit} more headings"]
    return " · ".join(parts)


def state_lines(cells: Sequence[Cell], short: Mapping[str, str]) -> Iterator[str]:
    """Yield the cells that need attention, by state."""
    for state in ("failed", "stale", "edited", "unknown"):
        found = [place_and_id(cell, short) for cell in cells if cell.kind == "code" and cell.state == state]
        if found:
            yield f"{state}: {listed(found)}"
    skipped = [place_and_id(cell, short) for cell in cells if cell.kind == "code" and cell.is_skipped]
    if skipped:
        yield f"tagged {SKIP_TAG}: {listed(skipped)}"


def listed(words: Sequence[str]) -> str:
    """Join the first few words, with the number of others."""
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more


def _tags_text(cell: Cell) -> str:
    tags = [cut_end(" ".join(tag.split()), _TAG_WIDTH) for tag in cell.tags]
    return ", ".join([*tags[:_TAGS], *(["…"] if len(tags) > _TAGS else [])])


def _result_words(cell: Cell) -> str:
    """Describe the latest output in a word or line. An error takes precedence, since figures may follow it."""
    if not cell.outputs:
        return ""
    told = next((one for one in cell.outputs if one.type == "error"), cell.outputs[-1])
    for begin, word in _DRAWN.items():
        if any(mime.startswith(begin) for mime in told.mimes):
            return word
    return " ".join(_BORDERS.sub(" ", told.text).split())
