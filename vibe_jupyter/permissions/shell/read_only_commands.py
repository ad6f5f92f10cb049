"""Table of read-only commands and their read-only options. Any other command asks."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.operands import Operands
from vibe_jupyter.permissions.shell.options import (
    CommandArgument,
    GivenOptions,
    OptionTable,
    is_safe_date,
    option_table,
)


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
# A printf format with bounded widths and no side effects.
_PRINTED: Final = re.compile(r"(?:[^%\\]|\\.|%(?:%|[-+ 0#]*\d{0,3}(?:\.\d{1,3})?[diouxXeEfgGscbq]))*", re.DOTALL)
_NVIDIA: Final = re.compile(r"-L|-q|--list-gpus|--query-gpu=[\w.,]+|--format=[\w,]+|--query-compute-apps=[\w.,]+")
_TESTS_OF_FILES: Final = frozenset(f"-{letter}" for letter in "abcdefghkprsuwxGLNOS")
_TESTS_OF_VALUES: Final = frozenset({"-v", "-R", "-o", "-t"})
_NAME: Final = re.compile(r"[\w+][\w.+-]*", re.ASCII)


@dataclass(frozen=True)
class ReadOnlyCommand:
    """A rule for commands with conventional options and operands."""

    options: OptionTable
    operands: Literal["paths", "names", "text", "format", "none"] = "paths"
    reads_input: bool = False  # True if it reads standard input when no file is named
    most: int | None = None  # maximum number of operands, or None for any number
    # True if options come first, since some systems take one that follows a file for the file to write.
    options_first: bool = False

    def __call__(self, call: CommandCall) -> None:
        self.given(call)

    def parse(self, arguments: Sequence[CommandArgument], name: str) -> GivenOptions:
        """Parse the arguments of a call that only reads, wherever its operands are.

        Raises:
            UnknownCommand: It may do more.
        """
        given = self.options.parse(arguments, name)
        if self.most is not None and len(given.operands) > self.most:
            raise UnknownCommand("operand", f"{name} with more than {self.most} operands is not known to be read-only")
        if self.options_first and given.operands and given.operands[-1] != arguments[-1]:
            raise UnknownCommand("operand", f"{name} may write what follows a file")
        for operand in given.operands if self.operands == "format" else ():
            if not operand.text.startswith("+") or operand.from_glob or not is_safe_date(f"format:{operand.text}"):
                raise UnknownCommand("operand", f"{name} {operand.text} is not known to be read-only")
        return given

    def given(self, call: CommandCall) -> GivenOptions:
        """Check a call and return its parsed options."""
        given = self.parse(call.arguments, call.name)
        for operand in given.operands:
            self._check_operand(operand, call)
        if self.reads_input and not given.operands and not given.has("--help", "--version"):
            check_input(call)
        return given

    def _check_operand(self, operand: CommandArgument, call: CommandCall) -> None:
        text = operand.text
        match self.operands:
            case "paths" if text == "-" and self.reads_input:
                check_input(call)
            case "paths":
                call.operands.path(text)
            case "names" if not _NAME.fullmatch(text):
                raise UnknownCommand("operand", f"{text!r} is not the plain name of a program")
            case _:
                pass


_TAIL: Final = ReadOnlyCommand(
    option_table(
        "-# -n:number -c:number -qvz --lines:number --bytes:number --quiet --silent --verbose --zero-terminated"
    ),
    reads_input=True,
)


def check_input(call: CommandCall) -> None:
    """Refuse a command that would block on standard input."""
    if not call.fed:
        raise UnknownCommand("input", f"{call.name} would wait for input")


def _check_echo(call: CommandCall) -> None:
    """Accept any arguments, since the command only prints them or ignores them."""


def _check_tr(call: CommandCall) -> None:
    reader = ReadOnlyCommand(
        option_table("-dscCt --delete --squeeze-repeats --complement --truncate-set1"), "text", most=2
    )
    if not reader.given(call).has("--help", "--version"):
        check_input(call)


def _printf(call: CommandCall) -> None:
    texts = [argument.text for argument in call.arguments]
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0].startswith("-") or call.arguments[0].from_glob:
        raise UnknownCommand("option", f"printf {' '.join(texts[:1])} is not known to only print")
    if _PRINTED.fullmatch(texts[0]) is None:
        raise UnknownCommand("operand", "it is unclear what printf would print")


def _test(call: CommandCall) -> None:
    texts = [argument.text for argument in call.arguments]
    if call.name == "[" and (not texts or texts.pop() != "]"):
        raise UnknownCommand("syntax", "']' is missing")
    for at, text in enumerate(texts):
        if text in _TESTS_OF_VALUES:
            raise UnknownCommand("option", f"test {text} may evaluate what it is given")
        if at and texts[at - 1] in _TESTS_OF_FILES:
            call.operands.path(text)
        if text in ("-nt", "-ot", "-ef"):
            for other in (*texts[max(0, at - 1) : at], *texts[at + 1 : at + 2]):
                call.operands.path(other)


def _command(call: CommandCall) -> None:
    """Check program look-ups: ``command -v`` and ``type``."""
    texts = [argument.text for argument in call.arguments]
    options = [text for text in texts if text.startswith("-")]
    names = [text for text in texts if not text.startswith("-")]
    known = {"command": {"-v", "-V"}, "type": {"-a", "-t", "-p", "-P"}}[call.name]
    if set(options) - known or (call.name == "command" and not options) or any(a.from_glob for a in call.arguments):
        raise UnknownCommand("name", f"{call.name} {' '.join(texts[:2])} is not known to be read-only")
    for name in names:
        if not _NAME.fullmatch(name):
            raise UnknownCommand("operand", f"{name!r} is not the plain name of a program")


def _exactly(*allowed: str) -> Rule:
    """Return a rule that accepts only these argument lists, each as words joined by blanks."""
    known = frozenset(allowed)

    def rule(call: CommandCall) -> None:
        if any(argument.from_glob for argument in call.arguments):
            raise UnknownCommand("expansion", "the shell would choose what it is given")
        if " ".join(argument.text for argument in call.arguments) not in known:
            raise UnknownCommand("option", f"{call.name} with these arguments is not known to be read-only")

    return rule


def _pip(call: CommandCall) -> None:
    texts = [argument.text for argument in call.arguments]
    name = texts[0] if texts else ""
    if " ".join(texts) in ("--version", "-V"):
        return
    if name == "list":
        ReadOnlyCommand(
            option_table("-v --format:word --user --local --not-required --editable -e -l", clusters=False), most=0
        ).given(replace(call, arguments=call.arguments[1:]))
    elif name == "freeze":
        ReadOnlyCommand(option_table("--all --local --user -l", clusters=False), most=0).given(
            replace(call, arguments=call.arguments[1:])
        )
    elif name == "show":
        ReadOnlyCommand(option_table("-f --files -v --verbose", clusters=False), "names").given(
            replace(call, arguments=call.arguments[1:])
        )
    else:
        raise UnknownCommand("name", f"pip {name[:40]} is not known to be read-only")


def _nvidia(call: CommandCall) -> None:
    for argument in call.arguments:
        if argument.from_glob or not _NVIDIA.fullmatch(argument.text):
            raise UnknownCommand("option", f"nvidia-smi {argument.text} is not known to be read-only")


def _strings(call: CommandCall) -> None:
    if any(argument.text.startswith("@") for argument in call.arguments):
        raise UnknownCommand("operand", "strings would read options from a file")
    ReadOnlyCommand(option_table("-a -n:width --all --bytes:width"), reads_input=True)(call)


def _tail(call: CommandCall) -> None:
    for operand in _TAIL.given(call).operands:
        if re.fullmatch(r"\+\d*[bcl]?f", operand.text):
            raise UnknownCommand("operand", f"tail {operand.text} would wait for more")


def _seq(call: CommandCall) -> None:
    texts = [argument.text for argument in call.arguments]
    if not texts or any(re.fullmatch(r"-?\d{1,5}", text) is None for text in texts) or len(texts) > 3:
        raise UnknownCommand("operand", "seq with these arguments is not known to end soon")
    if len(texts) == 3 and int(texts[1]) == 0:
        raise UnknownCommand("operand", "seq with these arguments does not end")


# Programs that print their version or list installed packages.
VERSIONS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        ("python", "python3", "pypy3", *(f"python3.{minor}" for minor in range(8, 20))),
        _exactly("--version", "-V", "-VV"),
    ),
    **dict.fromkeys(("node", "npm", "deno", "bun"), _exactly("--version", "-v")),
    **dict.fromkeys(
        ("bash", "gcc", "g++", "cc", "clang", "make", "cmake", "ruff", "uv", "docker", "podman"), _exactly("--version")
    ),
    **dict.fromkeys(("R", "conda", "mamba", "pandoc", "ffmpeg", "perl", "ruby", "php"), _exactly("--version")),
    **dict.fromkeys(("pip", "pip3"), _pip),
}

SIMPLE_READERS: Final[Mapping[str, Rule]] = {
    "basename": ReadOnlyCommand(option_table("-az -s:text --multiple --suffix:text --zero"), "text"),
    "cat": ReadOnlyCommand(
        option_table(
            "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs "
            "--show-nonprinting"
        ),
        reads_input=True,
    ),
    "cut": ReadOnlyCommand(
        option_table(
            "-b:list -c:list -f:list -d:char -ns --bytes:list --characters:list --fields:list --delimiter:char "
            "--complement --only-delimited --output-delimiter:text"
        ),
        reads_input=True,
    ),
    "date": ReadOnlyCommand(
        option_table("-uR --utc --universal --iso-8601?word --rfc-3339:word --rfc-email"), "format"
    ),
    "dirname": ReadOnlyCommand(option_table("-z --zero"), "text"),
    "du": ReadOnlyCommand(
        option_table(
            "-0abchkmSsx -d:number --all --apparent-size --bytes --total --max-depth:number --human-readable --si "
            "--separate-dirs --summarize --one-file-system --exclude:glob"
        )
    ),
    "echo": _check_echo,
    ":": _check_echo,
    "[": _test,
    "arch": _exactly(""),
    "cksum": ReadOnlyCommand(option_table(""), reads_input=True),
    "cmp": ReadOnlyCommand(
        option_table("-bls --print-bytes --verbose --quiet --silent -n:number"), reads_input=True, most=2
    ),
    "column": ReadOnlyCommand(option_table("-t -s:text -n --table --separator:text"), reads_input=True),
    "comm": ReadOnlyCommand(option_table("-123 --total --check-order --nocheck-order"), reads_input=True, most=2),
    "command": _command,
    "df": ReadOnlyCommand(
        option_table(
            "-ahHiklPT --all --human-readable --si --inodes --local --portability --print-type --total --output?word"
        )
    ),
    "exit": _exactly("", *map(str, range(3))),
    "expand": ReadOnlyCommand(option_table("-i -t:width --initial --tabs:width"), reads_input=True),
    "false": _check_echo,
    "fmt": ReadOnlyCommand(option_table("-cstu -w:width --width:width"), reads_input=True),
    "fold": ReadOnlyCommand(option_table("-bs -w:width --width:width"), reads_input=True),
    "free": _exactly(
        "", "-h", "-m", "-g", "-b", "-k", "-t", "-h -t", "-ht", "-mh", "-w -h", "-wh", "--human", "--mega"
    ),
    "hexdump": ReadOnlyCommand(option_table("-C -v -n:number -s:number"), reads_input=True),
    "hostname": _exactly("", "-f", "-s"),
    "id": _exactly("", "-u", "-g", "-un", "-gn", "-G"),
    "join": ReadOnlyCommand(option_table("-t:char -1:width -2:width -a:width -i"), reads_input=True, most=2),
    "lscpu": _exactly("", "-e", "-p", "-J"),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"),
        ReadOnlyCommand(option_table("-btz --binary --text --tag --zero"), reads_input=True),
    ),
    "nproc": _exactly("", "--all"),
    "nvidia-smi": _nvidia,
    "od": ReadOnlyCommand(option_table("-bcdosvx -A:word -t:word -N:number -j:number -w?width"), reads_input=True),
    "paste": ReadOnlyCommand(option_table("-s -d:text --serial --delimiters:text"), reads_input=True),
    "printf": _printf,
    "ps": _exactly("", "aux", "-ef", "-e", "-A", "ax", "-a", "-f", "-aux", "x", "a", "u", "-u", "auxf", "axf", "-eF"),
    "readlink": ReadOnlyCommand(
        option_table("-efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline")
    ),
    "realpath": ReadOnlyCommand(
        option_table("-emLPqsz --canonicalize-existing --canonicalize-missing --no-symlinks --strip --quiet")
    ),
    "rev": ReadOnlyCommand(option_table(""), reads_input=True),
    "seq": _seq,
    "sleep": _exactly(*(str(seconds) for seconds in range(11)), "0.1", "0.2", "0.5"),
    "strings": _strings,
    "tac": ReadOnlyCommand(option_table("-s:text --separator:text"), reads_input=True),
    "test": _test,
    "type": _command,
    "uptime": _exactly("", "-p", "-s"),
    "xxd": ReadOnlyCommand(
        option_table("-b -p -u -l:number -s:number -c:width -g:width", clusters=False),
        reads_input=True,
        most=1,
        options_first=True,
    ),
    "file": ReadOnlyCommand(
        option_table(
            "-0bEhikNnr -F:text --brief --mime --mime-type --mime-encoding --extension --no-pad --raw "
            "--no-dereference --print0 --keep-going --separator:text"
        )
    ),
    "head": ReadOnlyCommand(
        option_table(
            "-# -n:number -c:number -qvz --lines:number --bytes:number --quiet --silent --verbose --zero-terminated"
        ),
        reads_input=True,
    ),
    "ls": ReadOnlyCommand(
        option_table(
            "-aAbBcCdfFghiklmnNopqQrRsStuUvxXZ1 --all --almost-all --escape --ignore-backups --color?word "
            "--colour?word --directory --classify?word --file-type --format:word --full-time "
            "--group-directories-first --no-group --human-readable --si --hide:glob --ignore:glob "
            "--indicator-style:word --inode --kibibytes --literal --numeric-uid-gid --hide-control-chars "
            "--show-control-chars --quote-name --quoting-style:word --reverse --recursive --size --sort:word "
            "--time:word --time-style:narrow --block-size:word --width:width --author --zero"
        )
    ),
    "nl": ReadOnlyCommand(
        option_table(
            "-b:word -f:word -h:word -i:number -l:number -n:word -p -s:text -v:number -w:width --body-numbering:word "
            "--number-format:word --number-separator:text --number-width:width"
        ),
        reads_input=True,
    ),
    "pwd": ReadOnlyCommand(option_table("-LP --logical --physical"), "none", most=0),
    "sort": ReadOnlyCommand(
        option_table(
            "-bcCdfghiMmnrRsuVz -k:key -t:char --ignore-leading-blanks --dictionary-order --ignore-case "
            "--general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort "
            "--random-sort --reverse --version-sort --sort:word --check?word --debug --key:key --merge --stable "
            "--unique --field-separator:char --zero-terminated"
        ),
        reads_input=True,
    ),
    "stat": ReadOnlyCommand(option_table("-t -c:narrow --format:narrow --printf:narrow --terse")),
    "tail": _tail,
    "tr": _check_tr,
    "tree": ReadOnlyCommand(
        option_table(
            "-aAcCdDfFghiJnNpQqrsStuUvxX -L;number -P;glob -I;glob --dirsfirst --filesfirst --noreport --prune --du "
            "--matchdirs --ignore-case --inodes --device --si --nolinks"
        )
    ),
    "true": _check_echo,
    "uname": ReadOnlyCommand(
        option_table("-asnrvmpio --all --kernel-name --nodename --kernel-release --machine"), "none", most=0
    ),
    "uniq": ReadOnlyCommand(
        option_table(
            "-cdDiuz -f:number -s:number -w:number --count --repeated --all-repeated?word --group?word --ignore-case "
            "--unique --skip-fields:number --skip-chars:number --check-chars:number --zero-terminated"
        ),
        reads_input=True,
        most=1,
        options_first=True,
    ),
    "wc": ReadOnlyCommand(
        option_table("-clLmw --bytes --chars --lines --max-line-length --words --total:word"),
        reads_input=True,
    ),
    "which": ReadOnlyCommand(option_table("-as --all"), "names"),
    "whoami": ReadOnlyCommand(option_table(""), "none", most=0),
}
