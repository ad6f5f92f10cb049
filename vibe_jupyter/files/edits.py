"""Changes of a text file: SEARCH/REPLACE blocks, applied exactly, exactly once, all or nothing.

<<<<<<< SEARCH
    text to find
    =======
    text to put there
    >>>>>>> REPLACE

Markers have five signs or more. A block that is cut or could be read in several ways is an error, never a guess: a
regular expression that looks for whole blocks would drop it in silence, or write marker lines into the file.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.access import unified_diff

_PLACES: Final = 5
"""Line numbers named where a text occurs more than once."""
_ANY_LINE_END: Final = re.compile(r"\r?\n")

FORM: Final = "<<<<<<< SEARCH\n(text to find)\n=======\n(text to put there)\n>>>>>>> REPLACE"
"""One block, for error texts."""
_BEGIN: Final = re.compile(r"(<{5,}) SEARCH[ \t]*\r?")
_DIVIDER: Final = re.compile(r"(={5,})[ \t]*\r?")
_END: Final = re.compile(r"(>{5,}) REPLACE[ \t]*\r?")

_LINES: Final = 20_000
"""Lines of a file that are looked at."""
_WANTED: Final = 200
"""Lines of the text that are looked for."""
_LONG: Final = 400
"""Characters of a line that are compared."""
_CANDIDATES: Final = 10
"""Passages that are compared."""
_LETTERS: Final = 1_500
"""Characters up to which a passage is compared letter by letter, a longer one line by line."""
_ALIKE: Final = 0.6
"""How alike a line must be, from 0 to 1, for its passage to be compared."""
_LEAST_LIKENESS: Final = 0.4  # of a passage that is shown at all
_NEARBY: Final = 3
"""Lines shown above and below."""
_SHOWN: Final = 3_000
"""Characters of a passage shown, and of its difference."""

# Longest marks first: the one of UTF-32 begins with the one of UTF-16.
_MARKS: Final = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"\xef\xbb\xbf", "utf-8"),
)

EditErrorKind = Literal[
    "empty_content",  # nothing was sent
    "no_blocks",  # no whole block in it
    "malformed",  # a block is cut, or can be read in two ways
    "too_large",  # over a limit
    "empty_search",  # nothing to look for
    "not_found",  # it is not in the file
    "ambiguous",  # it is in the file more than once
    "no_change",  # the file reads so already
    "undecodable",  # the file is no text in an encoding that can be told
]


@dataclass(frozen=True)
class EditedText:
    """A text after all changes."""

    text: str
    lines: tuple[int, ...]
    """Where each change begins, from 1, in the text as it was then."""
    lines_changed: int


@dataclass(frozen=True)
class BlockReading:
    """One way to read a block."""

    search: str
    replace: str


@dataclass(frozen=True)
class EditBlock:
    """One change; it has several readings where its texts hold lines that look like its divider."""

    name: str
    """As errors call it."""
    readings: tuple[BlockReading, ...]


def apply_blocks(
    text: str, blocks: Sequence[EditBlock], *, threshold: float | None, replace_all: bool = False
) -> EditedText:
    """Every block in order, each on what those before it left; or none.

    What nearly fits is shown where it is as alike as `threshold`; None shows nothing of the text.

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
    """What to look for and to put there, and how often it occurs."""
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
    """The reading as it fits the text's line ends; None where it is not found.

    Models write line feeds whatever a file has, and some write CR LF throughout.
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


class EditError(ToolError):
    """An edit that was not done; the file is as it was."""

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
    """The first place, with the lines around it."""
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
    """All blocks, in order.

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
    """The lines as one text; the line end before a marker belongs to the marker."""
    return "\n".join(lines).removesuffix("\r")


@dataclass(frozen=True)
class _Passage:
    first: int
    """Line number, from 0."""
    likeness: float
    """From 0 to 1."""


def find_near_miss(text: str, search: str, threshold: float) -> str:
    """The closest passage with its line numbers, and how it differs, where it is as alike as `threshold`.

    Else where one of the lines stands, or the closest passage as it is; empty when nothing is near.
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
    """The closest passage without a comparison: too much of it differs; "" if hardly anything is alike."""
    if passage.likeness < _LEAST_LIKENESS:
        return ""
    return (
        f"Nothing is alike enough; nearest ({passage.likeness:.0%}) is {_line_range(passage.first, until)}:\n"
        f"{_numbered_lines(lines, passage.first - _NEARBY, until + _NEARBY)}"
    )


def _one_line(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """Where the longest line that is there stands."""
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
    """First lines of the passages worth comparing: those that share most lines, blanks aside, with what is wanted."""
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
    """Where the longest wanted line nearly stands."""
    at, longest = max(enumerate(line.strip()[:_LONG] for line in wanted), key=lambda line: len(line[1]))
    if not longest:
        return []
    alike = difflib.get_close_matches(longest, list(dict.fromkeys(keys)), n=3, cutoff=_ALIKE)
    places = {key: number for number, key in reversed(list(enumerate(keys)))}
    return [min(max(0, places[key] - at), last) for key in alike]


def _passage_likeness(found: Sequence[str], wanted: Sequence[str], enough: float) -> float:
    """Alike as written, or but for blanks and capitals; from `enough` downwards it need not be exact."""
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
    """A whole text file."""

    mark: bytes
    """Its byte order mark; empty for none."""
    encoding: str
    text: str

    def encoded(self, text: str) -> bytes:
        """Another text as bytes of the same kind.

        Raises:
            EditError: it holds characters that cannot be written.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            message = f"The new text cannot be written as {self.encoding}: {error.reason}. Nothing was changed."
            raise EditError("undecodable", message) from error


def decode_text(raw: bytes, shown: str) -> TextContent:
    """The file's text.

    Raises:
        EditError: no encoding gives back the same bytes; `shown` names the file.
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
