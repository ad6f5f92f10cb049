"""Diff parsing and rendering: numbered lines that are added, removed or unchanged."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Literal

from vibe_jupyter.protocol import Preview
from vibe_jupyter.ui.code import KEPT, KEPT_CHANGES, LIVE, code_line, code_lines, preview_language
from vibe_jupyter.ui.markup import Markup, escape_text, html_element, join_markup
from vibe_jupyter.ui.text import plural_text

CONTEXT = 3  # unchanged lines shown before and after a change
LEAST_FOLD = 7  # minimum number of unchanged lines to fold
ALIKE = 0.4  # minimum similarity of two lines for highlighting the words that differ
PAIRS_LIMIT = 400  # pairs of lines to compare for one change
PAIRED_LENGTH = 500  # characters; changed words aren't highlighted in longer lines
NO_FILE = "/dev/null"

Kind = Literal["same", "add", "del", "gap", "name", "note"]  # the last three are labels, not lines of the text

Marks = Mapping[int, tuple[tuple[int, int], ...]]  # ranges of changed characters, by line index

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_KINDS: dict[str, Kind] = {"+": "add", "-": "del", "\\": "note"}

_SIGNS = {"add": "+", "del": "-", "same": " "}


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff, without its sign."""

    kind: Kind
    text: str
    number: int | None = None  # in the new text (old text for removed lines); None if the diff has no line numbers
    old_number: int | None = None  # in the old text; None for added lines or if the diff has no line numbers


@dataclass(frozen=True)
class UnchangedFold:
    """Consecutive unchanged lines that are far from any change."""

    lines: tuple[DiffLine, ...]


class _Reader:
    """State machine of the diff parser. Whether a line is a file name or content depends on the lines before."""

    def __init__(self) -> None:
        self._old = self._new = 1  # numbers of the next lines
        self._old_left = self._new_left = 0  # remaining lines of the hunk, according to its header
        self._counted = False
        self._file = ""  # the old file's name, until the new file's name follows

    def read(self, line: str, *, is_content: bool) -> DiffLine | None:
        """Parse one line. Returns None for lines that aren't displayed."""
        inside = self._old_left > 0 or self._new_left > 0 or (is_content and not self._counted)
        if line.startswith("@@") and not (self._counted and inside):
            return self._read_head(line)
        if not inside and line.startswith(("--- ", "+++ ")):
            return self._read_name(line)
        if not inside and not line.startswith((" ", "+", "-", "\\")):
            return DiffLine("name", line) if line else None
        return self._read_line(line)

    def _read_head(self, line: str) -> DiffLine | None:
        found = _HEAD.fullmatch(line)
        self._counted = found is not None
        if found is None:
            return DiffLine("gap", line.strip("@ "))
        old, old_count, new, new_count, section = found.groups()
        between = int(new) - self._new
        self._old, self._new = int(old), int(new)
        self._old_left = int(old_count or "1")
        self._new_left = int(new_count or "1")
        words = [plural_text(between, "unchanged line")] if between > 0 else []
        words += [section] if section else []
        return DiffLine("gap", " · ".join(words)) if words else None

    def _read_name(self, line: str) -> DiffLine | None:
        name = line[4:].split("\t", 1)[0]
        if line.startswith("---"):
            self._file, self._old, self._new = name, 1, 1
            return None
        old, new = self._file.removeprefix("a/"), name.removeprefix("b/")
        if self._file == NO_FILE:
            return DiffLine("name", f"{new}: a new file")
        if name == NO_FILE:
            return DiffLine("name", f"{old}: deleted")
        return DiffLine("name", new if old == new else f"{old} → {new}")

    def _read_line(self, line: str) -> DiffLine:
        if line[:1] not in ("", " ", *_KINDS):  # not part of a diff: our note that something was left out
            return DiffLine("note", line)
        kind = _KINDS.get(line[:1], "same")
        number = self._old if kind == "del" else self._new
        old_number = self._old if kind in ("same", "del") else None
        if kind != "note":
            old, new = kind != "add", kind != "del"
            self._old, self._new = self._old + old, self._new + new
            self._old_left, self._new_left = self._old_left - old, self._new_left - new
        text = line[1:].strip() if kind == "note" else line[1:]
        return DiffLine(kind, text, number, old_number) if self._counted else DiffLine(kind, text)


def read_diff(text: str) -> list[DiffLine]:
    """Parse a unified diff, with or without file names and hunk headers."""
    # A diff keeps CRs only where they matter: the line ending itself changed.
    lines = text.replace("\r", "⟨U+000D⟩").split("\n")
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), 0)
    reader = _Reader()
    read = [reader.read(line, is_content=at >= first) for at, line in enumerate(lines)]
    return [line for line in read if line is not None]


def fold_unchanged(lines: list[DiffLine]) -> list[DiffLine | UnchangedFold]:
    out: list[DiffLine | UnchangedFold] = []
    for start, end in _unchanged_stretches(lines):
        head = CONTEXT if start > 0 and lines[start - 1].kind in ("add", "del", "note") else 0
        tail = CONTEXT if end < len(lines) and lines[end].kind in ("add", "del", "note") else 0
        inner = (start + head, end - tail)
        if lines[start].kind != "same" or inner[1] - inner[0] < LEAST_FOLD:
            out += lines[start:end]
        else:
            out += [*lines[start : inner[0]], UnchangedFold(tuple(lines[inner[0] : inner[1]])), *lines[inner[1] : end]]
    return out


def count_changes(text: str) -> tuple[int, int]:
    """Return the numbers of added and removed lines."""
    kinds = [line.kind for line in read_diff(text)]
    return kinds.count("add"), kinds.count("del")


def _unchanged_stretches(lines: list[DiffLine]) -> Iterator[tuple[int, int]]:
    """Yield start and end of alternating runs of unchanged and other lines."""
    start = 0
    for at in range(1, len(lines) + 1):
        if at == len(lines) or (lines[at].kind == "same") != (lines[start].kind == "same"):
            yield start, at
            start = at


def diff_lines(preview: Preview) -> list[Markup]:
    lines = read_diff(preview.text)
    coloured = dict(zip(map(id, lines), _coloured_diff_lines(lines, preview_language(preview)), strict=True))
    return [
        _folded_html(piece, [coloured[id(line)] for line in piece.lines])
        if isinstance(piece, UnchangedFold)
        else coloured[id(piece)]
        for piece in fold_unchanged(lines)
    ]


def _coloured_diff_lines(lines: Sequence[DiffLine], language: str) -> list[Markup]:
    """Highlight old and new text separately, since each is a program of its own, and mark changed words."""
    marks = changed_words(lines)
    old, new = (iter(_coloured_side(lines, side, language, marks)) for side in ("del", "add"))
    out: list[Markup] = []
    for line in lines:
        number, before = (str(one) if one is not None else None for one in (line.number, line.old_number))
        match line.kind:
            case "same":
                next(old)
                out.append(code_line(next(new), line.kind, number, before))
            case "add":
                out.append(code_line(next(new), line.kind, number))
            case "del":
                out.append(code_line(next(old), line.kind, None, before))
            case _:
                out.append(code_line(escape_text(line.text), line.kind))
    return out


def _coloured_side(lines: Sequence[DiffLine], side: Kind, language: str, marks: Marks) -> tuple[Markup, ...]:
    """Highlight the old or the new text, line by line."""
    there = [(at, line) for at, line in enumerate(lines) if line.kind in ("same", side)]
    ranges = tuple(marks.get(at, ()) for at, _ in there)
    return code_lines("\n".join(line.text for _, line in there), language, LIVE, ranges)


def changed_words(lines: Sequence[DiffLine]) -> Marks:
    """Find the changed characters of each removed line that is similar to an added one."""
    marks: dict[int, tuple[tuple[int, int], ...]] = {}
    at = 0
    while at < len(lines):
        gone = _stretch(lines, at, "del")
        new = _stretch(lines, gone.stop, "add")
        if len(gone) * len(new) in range(1, PAIRS_LIMIT + 1):
            for old_at, new_at, before, after in _alike_pairs(lines, gone, new):
                marks[old_at], marks[new_at] = before, after
        at = max(new.stop, at + 1)
    return marks


def _stretch(lines: Sequence[DiffLine], start: int, kind: Kind) -> range:
    end = start
    while end < len(lines) and lines[end].kind == kind:
        end += 1
    return range(start, end)


def _alike_pairs(
    lines: Sequence[DiffLine], gone: range, new: range
) -> Iterator[tuple[int, int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]]:
    """Pair each removed line with the first similar added line after the previous pair."""
    free = new.start
    for old_at in gone:
        for new_at in range(free, new.stop):
            old_text, new_text = lines[old_at].text, lines[new_at].text
            if max(len(old_text), len(new_text)) > PAIRED_LENGTH:
                continue
            old_words, new_words = _WORD.findall(old_text), _WORD.findall(new_text)
            # Without autojunk: it would ignore frequent words of lines with 200 words or more.
            matcher = SequenceMatcher(None, old_words, new_words, autojunk=False)
            same = sum(len(word) for block in matcher.get_matching_blocks() for word in _matched(old_words, block))
            if 2 * same >= ALIKE * (len(old_text) + len(new_text)) and same < max(len(old_text), len(new_text)):
                changes = [opcode for opcode in matcher.get_opcodes() if opcode[0] != "equal"]
                before = _ranges(old_words, [(start, end) for _, start, end, _, _ in changes])
                after = _ranges(new_words, [(start, end) for _, _, _, start, end in changes])
                yield old_at, new_at, before, after
                free = new_at + 1
                break


def _matched(words: Sequence[str], block: Match) -> Sequence[str]:
    return words[block.a : block.a + block.size]


def _ranges(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Convert word ranges to character ranges."""
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return tuple((places[start], places[end]) for start, end in spans if start < end)


def _folded_html(fold: UnchangedFold, lines: Sequence[Markup]) -> Markup:
    words = html_element("summary", escape_text(plural_text(len(fold.lines), "unchanged line")))
    return html_element("details", words, *lines, class_="vibe-same")


def kept_diff(preview: Preview) -> Markup:
    """Render a diff for the saved output. The signs suffice; translucent backgrounds help where styles are kept."""
    out: list[Markup] = []
    lines = read_diff(preview.text)
    marks = changed_words(lines)
    for at, line in enumerate(lines):
        if line.kind == "gap":
            text = escape_text(f"⋯ {line.text}")
        elif line.kind in ("name", "note"):
            text = escape_text(line.text)
        else:
            words = (marks.get(at, ()),)
            text = join_markup(escape_text(_SIGNS[line.kind]), *code_lines(line.text, "", KEPT, words))
        style = KEPT_CHANGES.get(line.kind)
        out.append(html_element("span", text, style=style) if style else text)
    return Markup("\n".join(out))
