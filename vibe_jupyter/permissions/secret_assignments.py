"""Find secrets by name: ``password = "…"``, ``"api_key": "…"``, ``TOKEN=…``, ``Cookie: …``, columns of tables."""

import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.secret_shapes import (
    SHORTEST,
    Span,
    Strength,
    fits,
    kind_of,
    looks_random,
    secret_rules,
    strength,
)

_LONGEST_VALUE: Final = 8_000  # characters of one value
_LONGEST_LINE: Final = 2_000  # characters of a line in a settings file
_LONGEST_MARGIN: Final = 60  # characters before a setting: a file name, a line number, a diff marker
_LONGEST_LIST: Final = 4_000  # characters of a list whose items are examined
# Every name that `strength` recognizes contains one of these.
HINTS: Final = (
    *("pass", "pwd", "pw", "secret", "token", "key", "auth", "cred", "cookie", "session", "jwt", "bearer", "dsn"),
    *(
        "sig",
        "conn",
        "otp",
        "sid",
        "webhook",
        "salt",
        "licen",
        "kennwort",
        "contrase",
        "database",
        "pat",
        "sas",
        "hmac",
        "psk",
        "login",
    ),
)
_NAME: Final = r"[^\W\d][\w.-]{0,63}+"
_NAMED: Final = lazy_pattern(
    rf"""(?<![\w.-])-{{0,2}}+(?P<name>{_NAME})(?P<close>["'\])\\]{{0,6}}+)[ \t]{{0,16}}+"""
    rf"""(?P<sep>=>|:=|<-|={{1,3}}+|!==?|:(?!:)|,(?=[ \t]{{0,8}}(?:default[ ]?=[ ]?)?["']))[ \t]{{0,16}}+"""
)
# A value on the next line, in YAML.
_BLOCK: Final = lazy_pattern(
    rf"""(?<![\w.-])(?P<name>{_NAME})["']?[ \t]{{0,8}}:[ \t]{{0,8}}(?P<sign>[|>][+-]?)?[ \t]{{0,8}}\r?\n"""
    r"""(?=[ \t]{1,40}["']?(?P<value>[^\s"'][^\n"']{3,2000}+))"""
)
_PROSE: Final = lazy_pattern(
    r"""(?i)\b(?P<name>password|passphrase|passwd|token|api[ _-]?key|secret key|access key|secret)\b"""
    r"""(?P<is>[ \t]{1,4}(?:is|was)\b)?[ \t:]{1,4}["'`]?(?P<value>[^\s"'`<>()\[\]{}]{6,200}+)"""
)
_PROSE_NAMES: Final = ("pass", "token", "api", "secret", "access")
# Text before a string in an expression that may provide the value.
_DEFAULT: Final = lazy_pattern(
    r"""(?:Secret(?:Str|Bytes)\(|\bdefault[ ]?=[ ]?|[ ]or[ ]|[ ]else[ ]|(?:getenv|environ\.get)\([^()\n]{1,80}+,[ ]?)"""
    r"""(?=[rb]?["'])"""
)
_DEFAULTS: Final = ("Secret", "default", " or ", " else ", "getenv")
_FAR: Final = 200  # characters after a name that are searched for such an expression
_TUPLE: Final = lazy_pattern(
    r"""(?m)^[ \t]{0,40}+(?P<names>\w{1,64}+(?:[ ]?,[ ]?\w{1,64}+){1,8}+)[ ]?=[ ]?\(?"""
    r"""(?P<values>["'][^"'\n]{0,500}+["'](?:[ ]?,[ ]?["'][^"'\n]{0,500}+["']){1,8}+)"""
)
_SECTION: Final = lazy_pattern(r"(?m)^\[[\w.-]{0,60}?(?P<name>[A-Za-z_-]{3,40}+)\][ \t]*+\n")
_SETTING: Final = lazy_pattern(r"""[ \t]*+[\w."-]{1,80}+[ \t]*+=[ \t]*+["']?(?P<value>[^\s"']{8,2000}+)""")
# A row of a table in columns, starting with its label, as pandas prints a single record.
_LABELLED: Final = lazy_pattern(
    rf"(?m)^[ \t]{{0,40}}+(?P<name>{_NAME})(?:[ ]{{2,200}}+|\t)(?P<value>\S[^\n]{{7,2000}}+)"
)
_DTYPE: Final = lazy_pattern(r"(?:u?int|float|complex|datetime|timedelta|string|str|category|period|interval)\d*.*")
_SERIES: Final = lazy_pattern(r"(?m)^Name: (?P<name>[^\n,]{1,64}+), (?:Length: \d+, )?dtype: (?:object|str)")
_POLARS_SERIES: Final = lazy_pattern(r"Series: '(?P<name>[^'\n]{1,64}+)' \[str\]\n(?=\[)")
_ROWS_OF_SERIES: Final = 200
_MOST_COLUMNS: Final = 500
_MARKUP: Final = lazy_pattern(r"<(?P<tag>tr|th|td|/table)\b[^<>]{0,300}+>(?P<value>[^<>]{0,2000}+)")
_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
# Text between a name and its value: a type, as in our variable listings, or an annotation.
_TYPE: Final = lazy_pattern(
    r"(?:[A-Za-z_][\w.\[\]|, ]{0,60}+=[ \t]{0,4}+(?=[\"'rRbBfFuU])|(?:str|bytes|bytearray|string|SecretStr|int|object"
    r"|list of [\d,]+ items?|tuple of [\d,]+ items?"
    r"|set of [\d,]+ items?)[ \t]{1,4}+)"
)
_QUOTED: Final = lazy_pattern(r"""[rRbBfFuU]{0,2}+(?P<quote>\"\"\"|'''|\\{0,3}+["'`])""")
_BARE: Final = lazy_pattern(r"""[^\s"'`,;&<>()\[\]{}|\\]{1,8000}+""")
_CALL: Final = lazy_pattern(r"[A-Za-z_][\w.]*+[(\[]")
_ATTRIBUTE: Final = lazy_pattern(r"[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+)++")
_ITEM: Final = lazy_pattern(r"""(?P<quote>["'])(?P<item>(?:[^"'\\\n]|\\.){0,2000}+)""")
_ITEMS: Final = lazy_pattern(r"""["'](?P<item>[^"'\n]{0,500}+)["']""")
_IDENTIFIER: Final = lazy_pattern(r"[A-Za-z_][A-Za-z_]*+")
_HEADER_REST: Final = lazy_pattern(r"""[^\r\n"'`]{1,8000}+""")
_DELIMITERS: Final = ("\t", "|", "│", "┆", ";", ",")
_LABEL: Final = lazy_pattern(r"[^\W\d][\w .-]{0,63}")
_WORD: Final = lazy_pattern(r"\S+")
_RULES: Final = " -+=:|─┼╪═╞╡├┤│┆┴└┘"  # characters of table borders
_Cells = Callable[[str], "list[Span] | None"]  # returns the secret cells of a line; None at the end of the table
_LEFT_OUT: Final = lazy_pattern(r"\[… [\d,]+ characters[^\n]{0,40} left out …\]")
_LABELS: Final = 2  # minimum number of fields in a table header


def assigned(text: str) -> Iterator[Span]:
    """Yield values in a text that a name marks as secret, in any order. They may overlap."""
    lower = text.lower()
    if not any(map(lower.__contains__, HINTS)):
        return
    covered = 0
    for found in _NAMED.finditer(text):
        said = strength(_name_of(text, found))
        if said is not Strength.NONE and found.start() >= covered:
            for span in _values(text, found, said):
                covered = max(covered, span.end)
                yield span
    for find in (_by_rule, _said, _unpacked, _sections, _labelled, _columns):
        yield from find(text)


def _name_of(text: str, found: re.Match[str]) -> str:
    r"""Return the name without the letter of a preceding escape, as in ``\nX-Api-Key``."""
    name = found["name"]
    return name[1:] if name[0] in "nrt" and text[found.start("name") - 1 : found.start("name")] == "\\" else name


def _by_rule(text: str) -> Iterator[Span]:
    """Find ``--password …``, ``PASSWORD '…'``, ``key="password" value="…"`` and ``<password>…</password>``."""
    for rule in secret_rules().assignments:
        if any(map(text.__contains__, rule.keywords)):
            groups = rule.pattern.groupindex
            for found in rule.pattern.finditer(text):
                name = found["name"] if "name" in groups else "password"
                if (said := strength(name)) is not Strength.NONE:
                    whole = [found.span("value")] if "value" in groups else _value_at(text, found.end(), bare=rule.bare)
                    for start, end in whole:
                        yield from _span(text, start, end, name, said)


def _said(text: str) -> Iterator[Span]:
    """Find ``The password is …`` in prose, and values on the line below their name."""
    lower = text.lower()
    for found in _PROSE.finditer(text) if any(map(lower.__contains__, _PROSE_NAMES)) else ():
        start = found.start("value")
        value = found["value"].rstrip(".,;:!?")
        said = any(map(str.isdigit, value)) and any(map(str.isalpha, value)) if found["is"] else looks_random(value)
        if said and "=" not in value:
            yield Span(start, start + len(value), kind_of(found["name"].replace(" ", "_")), found["name"])
    for found in _BLOCK.finditer(text) if "\n " in text or "\n\t" in text else ():
        if found["sign"] or looks_random(found["value"].strip()):
            yield from _span(text, *found.span("value"), found["name"], strength(found["name"]))


def _unpacked(text: str) -> Iterator[Span]:
    """Find assignments to several names at once."""
    for found in _TUPLE.finditer(text) if "," in text and "=" in text else ():
        names = [name.strip() for name in found["names"].split(",")]
        values = [item.span("item") for item in _ITEMS.finditer(text, *found.span("values"))]
        if len(names) == len(values):
            for name, (start, end) in zip(names, values, strict=True):
                yield from _span(text, start, end, name, strength(name))


def _sections(text: str) -> Iterator[Span]:
    """Find settings in a section whose name marks it as secret."""
    for found in _SECTION.finditer(text):
        if strength(found["name"]) is not Strength.NONE:
            place = found.end()
            while (setting := _SETTING.match(text, place)) is not None:
                if looks_random(setting["value"]):
                    yield Span(*setting.span("value"), kind_of(found["name"]), found["name"])
                line_end = text.find("\n", setting.end(), setting.end() + _LONGEST_LINE)
                if line_end < 0:
                    break
                place = line_end + 1


def _labelled(text: str) -> Iterator[Span]:
    """Find rows of a table that are labeled with a secret name."""
    for found in _LABELLED.finditer(text):
        said = strength(found["name"])
        for word in _WORD.finditer(text, *found.span("value")) if said is not Strength.NONE else ():
            value = word[0]
            mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
            if len(value) >= SHORTEST and mixed and not _DTYPE.fullmatch(value):
                yield from _span(text, *word.span(), found["name"], said)


def _defaults(text: str, at: int, name: str, said: Strength) -> Iterator[Span]:
    """Find strings in the expression that is assigned to a name: ``os.getenv("X") or "…"``, ``SecretStr("…")``."""
    end = text.find("\n", at, at + _FAR)
    end = end if end >= 0 else min(len(text), at + _FAR)
    if any(text.find(literal, at, end) >= 0 for literal in _DEFAULTS):
        for found in _DEFAULT.finditer(text, at, end):
            for start, stop in _value_at(text, found.end(), bare=False):
                yield from _span(text, start, stop, name, said)


def _values(text: str, found: re.Match[str], said: Strength) -> Iterator[Span]:
    name, sep, start = found["name"], found["sep"], found.end()
    if name.lower() in _HEADERS and sep == ":" and (rest := _HEADER_REST.match(text, start)):
        yield from _span(text, start, start + len(rest[0].rstrip()), name, Strength.STRONG)
        return
    typed = _TYPE.match(text, start)
    at = typed.end() if typed is not None else start
    if at < len(text) and text[at] in "[({":
        yield from _items(text, at, name, said)
        return
    if _QUOTED.match(text, at) is not None:
        for begin, end in _value_at(text, at, bare=False):
            yield from _span(text, begin, end, name, said)
        return
    if sep in (",", "<-", "==", "===", "!=", "!=="):
        return
    yield from _defaults(text, at, name, said)
    yield from _bare(text, at, found, said)


def _bare(text: str, at: int, found: re.Match[str], said: Strength) -> Iterator[Span]:
    """Find an unquoted value, as in environment files, URLs and messages. Identifiers and calls in code don't count."""
    value = _BARE.match(text, at)
    if value is None:
        return
    name, sep = found["name"], found["sep"]
    end = text.find("\n", at, at + _LONGEST_LINE)
    rest = text[at : end if end >= 0 else at + _LONGEST_LINE].rstrip()
    word = value[0].rstrip(".:") if sep == ":" else value[0]
    if _CALL.match(text, at) or (_ATTRIBUTE.fullmatch(word) and not (looks_random(word) and word != word.lower())):
        return
    touches = text[at - 1] == "="
    is_setting = _begins_line(text, found.start()) and found["close"] in ("", '"', "'")
    if _IDENTIFIER.fullmatch(word) and not (is_setting and rest == value[0] and (sep == ":" or touches)):
        return  # ``password=password,``: an identifier in code
    if said is Strength.PASSWORD and is_setting and sep == "=" and touches and " #" not in rest:
        word = rest  # the whole line, since a password may contain characters that would otherwise end the value
    yield from _span(text, at, at + len(word), name, said)


def _begins_line(text: str, at: int) -> bool:
    """Return whether a setting begins here, in a file or in a listing of one."""
    first = max(0, at - _LONGEST_MARGIN)
    line_start = text.rfind("\n", first, at) + 1
    if line_start == 0 and first > 0:
        return False
    return text[max(line_start, first) : at].strip(" \t+->#0123456789|:") in ("", "export", "set", "env", "$env")


def _items(text: str, at: int, name: str, said: Strength) -> Iterator[Span]:
    """Find strings in a list, or values in nested mappings."""
    closing = {"[": "]", "(": ")", "{": "}"}[text[at]]
    end = text.find(closing, at, at + _LONGEST_LIST)
    stop = end if end >= 0 else min(len(text), at + _LONGEST_LIST)
    place = at + 1
    if text.find('"', place, stop) < 0 and text.find("'", place, stop) < 0:
        return
    while (item := _ITEM.search(text, place, stop)) is not None:
        if text[at] != "{" or text[place : item.start()].rstrip().endswith(":"):
            yield from _span(text, *item.span("item"), name, said)
        place = item.end() + 1


def _value_at(text: str, at: int, *, bare: bool) -> Iterator[tuple[int, int]]:
    """Find the quoted or bare value that begins at a position."""
    opened = _QUOTED.match(text, at)
    if opened is None:
        if bare and (value := _BARE.match(text, at)):
            yield value.span()
        return
    quote, start = opened["quote"], opened.end()
    limit = min(len(text), start + _LONGEST_VALUE)
    place = start
    while place < limit:
        end = text.find(quote, place, limit)
        if end < 0:
            break
        backslashes = 0
        while end - backslashes > start and text[end - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2 == 0 or quote.startswith("\\"):
            yield start, end
            return
        place = end + 1
    # No closing quote: the value was truncated, or isn't quoted. Use the rest of the line.
    line_end = text.find("\n", start, limit)
    yield start, line_end if line_end >= 0 else limit


def _span(text: str, start: int, end: int, name: str, said: Strength) -> Iterator[Span]:
    value = text[start:end]
    if fits(said, value):
        yield Span(start, end, kind_of(name), name.rpartition(".")[2])


def _columns(text: str) -> Iterator[Span]:
    """Find cells in columns with a secret label, and values in rows with one."""
    if "\n" not in text and "|" not in text and "<" not in text:
        return
    yield from _series(text)
    yield from _markup(text)
    text = text.replace("┆", "│")
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not _LABELS < len(line) <= _LONGEST_LIST or not any(hint in line.lower() for hint in HINTS):
            continue
        delimiter = next((one for one in _DELIMITERS if one in line), "")
        if delimiter == "|":
            yield from _row(starts[number - 1], line)
        cells = _below(line, delimiter) if delimiter else _aligned(line)
        while cells is not None and number < len(lines):
            if _is_left_out(lines, number):
                number += 1
                continue
            spans = cells(lines[number])
            if spans is None:
                break
            yield from (
                Span(starts[number] + span.start, starts[number] + span.end, span.kind, span.name) for span in spans
            )
            number += 1


def _is_left_out(lines: list[str], number: int) -> bool:
    """Return whether a line states that rows were omitted, or is the empty line before such a line."""
    return any(_LEFT_OUT.fullmatch(line) for line in lines[number : number + (1 if lines[number].strip() else 2)])


def _series(text: str) -> Iterator[Span]:
    """Find the values of a single column printed by pandas or polars, with its name below or above."""
    covered = 0
    for found in _SERIES.finditer(text) if "dtype: " in text else ():
        said, end = strength(found["name"]), found.start() - 1
        for _ in range(_ROWS_OF_SERIES if said is not Strength.NONE else 0):
            start = text.rfind("\n", max(covered, end - _LONGEST_LINE), max(covered, end)) + 1
            row = text[max(start, covered) : max(end, covered)]
            label, _, value = row.strip().partition(" ")
            if not label or not value:
                break
            yield from _span(text, end - len(value.lstrip()), end, found["name"], said)
            end = start - 1
        covered = found.end()
    for found in _POLARS_SERIES.finditer(text) if "Series: '" in text else ():
        if (said := strength(found["name"])) is not Strength.NONE:
            yield from _items(text, found.end(), found["name"], said)


def _markup(text: str) -> Iterator[Span]:
    """Find cells of HTML tables."""
    if "<th" not in text:
        return
    labels: list[str] = []
    at, in_head = 0, False
    for found in _MARKUP.finditer(text):
        match found["tag"]:
            case "tr":
                at, in_head = 0, False
            case "/table":
                labels = []
            case "th" if in_head or (at == 0 and not labels):
                in_head = True
                if len(labels) < _MOST_COLUMNS:
                    labels.append(found["value"].strip())
            case _:
                if at < len(labels) and (said := strength(labels[at])) is not Strength.NONE:
                    yield from _span(text, *found.span("value"), labels[at], said)
                at += 1


def _fields(line: str, delimiter: str) -> list[tuple[int, str]]:
    """Split a line into fields with their positions, stripped of whitespace and quotes. Returns at least one."""
    out: list[tuple[int, str]] = []
    begin = 0
    whole = ""
    pieces = line.split(delimiter)
    for number, piece in enumerate(pieces, 1):
        whole = f"{whole}{delimiter}{piece}" if whole else piece
        if whole.count('"') % 2 and number < len(pieces):
            continue  # the delimiter is inside quotes
        bare = whole.strip(" \t\"'+\r")
        out.append((begin + (whole.find(bare) if bare else 0), bare))
        begin += len(whole) + 1
        whole = ""
    return out


def _below(head: str, delimiter: str) -> _Cells | None:
    """Return a function that finds secret cells in lines below this header, or None if it isn't the header of such a
    table."""
    if not _LABEL.fullmatch(head.strip(" |│\"'+").partition(delimiter)[0].strip("\"' \t")):
        return None
    labels = [label for _, label in _fields(head, delimiter)]
    secret = [(at, label) for at, label in enumerate(labels) if label and strength(label) is not Strength.NONE]
    if len(labels) < _LABELS or not secret or not all(_LABEL.fullmatch(label) or not label for label in labels):
        return None

    def cells(line: str) -> list[Span] | None:
        fields = _fields(line, delimiter) if len(line) <= _LONGEST_LINE else []
        if len(fields) != len(labels):
            return None if line.strip(_RULES) else []
        return [
            Span(fields[at][0], fields[at][0] + len(fields[at][1]), kind_of(label), label)
            for at, label in secret
            if fits(strength(label), fields[at][1])
        ]

    return cells


def _row(start: int, line: str) -> Iterator[Span]:
    """Find ``password | str | 0 | hunter2, …``: a column in the description of a data frame."""
    (_, label), *rest = _fields(line, "|")
    said = strength(label)
    if said is Strength.NONE or not _LABEL.fullmatch(label) or len(rest) < _LABELS:
        return
    for begin, field in rest[1:]:
        place = start + begin
        for value in field.split(", "):
            if fits(said, value) and not value.removesuffix(" distinct").replace(",", "").isdigit():
                yield Span(place, place + len(value), kind_of(label), label)
            place += len(value) + 2


def _aligned(head: str) -> _Cells | None:
    """Return such a function for tables aligned with spaces, as pandas prints them.

    Cells align with an edge of their label.
    """
    words = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(head)]
    if len(words) < _LABELS or not all(_LABEL.fullmatch(word) or word == "..." for _, _, word in words):
        return None
    secret = [word for word in words if strength(word[2]) is not Strength.NONE]
    if not secret:
        return None

    def cells(line: str) -> list[Span] | None:
        if line.startswith(("dtype: ", "Name: ")):
            return None
        found = [one.span() for one in _WORD.finditer(line)] if len(line) <= _LONGEST_LINE else []
        for edge in (1, 0):  # columns are right-aligned or left-aligned
            edges = {span[edge] for span in found}
            if 2 * sum(word[edge] in edges for word in words) >= len(words):
                return [
                    Span(begin, end, kind_of(label[2]), label[2])
                    for label in secret
                    for begin, end in found
                    if begin <= (label[1] - 1 if edge else label[0]) < end
                    and not _CALL.match(line, begin, end)
                    and fits(strength(label[2]), line[begin:end])
                ]
        return None

    return cells
