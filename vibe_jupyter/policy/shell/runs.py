"""Letters that every match of a search pattern must hold, so that one can tell where it finds nothing."""

import re
from collections.abc import Iterable
from typing import Final

RUN_LENGTH: Final = 3
"""Letters of the shortest run that tells anything."""
_ATOM: Final = re.compile(
    r"""
    (?P<escape>\\.)
  | (?P<class>\[\^?\]?[^\]\[]*\])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
_BREAKS: Final = frozenset(".^$")
_EXTENDED_ONLY: Final = frozenset("?+{|()")
"""With a backslash they mean the same in basic patterns."""


def mandatory_runs(pattern: str, *, fixed: bool, extended: bool) -> list[list[str]] | None:
    """For each alternative, the runs of letters that its matches hold; None where that cannot be told.

    Args:
        pattern: what is searched for.
        fixed: whether it is no regular expression (``-F``).
        extended: whether it is an extended one (``-E``).
    """
    if fixed:
        return [_FOREIGN.split(line) for line in pattern.split("\n")]
    alternatives: list[list[str]] = [[""]]
    for match in _ATOM.finditer(pattern):
        kind = match.lastgroup
        special, letter = _meaning(match.group(), extended=extended) if kind != "class" else (".", "")
        runs = alternatives[-1]
        if special in ("(", ")", "[", "]", "\n"):
            return None
        if special == "|":
            alternatives.append([""])
        elif special in ("*", "?", "+", "{"):
            runs[-1] = runs[-1][:-1]  # what stands before it may be missing
            if special == "{":
                return None
            runs.append("")
        elif special:
            runs.append("")
        else:
            runs[-1] += letter
    return alternatives


def _meaning(atom: str, *, extended: bool) -> tuple[str, str]:
    """What it stands for: a special sign, or a letter."""
    letter = atom[-1]
    escaped = len(atom) > 1
    if not letter.isascii():
        return ".", ""  # it may stand for another one where case does not count, such as \u212a for k
    if letter in _EXTENDED_ONLY:
        return (letter, "") if escaped != extended else ("", letter)
    if escaped:
        return (".", "") if letter.isalnum() or letter in "<>`'" else ("", letter)
    return (letter, "") if letter in _BREAKS or letter in "*[]\n\\" else ("", letter)


def cannot_match(alternatives: Iterable[Iterable[str]], text: bytes) -> bool:
    """Whether each alternative needs letters of which the text, in lower case, holds no three in a row."""
    return all(any(_is_strange(run.lower().encode(), text) for run in runs) for runs in alternatives)


def _is_strange(run: bytes, text: bytes) -> bool:
    parts = [run[at : at + RUN_LENGTH] for at in range(len(run) - RUN_LENGTH + 1)]
    return bool(parts) and not any(part in text for part in parts)
