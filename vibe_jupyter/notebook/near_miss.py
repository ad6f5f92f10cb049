"""Approximate search for a text in a source, for a model that didn't remember it exactly."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from vibe_jupyter.files.truncation import cut_line, head_and_tail

_AROUND: Final = 3  # lines shown on each side
_LINES: Final = 5_000  # lines of the source to compare, with at most `_WANTED` lines of the text
_WANTED: Final = 100
_COMPARED: Final = 300  # characters of a line to compare
_ALIKE: Final = 0.5  # minimum similarity of two lines taken to be the same
_SHOWN: Final = 3_000  # characters of the answer


def near_miss(wanted: str, source: str) -> str:
    """Return the most similar lines with their context, or "" if none is similar."""
    lines, parts = source.split("\n"), wanted.split("\n")
    found = _most_alike(_plain(parts[:_WANTED]), _plain(lines[:_LINES]))
    if found is None:
        return ""
    start, is_same = found
    first, end = max(0, start - _AROUND), min(len(lines), start + len(parts) + _AROUND)
    why = "they differ in blank space alone; " if is_same else ""
    shown = "\n".join(cut_line(line) for line in lines[first:end])
    return f"{why}lines {first + 1}-{end} are nearest:\n{head_and_tail(shown, _SHOWN)}"


def _plain(lines: Sequence[str]) -> list[str]:
    return ["".join(line[:_COMPARED].split()) for line in lines]


def _most_alike(wanted: Sequence[str], lines: Sequence[str]) -> tuple[int, bool] | None:
    """Return the index where the text would start, and whether it differs only in white space."""
    equal = [
        sum(bool(part) and part == line for part, line in zip(wanted, lines[start:], strict=False))
        for start in range(len(lines))
    ]
    best = max(equal, default=0)
    if best:
        start = equal.index(best)
        return start, list(wanted) == list(lines[start : start + len(wanted)])
    longest = max(range(len(wanted)), key=lambda place: len(wanted[place]))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[longest])
    ratio, place = 0.0, 0
    for number, line in enumerate(lines):
        matcher.set_seq1(line)
        if wanted[longest] in line and wanted[longest]:
            ratio, place = 1.0, number
            break
        if min(matcher.real_quick_ratio(), matcher.quick_ratio()) > max(ratio, _ALIKE) and matcher.ratio() > ratio:
            ratio, place = matcher.ratio(), number
    return (max(0, place - longest), False) if ratio > _ALIKE else None
