"""The simple commands of a command line, where it is nothing but simple commands one after another."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from vibe_jupyter.policy.shell.verdict import Refused
from vibe_jupyter.policy.shell.words import Token, Word, tokens

LENGTH_LIMIT: Final = 20_000
"""Characters of a command that are looked at; longer ones ask."""
COMMANDS_LIMIT: Final = 50
"""Simple commands in one command line."""
WORDS_LIMIT: Final = 2_000
"""Words in one command line."""
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII)
_CONNECTORS: Final = ("&&", "||", "|")


@dataclass(frozen=True, slots=True)
class Simple:
    """A name and its arguments."""

    words: tuple[Word, ...]
    fed: bool
    """Whether its standard input is a pipe, a here-document or /dev/null."""

    @property
    def name(self) -> str:
        """Its first word without quotes."""
        return self.words[0].text


@dataclass(slots=True)
class _Reading:
    done: list[Simple] = field(default_factory=list[Simple])
    words: list[Word] = field(default_factory=list[Word])
    fed: bool = False
    redirected: bool = False
    owed: str = ""
    """The connector that still wants a command."""

    def end(self, operator: str) -> None:
        if not self.words:
            self._end_of_nothing(operator)
            return
        if _ASSIGNMENT.match(self.words[0].raw):
            raise Refused("expansion", f"it sets {self.words[0].text.partition('=')[0]}")
        self.done.append(Simple(tuple(self.words), self.fed))
        if len(self.done) > COMMANDS_LIMIT:
            raise Refused("length", f"it holds more than {COMMANDS_LIMIT} commands")
        self.words, self.fed, self.redirected = [], operator == "|", False
        self.owed = operator if operator in _CONNECTORS else ""

    def _end_of_nothing(self, operator: str) -> None:
        if self.redirected:
            raise Refused("syntax", "a redirection stands alone")
        if operator != "\n" and (operator or self.owed):
            raise Refused("syntax", f"nothing stands beside {operator or self.owed!r}")


def simple_commands(command: str) -> tuple[Simple, ...]:
    """What it runs, in order.

    Raises:
        Refused: it is more than simple commands of literal words, or cannot be read with certainty.
    """
    if not command.strip(" \t\n"):
        raise Refused("syntax", "it is empty")
    if len(command) > LENGTH_LIMIT:
        raise Refused("length", f"it has more than {LENGTH_LIMIT:,} characters")
    if not command.translate({9: None, 10: None}).isprintable():
        raise Refused("characters", "it holds control characters or invisible ones")
    commands = _collect(tokens(command))
    if not commands:
        raise Refused("syntax", "it is empty")
    return commands


def _collect(read: Iterable[Token]) -> tuple[Simple, ...]:
    reading = _Reading()
    for count, token in enumerate(read):
        if count > WORDS_LIMIT:
            raise Refused("length", f"it holds more than {WORDS_LIMIT:,} words")
        if token.kind == "operator":
            reading.end(token.word.raw)
        elif token.kind == "word":
            reading.words.append(token.word)
        else:
            reading.redirected = True
            reading.fed = reading.fed or token.kind == "input"
    reading.end("")
    return tuple(reading.done)
