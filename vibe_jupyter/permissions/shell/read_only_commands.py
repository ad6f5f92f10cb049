"""Commands that only read, by the table `read_only_commands.toml`. Any other command asks."""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.operands import Operands
from vibe_jupyter.permissions.shell.options import CommandArgument, GivenOptions, OptionTable, option_table


@dataclass(frozen=True)
class CommandCall:
    """A command as it would be started."""

    name: str
    arguments: list[CommandArgument]
    fed: bool  # True if its standard input is redirected or piped
    operands: Operands
    source: "Source | None" = None  # the command piped into this one, if known
    inner: "Rule | None" = None  # checks a command started by this one


@dataclass(frozen=True)
class Source:
    """A command that is piped into another one."""

    name: str
    arguments: list[CommandArgument]


# Raises `UnknownCommand` unless the call only reads, inside the project, and terminates.
Rule = Callable[[CommandCall], None]


@dataclass(frozen=True)
class ReadOnlyCommand:
    """A row of the table, which describes its fields."""

    options: str = ""
    clusters: bool = True
    operands: Literal["paths", "text"] = "paths"
    operand: str = ""
    first: str = ""
    most: int | None = None
    input: bool = False
    options_first: bool = False
    any: bool = False
    words: str = ""
    runs: bool = False

    @cached_property
    def table(self) -> OptionTable:
        """The options, parsed on first use."""
        return option_table(self.options, clusters=self.clusters)

    def __call__(self, call: CommandCall) -> None:
        self.given(call)

    def parse(self, arguments: Sequence[CommandArgument], name: str) -> GivenOptions:
        """Parse the arguments of a call that only reads, wherever the places are that it names.

        Returns:
            The options, and the operands without the script or format.

        Raises:
            UnknownCommand: It may do more.
        """
        if self.any:
            return GivenOptions((), ())
        if self.words:
            return self._parse_words(arguments, name)
        given = self.table.parse(arguments, name)
        count = len(given.operands)
        if self.most is not None and count > self.most:
            raise UnknownCommand("operand", f"{name} with more than {self.most} operands is not known to be read-only")
        if self.options_first and given.operands != tuple(arguments)[len(arguments) - count :]:
            raise UnknownCommand("operand", f"{name} may take what follows for a file")
        if self.first:
            if not count:
                raise UnknownCommand("operand", f"{name} has no script")
            _check_text(given.operands[0], self.first, name)
            given = GivenOptions(given.options, given.operands[1:])
        for operand in given.operands if self.operand else ():
            _check_text(operand if self.operands == "text" else CommandArgument(operand.text), self.operand, name)
        return given

    def _parse_words(self, arguments: Sequence[CommandArgument], name: str) -> GivenOptions:
        text = " ".join(argument.text for argument in arguments)
        match = re.fullmatch(self.words, text)
        if match is None or any(argument.from_glob for argument in arguments):
            raise UnknownCommand("option", f"{name} with these arguments is not known to be read-only")
        return GivenOptions((), tuple(CommandArgument(path) for path in match.groupdict().values() if path))

    def given(self, call: CommandCall) -> GivenOptions:
        """Check a call and return its parsed options."""
        given = self.parse(call.arguments, call.name)
        for operand in given.operands if self.operands == "paths" else ():
            if operand.text == "-" and self.input:
                check_input(call)
            else:
                call.operands.path(operand.text)
        named = given.operands and self.operands == "paths"
        if self.input and not named and not given.has("--help", "--version"):
            check_input(call)
        return given


def _check_text(argument: CommandArgument, pattern: str, name: str) -> None:
    if argument.from_glob or re.fullmatch(pattern, argument.text) is None:
        raise UnknownCommand("operand", f"{name} {argument.text[:40]!r} is not known to be read-only")


def check_input(call: CommandCall) -> None:
    """Refuse a command that would block on standard input."""
    if not call.fed:
        raise UnknownCommand("input", f"{call.name} would wait for input")


@cache
def reading_table() -> Mapping[str, Any]:
    """Return the table as it is written."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


@cache
def readers() -> Mapping[str, ReadOnlyCommand]:
    """Return the rows by the name of the program."""
    rows = reading_table()["programs"].items()
    return {name: ReadOnlyCommand(**row) for names, row in rows for name in names.split()}


@cache
def mostly_reading() -> frozenset[str]:
    """Return the programs that mostly read, those of the table among them."""
    return frozenset((*readers(), *reading_table()["mostly_reading"].split()))
