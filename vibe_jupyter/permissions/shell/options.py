"""Parse command options against a table of those known to be read-only, with checks of their values.

A table is a string of entries:

- ``-al``: two flags
- ``-n:number``: a flag with a value
- ``-#``: a number as a flag, such as ``-5``
- ``--all``: a long flag
- ``--lines:number``: ``--lines=5`` or ``--lines 5``
- ``--color?word``: with or without ``=value``
- ``-w?width``: a flag with or without an attached value
- ``-L;number``: a flag whose value must be a separate argument, since this program reads ``-Lo`` as two flags

Anything else is refused, including abbreviated long options. A safe value neither makes a program run something nor
lets it run forever.
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
# Excludes `%G`, for which git runs gpg.
_FORMAT: Final = lazy_pattern(r"(?:[^%]|%(?![-+ ]?G|\(describe|[-+ ]?\(describe|<<))*", re.DOTALL)
# Excludes widths, which could exhaust memory.
_DATE: Final = lazy_pattern(r"[\w,.:-]*|format(?:-local)?:(?:[^%]|%[-_^#EO]?[A-Za-z%])*", re.DOTALL | re.ASCII)
_WIDE: Final = lazy_pattern(r"\d{4,}|\*")
_SPECIFIER: Final = lazy_pattern(r"%[^A-Za-z%]*")
REPEATS_LIMIT: Final = 255  # upper bound of the product of a pattern's counted repetitions
PATTERN_LIMIT: Final = 1_000  # characters of a search pattern


def is_safe_format(text: str) -> bool:
    """Return whether a git format only prints commit data, makes git run nothing, and has bounded padding."""
    if text in _FORMATS or not text:
        return True
    return "%" in text and _FORMAT.fullmatch(text) is not None and not re.search(r"\d{4,}", text)


def is_safe_date(text: str) -> bool:
    """Return whether a date format has no widths that could exhaust memory."""
    return len(text) <= 100 and _DATE.fullmatch(text) is not None


def is_narrow(text: str) -> bool:
    """Return whether the specifiers of a format, as in ``printf`` or ``stat``, have bounded padding."""
    return not any(_WIDE.search(specifier) for specifier in _SPECIFIER.findall(text))


def is_safe_pattern(text: str) -> bool:
    """Return whether a search pattern terminates quickly: no back references, and no huge or nested counts."""
    if _BACK_REFERENCE.search(text) or len(text) > PATTERN_LIMIT:
        return False
    product = 1
    for least, most in _REPEAT.findall(text):
        if max(len(least), len(most)) > 3:
            return False
        product *= max(int(most or 0), int(least or 0), 1)
    return product <= REPEATS_LIMIT and not re.search(r"\{\d{4,}", text)


class CommandArgument(NamedTuple):
    """An argument as the program receives it."""

    text: str
    from_glob: bool = False  # True if it was expanded from a glob rather than written


class GivenOptions(NamedTuple):
    """Parsed options and operands."""

    options: tuple[tuple[str, str], ...]  # names and values, with '' for flags
    operands: tuple[CommandArgument, ...]

    def has(self, *names: str) -> bool:
        """Return whether any of these options is given."""
        return any(name in names for name, _ in self.options)

    def values(self, *names: str) -> list[str]:
        """Return the values of these options, in order."""
        return [value for name, value in self.options if name in names]


# Kind of value -> check.
KINDS: Final[dict[str, Callable[[str], object]]] = {
    "text": lambda text: True,
    "char": lambda text: len(text) == 1,
    "number": re.compile(r"[+-]?\d{1,15}[kKMGTPE]?i?[bB]?").fullmatch,
    "width": re.compile(r"\d{1,3}").fullmatch,
    "widths": re.compile(r"(?:\d{1,3}(?:,\d{1,3}){0,2})?").fullmatch,
    "word": re.compile(r"[\w,.:+%-]{0,60}", re.ASCII).fullmatch,
    # Excludes `remerge`, for which git merges again: it runs merge drivers, and writes.
    "merges": re.compile(r"off|none|on|m|first-parent|1|separate|c|combined|cc|dense-combined").fullmatch,
    "order": re.compile(r"(?!.*signature)[\w,.:+%-]{0,60}", re.ASCII).fullmatch,
    "key": re.compile(r"[\d.,bdfghiMnRrVz]{1,30}").fullmatch,
    "list": re.compile(r"[\d,-]{1,200}").fullmatch,
    "glob": re.compile(r"[^/]{1,200}").fullmatch,
    "format": is_safe_format,
    "date": is_safe_date,
    "narrow": is_narrow,
    "pattern": is_safe_pattern,
}


class OptionTable(NamedTuple):
    """The read-only options of a command."""

    flags: frozenset[str]
    valued: dict[str, str]  # options with a mandatory value, and its kind
    optional: dict[str, str]  # options with an optional value, after `=` or attached to a letter, and its kind
    apart: frozenset[str] = frozenset()  # options whose value is never attached
    clusters: bool = True  # True if `-al` means `-a -l`

    def parse(self, arguments: Sequence[CommandArgument], command: str) -> GivenOptions:
        """Separate options from operands, in any order.

        Raises:
            UnknownCommand: An option isn't in the table, or its value isn't safe.
        """
        return _Parsing(self, command, list(arguments)).go()


def option_table(text: str, *, clusters: bool = True) -> OptionTable:
    """Parse an option table, in the syntax described in the module docstring."""
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
            if name in self.table.optional:
                self._add_option(name, text[at + 1 :], self.table.optional[name] if text[at + 1 :] else "text")
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
