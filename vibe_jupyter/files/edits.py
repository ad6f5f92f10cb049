"""SEARCH/REPLACE edits of text files. Each block must match exactly once, and either all apply or none.

    <<<<<<< SEARCH
    text to find
    =======
    text to put there
    >>>>>>> REPLACE

Markers have five or more signs. A truncated or ambiguous block is an error and never guessed: a regular expression
that matches complete blocks would silently drop it, or write marker lines into the file.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import unified_diff

_PLACES: Final = 5  # line numbers listed if a text occurs more than once
_ANY_LINE_END: Final = re.compile(r"\r?\n")

# One block, for error messages.
FORM: Final = "<<<<<<< SEARCH\n(text to find)\n=======\n(text to put there)\n>>>>>>> REPLACE"
_BEGIN: Final = re.compile(r"(<{5,}) SEARCH[ \t]*\r?")
_DIVIDER: Final = re.compile(r"(={5,})[ \t]*\r?")
_END: Final = re.compile(r"(>{5,}) REPLACE[ \t]*\r?")

_LINES: Final = 20_000  # lines of a file that are searched
_WANTED: Final = 200  # lines of the SEARCH text that are compared
_LONG: Final = 400  # characters of a line that are compared
_CANDIDATES: Final = 10  # passages that are compared
_LETTERS: Final = 1_500  # characters; longer passages are compared by line instead of by character
_ALIKE: Final = 0.6  # minimum similarity of a line, from 0 to 1, for its passage to be compared
_LEAST_LIKENESS: Final = 0.4  # minimum similarity of a passage that is shown
_NEARBY: Final = 3  # lines of context shown above and below
_SHOWN: Final = 3_000  # characters shown of a passage and of its diff

# Longest byte order marks first: UTF-32's begins with UTF-16's.
_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xef\xbb\xbf", "utf-8"),
)

EditErrorKind = Literal[
    "empty_content",  # nothing was sent
    "no_blocks",  # contains no complete block
    "malformed",  # a block is truncated or ambiguous
    "too_large",  # exceeds a limit
    "empty_search",  # empty SEARCH text
    "not_found",  # not in the file
    "ambiguous",  # more than once in the file
    "no_change",  # the file already has this text
    "undecodable",  # not text in a recognizable encoding
]


@dataclass(frozen=True)
class EditedText:
    """Result of applying all blocks."""

    text: str
    lines: tuple[int, ...]  # line number where each change begins, from 1, in the text at that point
    lines_changed: int


@dataclass(frozen=True)
class BlockReading:
    """A possible interpretation of a block."""

    search: str
    replace: str


@dataclass(frozen=True)
class EditBlock:
    """An edit. It has several readings if its text contains lines that look like the divider."""

    name: str  # name used in error messages
    readings: tuple[BlockReading, ...]


def apply_blocks(
    text: str, blocks: Sequence[EditBlock], *, threshold: float | None, replace_all: bool = False
) -> EditedText:
    """Apply all blocks in order, each to the result of the previous ones, or none.

    If a text isn't found, the error shows the closest passage if its similarity is at least `threshold`. None reveals
    nothing of the file.

    Raises:
        EditError: empty_search, not_found, ambiguous, malformed or no_change.
    """
    result, places, changed = text, list[int](), 0
    for block in blocks:
        search, replace, count = _find_block(result, block, threshold)
        if count > 1 and not replace_all:
            raise _ambiguous_error(result, block, search, count, shows=threshold is not None)
        places.append(_line_number(result, result.index(search)))
        changed += count * max(search.count("\n"), replace.count("\n")) + count
        result = result.replace(search, replace)
    if result == text:
        raise EditError("no_change", "Nothing would change: the file already has this text.")
    return EditedText(result, tuple(places), changed)


def _find_block(text: str, block: EditBlock, threshold: float | None) -> tuple[str, str, int]:
    """Return the text to find, its replacement, and the number of occurrences."""
    if any(not reading.search for reading in block.readings):
        raise EditError(
            "empty_search", f"{_block_start(block)} is empty. Give the lines to replace, or use write_file."
        )
    fitting = [fit for reading in block.readings if (fit := _fit_reading(text, reading)) is not None]
    if len(fitting) > 1:
        raise EditError(
            "malformed",
            f"{_block_start(block)} can be read in {len(fitting)} ways: lines of = signs stand in it. "
            "Nothing was changed; "
            "write all markers of this block with nine signs.",
        )
    if not fitting:
        raise EditError("not_found", _not_found(text, block, threshold))
    search, replace, _ = fitting[0]
    if search == replace:
        raise EditError("no_change", f"{_block_start(block)} and its replacement are the same: nothing would change.")
    return fitting[0]


def _fit_reading(text: str, reading: BlockReading) -> tuple[str, str, int] | None:
    """Return the reading adapted to the text's line endings, or None if it isn't found.

    Models usually send LF whatever the file uses, but some send CRLF throughout.
    """
    for search, replace in _with_line_ends(text, reading):
        if count := text.count(search):
            return search, replace, count
    return None


def _with_line_ends(text: str, reading: BlockReading) -> Iterator[tuple[str, str]]:
    crlf = text.count("\r\n")
    if not crlf or crlf == text.count("\n"):
        end = "\r\n" if crlf else "\n"
        yield _with_end(reading.search, end), _with_end(reading.replace, end)
        return
    # Mixed line endings: try them as sent, then all CRLF and all LF.
    if "\n" in reading.search or reading.search not in text:
        yield reading.search, reading.replace
    else:
        yield reading.search, _with_end(reading.replace, _end_after(text, reading.search))
    for end in ("\r\n", "\n"):
        yield _with_end(reading.search, end), _with_end(reading.replace, end)


def _end_after(text: str, found: str) -> str:
    """Return the line ending after the found text, or before it if it is in the last line."""
    at = text.index(found)
    end = text.find("\n", at + len(found))
    end = text.rfind("\n", 0, at) if end < 0 else end
    return "\r\n" if text[:end].endswith("\r") else "\n"


def _with_end(text: str, end: str) -> str:
    return _ANY_LINE_END.sub(end, text)


class EditError(ToolError):
    """An edit that wasn't applied. The file is unchanged."""

    def __init__(self, kind: EditErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: EditErrorKind = kind


def _ambiguous_error(text: str, block: EditBlock, search: str, count: int, *, shows: bool) -> EditError:
    places: list[int] = []
    at = text.find(search)
    while at >= 0 and len(places) < _PLACES:
        places.append(_line_number(text, at))
        at = text.find(search, at + len(search))
    more = ", …" if count > len(places) else ""
    return EditError(
        "ambiguous",
        f"{_block_start(block)} is ambiguous: it occurs {count} times (lines {', '.join(map(str, places))}{more}). "
        "Nothing was changed; give more of the lines around it."
        f"{_around(text, search, places[0]) if shows else ''}",
    )


def _around(text: str, search: str, line: int) -> str:
    """Show the first occurrence with surrounding lines."""
    until = line + search.rstrip("\n").count("\n")
    lines = text.split("\n")
    return f" Around the first:\n{_numbered_lines(lines, line - 1 - _NEARBY, until + _NEARBY)}"


def _not_found(text: str, block: EditBlock, threshold: float | None) -> str:
    shown = find_near_miss(text, block.readings[0].search, threshold) if threshold is not None else ""
    said = f"{_block_start(block)} was not found in the file. Nothing was changed."
    return f"{said} {shown or 'Read the file again; blanks and indentation count.'}"


def _block_start(block: EditBlock) -> str:
    return block.name[0].upper() + block.name[1:]


def _line_number(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


@dataclass(frozen=True)
class _Extent:
    """Line numbers of a block's first and last marker."""

    begin: int
    end: int


def parse_blocks(content: str) -> tuple[EditBlock, ...]:
    """Parse all blocks in order.

    Raises:
        EditError: empty_content, no_blocks or malformed.
    """
    if not content.strip():
        raise EditError("empty_content", f"content is empty. Send blocks of this form:\n{FORM}")
    lines = content.split("\n")
    problems: list[str] = []
    extents = list(_block_extents(lines, problems))
    blocks = [_read_block(lines, extent, problems) for extent in extents]
    whole = [block for block in blocks if block.readings]
    if not whole:
        why = f" ({problems[0]})" if problems else ""
        raise EditError("no_blocks", f"content holds no SEARCH/REPLACE block{why}. Send blocks of this form:\n{FORM}")
    if problems:
        raise EditError("malformed", f"A block is malformed: {problems[0]}. Nothing was changed; send all whole.")
    if len(whole) == 1:
        return (EditBlock("the SEARCH text", whole[0].readings),)
    return tuple(EditBlock(f"block {n}: the SEARCH text", block.readings) for n, block in enumerate(whole, start=1))


def _block_extents(lines: Sequence[str], problems: list[str]) -> Iterator[_Extent]:
    """Yield the extent of each block. A marker outside of blocks is a problem."""
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
    """Find a block's last line: a marker with equally many signs, else any. None if another block begins first."""
    after = range(begin + 1, len(lines))
    for exact in (True, False):
        for at in after:
            ends, begins = _END.fullmatch(lines[at]), _BEGIN.fullmatch(lines[at])
            if ends is not None and (not exact or len(ends[1]) == signs):
                return at
            if begins is not None and (not exact or len(begins[1]) == signs):
                break
    return None


def _read_block(lines: Sequence[str], extent: _Extent, problems: list[str]) -> EditBlock:
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
        BlockReading(_joined_lines(lines[extent.begin + 1 : at]), _joined_lines(lines[at + 1 : extent.end]))
        for at in same or [at for at, _ in dividers]
    )
    return EditBlock(name, readings)


def _joined_lines(lines: Sequence[str]) -> str:
    """Join lines. A CR before a marker line belongs to the marker."""
    return "\n".join(lines).removesuffix("\r")


@dataclass(frozen=True)
class _Passage:
    first: int  # line number from 0
    likeness: float  # from 0 to 1


def find_near_miss(text: str, search: str, threshold: float) -> str:
    """Show the closest passage, with line numbers and a diff if its similarity is at least `threshold`.

    Otherwise show a single matching line in context, or the closest passage without a diff. Returns "" if nothing is
    similar.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")[:_LINES]
    wanted = search.replace("\r\n", "\n").split("\n")[:_WANTED]
    best: _Passage | None = None
    for first in _passage_starts(lines, wanted):
        likeness = _passage_likeness(lines[first : first + len(wanted)], wanted, best.likeness if best else 0)
        if best is None or likeness > best.likeness:
            best = _Passage(first, likeness)
    if best is None:
        return _one_line(lines, wanted)
    until = best.first + len(wanted)
    if best.likeness < threshold:
        return _one_line(lines, wanted) or _nearest(lines, best, until)
    found = lines[best.first : until]
    change = unified_diff("\n".join(wanted) + "\n", "\n".join(found) + "\n")
    how = f"{best.likeness:.0%} alike" if best.likeness < 1 else "only blanks or capitals differ"
    return (
        f"The closest passage ({how}) is on {_line_range(best.first, until)}:\n"
        f"{_numbered_lines(lines, best.first - _NEARBY, until + _NEARBY)}\n"
        f"From the SEARCH text (-) to the file (+):\n{_short_line(change)}"
    )


def _nearest(lines: Sequence[str], passage: _Passage, until: int) -> str:
    """Show the closest passage without a diff, which would be mostly noise; "" if hardly anything is similar."""
    if passage.likeness < _LEAST_LIKENESS:
        return ""
    return (
        f"Nothing is alike enough; nearest ({passage.likeness:.0%}) is {_line_range(passage.first, until)}:\n"
        f"{_numbered_lines(lines, passage.first - _NEARBY, until + _NEARBY)}"
    )


def _one_line(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Show the longest SEARCH line that occurs in the file, in context."""
    there = {line.strip(): number for number, line in reversed(list(enumerate(lines)))}
    known = max((line.strip() for line in wanted if line.strip() in there), key=len, default="")
    if not known:
        return ""
    at = there[known]
    shown = _numbered_lines(lines, at - _NEARBY, at + 1 + _NEARBY)
    return f"One of its lines stands on line {at + 1}; what is around it differs:\n{shown}"


def _line_range(first: int, until: int) -> str:
    return f"line {until}" if until - first == 1 else f"lines {first + 1} to {until}"


def _passage_starts(lines: Sequence[str], wanted: Sequence[str]) -> Iterable[int]:
    """Return the first lines of passages worth comparing: those that share most lines, ignoring indentation."""
    last = max(0, len(lines) - len(wanted))
    keys = [line.strip()[:_LONG] for line in lines]
    asked = {line.strip()[:_LONG] for line in wanted} - {""}
    shared = [key in asked for key in keys]
    score = sum(shared[: len(wanted)])
    scores = [score]
    for first in range(1, last + 1):
        score += shared[first + len(wanted) - 1] - shared[first - 1]
        scores.append(score)
    ranked = sorted(range(last + 1), key=lambda first: (-scores[first], first))[:_CANDIDATES]
    by_lines = [first for first in ranked if scores[first]]
    return [*by_lines, *_alike_starts(keys, wanted, last)]


def _alike_starts(keys: Sequence[str], wanted: Sequence[str], last: int) -> Iterable[int]:
    """Return the starts of passages with a line similar to the longest SEARCH line."""
    at, longest = max(enumerate(line.strip()[:_LONG] for line in wanted), key=lambda line: len(line[1]))
    if not longest:
        return []
    alike = difflib.get_close_matches(longest, list(dict.fromkeys(keys)), n=3, cutoff=_ALIKE)
    places = {key: number for number, key in reversed(list(enumerate(keys)))}
    return [min(max(0, places[key] - at), last) for key in alike]


def _passage_likeness(found: Sequence[str], wanted: Sequence[str], enough: float) -> float:
    """Return the similarity, ignoring whitespace and case. Values up to `enough` may be returned as 0."""
    one, other = [[" ".join(line[:_LONG].split()).casefold() for line in lines] for lines in (found, wanted)]
    if one == other:
        return 1.0
    if sum(map(len, other)) > _LETTERS:
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()
    matcher = difflib.SequenceMatcher(None, "\n".join(one), "\n".join(other), autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() > enough else 0


def _numbered_lines(lines: Sequence[str], first: int, until: int) -> str:
    first = max(0, first)
    return _short_line("\n".join(f"{first + n + 1:>6}  {line[:_LONG]}" for n, line in enumerate(lines[first:until])))


def _short_line(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\n…"


@dataclass(frozen=True)
class TextContent:
    """A decoded text file."""

    mark: bytes  # byte order mark, or b""
    encoding: str
    text: str

    def encoded(self, text: str) -> bytes:
        """Encode another text in the same way.

        Raises:
            EditError: It contains characters that the encoding can't represent.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            message = f"The new text cannot be written as {self.encoding}: {error.reason}. Nothing was changed."
            raise EditError("undecodable", message) from error


def decode_text(raw: bytes, shown: str) -> TextContent:
    """Decode the file.

    Raises:
        EditError: No encoding reproduces the same bytes. `shown` names the file in the message.
    """
    mark, encoding = next(((mark, name) for mark, name in _MARKS if raw.startswith(mark)), (b"", "utf-8"))
    try:
        text = raw[len(mark) :].decode(encoding)
        if mark + text.encode(encoding) == raw:
            return TextContent(mark, encoding, text)
    except UnicodeError:
        pass
    raise EditError(
        "undecodable",
        f"{shown!r} cannot be decoded as {encoding.upper()}. Nothing was changed. For another encoding or binary data "
        "use run_code.",
    )
