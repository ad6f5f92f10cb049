"""Redact secrets in texts, structured values and streams.

A secret is recognized by its value (environment, `.env`, variables), its name (`secret_assignments`), its shape
(`secret_shapes`), or a rule of the user's (`own_rules`). It is redacted everywhere, including the output of approved
code, because the model never needs it.

Code that runs and content of approval cards are never redacted, since users must see exactly what they approve.
Everything else that is sent, stored, or displayed for longer than a card is redacted.

Nearly all chunks of a response are plain words. Two linear searches detect that, and the rules run on the rest only.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os.path import commonprefix
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pydantic import BaseModel

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.known_secrets import SHORTEST, KnownSecrets, secrets_in
from vibe_jupyter.permissions.secret_assignments import HINTS, assigned
from vibe_jupyter.permissions.secret_shapes import (
    UNCHECKED,
    Span,
    Strength,
    any_of,
    fits,
    holds_secret,
    is_secret_name,
    kind_of,
    looks_random,
    shaped,
    strength,
)
from vibe_jupyter.permissions.secret_sources import Extent, Memory, withheld
from vibe_jupyter.protocol import MessageAdded, ToolFinished, ToolMessage, ToolProgress

__all__ = ["PLACEHOLDER", "Memory", "Redactor", "holds_secret", "is_secret_name", "placeholder"]

if TYPE_CHECKING:
    from vibe_jupyter.permissions.own_rules import OwnRules

V = TypeVar("V", bound=BaseModel)
E = TypeVar("E")
# Returns secrets in the user's variables: value to the name that marks it as secret; thread-safe
Found = Callable[[], Mapping[str, str]]
# Returns variables with values that could not all be examined, with samples of these values; thread-safe
Partly = Callable[[], Mapping[str, Sequence[str]]]
Allows = Callable[[str], bool]  # returns whether the settings exempt a name or a kind of secret

PLACEHOLDER: Final = lazy_pattern(r"\[redacted: [^\[\]\n]{1,120}\]")  # text that replaces a secret
_COLOR: Final = "\x1b["
_COLORS: Final = lazy_pattern(r"\x1b\[[\d;]{0,20}+m")
_LONGEST_LEARNED: Final = 500  # characters
# Characters of one text that are redacted. The middle of a longer one is cut out first, because searching it for
# secrets would take longer than printing it did.
LONGEST_TEXT: Final = 1_000_000
FOUND_BY_COPY: Final = 20_000  # values that a copy of the kernel may report
# Characters searched for a line boundary, so that a cut splits no secret and no name from its value
_AT_CUT: Final = 4_000
_PICTURES: Final = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")  # first characters of PNG, JPEG, GIF and WebP in base64
_LINE_OF_KEY: Final = 32  # minimum length of a line of a key block that is recognized on its own
_LINES_OF_KEY: Final = 100
# Fields that contain no text: ids, hashes, pictures.
_OPAQUE: Final = frozenset(
    {"data", "signature", "digest", "made_from", "type", "role", "media_type", "output_type"}
    | {"id", "call_id", "approval_id", "question_id", "file_id", "run_id"}
)
_OF_ANSWER: Final = _OPAQUE | {"origin"}  # the same for a response, which identifies its model by a hash
_NONE: Final = frozenset[str]()
_FOREIGN: Final = frozenset({"display", "details"})  # fields whose content others name: libraries, tools, servers
# Fields next to an output that the product or the model wrote
_OWN: Final = frozenset({"name", "headline", "outcome", "status", "kind", "host", "text/x-python", "code"})
_TEXTLESS: Final = frozenset({bool, int, float, type(None)})  # types of values without text

HELD_LIMIT: Final = 8_000  # maximum number of characters held back; a longer text is redacted as far as it is known
_HELD_BY_RULES: Final = 4_000  # maximum number of characters of a line that are held back for the user's own rules

_WORDS: Final = "|".join(sorted({*HINTS, "basic", "login", "machine", "curl", "mysql"}))
_HINT: Final = lazy_pattern(f"(?i){_WORDS}")
# A name, and possibly the beginning of its value, at the end of a text.
_OPEN: Final = lazy_pattern(
    rf"""(?i)(?<![\w.-])(?:-{{0,2}}[\w.-]{{0,64}}(?:{_WORDS})[\w.-]{{0,40}}["'\])\\]{{0,6}}[ \t]{{0,16}}"""
    r"""(?:(?:=>|[:=,!]{1,3})[ \t]{0,16}(?:[A-Za-z]\w{0,30}[ \t]{1,4})?"""
    r"""(?:["'\\]{1,4}[^"'\n]{0,4000}(?:["']\S{0,200})?|[^\s"']{0,4000}))?"""
    r"""|(?:bearer|basic|password|passwd|by|--[\w-]{2,40}"""
    r"""|(?:password|passphrase|token|key|secret)[ \t]{1,4}(?:is|was))[ \t]{1,4}["']?[^\s"']{0,4000}["']?)\Z"""
)
_TO_LINE_END: Final = lazy_pattern(
    r"(?i)(?:cookie|authorization|curl|mysql\w*|redis-cli|sshpass|machine|login)\b[^\n]{0,4000}\Z"
)
_BEGUN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_ENDED: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
# A word or number with punctuation, as people write it. A random secret doesn't end like this, though it may begin so.
_PLAIN: Final = lazy_pattern(r"[^\w\s]{0,200}(?:[^\W\d_]?[^\W\d_A-Z]{0,24}|\d{1,6}(?:[.,:]\d{1,6})?)[^\w\s]{0,4}")
# Hints that count only as a separate part of a name, as in `user_sid` but not `inside`
_SHORT_HINTS: Final = frozenset({"dsn", "hmac", "otp", "pat", "psk", "pw", "salt", "sas", "sid", "sig"})
# What rules look for, in lower case: names, commands, and prefixes of values that are all lower case.
_RULE_WORDS: Final = (
    *(word for word in HINTS if word not in _SHORT_HINTS),
    *("basic", "curl", "http", "machine", "mysql", "redis", "slack.com", "fernet", "://", ":*:", "$y$", "\x1b"),
)
_ANY_WORD: Final = lazy_pattern(any_of((*_RULE_WORDS, *_SHORT_HINTS)))
_RULE_WORD: Final = lazy_pattern(any_of(_RULE_WORDS))
_PART: Final = lazy_pattern(
    "|".join(f"(?:(?<![a-z]){hint[0]}|{hint[0].upper()})(?i:{hint[1:]})(?![a-z])" for hint in sorted(_SHORT_HINTS))
)
# At least as long as the shortest secret that is recognized by shape, with a digit or capital, and not an ordinary
# word.
_TOKEN: Final = lazy_pattern(r"(?<!\S)(?![^\w\s]{0,8}[A-Z]?[a-z]+[^\w\s]{0,8}(?!\S))(?=\S{11})\S*?[^\W_a-zß-öø-ÿ]")


def placeholder(kind: str, length: int) -> str:
    """Return the replacement for a secret. It contains nothing that JSON would escape."""
    kind = re.sub(r"[^\w .@/-]", "", kind)[:60] or "secret"
    return f"[redacted: {kind}, {length:,} character{'s' * (length != 1)}]"


def _nothing(_name: str) -> bool:
    return False


class Redactor:
    """Replaces secrets in texts and events. Thread-safe."""

    def __init__(
        self,
        known: Mapping[str, str] | None = None,
        *,
        found: Found = dict,
        partly: Partly = dict,
        allows: Allows = _nothing,
        memory: Memory | None = None,
    ) -> None:
        """Create a redactor.

        Args:
            known: values to redact, with the name of the variable that contains each.
            found: returns secrets in the user's variables.
            partly: returns variables with values that could not all be examined, with samples.
            allows: returns whether the settings exempt a name or a kind of secret.
            memory: memory of the previous redactor; None for a new one.
        """
        self.memory = memory or Memory()
        self._found = found
        self._partly = partly
        self._allows = allows
        self._known = KnownSecrets(known)

    @classmethod
    def of(
        cls,
        environ: Mapping[str, str],
        key_variables: Iterable[str] = (),
        *,
        found: Found = dict,
        partly: Partly = dict,
        allows: Allows = _nothing,
        memory: Memory | None = None,
    ) -> "Redactor":
        """Create a redactor that knows the secrets of an environment.

        Args:
            environ: environment variables.
            key_variables: variables that contain keys, whatever their names.
            found: returns secrets in the user's variables.
            partly: returns variables with values that could not all be examined, with samples.
            allows: returns whether the settings exempt a name or a kind of secret.
            memory: memory of the previous redactor; None for a new one.
        """
        known = {environ[name].strip(): name for name in key_variables if environ.get(name)}
        for name, value in environ.items():
            if allows(name):
                continue
            for secret in secrets_in(name, value.strip()):
                known.setdefault(secret, name)
        return cls(known, found=found, partly=partly, allows=allows, memory=memory)

    @property
    def secrets(self) -> Mapping[str, str]:
        """Labels of the initially known values, by spelling."""
        return self._known.spellings

    def __call__(self, text: str, *, look: bool = True) -> str:
        """Redact a text.

        Args:
            text: text of any length.
            look: whether to scan the user's variables for new secrets first, which takes milliseconds.
        """
        if look:
            self.look()
        return self._redacted(text)

    def look(self) -> None:
        """Scan the user's variables for new secrets. Takes milliseconds."""
        self.memory.mirror(self._found())
        self.memory.partly.note(self._partly())

    @property
    def withholds(self) -> Extent:
        """Extent to which outputs are withheld because some secrets are unknown."""
        return self.memory.partly.extent(self._allows)

    def news(self) -> list[str]:
        """Return messages about partly known sources that the user hasn't seen yet."""
        return self.memory.partly.news(self._allows)

    def may_know(self, text: str) -> bool:
        """Return whether a text contains a known value or a keyword of the user's rules, or ends with the possible
        beginning of a value."""
        return any(one.may_stand_in(text) for one in self._indexes())

    def _indexes(self) -> tuple["KnownSecrets | OwnRules", ...]:
        return (self._known, self.memory.bound, self.memory.learned, self.memory.own)

    def before_known(self, text: str, cut: int) -> int:
        """Return the last position up to `cut` that doesn't split a known value, or what the user's rules look at."""
        while (place := min(one.before(text, cut) for one in self._indexes())) < cut:
            cut = place
        return cut

    def event(self, event: E) -> E:
        """Redact an event. Text deltas are left unchanged, because their stream is redacted instead."""
        if isinstance(event, ToolFinished | ToolProgress):
            return cast("E", self.output(event))
        if isinstance(event, MessageAdded) and isinstance(event.message, ToolMessage):
            return cast("E", self.output(event))
        return cast("E", self.value(event)) if isinstance(event, BaseModel) else event

    def value(self, value: V) -> V:
        """Redact every text in a message or event. Returns the same object if there is nothing to redact.

        Doesn't scan the user's variables. Whoever ran code or read variables has called `look` before.
        """
        return self._value(value, _Texts(self, self._redacted))

    def output(self, value: V) -> V:
        """Redact the output of code, commands and tools, which may contain any value of the user's variables."""
        texts = _Texts(self, self._redacted)
        if self.withholds is not Extent.NOTHING:
            texts = _Texts(self, self.output_text, own=texts)
        return self._value(value, texts)

    def output_text(self, text: str) -> str:
        """Redact the text of an output, and withhold what may be a secret of a partly known source."""
        extent = self.withholds
        return withheld(text if extent is Extent.ALL else self._redacted(text), extent)

    def _value(self, value: V, texts: "_Texts") -> V:
        whole = value.model_dump()
        mapped = texts.mapped(whole)
        return value if mapped == whole else type(value).model_validate(mapped)

    def _redacted(self, text: str) -> str:
        if len(text) < 4:
            return text
        if len(text) > LONGEST_TEXT:
            text = _shortened(text, self)
        if _COLOR in text:
            return self._colored(text)
        spans = self._spans(text)
        return _replaced(text, spans, self.memory.caught) if spans else text

    def _spans(self, text: str) -> list[Span]:
        named: list[Span] = []
        for span in (*shaped(text), *assigned(text), *self.memory.own.spans(text)):
            if not self._allows(span.kind) and not (span.name and self._allows(span.name)):
                self._learn(text[span.start : span.end], span)
                named.append(span)
        for index in (self._known, self.memory.learned):
            if index.spellings:
                named += index.spans(text)
        for span in self.memory.bound.spans(text) if self.memory.bound.spellings else ():
            if not self._allows(span.name):
                named.append(span._replace(kind=kind_of(span.name)))
        return named

    def _colored(self, text: str) -> str:
        """Redact a text with ANSI color codes, which may separate a name from its value.

        They are skipped in matching.
        """
        places = [at for begin, end in _between(text) for at in range(begin, end)]
        bare = "".join(text[begin:end] for begin, end in _between(text))
        spans = [
            Span(places[span.start], places[span.end - 1] + 1, span.kind, span.name)
            for span in self._spans(bare)
            if span.start < span.end
        ]
        return _replaced(text, spans, self.memory.caught) if spans else text

    def _learn(self, value: str, span: Span) -> None:
        """Remember a value that a name in a text marked as secret, to recognize it without the name."""
        if span.kind == "private key":
            lines = [line.strip() for line in re.split(r"\\n|\n", value) if len(line.strip()) >= _LINE_OF_KEY]
            for line in lines[:_LINES_OF_KEY]:
                if "-----" not in line:
                    self.memory.learn(line, span.kind)
        elif _is_distinct(value):
            self.memory.learn(value, span.kind)

    def field(self, key: str, text: str, redact: Callable[[str], str]) -> str:
        """Redact the text of a field, or replace all of it if the field's name marks it as secret."""
        said = strength(key)
        if said is not Strength.NONE and fits(said, text) and not self._allows(key) and not PLACEHOLDER.search(text):
            kind = kind_of(key)
            self._learn(text, Span(0, len(text), kind, key))
            self.memory.caught[kind] += 1
            return placeholder(kind, len(text))
        return redact(text)


def _shortened(text: str, redactor: Redactor) -> str:
    """Cut out the middle of a text at line boundaries, without splitting known values."""
    half = LONGEST_TEXT // 2
    head = _cut(redactor, text[: half + _AT_CUT], half)
    begin = len(text) - half
    tail = _cut(redactor, text[begin - _AT_CUT : begin + _AT_CUT], _AT_CUT) + begin - _AT_CUT
    border = "" if text[:head].endswith("\n") else "\n"
    return f"{text[:head]}{border}[… {tail - head:,} characters left out …]\n{text[tail:]}"


def _cut(redactor: Redactor, text: str, place: int) -> int:
    border = text.rfind("\n", max(0, place - _AT_CUT), place) + 1 or _after_blank(text[:place])
    return redactor.before_known(text, border if border > place - _AT_CUT else place)


def _replaced(text: str, spans: list[Span], caught: Counter[str]) -> str:
    taken = [found.span() for found in PLACEHOLDER.finditer(text)] if "[redacted: " in text else []
    out: list[str] = []
    place = 0
    for span in _united(_outside(spans, taken, text)):
        out += [text[place : span.start], placeholder(span.kind, span.end - span.start)]
        place = span.end
        caught[span.kind] += 1
    return "".join([*out, text[place:]])


class _Texts:
    """Redacts the texts of a dumped message or event, taking field names into account."""

    def __init__(self, redactor: Redactor, redact: Callable[[str], str], own: "_Texts | None" = None) -> None:
        self._redactor = redactor
        self._redact = redact
        self._own = own or self  # used for fields next to an output

    def mapped(self, value: object, key: str = "", *, foreign: bool = False) -> object:
        """Redact a value. In `foreign` data, such as arguments, the names of fields are not the product's."""
        match value:
            case str():
                return self._field(key, value, foreign=foreign)
            case list():
                return [self.mapped(item, key, foreign=foreign) for item in cast("list[object]", value)]
            case tuple():
                return tuple([self.mapped(item, key, foreign=foreign) for item in cast("tuple[object, ...]", value)])
            case dict():
                table = cast("dict[object, object]", value)
                opaque = _NONE if foreign else _OF_ANSWER if table.get("role") == "assistant" else _OPAQUE
                has_fields = opaque is _OF_ANSWER or (table.get("type") == "tool_call" and not foreign)
                beside = table.get("beside") if has_fields else None
                mapped: dict[object, object] = {
                    name: item
                    if type(item) in _TEXTLESS or (type(item) is str and name in opaque)
                    else (self._own if name in _OWN else self)._field(str(name), item, foreign=foreign)
                    if type(item) is str
                    else (self._own if name in _OWN else self).mapped(
                        item, str(name), foreign=foreign or name in _FOREIGN
                    )
                    for name, item in table.items()
                    if beside is None or name != "beside"
                }
                if foreign:
                    mapped = {self._foreign_name(name): item for name, item in mapped.items()}
                if beside is not None:
                    mapped["beside"] = beside
                if beside:
                    from vibe_jupyter.permissions.server_fields import redact_fields  # noqa: PLC0415 - few have any

                    mapped["beside"] = redact_fields(beside, self._redact, self._redactor.may_know)
                is_told_of = table.get("type") == "reasoning" or "columns" in table
                return self._repaired(table, mapped) if is_told_of else mapped
            case _:
                return value

    def _field(self, key: str, text: str, *, foreign: bool = False) -> str:
        if key.startswith("image/") and text.startswith(_PICTURES):
            return text
        if key in _OPAQUE:
            return self._redact(text) if foreign and self._redactor.may_know(text) else text
        if key == "arguments" and text.lstrip()[:1] == "{":
            return self._json(text)
        if strength(key) is Strength.NONE:  # nearly all of them
            return self._redact(text)
        return self._redactor.field(key, text, self._redact)

    def _foreign_name(self, name: object) -> object:
        return self._redact(name) if isinstance(name, str) and self._redactor.may_know(name) else name

    def _json(self, text: str) -> str:
        """Redact the strings in JSON individually, so that it stays valid."""
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            return self._redact(text)
        mapped = self.mapped(parsed, foreign=True)
        return text if mapped == parsed else json.dumps(mapped, ensure_ascii=False)

    def _repaired(self, before: dict[object, object], after: dict[object, object]) -> dict[object, object]:
        """Fix dependent fields: drop the signature of changed reasoning, and redact table cells by column label."""
        if before.get("type") == "reasoning" and before.get("text") != after.get("text"):
            after["signature"] = None
        columns, rows = after.get("columns"), after.get("rows")
        if isinstance(columns, list) and isinstance(rows, list):  # a `Table`, dumped as JSON
            labels = [str(label) for label in cast("list[object]", columns)]
            after["rows"] = [self._row(labels, row) for row in cast("list[object]", rows)]
        return after

    def _row(self, labels: list[str], row: object) -> object:
        if not isinstance(row, list):
            return row
        cells = cast("list[object]", row)
        if len(cells) != len(labels):
            return cells
        named = str(cells[0]) if labels[0] == "column" else ""  # a table with one row for each column of a data frame
        return [
            self._field(named if named and at else label, cell) if isinstance(cell, str) else cell
            for at, (label, cell) in enumerate(zip(labels, cells, strict=True))
        ]


class _ByValue(Redactor):
    """Redacts known values only. Names and shapes are left to the session's redactor, which learns from them."""

    def _spans(self, text: str) -> list[Span]:
        return [span._replace(kind=kind_of(span.name)) for span in self.memory.bound.spans(text)]

    def field(self, key: str, text: str, redact: Callable[[str], str]) -> str:
        return redact(text)


def redacted_report(report: V, found: Mapping[str, str], partly: Mapping[str, Sequence[str]]) -> V:
    """Redact a report of a kernel copy, using secrets that the copy itself found, without remembering them.

    Args:
        report: arbitrary content, since code in the copy can forge it.
        found: value to the name that marks it as secret, as reported by the copy.
        partly: names whose values the copy could not all examine, with samples.
    """
    own = {value: name for value, name in islice(found.items(), FOUND_BY_COPY) if holds_secret(name, value)}
    redactor = _ByValue(found=lambda: own, partly=lambda: partly)
    redactor.look()
    if len(found) > FOUND_BY_COPY:
        redactor.memory.partly.note_texts()
    return redactor.output(report)


def _between(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans between ANSI color codes."""
    place = 0
    for found in _COLORS.finditer(text):
        yield place, found.start()
        place = found.end()
    yield place, len(text)


def _is_distinct(value: str) -> bool:
    """Return whether a value is distinctive enough not to occur by chance."""
    if not SHORTEST <= len(value) <= _LONGEST_LEARNED or "\n" in value:
        return False
    kinds = sum(any(map(test, value)) for test in (str.isdigit, str.isalpha)) + any(not c.isalnum() for c in value)
    return looks_random(value) or (kinds >= 2 and " " not in value and any(map(str.isdigit, value)))


def _outside(spans: Iterable[Span], taken: list[tuple[int, int]], text: str) -> Iterator[Span]:
    """Yield the spans without the parts that placeholders cover."""
    for span in spans:
        inside = [(start, end) for start, end in taken if start < span.end and end > span.start]
        if not inside or span.kind == UNCHECKED:
            yield span
            continue
        place = span.start
        for start, end in [*inside, (span.end, span.end)]:
            if start - place >= SHORTEST and looks_random(text[place:start].strip()):
                yield Span(place, start, span.kind, span.name)
            place = max(place, end)


def _united(spans: Iterable[Span]) -> Iterator[Span]:
    """Merge overlapping spans, in order, with the kind of the longest."""
    current: Span | None = None
    longest = 0
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if current is not None and span.start < current.end:
            longer = span.end - span.start > longest
            longest = max(longest, span.end - span.start)
            kind = span.kind if longer else current.kind
            current = Span(current.start, max(current.end, span.end), kind, current.name)
            continue
        if current is not None:
            yield current
        current, longest = span, span.end - span.start
    if current is not None:
        yield current


def may_hold_secret(text: str) -> bool:
    """Return whether the rules of `Redactor` may match in a text, apart from known values.

    Cheap, with few false positives.
    """
    lower = text.lower()
    if _ANY_WORD.search(lower) is not None and (_RULE_WORD.search(lower) is not None or _PART.search(text) is not None):
        return True
    return _TOKEN.search(text) is not None


class RedactedStream:
    """Redacts one stream of text. Not thread-safe.

    Doesn't scan the user's variables. Call `Redactor.look` before a chunk if they may have changed.
    """

    def __init__(self, redactor: Redactor, *, of_output: bool = False) -> None:
        """Create a stream.

        Args:
            redactor: redacts the text.
            of_output: whether the text is output of code or a tool, which may contain any value of the user's
                variables.
        """
        self._redactor = redactor
        self._of_output = of_output
        self._held = ""
        self._early = 0  # leading characters of the held text that were already emitted
        self._hidden = 0  # characters of the current line that are left out

    def feed(self, piece: str) -> str:
        """Add a chunk and return the text that can be emitted now, possibly ""."""
        if self._hidden:
            rest, line_end, piece = piece.partition("\n")
            self._hidden += len(rest)
            return self._hidden_line() + self.feed(line_end + piece) if line_end else ""
        self._held = held = self._held + piece
        withholds = self._of_output and self._redactor.withholds is not Extent.NOTHING
        if not withholds and not may_hold_secret(held) and not self._redactor.may_know(held):
            return self._pass_on(held)
        cut = self._safe()
        shown = self._take(cut) if cut else ""
        if len(self._held) > _HELD_BY_RULES and self._undecided() > _HELD_BY_RULES:
            self._hidden, self._held, self._early = len(self._held) - self._early, "", 0
        return shown + ("" if withholds else self._plain_word())

    def end(self) -> str:
        """End the stream and return the remaining text."""
        return self._hidden_line() if self._hidden else self._take(len(self._held)) if self._held else ""

    def _hidden_line(self) -> str:
        hidden, self._hidden = self._hidden, 0
        self._redactor.memory.caught[UNCHECKED] += 1
        return placeholder(UNCHECKED, hidden)

    def _pass_on(self, held: str) -> str:
        """Emit a text without secrets, but buffer its last word, which may begin a secret or the name of one."""
        cut = _after_blank(held)
        self._held, early = held[cut:], self._early
        end = len(held) if _PLAIN.fullmatch(self._held) is not None else max(cut, early)
        self._early = end - cut
        return held[early:end]

    def _take(self, cut: int) -> str:
        """Redact the buffered text up to `cut` and return what hasn't been emitted yet."""
        ready, self._held = self._held[:cut], self._held[cut:]
        shown, self._early = ready[: self._early], max(0, self._early - cut)
        if self._of_output and self._redactor.withholds is Extent.ALL:
            return ""
        text = self._redactor.output_text(ready) if self._of_output else self._redactor(ready, look=False)
        return text[len(commonprefix([shown, text])) :]  # noqa: RUF071 - compares characters, as intended

    def _plain_word(self) -> str:
        """Emit the last word early if it is plain, so that it is visible while the model pauses after it.

        It stays in the buffer, to be examined together with the text that follows.
        """
        word = self._held
        if len(word) <= self._early or _PLAIN.fullmatch(word) is None:
            return ""
        if self._redactor.may_know(word):
            return ""
        shown, self._early = self._early, len(word)
        return word[shown:]

    def _undecided(self) -> int:
        """Return how many characters at the end of the held text the user's rules look at again when it continues."""
        return len(self._held) - self._redactor.memory.own.before(self._held, len(self._held))

    def _safe(self) -> int:
        """Return the position before which every secret that began has also ended."""
        held = self._held
        if len(held) > HELD_LIMIT:
            return len(held) - self._undecided()
        if self._undecided() == len(held):  # cheaper than the patterns below
            return 0
        block = held.rfind("-----BEGIN")
        if block >= 0 and (begun := _BEGUN.match(held, block)) and _ENDED.search(held, begun.end()) is None:
            opened = _OPEN.search(held, held.rfind("\n", 0, block) + 1, block)
            return block if opened is None else opened.start()
        line = held.rfind("\n") + 1
        blank = _after_blank(held)
        if line < len(held) and _HINT.search(held, line):
            for pattern in (_TO_LINE_END, _OPEN):
                opened = pattern.search(held, line)
                if opened is not None:
                    blank = min(blank, opened.start())
        return self._redactor.before_known(held, blank)


def _after_blank(text: str) -> int:
    """Return the start of the last word."""
    return max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), text.rfind("\r")) + 1
