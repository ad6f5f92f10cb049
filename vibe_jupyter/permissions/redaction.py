"""The redactor: secrets by value, by name and by shape, in texts, in values and in streams of text.

A secret is known by its value (environment, `.env`, variables), by its name (`secret_assignments`) or by its shape
(`secret_shapes`). It is redacted wherever it stands, also in what approved code printed: the model never needs it.

What runs is never redacted, nor what a card shows: the user must read exactly what they approve. Redacted is what is
sent, kept, or shown for longer than a card.

Nearly all pieces of an answer are plain words. Two linear searches say so, and the rules are tried on the rest alone.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os.path import commonprefix
from typing import Final, TypeVar, cast

from pydantic import BaseModel

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.known_secrets import SHORTEST, KnownSecrets
from vibe_jupyter.permissions.secret_assignments import HINTS, assigned
from vibe_jupyter.permissions.secret_shapes import (
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

V = TypeVar("V", bound=BaseModel)
E = TypeVar("E")
Found = Callable[[], Mapping[str, str]]
"""Looks for secrets in the user's variables: value to the name that calls it secret. Callable from any thread."""
Partly = Callable[[], Mapping[str, Sequence[str]]]
"""Names of variables whose values could not all be looked at, with some of those values. Callable from any thread."""
Allows = Callable[[str], bool]
"""Whether the settings make an exception for a name or a kind."""

PLACEHOLDER: Final = lazy_pattern(r"\[redacted: [^\[\]\n]{1,120}\]")
"""What stands for a secret."""
_COLOR: Final = "\x1b["
_COLORS: Final = lazy_pattern(r"\x1b\[[\d;]{0,20}+m")
_LONGEST_LEARNED: Final = 500
"""Characters."""
LONGEST_TEXT: Final = 1_000_000
"""Characters of one text that are redacted. A longer one is cut in the middle before: to look for secrets in it takes
longer than to print it did."""
FOUND_BY_COPY: Final = 20_000
"""Values that a copy of the kernel may say it found."""
_AT_CUT: Final = 4_000
"""Characters in which the border of a line is looked for, so that a cut parts no secret and no name from its value."""
_PICTURES: Final = ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR")
"""How PNG, JPEG, GIF and WebP begin in base64."""
_LINE_OF_KEY: Final = 32
"""Characters from which a line of a key block is known by itself."""
_LINES_OF_KEY: Final = 100
_OPAQUE: Final = frozenset(
    {"data", "signature", "digest", "made_from", "type", "role", "media_type", "output_type"}
    | {"id", "call_id", "approval_id", "question_id", "file_id", "run_id"}
)
"""Fields that hold no text: ids, hashes, pictures."""
_OWN: Final = frozenset({"name", "headline", "outcome", "status", "kind", "host", "text/x-python", "code"})
"""Fields beside an output that the product or the model wrote."""
_TEXTLESS: Final = frozenset({bool, int, float, type(None)})
"""Types of values in which no text is."""

HELD_LIMIT: Final = 8_000
"""Characters held back at most; what is longer is redacted as far as it came."""

_WORDS: Final = "|".join(sorted({*HINTS, "basic", "login", "machine", "curl", "mysql"}))
_HINT: Final = lazy_pattern(f"(?i){_WORDS}")
_OPEN: Final = lazy_pattern(
    rf"""(?i)(?<![\w.-])(?:-{{0,2}}[\w.-]{{0,64}}(?:{_WORDS})[\w.-]{{0,40}}["'\])\\]{{0,6}}[ \t]{{0,16}}"""
    r"""(?:(?:=>|[:=,!]{1,3})[ \t]{0,16}(?:[A-Za-z]\w{0,30}[ \t]{1,4})?"""
    r"""(?:["'\\]{1,4}[^"'\n]{0,4000}(?:["']\S{0,200})?|[^\s"']{0,4000}))?"""
    r"""|(?:bearer|basic|password|passwd|by|--[\w-]{2,40}"""
    r"""|(?:password|passphrase|token|key|secret)[ \t]{1,4}(?:is|was))[ \t]{1,4}["']?[^\s"']{0,4000}["']?)\Z"""
)
"""A name and a value that may go on."""
_TO_LINE_END: Final = lazy_pattern(
    r"(?i)(?:cookie|authorization|curl|mysql\w*|redis-cli|sshpass|machine|login)\b[^\n]{0,4000}\Z"
)
_BEGUN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_ENDED: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_PLAIN: Final = lazy_pattern(r"[^\w\s]{0,200}(?:[^\W\d_]?[^\W\d_A-Z]{0,24}|\d{1,6}(?:[.,:]\d{1,6})?)[^\w\s]{0,4}")
"""A word or number as people write it, with its punctuation: a random secret does not end here, though it may begin."""
_SHORT_HINTS: Final = frozenset({"dsn", "hmac", "otp", "pat", "psk", "pw", "salt", "sas", "sid", "sig"})
"""Of the hints, those that name a secret only as a part of their own: `user_sid`, and not `inside`."""
_RULE_WORDS: Final = (
    *(word for word in HINTS if word not in _SHORT_HINTS),
    *("basic", "curl", "http", "machine", "mysql", "redis", "slack.com", "fernet", "://", ":*:", "$y$", "\x1b"),
)
"""In small letters, what rules look for: names, commands, and the beginnings of values that are all small letters."""
_ANY_WORD: Final = lazy_pattern(any_of((*_RULE_WORDS, *_SHORT_HINTS)))
_RULE_WORD: Final = lazy_pattern(any_of(_RULE_WORDS))
_PART: Final = lazy_pattern(
    "|".join(f"(?:(?<![a-z]){hint[0]}|{hint[0].upper()})(?i:{hint[1:]})(?![a-z])" for hint in sorted(_SHORT_HINTS))
)
_TOKEN: Final = lazy_pattern(r"(?<!\S)(?![^\w\s]{0,8}[A-Z]?[a-z]+[^\w\s]{0,8}(?!\S))(?=\S{11})\S*?[^\W_a-zß-öø-ÿ]")
"""As long as the shortest secret that its shape gives away, with a digit or capital, and no word as people write it."""


def placeholder(kind: str, length: int) -> str:
    """What stands in the place of a secret; nothing in it needs an escape in JSON."""
    kind = re.sub(r"[^\w .@/-]", "", kind)[:60] or "secret"
    return f"[redacted: {kind}, {length:,} character{'s' * (length != 1)}]"


def _nothing(_name: str) -> bool:
    return False


class Redactor:
    """Replaces secrets in texts and events. Callable from any thread."""

    def __init__(
        self,
        known: Mapping[str, str] | None = None,
        *,
        found: Found = dict,
        partly: Partly = dict,
        allows: Allows = _nothing,
        memory: Memory | None = None,
    ) -> None:
        """One that knows some values already.

        Args:
            known: value to the name of the variable that holds it.
            found: looks for more of them in the user's variables.
            partly: names of variables whose values could not all be looked at, with some of those values.
            allows: whether the settings make an exception for a name or a kind.
            memory: of the redactor before; None for a new one.
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
        """One that knows the secrets of an environment.

        Args:
            environ: variables and their values.
            key_variables: those that hold keys whatever they are called.
            found: looks for more of them in the user's variables.
            partly: names of variables whose values could not all be looked at, with some of those values.
            allows: whether the settings make an exception for a name or a kind.
            memory: of the redactor before; None for a new one.
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
        """The values known from the start, as they may be spelled, and what they are called."""
        return self._known.names()

    def __call__(self, text: str, *, look: bool = True) -> str:
        """The text without secrets.

        Args:
            text: of any length.
            look: whether to look for new secrets in the user's variables before; that takes milliseconds.
        """
        if look:
            self.look()
        return self._redacted(text)

    def look(self) -> None:
        """Look for new secrets in the user's variables; takes milliseconds."""
        self.memory.mirror(self._found())
        self.memory.partly.note(self._partly())

    @property
    def withholds(self) -> Extent:
        """How much of an output is withheld since not all secrets that may stand in it are known."""
        return self.memory.partly.extent(self._allows)

    def news(self) -> list[str]:
        """Return what the user has not been told yet of sources that are partly known."""
        return self.memory.partly.news(self._allows)

    def may_know(self, text: str) -> bool:
        """Whether a known value stands in a text, or begins in it and may go on after it."""
        return any(one.may_stand_in(text) for one in self._indexes())

    def _indexes(self) -> tuple[KnownSecrets, ...]:
        return (self._known, self.memory.bound, self.memory.learned)

    def before_known(self, text: str, cut: int) -> int:
        """The last place up to `cut` at which a text can be cut without parting a known value."""
        while (place := min(one.before(text, cut) for one in self._indexes())) < cut:
            cut = place
        return cut

    def event(self, event: E) -> E:
        """The same for an event that may be a mere delta, which is redacted where it is streamed."""
        if isinstance(event, ToolFinished | ToolProgress):
            return cast("E", self.output(event))
        if isinstance(event, MessageAdded) and isinstance(event.message, ToolMessage):
            return cast("E", self.output(event))
        return cast("E", self.value(event)) if isinstance(event, BaseModel) else event

    def value(self, value: V) -> V:
        """The same for every text of a message or an event; the very value where there is nothing to redact.

        The user's variables are not looked through for it: whoever ran code or read variables calls `look` before.
        """
        return self._value(value, _Texts(self, self._redacted))

    def output(self, value: V) -> V:
        """The same for what code, commands and tools put out, in which any value of the user's may stand."""
        texts = _Texts(self, self._redacted)
        if self.withholds is not Extent.NOTHING:
            texts = _Texts(self, self.output_text, own=texts)
        return self._value(value, texts)

    def output_text(self, text: str) -> str:
        """The text of an output without secrets, and without all that may be one of a source that is partly known."""
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
        for span in (*shaped(text), *assigned(text)):
            if not self._allows(span.kind) and not (span.name and self._allows(span.name)):
                self._learn(text[span.start : span.end], span)
                named.append(span)
        named += [*self._known.spans(text), *self.memory.learned.spans(text)]
        for span in self.memory.bound.spans(text):
            if not self._allows(span.name):
                named.append(span._replace(kind=kind_of(span.name)))
        return named

    def _colored(self, text: str) -> str:
        """The same where codes of colours stand between a name and its value: they are looked through."""
        places = [at for begin, end in _between(text) for at in range(begin, end)]
        bare = "".join(text[begin:end] for begin, end in _between(text))
        spans = [
            Span(places[span.start], places[span.end - 1] + 1, span.kind, span.name)
            for span in self._spans(bare)
            if span.start < span.end
        ]
        return _replaced(text, spans, self.memory.caught) if spans else text

    def _learn(self, value: str, span: Span) -> None:
        """Remember what a text named, so that it is known where nothing names it."""
        if span.kind == "private key":
            lines = [line.strip() for line in re.split(r"\\n|\n", value) if len(line.strip()) >= _LINE_OF_KEY]
            for line in lines[:_LINES_OF_KEY]:
                if "-----" not in line:
                    self.memory.learn(line, span.kind)
        elif _is_distinct(value):
            self.memory.learn(value, span.kind)

    def field(self, key: str, text: str, redact: Callable[[str], str]) -> str:
        """The text of a field without secrets: all of it is one where its name says so."""
        said = strength(key)
        if said is not Strength.NONE and fits(said, text) and not self._allows(key) and not PLACEHOLDER.search(text):
            kind = kind_of(key)
            self._learn(text, Span(0, len(text), kind, key))
            self.memory.caught[kind] += 1
            return placeholder(kind, len(text))
        return redact(text)


def _shortened(text: str, redactor: Redactor) -> str:
    """The beginning and the end of a text, cut at the borders of lines and never within a known value."""
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
    """Redacts the texts of a dumped message or event, each by the name of its field."""

    def __init__(self, redactor: Redactor, redact: Callable[[str], str], own: "_Texts | None" = None) -> None:
        self._redactor = redactor
        self._redact = redact
        self._own = own or self
        """For the fields beside an output."""

    def mapped(self, value: object, key: str = "") -> object:
        match value:
            case str():
                return value if key in _OPAQUE else self._field(key, value)
            case list():
                return [self.mapped(item, key) for item in cast("list[object]", value)]
            case tuple():
                return tuple([self.mapped(item, key) for item in cast("tuple[object, ...]", value)])
            case dict():
                table = cast("dict[object, object]", value)
                mapped = {
                    name: item
                    if type(item) in _TEXTLESS or (type(item) is str and name in _OPAQUE)
                    else (self._own if name in _OWN else self).mapped(item, str(name))
                    for name, item in table.items()
                }
                is_told_of = table.get("type") == "reasoning" or "columns" in table
                return self._repaired(table, mapped) if is_told_of else mapped
            case _:
                return value

    def _field(self, key: str, text: str) -> str:
        if key in _OPAQUE or (key.startswith("image/") and text.startswith(_PICTURES)):
            return text
        if key == "arguments" and text.lstrip()[:1] == "{":
            return self._json(text)
        return self._redactor.field(key, text, self._redact)

    def _json(self, text: str) -> str:
        """JSON stays JSON: its texts are redacted one by one."""
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            return self._redact(text)
        mapped = self.mapped(parsed)
        return text if mapped == parsed else json.dumps(mapped, ensure_ascii=False)

    def _repaired(self, before: dict[object, object], after: dict[object, object]) -> dict[object, object]:
        """What one field says of another: a seal holds for its text alone, a label for its column."""
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
        named = str(cells[0]) if labels[0] == "column" else ""  # a row for each column of a frame
        return [
            self._field(named if named and at else label, cell) if isinstance(cell, str) else cell
            for at, (label, cell) in enumerate(zip(labels, cells, strict=True))
        ]


class _ByValue(Redactor):
    """Knows values alone: what names and shapes tell is left to the redactor of the session, which learns from it."""

    def _spans(self, text: str) -> list[Span]:
        return [span._replace(kind=kind_of(span.name)) for span in self.memory.bound.spans(text)]

    def field(self, key: str, text: str, redact: Callable[[str], str]) -> str:
        return redact(text)


def redacted_report(report: V, found: Mapping[str, str], partly: Mapping[str, Sequence[str]]) -> V:
    """Return the report of a copy without the secrets that it found itself, which nobody remembers.

    Args:
        report: may hold anything, since code in the copy can forge it.
        found: value to the name that calls it secret, as the copy says.
        partly: names of which the copy could not look at all values, with some of those values.
    """
    own = {value: name for value, name in islice(found.items(), FOUND_BY_COPY) if holds_secret(name, value)}
    redactor = _ByValue(found=lambda: own, partly=lambda: partly)
    redactor.look()
    if len(found) > FOUND_BY_COPY:
        redactor.memory.partly.note_texts()
    return redactor.output(report)


def secrets_in(name: str, value: str) -> Iterator[str]:
    """The secrets in a variable of this name: its value, or a password in it."""
    said = strength(name)
    if "://" in value:
        spans = [span for span in shaped(value) if span.kind in ("URL password", "key in a URL")]
        yield from (value[span.start : span.end] for span in spans if span.end - span.start >= SHORTEST)
        if not spans or said is Strength.NONE:
            return
    if len(value) >= SHORTEST and said is not Strength.NONE and fits(max(said, Strength.STRONG), value):
        yield value


def _between(text: str) -> Iterator[tuple[int, int]]:
    """What stands between the codes of colours."""
    place = 0
    for found in _COLORS.finditer(text):
        yield place, found.start()
        place = found.end()
    yield place, len(text)


def _is_distinct(value: str) -> bool:
    """Whether nothing else reads so by chance."""
    if not SHORTEST <= len(value) <= _LONGEST_LEARNED or "\n" in value:
        return False
    kinds = sum(any(map(test, value)) for test in (str.isdigit, str.isalpha)) + any(not c.isalnum() for c in value)
    return looks_random(value) or (kinds >= 2 and " " not in value and any(map(str.isdigit, value)))


def _outside(spans: Iterable[Span], taken: list[tuple[int, int]], text: str) -> Iterator[Span]:
    """The spans, but for what stands in the place of a secret already."""
    for span in spans:
        inside = [(start, end) for start, end in taken if start < span.end and end > span.start]
        if not inside:
            yield span
            continue
        place = span.start
        for start, end in [*inside, (span.end, span.end)]:
            if start - place >= SHORTEST and looks_random(text[place:start].strip()):
                yield Span(place, start, span.kind, span.name)
            place = max(place, end)


def _united(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans in order, those that overlap as one, called as the longest of them."""
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
    """Whether the rules of `Redactor` can find anything in a text, but for values it knows. Cheap, and seldom wrong."""
    lower = text.lower()
    if _ANY_WORD.search(lower) is not None and (_RULE_WORD.search(lower) is not None or _PART.search(text) is not None):
        return True
    return _TOKEN.search(text) is not None


class RedactedStream:
    """One stream of text. Not for several threads at a time.

    The user's variables are not looked through for it: call `Redactor.look` before a piece where they may have changed.
    """

    def __init__(self, redactor: Redactor, *, of_output: bool = False) -> None:
        """
        Args:
            redactor: knows the secrets.
            of_output: whether code or a tool puts the text out, in which any value of the user's may stand.
        """
        self._redactor = redactor
        self._of_output = of_output
        self._held = ""
        self._early = 0
        """Characters at the beginning of what is held that were shown already."""

    def feed(self, piece: str) -> str:
        """What may be shown once this piece has come; may be empty."""
        self._held = held = self._held + piece
        withholds = self._of_output and self._redactor.withholds is not Extent.NOTHING
        if not withholds and not may_hold_secret(held) and not self._redactor.may_know(held):
            return self._pass_on(held)
        cut = self._safe()
        return (self._take(cut) if cut else "") + ("" if withholds else self._plain_word())

    def end(self) -> str:
        """The rest: nothing more comes."""
        return self._take(len(self._held)) if self._held else ""

    def _pass_on(self, held: str) -> str:
        """All of a text without secrets but for its last word, which may be the beginning of one or of its name."""
        cut = _after_blank(held)
        self._held, early = held[cut:], self._early
        end = len(held) if _PLAIN.fullmatch(self._held) is not None else max(cut, early)
        self._early = end - cut
        return held[early:end]

    def _take(self, cut: int) -> str:
        """Redact what is held up to there, less what was shown of it already."""
        ready, self._held = self._held[:cut], self._held[cut:]
        shown, self._early = ready[: self._early], max(0, self._early - cut)
        if self._of_output and self._redactor.withholds is Extent.ALL:
            return ""
        text = self._redactor.output_text(ready) if self._of_output else self._redactor(ready, look=False)
        return text[len(commonprefix([shown, text])) :]  # noqa: RUF071 - of characters, as it is wanted here

    def _plain_word(self) -> str:
        """The last word, if it is a plain one: a model that pauses after it must not leave it unseen.

        It stays held, so that what follows is still judged together with it.
        """
        word = self._held
        if len(word) <= self._early or _PLAIN.fullmatch(word) is None:
            return ""
        if self._redactor.may_know(word):
            return ""
        shown, self._early = self._early, len(word)
        return word[shown:]

    def _safe(self) -> int:
        """Up to where no secret can have begun that has not ended."""
        held = self._held
        if len(held) > HELD_LIMIT:
            return len(held)
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
    """Where the last word begins."""
    return max(text.rfind(" "), text.rfind("\n"), text.rfind("\t"), text.rfind("\r")) + 1
