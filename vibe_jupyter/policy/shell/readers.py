"""Commands that only read, each with the options that keep it so. Whatever is not here asks."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.policy.shell.operands import Operands
from vibe_jupyter.policy.shell.options import Argument, Given, OptionTable, table
from vibe_jupyter.policy.shell.verdict import Refused


@dataclass(frozen=True)
class Call:
    """One command as it would be started."""

    name: str
    arguments: list[Argument]
    fed: bool
    """Whether there is something to read on its standard input."""
    operands: Operands


Rule = Callable[[Call], None]
"""Raises `Refused` unless the call only reads, inside the project, and comes to an end."""
_NAME: Final = re.compile(r"[\w+][\w.+-]*", re.ASCII)


@dataclass(frozen=True)
class Reader:
    """A command whose options and operands can be told apart in the usual way."""

    options: OptionTable
    operands: Literal["paths", "names", "text", "format", "none"] = "paths"
    reads_input: bool = False
    """Whether it reads standard input when no file is named."""
    most: int | None = None
    """Operands it may have; None for any number."""

    def __call__(self, call: Call) -> None:
        self.given(call)

    def given(self, call: Call) -> Given:
        """What stands on the line, after it was judged."""
        given = self.options.parse(call.arguments, call.name)
        if self.most is not None and len(given.operands) > self.most:
            raise Refused("operand", f"{call.name} with more than {self.most} operands is not known to only read")
        for operand in given.operands:
            self._check(operand, call)
        if self.reads_input and not given.operands and not given.has("--help", "--version"):
            check_input(call)
        return given

    def _check(self, operand: Argument, call: Call) -> None:
        text = operand.text
        match self.operands:
            case "paths" if text == "-" and self.reads_input:
                check_input(call)
            case "paths":
                call.operands.path(text)
            case "names" if not _NAME.fullmatch(text):
                raise Refused("operand", f"{text!r} is not the plain name of a program")
            case "format" if not text.startswith("+") or operand.from_glob:
                raise Refused("operand", f"{call.name} {text} is not known to only read")
            case _:
                pass


def check_input(call: Call) -> None:
    """Refuse what would wait for input that nobody gives."""
    if not call.fed:
        raise Refused("input", f"{call.name} would wait for input")


def _echo(call: Call) -> None:
    """Whatever it is given, it prints."""


def _tr(call: Call) -> None:
    reader = Reader(table("-dscCt --delete --squeeze-repeats --complement --truncate-set1"), "text", most=2)
    if not reader.given(call).has("--help", "--version"):
        check_input(call)


SIMPLE_READERS: Final[Mapping[str, Rule]] = {
    "basename": Reader(table("-az -s:text --multiple --suffix:text --zero"), "text"),
    "cat": Reader(
        table(
            "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
            "--show-nonprinting"
        ),
        reads_input=True,
    ),
    "cut": Reader(
        table(
            "-b:list -c:list -f:list -d:char -ns --bytes:list --characters:list --fields:list --delimiter:char "
            "--complement --only-delimited --output-delimiter:text"
        ),
        reads_input=True,
    ),
    "date": Reader(table("-uR --utc --universal --iso-8601?word --rfc-3339:word --rfc-email"), "format"),
    "dirname": Reader(table("-z --zero"), "text"),
    "du": Reader(
        table(
            "-0abchkmSsx -d:number --all --apparent-size --bytes --total --max-depth:number --human-readable --si "
            "--separate-dirs --summarize --one-file-system --exclude:glob"
        )
    ),
    "echo": _echo,
    "false": _echo,
    "file": Reader(
        table(
            "-0bEhikNnr -F:text --brief --mime --mime-type --mime-encoding --extension --no-pad --raw "
            "--no-dereference --print0 --keep-going --separator:text"
        )
    ),
    "head": Reader(
        table("-# -n:number -c:number -qvz --lines:number --bytes:number --quiet --silent --verbose --zero-terminated"),
        reads_input=True,
    ),
    "ls": Reader(
        table(
            "-aAbBcCdfFghiklmnNopqQrRsStuUvxXZ1 --all --almost-all --escape --ignore-backups --color?word "
            "--colour?word --directory --classify?word --file-type --format:word --full-time "
            "--group-directories-first --no-group --human-readable --si --hide:glob --ignore:glob "
            "--indicator-style:word --inode --kibibytes --literal --numeric-uid-gid --hide-control-chars "
            "--show-control-chars --quote-name --quoting-style:word --reverse --recursive --size --sort:word "
            "--time:word --time-style:text --block-size:word --width:number --author --zero"
        )
    ),
    "nl": Reader(
        table(
            "-b:word -f:word -h:word -i:number -l:number -n:word -p -s:text -v:number -w:number --body-numbering:word "
            "--number-format:word --number-separator:text --number-width:number"
        ),
        reads_input=True,
    ),
    "pwd": Reader(table("-LP --logical --physical"), "none", most=0),
    "sort": Reader(
        table(
            "-bcCdfghiMmnrRsuVz -k:key -t:char --ignore-leading-blanks --dictionary-order --ignore-case "
            "--general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort "
            "--random-sort --reverse --version-sort --sort:word --check?word --debug --key:key --merge --stable "
            "--unique --field-separator:char --zero-terminated"
        ),
        reads_input=True,
    ),
    "stat": Reader(table("-t -c:text --format:text --printf:text --terse")),
    "tail": Reader(
        table("-# -n:number -c:number -qvz --lines:number --bytes:number --quiet --silent --verbose --zero-terminated"),
        reads_input=True,
    ),
    "tr": _tr,
    "tree": Reader(
        table(
            "-aAcCdDfFghiJnNpQqrsStuUvxX -L;number -P;glob -I;glob --dirsfirst --filesfirst --noreport --prune --du "
            "--matchdirs --ignore-case --inodes --device --si --nolinks"
        )
    ),
    "true": _echo,
    "uname": Reader(table("-asnrvmpio --all --kernel-name --nodename --kernel-release --machine"), "none", most=0),
    "uniq": Reader(
        table(
            "-cdDiuz -f:number -s:number -w:number --count --repeated --all-repeated?word --group?word --ignore-case "
            "--unique --skip-fields:number --skip-chars:number --check-chars:number --zero-terminated"
        ),
        reads_input=True,
        most=1,
    ),
    "wc": Reader(
        table("-clLmw --bytes --chars --lines --max-line-length --words --total:word"),
        reads_input=True,
    ),
    "which": Reader(table("-as --all"), "names"),
    "whoami": Reader(table(""), "none", most=0),
}
