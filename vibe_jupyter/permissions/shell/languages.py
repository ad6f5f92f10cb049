"""Check scripts of sed, awk and jq against the subset of each language that only prints and always terminates."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.options import CommandArgument, is_narrow, is_safe_pattern, option_table
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall, ReadOnlyCommand, Rule, check_input

SCRIPT_LIMIT: Final = 1_000  # characters of a script
GROWTH_LIMIT: Final = 1_000  # factor by which all substitutions of a sed script together may lengthen a line
_FIELDS_LIMIT: Final = 999  # highest field an awk program may set, since awk creates all fields before it

_REGEX: Final = r"/(?:[^/\\\n]|\\[^\n])*/I?"
_ADDRESS: Final = rf"(?:\d{{1,7}}(?:~\d{{1,5}})?|\$|{_REGEX})"
_SED_COMMAND: Final = re.compile(
    rf"\s*(?P<first>{_ADDRESS})?(?:\s*,\s*(?P<last>{_ADDRESS}|[+~]\d{{1,5}}))?\s*!?\s*"
    r"(?:(?P<plain>[pd=]|[qQ]\d{0,2})|s(?P<mark>[/|,#@:!%])(?P<pattern>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)"
    r"(?P<text>(?:(?!(?P=mark))[^\\\n]|\\[^\n])*)(?P=mark)(?P<flags>[gpiI0-9]{0,4}))\s*(?:;|\n|$|(?=\}))"
)
# All brackets are closed. Implementations of sed disagree on whether a delimiter inside brackets ends the pattern.
_CLOSED: Final = re.compile(r"(?:[^\\\[]|\\.|\[\^?\]?[^\]]*\])*")
_SED: Final = ReadOnlyCommand(
    option_table(
        "-nErsuz -e:text --quiet --silent --expression:text --regexp-extended --null-data --separate --unbuffered"
    ),
    reads_input=True,
)


def _sed(call: CommandCall) -> None:
    _check_files(call, sed_operands(call.arguments))


def sed_operands(arguments: Sequence[CommandArgument]) -> list[CommandArgument]:
    """Return the files of a call of sed whose scripts only print.

    Raises:
        UnknownCommand: They may do more.
    """
    given = _SED.options.parse(arguments, "sed")
    scripts = given.values("-e", "--expression")
    operands = list(given.operands)
    if not scripts:
        if not operands or operands[0].from_glob:
            raise UnknownCommand("operand", "sed has no script")
        scripts = [operands.pop(0).text]
    for script in scripts:
        _check_sed(script)
    return operands


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
    """Return the factor by which a substitution may lengthen a line."""
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
# Brackets contain no slash: implementations of awk disagree on where such a pattern ends.
_AWK_REGEX: Final = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]\[/\\\n]*\])*/")
# Tokens after which every awk reads a slash as the start of a pattern.
_BEFORE_REGEX: Final = frozenset({"{", "}", "(", ",", ";", "\n", "&&", "||", "!", "~", "!~"})
_CONTINUING: Final = frozenset({",", "&&", "||", "?", ":"})  # tokens after which a statement continues on the next line
_COUNTERS: Final = frozenset({"NR", "NF", "FNR"})
_AWK_NAMES: Final = frozenset(
    {
        *("BEGIN", "END", "NR", "NF", "FNR", "FS", "OFS", "ORS", "FILENAME", "print", "printf", "if", "else"),
        *("length", "substr", "tolower", "toupper", "int", "next", "exit", "index", "for", "in", "split", "nextfile"),
    }
)
# Keywords and functions of awk that are refused. They aren't variable names either.
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
_RECORDS_LIMIT: Final = 3  # assignments of the record in a program that also changes the record
_OFS_LIMIT: Final = 2  # characters between the fields of such a record
_AWK_LOOP: Final = re.compile(r"for\s*\(\s*[a-z]\w*\s+in\s+[a-z]\w*\s*\)")
_AWK_SETTING: Final = frozenset({"=", "+=", "-=", "++", "--"})
_AWK_ENDS: Final = (";", "}", "\n", ")", ",")
_AWK: Final = ReadOnlyCommand(option_table("-F;text -v;text"), reads_input=True)
_AWK_SET: Final = re.compile(r"(?:[a-z]\w*|FS|OFS|ORS)=[^\\]{0,100}")


def _awk(call: CommandCall) -> None:
    waiting = list(reversed(call.arguments))
    joins = ""
    while waiting and waiting[-1].text.startswith("-") and waiting[-1].text != "-":
        option = waiting.pop()
        value = option.text[2:]
        if option.from_glob or option.text[:2] not in ("-F", "-v") or not (value or waiting):
            raise UnknownCommand("option", f"awk {option.text} is not known to be read-only")
        value = value or waiting.pop().text
        if option.text.startswith("-v") and not (_AWK_SET.fullmatch(value) and is_safe_pattern(value)):
            raise UnknownCommand("option", f"awk -v {value} is not known to be read-only")
        joins = max(joins, value.removeprefix("OFS=") if value.startswith("OFS=") else "", key=len)
        if option.text.startswith("-F") and not is_safe_pattern(value):
            raise UnknownCommand("operand", "its pattern may take very long")
    if not waiting or waiting[-1].from_glob:
        raise UnknownCommand("operand", "awk has no program")
    _check_awk(waiting.pop().text, joins)
    operands = list(reversed(waiting))
    if any("=" in operand.text for operand in operands):
        raise UnknownCommand("operand", "awk would take a name with = for a variable")
    _check_files(call, operands)


def _check_awk(program: str, joins: str) -> None:
    """Check a program.

    Args:
        program: The program.
        joins: Value of OFS on the command line.
    """
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
        if kind == "string" and not is_safe_pattern(text):  # a text may serve as a pattern
            raise UnknownCommand("operand", "its pattern may take very long")
    _check_awk_growth(tokens)
    if _feeds_itself(tokens, len(joins)):
        raise UnknownCommand("operand", "its records may become very long")


def _check_awk_growth(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuse what may make values, fields or arrays larger than the input."""
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


def _feeds_itself(tokens: Sequence[tuple[str, str]], joined: int) -> bool:
    """Return whether a program may put copies of a record into the record, again and again.

    Args:
        tokens: The program.
        joined: Length of OFS on the command line.
    """
    texts = ["", "", *(text for _, text in tokens), ""]
    kinds = ["", "", *(kind for kind, _ in tokens), ""]
    places = [at for at, text in enumerate(texts) if text == "="]
    between = [at for at in places if texts[at - 1] == "OFS"]
    if any(kinds[at + 1] != "string" for at in between):
        return True
    records = [at for at in places if texts[at + 1] == "$" and not _is_one_field(texts[at + 2])]
    named = [at for at in places if texts[at - 2] == "$" and kinds[at + 1] == "name"]
    changed = between or any(_changes_record(texts, at) for at, text in enumerate(texts) if text in _AWK_SETTING)
    if not changed or not (records or named):
        return False
    wide = max([joined, *(len(texts[at + 1]) - 2 for at in between)]) > _OFS_LIMIT
    return bool(records and named) or "for" in texts or wide or len(records) > _RECORDS_LIMIT


def _is_one_field(text: str) -> bool:
    """Return whether this, after ``$``, is never 0, for which awk takes the whole record."""
    return text in ("NF", "(") or (text.isdigit() and int(text) > 0)


def _changes_record(texts: Sequence[str], at: int) -> bool:
    """Return whether an assignment or increment changes a field or the number of fields."""
    sides = (texts[at - 1], texts[at + 1]) if texts[at] in ("++", "--") else (texts[at - 1],)
    return "NF" in sides or ")" in sides or "$" in (texts[at - 2], *sides)


def _sets_little(texts: Sequence[str], at: int) -> bool:
    """Return whether an assignment or increment sets neither a high field nor the number of fields."""
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
    """Return whether a format is a string literal rather than computed or read from a file."""
    after = after[1:] if after[:1] == [("sign", "(")] else after
    return after[:1] != [] and after[0][0] == "string" and (len(after) < 2 or after[1][1] in _AWK_ENDS)


def _grows(tokens: Sequence[tuple[str, str]]) -> bool:
    """Return whether a subscript is computed from a variable, so that each iteration may enlarge the array."""
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
    """Return whether a slash is a division rather than the start of a pattern.

    Raises:
        UnknownCommand: Implementations of awk may disagree, and would parse the rest differently.
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
    """Return whether an assignment can't double its value: a single field, number, string or another variable."""
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
# An object of plain fields.
_JQ_OBJECT: Final = re.compile(r"\{\s*(?:\w+(?:\s*:\s*\.\w[\w.]*)?\s*,\s*)*\w+(?:\s*:\s*\.\w[\w.]*)?\s*\}", re.ASCII)
_JQ_LOOPS: Final = 3  # iterations over all of a value
_JQ_PARTS: Final = 6  # commas and pluses of a filter, each of which may double what follows
_JQ_JOINED: Final = 2  # times a filter may join or encode values
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
    """Refuse filters that may multiply the size of their output: each of these operators adds a factor."""
    bare = _JQ_OBJECT.sub("", _JQ_TEXT.sub('"', program))
    loops = len(re.findall(r"\[\s*\]|\.\.", bare))
    joined = len(re.findall(r"\b(?:join|tojson)\b", bare))
    if loops > _JQ_LOOPS or bare.count(",") + bare.count("+") > _JQ_PARTS or joined > _JQ_JOINED:
        raise UnknownCommand("operand", "its values may become very long")


def _is_known(match: re.Match[str], program: str) -> bool:
    """Return whether a word is a known function or an object key."""
    return match[0] in _JQ_NAMES or program[match.end() :].lstrip()[:1] == ":"


def _check_files(call: CommandCall, operands: Sequence[CommandArgument]) -> None:
    ReadOnlyCommand(option_table(""), reads_input=True).given(
        replace(call, arguments=[CommandArgument("--"), *operands])
    )
    if not operands:
        check_input(call)


LANGUAGES: Final[Mapping[str, Rule]] = {"awk": _awk, "gawk": _awk, "jq": _jq, "mawk": _awk, "sed": _sed}
