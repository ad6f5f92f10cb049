"""The notebook in outline: a line for each cell, and in a long one the headings with the cells they stand over."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final

from vibe_jupyter.files.truncation import cut_end
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.addresses import address
from vibe_jupyter.notebook.cell_names import gives_prompt, is_of_other_language
from vibe_jupyter.protocol import SKIP_TAG, Cell

WHOLE_OUTLINE: Final = 60
"""Cells up to which each one is named."""
LISTED: Final = 8
"""Cells or names told in one line."""
HEADINGS: Final = 25
"""Headings told in one line."""
_TAGS: Final = 5
"""Tags of a cell told in its line."""
_TAG_WIDTH: Final = 30  # characters of one tag
_DRAWN: Final[Mapping[str, str]] = {
    "image/": "image",
    "application/vnd.vega": "chart",
    "application/vnd.plotly": "chart",
    "application/vnd.jupyter.widget-view": "widget",
}
"""Beginnings of MIME types of what is seen and not read."""
_BORDERS: Final = lazy_pattern("[\N{BOX DRAWINGS LIGHT HORIZONTAL}-\N{BOX DRAWINGS LIGHT ARC UP AND RIGHT}]+")
"""Of tables, as polars and others print them."""
_COMMENT: Final = lazy_pattern(r"#[^\w\n]*\w")
"""One with words, and not a line of dashes."""
_HEADING: Final = lazy_pattern(r"^#{1,6}[ \t]+\S.*", re.MULTILINE)


def outline_line(cell: Cell, short: Mapping[str, str], width: int) -> str:
    """Address, state, how it begins and what it shows.

    Args:
        cell: which one.
        short: from `short_ids`.
        width: characters of its source that are shown, and at most 60 of its result.
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
    """The address without the number, where that is named elsewhere."""
    return f"#{cell.number} {short[cell.id]}"


def telling_line(cell: Cell, width: int, result: str = "") -> str:
    """The first line that is no comment, and a comment that stands above it behind it; of another language its
    magic and the line below.

    Args:
        cell: which one.
        width: characters of code and comment.
        result: stands between the two.
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
    """Each heading with the cells it stands over, at most so many of them."""
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
    """The cells that need a look, by state."""
    for state in ("failed", "stale", "edited", "unknown"):
        found = [place_and_id(cell, short) for cell in cells if cell.kind == "code" and cell.state == state]
        if found:
            yield f"{state}: {listed(found)}"
    skipped = [place_and_id(cell, short) for cell in cells if cell.kind == "code" and cell.is_skipped]
    if skipped:
        yield f"tagged {SKIP_TAG}: {listed(skipped)}"


def listed(words: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(words) - LISTED} more" if len(words) > LISTED else ""
    return ", ".join(words[:LISTED]) + more


def _tags_text(cell: Cell) -> str:
    tags = [cut_end(" ".join(tag.split()), _TAG_WIDTH) for tag in cell.tags]
    return ", ".join([*tags[:_TAGS], *(["…"] if len(tags) > _TAGS else [])])


def _result_words(cell: Cell) -> str:
    """What the cell shows, in a word or a line; of one that failed the error, which figures may follow."""
    if not cell.outputs:
        return ""
    told = next((one for one in cell.outputs if one.type == "error"), cell.outputs[-1])
    for begin, word in _DRAWN.items():
        if any(mime.startswith(begin) for mime in told.mimes):
            return word
    return " ".join(_BORDERS.sub(" ", told.text).split())
