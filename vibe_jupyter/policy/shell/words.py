"""The words of a command, read by a small grammar that knows far less than bash.

What it does not know, it refuses: whatever it takes, bash reads in the same way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.policy.shell.verdict import Refused

TokenKind = Literal["word", "operator", "input", "quiet"]


@dataclass(frozen=True, slots=True)
class Word:
    """One word."""

    raw: str
    """As written."""
    text: str
    """Without quotes."""
    wild: frozenset[int] = frozenset()
    """Where in `text` the shell sees ``*``, ``?`` or ``[``; empty for a literal word."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, an operator, or a redirection that changes nothing (``input``: it feeds standard input)."""

    kind: TokenKind
    word: Word


_END: Final = r"(?=[ \t\n;|&]|$)"
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[ \t]+ | (?<=[ \t])\\\n | (?<![^\n])\\\n)
  | (?P<comment>\#[^\n]*)
  | (?P<quiet>2>&1{_END} | (?:[12]?>>?|&>>?)[ \t]*/dev/null{_END})
  | (?P<input>0?<[ \t]*/dev/null{_END})
  | (?P<here><<-?[ \t]*(?:'[\w.-]+'|"[\w.-]+"|\\\w[\w.-]*){_END})
  | (?P<operator>&&|\|\||\|(?!&)|;(?!;)|\n)
    """,
    re.VERBOSE | re.ASCII,
)
_PIECE: Final = re.compile(
    r"""
    (?P<plain>[A-Za-z0-9_@%+=:,./\-^!\#*?\[\]~]+)
  | (?P<foreign>[^\x00-\x7f]+)
  | (?P<single>'[^']*')
  | (?P<double>"(?:[^"\\$`]|\\[^\n]|\$(?=["\ |)]))*")
  | (?P<escaped>\\[\x21-\x7e\ \t])
  | (?P<end>\$(?=[ \t\n]|$))
  | (?P<braced>(?<=[@^])\{[A-Za-z0-9_:+/-]*\})
    """,
    re.VERBOSE,
)
_UNQUOTED: Final = re.compile(r'\\([$`"\\])')
_TILDE: Final = re.compile(r"(?:^|[=:])~")
_WILD: Final = "*?["
_UNKNOWN: Final[dict[str, Refused]] = {
    "$": Refused("expansion", "the shell would put a value in place of $…"),
    "`": Refused("expansion", "the shell would run what stands in backticks"),
    "{": Refused("expansion", "the shell would expand braces"),
    "}": Refused("expansion", "the shell would expand braces"),
    ">": Refused("redirection", "its output is redirected"),
    "<": Refused("redirection", "its input is redirected"),
    "&": Refused("syntax", "a part of it runs in the background"),
    "(": Refused("syntax", "a part of it runs in a subshell"),
    "|": Refused("redirection", "its error output is redirected"),
    "'": Refused("syntax", "a quote is not closed"),
    '"': Refused("expansion", "the shell would put a value inside double quotes, or a quote is not closed"),
}


def tokens(command: str) -> Iterator[Token]:
    """The words, operators and harmless redirections, in order; bodies of here-documents are left out.

    Raises:
        Refused: it holds anything that this grammar does not know.
    """
    position = 0
    pending = ""
    while position < len(command):
        match = _TOKEN.match(command, position)
        if match is None:
            word = _word(command, position)
            position += len(word.raw)
            _check_place(command, position, word, inside_here=bool(pending))
            yield Token("word", word)
            continue
        position = match.end()
        kind, text = str(match.lastgroup), match.group()
        if kind == "here":
            pending = _once(pending, text)
            yield Token("input", Word(text, text))
        elif kind == "operator":
            yield Token("operator", Word(text, text))
        elif kind in ("quiet", "input"):
            yield Token("quiet" if kind == "quiet" else "input", Word(text, text))
        if pending and text == "\n":
            position, pending = _after_body(command, position, pending), ""
    if pending:
        raise Refused("syntax", "a here-document has no end")


def _check_place(command: str, end: int, word: Word, *, inside_here: bool) -> None:
    if word.raw.isdigit() and command[end : end + 1] in ("<", ">"):
        raise Refused("redirection", f"descriptor {word.raw} is redirected")
    if inside_here and "\n" in word.raw:
        raise Refused("syntax", "a quoted line end stands before a here-document")


def _once(pending: str, redirection: str) -> str:
    if pending:
        raise Refused("syntax", "it has several here-documents in one line")
    return redirection


def _after_body(command: str, position: int, redirection: str) -> int:
    tabs = redirection.startswith("<<-")
    delimiter = redirection.lstrip("<-").strip(" \t\\'\"") if tabs else redirection[2:].strip(" \t\\'\"")
    while position < len(command):
        end = command.find("\n", position)
        end = len(command) if end < 0 else end
        line = command[position:end]
        position = end + 1
        if (line.lstrip("\t") if tabs else line) == delimiter:
            return min(position, len(command))
    raise Refused("syntax", "a here-document has no end")


def _word(command: str, start: int) -> Word:
    position = start
    text = ""
    wild: set[int] = set()
    unquoted = ""  # the word with a mark for every quoted piece, to see where ~ and = stand
    while match := _PIECE.match(command, position):
        piece, value = str(match.lastgroup), _value(match)
        if piece == "plain":
            wild.update(len(text) + at for at, char in enumerate(value) if char in _WILD)
        unquoted += value if piece in ("plain", "foreign") else "\0"
        text += value
        position = match.end()
    if position < len(command) and not _TOKEN.match(command, position):
        raise _refusal(command, position)
    if position == start:
        raise _refusal(command, position)
    if _TILDE.search(unquoted):
        raise Refused("expansion", "the shell would put a home folder in place of ~")
    return Word(command[start:position], text, frozenset(wild))


def _value(match: re.Match[str]) -> str:
    text = match.group()
    match match.lastgroup:
        case "single":
            return text[1:-1]
        case "double":
            return _UNQUOTED.sub(r"\1", text[1:-1])
        case "escaped":
            return text[1:]
        case _:
            return text


def _refusal(command: str, position: int) -> Refused:
    known = _UNKNOWN.get(command[position])
    return known or Refused("syntax", f"it cannot be read with certainty at {command[position : position + 10]!r}")
