"""The small languages of sed, awk and jq: the part of each that prints, and neither runs, writes nor never ends."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.options import CommandArgument, is_narrow, is_safe_pattern, option_table
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall, ReadOnlyCommand, Rule, check_input

SCRIPT_LIMIT: Final = 1_000
"""Characters of a script."""
GROWTH_LIMIT: Final = 1_000
"""How many times longer all substitutions of one script of sed may make a line."""
_FIELDS_LIMIT: Final = 999
"""The last field that a program of awk may set: those before it are made too."""

_REGEX: Final = r"/(?:[^/\\\n]|\\[^\n])*/I?"
_ADDRESS: Final = rf"(?:\d{{1,7}}(?:~\d{{1,5}})?|\$|{_REGEX})"
_SED_COMMAND: Final = re.compile(
    rf"\s*(?P<first>{_ADDRESS})?(?:\s*,\s*(?P<last>{_ADDRESS}|[+~]\d{{1,5}}))?\s*!?\s*"
    r"(?:(?P<plain>[pd=]|[qQ]\d{0,2})|s(?P<mark>[/|,#@:!%])(?P<pattern>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)"
    r"(?P<text>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)(?P<flags>[gpiI0-9]{0,4}))\s*(?:;|\n|$|(?=\}))"
)
_CLOSED: Final = re.compile(r"(?:[^\\\[]|\\.|\[\^?\]?[^\]]*\])*")
"""Every bracket is closed: where one holds the sign that ends the pattern, seds do not agree that it ends there."""
_SED: Final = ReadOnlyCommand(
    option_table(
        "-nErsuz -e:text --quiet --silent --expression:text --regexp-extended --null-data --separate --unbuffered"
    ),
    reads_input=True,
)


def _sed(call: CommandCall) -> None:
    given = _SED.options.parse(call.arguments, call.name)
    scripts = given.values("-e", "--expression")
    operands = list(given.operands)
    if not scripts:
        if not operands or operands[0].from_glob:
            raise UnknownCommand("operand", "sed has no script")
        scripts = [operands.pop(0).text]
    for script in scripts:
        _check_sed(script)
    _check_files(call, operands)


def _check_sed(script: str) -> None:
    if len(script) > SCRIPT_LIMIT:
        raise UnknownCommand("length", f"its script has more than {SCRIPT_LIMIT:,} characters")
    position, growth = 0, 1
    while script[position:].strip(" ;\n"):
        match = _SED_COMMAND.match(script, position)
        if match is None or match.end() == position:
            raise UnknownCommand("operand", f"sed {script[position : position + 20]!r} is not known to be read-only")
        position = match.end()
        patterns = [match[name] or "" for name in ("first", "last", "pattern")]
        if not all(map(is_safe_pattern, patterns)):
            raise UnknownCommand("operand", "its pattern may take very long")
        if not all(map(_CLOSED.fullmatch, patterns)):
            raise UnknownCommand("operand", "it is unclear where a pattern of its script ends")
        growth *= _growth(match["text"] or "", match["flags"] or "")
        if growth > GROWTH_LIMIT:
            raise UnknownCommand("operand", "its lines may become very long")


def _growth(text: str, flags: str) -> int:
    """How many times longer a substitution may make a line of some length."""
    repeated = text.count("&") + len(re.findall(r"\\\d", text))
    return max(1, len(text) if "g" in flags else repeated + 1)


_AWK_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\n]+)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*")
  | (?P<number>\d{1,9}(?:\.\d{1,9})?(?!\d))
  | (?P<name>[A-Za-z_]\w*)
  | (?P<sign>\+\+|--|\+=|-=|==|!=|<=|>=|&&|\|\||!~|[-{}()\[\],;$+*%=<>!~?:])
  | (?P<slash>/)
    """,
    re.VERBOSE | re.ASCII,
)
_AWK_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]\[/\\\n]*\])*/")
"""Brackets in it hold no slash: awks do not agree where such a one ends."""
_BEFORE_REGEX: Final = frozenset({"{", "}", "(", ",", ";", "\n", "&&", "||", "!", "~", "!~"})
"""Signs behind which a slash begins a pattern in every awk."""
_CONTINUING: Final = frozenset({",", "&&", "||", "?", ":"})
"""Signs behind which a statement goes on in the next line."""
_COUNTERS: Final = frozenset({"NR", "NF", "FNR"})
_AWK_NAMES: Final = frozenset(
    {
        *("BEGIN", "END", "NR", "NF", "FNR", "FS", "OFS", "ORS", "FILENAME", "print", "printf", "if", "else"),
        *("length", "substr", "tolower", "toupper", "int", "next", "exit", "index", "for", "in", "split", "nextfile"),
    }
)
_AWK_FUNCTIONS: Final = frozenset(
    {
        *(
            "system",
            "getline",
            "close",
            "fflush",
            "while",
            "do",
            "function",
            "func",
            "delete",
            "sprintf",
            "gsub",
            "sub",
        ),
        *("match", "rand", "srand", "exp", "log", "sin", "cos", "atan2", "sqrt", "strftime", "systime", "return"),
        *("break", "continue", "gensub", "asort", "asorti", "patsplit", "include", "load", "namespace", "switch"),
        *(
            "case",
            "default",
            "strtonum",
            "mktime",
            "and",
            "or",
            "xor",
            "lshift",
            "rshift",
            "compl",
            "typeof",
            "isarray",
        ),
    }
)
"""Words of awk that are no variables, and of which nothing is needed here."""
_AWK_LOOP: Final = re.compile(r"for\s*\(\s*[a-z]\w*\s+in\s+[a-z]\w*\s*\)")
_AWK_SETTING: Final = frozenset({"=", "+=", "-=", "++", "--"})
_AWK_ENDS: Final = (";", "}", "\n", ")", ",")
_AWK: Final = ReadOnlyCommand(option_table("-F;text -v;text"), reads_input=True)
_AWK_SET: Final = re.compile(r"(?:[a-z]\w*|FS|OFS|ORS)=[^\\]{0,100}")


def _awk(call: CommandCall) -> None:
    waiting = list(reversed(call.arguments))
    while waiting and waiting[-1].text.startswith("-") and waiting[-1].text != "-":
        option = waiting.pop()
        value = option.text[2:]
        if option.from_glob or option.text[:2] not in ("-F", "-v") or not (value or waiting):
            raise UnknownCommand("option", f"awk {option.text} is not known to be read-only")
        value = value or waiting.pop().text
        if option.text.startswith("-v") and not _AWK_SET.fullmatch(value):
            raise UnknownCommand("option", f"awk -v {value} is not known to be read-only")
        if option.text.startswith("-F") and not is_safe_pattern(value):
            raise UnknownCommand("operand", "its pattern may take very long")
    if not waiting or waiting[-1].from_glob:
        raise UnknownCommand("operand", "awk has no program")
    _check_awk(waiting.pop().text)
    operands = list(reversed(waiting))
    if any("=" in operand.text for operand in operands):
        raise UnknownCommand("operand", "awk would take a name with = for a variable")
    _check_files(call, operands)


def _check_awk(program: str) -> None:
    if len(program) > SCRIPT_LIMIT:
        raise UnknownCommand("length", f"its program has more than {SCRIPT_LIMIT:,} characters")
    tokens = _awk_tokens(program)
    names = {text for kind, text in tokens if kind == "name"}
    if wrong := [
        name for name in names if name in _AWK_FUNCTIONS or (name not in _AWK_NAMES and not name[0].islower())
    ]:
        raise UnknownCommand("operand", f"awk {wrong[0]} is not known to be read-only")
    if sum(text == "for" for _, text in tokens) != len(_AWK_LOOP.findall(program)):
        raise UnknownCommand("operand", "its loops may never end")
    for at, (kind, text) in enumerate(tokens):
        if text == ">" and _is_after_print(tokens[:at]):
            raise UnknownCommand("redirection", "awk may write into a file")
        if kind == "name" and text not in _AWK_NAMES and tokens[at + 1 : at + 2] == [("sign", "(")]:
            raise UnknownCommand("operand", f"awk {text}() is not known to be read-only")
        if kind == "string" and not is_narrow(text):
            raise UnknownCommand("operand", "it pads its output very much")
    _check_awk_growth(tokens)


def _check_awk_growth(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuse what may make values, fields or arrays larger than what is read."""
    texts = [text for _, text in tokens]
    for at, text in enumerate(texts):
        if text == "=" and not _is_bounded(texts[max(0, at - 1) : at + 8]):
            raise UnknownCommand("operand", "its values may become very long")
        if text in _AWK_SETTING and not _sets_little(texts, at):
            raise UnknownCommand("operand", "it may make very many fields")
        if text == "printf" and not _prints_a_text(tokens[at + 1 : at + 4]):
            raise UnknownCommand("operand", "it is unclear what printf would print")
    if "for" in texts and any(_grows(tokens[at:]) for at, (_, text) in enumerate(tokens) if text == "["):
        raise UnknownCommand("operand", "its loops may make an array very large")


def _sets_little(texts: Sequence[str], at: int) -> bool:
    """Whether what is set there, by ``=`` or ``++``, is no far field, and not the number of fields."""
    before, after = texts[:at], texts[at + 1 : at + 4]
    counts = before[-1:] == ["NF"] and before[-2:-1] != ["$"]
    if texts[at] != "--" and (counts or after[:1] == ["NF"]):
        return False
    if before[-1:] == [")"]:
        return texts[at] in ("++", "--") and after[:1] == ["$"] and _is_near(after[1:2])
    if before[-1:] == ["]"]:
        opened = max((place for place, text in enumerate(before) if text == "["), default=0)
        return "$" not in before[max(0, opened - 2) : opened]
    if before[-2:-1] == ["$"] and (before[-3:-2] == ["$"] or not _is_near(before[-1:])):
        return False
    return texts[at] not in ("++", "--") or after[:1] != ["$"] or _is_near(after[1:2])


def _is_near(field: Sequence[str]) -> bool:
    return field == ["NF"] or (bool(field) and field[0].isdigit() and int(field[0]) <= _FIELDS_LIMIT)


def _prints_a_text(after: Sequence[tuple[str, str]]) -> bool:
    """Whether a format is written out, and not put together or read from a file."""
    after = after[1:] if after[:1] == [("sign", "(")] else after
    return after[:1] != [] and after[0][0] == "string" and (len(after) < 2 or after[1][1] in _AWK_ENDS)


def _grows(tokens: Sequence[tuple[str, str]]) -> bool:
    """Whether a subscript puts a variable together with something: each turn of a loop may then add to its array."""
    inner = list(itertools.takewhile(lambda token: token[1] != "]", tokens[1:]))
    return len(inner) > 1 and any(
        kind == "name" and text not in _AWK_NAMES and before[1] != "$"
        for before, (kind, text) in itertools.pairwise([("sign", "["), *inner])
    )


def _awk_tokens(program: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(program):
        match = _AWK_TOKEN.match(program, position)
        if match is None:
            raise UnknownCommand("operand", f"awk {program[position : position + 20]!r} is not known to be read-only")
        kind = str(match.lastgroup)
        if kind == "slash" and not _divides(tokens):
            match = _AWK_REGEX.match(program, position)
            if match is None or not is_safe_pattern(match[0]):
                raise UnknownCommand("operand", "its pattern may take very long")
            kind = "regex"
        if kind != "blank" or "\n" in match[0]:
            tokens.append(("sign", "\n") if kind == "blank" else (kind, match[0]))
        position = match.end()
    return tokens


def _divides(before: Sequence[tuple[str, str]]) -> bool:
    """Whether a slash divides; the other meaning is that it begins a pattern.

    Raises:
        Refused: awks may take it for either, and what follows would be read in another way.
    """
    kind, text = before[-1] if before else ("sign", "{")
    if kind == "number" or (kind == "name" and (text in _COUNTERS or text not in _AWK_NAMES)):
        return True
    if kind == "sign" and text in _BEFORE_REGEX:
        return False
    raise UnknownCommand("operand", "it is unclear what a slash means in its program")


def _is_after_print(before: Sequence[tuple[str, str]]) -> bool:
    texts = [text for _, text in before]
    for at, text in reversed(list(enumerate(texts))):
        if text in ("print", "printf"):
            return True
        if text in (";", "{", "}") or (text == "\n" and texts[at - 1] not in _CONTINUING):
            return False
    return False


def _is_bounded(texts: Sequence[str]) -> bool:
    """Whether an assignment cannot double what it is given: a name, and a field, a number or a text."""
    name, value = texts[0], texts[2:]
    if value[:1] == ["$"]:
        value = value[1:]
        if value[:3] == ["(", "NF", "-"] and value[4:5] == [")"]:
            value = ["NF", *value[5:]]
        return len(value) < 2 or value[1] in _AWK_ENDS
    return bool(value) and name != value[0] and (len(value) < 2 or value[1] in _AWK_ENDS)


_JQ_TOKEN: Final = re.compile(
    r"""
    (?P<blank>[ \t\n]+)
  | (?P<string>"(?:[^"\\\n]|\\["\\/bfnrt])*")
  | (?P<number>\d{1,9}(?:\.\d{1,9})?)
  | (?P<field>\.(?:[A-Za-z_]\w*|(?=[\["])|))
  | (?P<name>[a-z_]\w*)
  | (?P<sign>==|!=|<=|>=|//|[][{}(),:|<>+\-?])
    """,
    re.VERBOSE | re.ASCII,
)
_JQ_NAMES: Final = frozenset(
    {
        *("keys", "length", "map", "select", "to_entries", "from_entries", "type", "has", "add", "sort", "sort_by"),
        *("group_by", "unique", "unique_by", "min", "max", "min_by", "max_by", "first", "last", "any", "all", "not"),
        *("and", "or", "if", "then", "elif", "else", "end", "true", "false", "null", "empty", "join", "tostring"),
        *("tonumber", "values", "reverse", "keys_unsorted", "startswith", "endswith", "contains", "flatten", "tojson"),
        *("map_values", "del", "ascii_downcase", "split", "numbers", "strings", "objects", "arrays", "floor", "error"),
    }
)
_JQ_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_JQ_OBJECT: Final = re.compile(r"\{\s*(?:\w+(?:\s*:\s*\.\w[\w.]*)?\s*,\s*)*\w+(?:\s*:\s*\.\w[\w.]*)?\s*\}", re.ASCII)
"""An object of plain fields."""
_JQ_LOOPS: Final = 3
"""Times a filter may go through all of a value."""
_JQ_PARTS: Final = 6
"""Commas and pluses of a filter, each of which may double what comes after it."""
_JQ_JOINED: Final = 2
"""Times a filter may join or quote what it has."""
_JQ: Final = option_table(
    "-rcCMSsaej --raw-output --compact-output --sort-keys --slurp --monochrome-output --tab --exit-status"
)


def _jq(call: CommandCall) -> None:
    given = _JQ.parse(call.arguments, call.name)
    operands = list(given.operands)
    if given.has("--help", "--version"):
        return
    if not operands or operands[0].from_glob:
        raise UnknownCommand("operand", "jq has no filter")
    program = operands.pop(0).text
    _check_growth(program)
    position = 0
    while position < len(program):
        match = _JQ_TOKEN.match(program, position)
        if (
            match is None
            or len(program) > SCRIPT_LIMIT
            or (match.lastgroup == "name" and not _is_known(match, program))
        ):
            raise UnknownCommand("operand", f"jq {program[position : position + 20]!r} is not known to be read-only")
        position = match.end()
    _check_files(call, operands)


def _check_growth(program: str) -> None:
    """Each of these may make what comes after it longer by some factor."""
    bare = _JQ_OBJECT.sub("", _JQ_TEXT.sub('"', program))
    loops = len(re.findall(r"\[\s*\]|\.\.", bare))
    joined = len(re.findall(r"\b(?:join|tojson)\b", bare))
    if loops > _JQ_LOOPS or bare.count(",") + bare.count("+") > _JQ_PARTS or joined > _JQ_JOINED:
        raise UnknownCommand("operand", "its values may become very long")


def _is_known(match: re.Match[str], program: str) -> bool:
    """Whether a word is a known function, or the key of an object."""
    return match[0] in _JQ_NAMES or program[match.end() :].lstrip()[:1] == ":"


def _check_files(call: CommandCall, operands: Sequence[CommandArgument]) -> None:
    ReadOnlyCommand(option_table(""), reads_input=True).given(
        replace(call, arguments=[CommandArgument("--"), *operands])
    )
    if not operands:
        check_input(call)


LANGUAGES: Final[Mapping[str, Rule]] = {"awk": _awk, "gawk": _awk, "jq": _jq, "mawk": _awk, "sed": _sed}
