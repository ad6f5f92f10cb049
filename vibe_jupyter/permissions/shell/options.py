"""Options of a command: which are known to be read-only, whether they take a value, and which values are safe.

A table is one text: ``-al`` two flags · ``-n:number`` a flag with a value · ``-#`` a number as flag, ``-5`` ·
``--all`` · ``--lines:number`` as ``--lines=5`` or ``--lines 5`` · ``--color?word`` with or without ``=value`` ·
``-L;number`` a flag whose value must be the next argument, since this program would read ``-Lo`` as two flags.
Anything else is refused, shortened long options too. A safe value makes a program run nothing, and does not keep it
running for ever.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.shell import UnknownCommand

_REPEAT: Final = lazy_pattern(r"\\?\{(\d*)(?:,(\d*))?\\?\}")
_BACK_REFERENCE: Final = lazy_pattern(r"\\(?:[1-9]|[gk])")
_FORMATS: Final = ("oneline", "short", "medium", "full", "fuller", "reference", "email", "raw")
_FORMAT: Final = lazy_pattern(r"(?:[^%]|%(?![-+ ]?G|\(describe|[-+ ]?\(describe|<<))*", re.DOTALL)
"""No ``%G``, for which git runs gpg."""
_DATE: Final = lazy_pattern(r"[\w,.:-]*|format(?:-local)?:(?:[^%]|%[-_^#EO]?[A-Za-z%])*", re.DOTALL | re.ASCII)
"""No width, which may fill the memory."""
_WIDE: Final = lazy_pattern(r"\d{4,}|\*")
_SPECIFIER: Final = lazy_pattern(r"%[^A-Za-z%]*")
REPEATS_LIMIT: Final = 255
"""What the counted repetitions of one search pattern come to when they are multiplied."""
PATTERN_LIMIT: Final = 1_000
"""Characters of a search pattern."""


def is_safe_format(text: str) -> bool:
    """Whether a format of git prints commits, makes git run nothing, and pads nothing without bound."""
    if text in _FORMATS or not text:
        return True
    return "%" in text and _FORMAT.fullmatch(text) is not None and not re.search(r"\d{4,}", text)


def is_safe_date(text: str) -> bool:
    """Whether a way to write dates has no widths that could fill the memory."""
    return len(text) <= 100 and _DATE.fullmatch(text) is not None


def is_narrow(text: str) -> bool:
    """Whether no specifier of a format, as of ``printf`` or ``stat``, pads without bound."""
    return not any(_WIDE.search(specifier) for specifier in _SPECIFIER.findall(text))


def is_safe_pattern(text: str) -> bool:
    """Whether a search pattern cannot take for ever: no back reference, no huge or nested counts."""
    if _BACK_REFERENCE.search(text) or len(text) > PATTERN_LIMIT:
        return False
    product = 1
    for least, most in _REPEAT.findall(text):
        if max(len(least), len(most)) > 3:
            return False
        product *= max(int(most or 0), int(least or 0), 1)
    return product <= REPEATS_LIMIT and not re.search(r"\{\d{4,}", text)


class CommandArgument(NamedTuple):
    """One argument as the program gets it."""

    text: str
    from_glob: bool = False
    """Whether it is a name the shell found, and not one that was written."""


class GivenOptions(NamedTuple):
    """What was found on a command line."""

    options: tuple[tuple[str, str], ...]
    """Names with their values; empty for a flag."""
    operands: tuple[CommandArgument, ...]

    def has(self, *names: str) -> bool:
        """Whether any of these was given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """The values of these, in order."""
        return [value for name, value in self.options if name in names]


KINDS: Final[dict[str, Callable[[str], object]]] = {
    "text": lambda text: True,
    "char": lambda text: len(text) == 1,
    "number": re.compile(r"[+-]?\d{1,15}[kKMGTPE]?i?[bB]?").fullmatch,
    "width": re.compile(r"\d{1,3}").fullmatch,
    "widths": re.compile(r"(?:\d{1,3}(?:,\d{1,3}){0,2})?").fullmatch,
    "word": re.compile(r"[\w,.:+%-]{0,60}", re.ASCII).fullmatch,
    "order": re.compile(r"(?!.*signature)[\w,.:+%-]{0,60}", re.ASCII).fullmatch,
    "key": re.compile(r"[\d.,bdfghiMnRrVz]{1,30}").fullmatch,
    "list": re.compile(r"[\d,-]{1,200}").fullmatch,
    "glob": re.compile(r"[^/]{1,200}").fullmatch,
    "format": is_safe_format,
    "date": is_safe_date,
    "narrow": is_narrow,
    "pattern": is_safe_pattern,
}
"""What a value may be."""


class OptionTable(NamedTuple):
    """The options of one command that only read."""

    flags: frozenset[str]
    valued: dict[str, str]
    """Name to kind, for those that need a value."""
    optional: dict[str, str]
    """Name to kind, for long ones that may have a value behind ``=``."""
    apart: frozenset[str] = frozenset()
    """Those whose value is never attached."""
    clusters: bool = True
    """Whether ``-al`` stands for ``-a -l``."""

    def parse(self, arguments: Sequence[CommandArgument], command: str) -> GivenOptions:
        """Tell options from operands, wherever they stand.

        Raises:
            Refused: an option is not in the table, or has a value it may not have.
        """
        return _Parsing(self, command, list(arguments)).go()


def option_table(text: str, *, clusters: bool = True) -> OptionTable:
    """Read a table of options."""
    flags = {"--help", "--version"}
    valued: dict[str, str] = {}
    optional: dict[str, str] = {}
    apart: set[str] = set()
    for entry in text.split():
        if ":" in entry or ";" in entry:
            name, mark, kind = re.split("([:;])", entry)
            valued[name] = kind
            if mark == ";":
                apart.add(name)
        elif "?" in entry:
            name, _, kind = entry.partition("?")
            optional[name] = kind
        elif entry.startswith("--") or entry == "-#" or not clusters:
            flags.add(entry)
        else:
            flags.update(f"-{letter}" for letter in entry[1:])
    return OptionTable(frozenset(flags), valued, optional, frozenset(apart), clusters)


@dataclass
class _Parsing:
    table: OptionTable
    command: str
    waiting: list[CommandArgument]
    options: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    operands: list[CommandArgument] = field(default_factory=list[CommandArgument])

    def go(self) -> GivenOptions:
        self.waiting.reverse()
        while self.waiting:
            argument = self.waiting.pop()
            text = argument.text
            if text == "--" and not argument.from_glob:
                self.operands += reversed(self.waiting)
                break
            if not text.startswith("-") or text == "-":
                self.operands.append(argument)
            elif argument.from_glob:
                raise UnknownCommand("operand", f"the file {text!r} would be taken for an option")
            elif text.startswith("--"):
                self._parse_long(text)
            else:
                self._parse_short(text)
        return GivenOptions(tuple(self.options), tuple(self.operands))

    def _parse_long(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if name in self.table.valued:
            self._add_option(name, value if equals else self._next_word(name), self.table.valued[name])
        elif name in self.table.optional:
            self._add_option(name, value, self.table.optional[name] if equals else "text")
        elif name in self.table.flags and not equals:
            self.options.append((name, ""))
        else:
            raise self._unknown_option(name)

    def _parse_short(self, text: str) -> None:
        if "-#" in self.table.flags and text[1:].isascii() and text[1:].isdigit():
            self.options.append(("-#", text[1:]))
            return
        if not self.table.clusters and text in self.table.flags:
            self.options.append((text, ""))
            return
        for at, letter in enumerate(text[1:], 1):
            name = f"-{letter}"
            if name in self.table.valued:
                rest = text[at + 1 :]
                if rest and name in self.table.apart:
                    raise self._unknown_option(text)
                self._add_option(name, rest or self._next_word(name), self.table.valued[name])
                return
            if name not in self.table.flags or not self.table.clusters:
                raise self._unknown_option(name if self.table.clusters else text)
            self.options.append((name, ""))

    def _next_word(self, name: str) -> str:
        if not self.waiting:
            raise UnknownCommand("option", f"{self.command} {name} requires a value")
        argument = self.waiting.pop()
        if argument.from_glob:
            raise UnknownCommand("expansion", f"the shell would choose the value of {name}")
        if argument.text.startswith("-") and self.table.valued[name] not in ("number", "pattern"):
            raise UnknownCommand("option", f"{self.command} {name} {argument.text} may be two options")
        return argument.text

    def _add_option(self, name: str, value: str, kind: str) -> None:
        if not KINDS[kind](value):
            raise UnknownCommand("option", f"{self.command} {name} with {value!r} is not known to be read-only")
        self.options.append((name, value))

    def _unknown_option(self, name: str) -> UnknownCommand:
        return UnknownCommand("option", f"{self.command} {name} is not known to be read-only")
