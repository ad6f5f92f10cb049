"""Recognize secrets by their shape, and names that mark a value as secret.

strength("DB_PASSWORD")              # Strength.PASSWORD
holds_secret("token_count", "1000")  # False: the name describes a count
holds_secret("token", "the")         # False: a token is never a plain word

The forms and the parts of names are data, in `secret_rules.toml`; here is what a pattern can't say.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.protocol import LazyModel
from vibe_jupyter.protocol.messages import Value

RULES_FILE: Final = Path(__file__).with_name("secret_rules.toml")
compiled: Final = cache(re.compile)
MOST_RULES: Final = 200  # of the user's own
_LONGEST_REGEX: Final = 1_000  # characters of one of these
_SHORTEST_KEYWORD: Final = 3  # characters
NAME_LIMIT: Final = 64  # characters of a name; longer ones were not chosen by a person
SHORTEST_PASSWORD: Final = 4  # characters of a value that counts as a password
SHORTEST: Final = 8  # characters of a value that counts as any other secret
_SHORTEST_RANDOM: Final = 12  # minimum number of characters for letters and digits to look random
_MANY_LETTERS: Final = 18  # minimum number of letters for mixed case to look random
_PART: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PLACEHOLDER: Final = lazy_pattern(
    r"""\*{3,}|\.{3,}|x{3,}|X{3,}|<[^<>]*>|\$\{[^{}]*\}|\$\w+|%\(?\w+\)?s?|\{+[^{}]*\}+|your[-_ ].*|\[redacted.*"""
    r"""|(?i:none|null|nil|true|false|str|string|bytes|int|any|object|required|optional|text|hidden|values?|prompt|password|
    passwd|pwd|secret|token|changeme|undefined|default|example|masked|redacted|SecretStr)""",
    re.DOTALL | re.VERBOSE,
)
# A plain word or words, a number, a path or a URL, as in SECRET_NAME or SSL_KEY_FILE.
_HARMLESS: Final = lazy_pattern(
    r"[A-Za-z]?[a-z]+|[A-Z]+|[\d.,:+-]+|[~.]{0,2}/.*|\\.*|[A-Za-z]:\\.*|[a-z][a-z\d+.-]{1,20}://[^@]*"
    r"|[a-z]+(?:[_.-][a-z]+)+|(?:[\w=.-]{1,80}/)+[\w=.-]{1,80}\.[a-z][a-z\d]{0,7}",
    re.DOTALL,
)
# Upper case, lower case and two separate digits in one component of a path.
_RANDOM_PART: Final = lazy_pattern(
    r"(?=[A-Za-z+\d]{0,60}[a-z])(?=[A-Za-z+\d]{0,60}[A-Z])(?=[A-Za-z+\d]{0,60}\d[A-Za-z+]{1,60}\d)[A-Za-z+\d]{16}"
)
# ``customer_id_2024``, ``train/epoch_10/loss``, ``cc-by-sa-4.0``, a date.
_IDENTIFIER: Final = lazy_pattern(
    r"(?:[A-Za-z]+(?:[_.:-][A-Za-z]+)*[_.:-]?\d{0,4}/)*[A-Za-z]+(?:[_.:-][A-Za-z]+)*[_.:-]?\d{0,4}(?:\.\d{1,3}){0,3}"
    r"|\d{4}-\d\d-\d\d.*"
)
_TOKEN_LIKE: Final = lazy_pattern(r"[\w.~+/=:%!@#$^&*-]+")
_LONG_USER: Final = 16  # characters of a user name in a URL that may be a key, as in a DSN
_LONGEST_BLOCK: Final = 20_000  # characters of a block of key material
_INSIDE_A_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/")
_BEGIN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_MATERIAL: Final = lazy_pattern(r"[A-Za-z0-9+/=\s\\,:.-]*+")
# A password never contains ``://``, so each part of a text is searched for one URL only.
_AUTHORITY: Final = lazy_pattern(
    r"""://(?P<user>[^\s:/?#@'"<>\[\]{}|\\]{0,300}+)(?::(?P<word>(?:[^\s'"<>\[\]`|:]|:(?!//)){1,300}))?@"""
)
_PORT: Final = lazy_pattern(r"\d{1,5}(?:[/?#].*)?", re.DOTALL)


class Rule(Value):
    """A regular expression that is tried on texts with one of its keywords, and compiled for the first of them."""

    id: str
    regex: str
    keywords: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled regular expression."""
        return compiled(self.regex)


class ShapeRule(Rule):
    """A secret that is recognized by its form."""

    description: str
    secretGroup: int = 0
    check: Literal["value", "key", "jwt", "bearer", "basic"] = "value"


class AssignmentRule(Rule):
    """A name and its value without a sign between them."""

    bare: bool = False  # whether the value may stand without quotes


class Names(Value):
    """Parts of names that mark a value as secret, or as something else."""

    password: frozenset[str]
    password_last: frozenset[str]
    filters: frozenset[str]
    strong: frozenset[str]
    weak: frozenset[str]
    says_what_it_is: frozenset[str]
    asks: frozenset[str]
    keys_of_data: frozenset[str]
    places: frozenset[str]
    password_inside: tuple[str, ...]
    strong_inside: tuple[str, ...]


class SecretRules(Value):
    """The contents of `secret_rules.toml`."""

    names: Names
    kinds: dict[str, str]  # kind by letters of a name
    rules: tuple[ShapeRule, ...]
    assignments: tuple[AssignmentRule, ...]

    @cached_property
    def by_keyword(self) -> tuple[tuple[str, ShapeRule], ...]:
        """Pairs of keyword and rule, for rules with keywords that stand in a text as they are written."""
        return tuple((word, rule) for rule in self.rules for word in rule.keywords if not _folds(rule))

    @cached_property
    def by_folded_keyword(self) -> tuple[tuple[str, ShapeRule], ...]:
        """The same for rules that ignore case, with keywords in lower case."""
        return tuple((word, rule) for rule in self.rules for word in rule.keywords if _folds(rule))


def _folds(rule: Rule) -> bool:
    return rule.regex.startswith("(?i)")


@cache
def secret_rules(path: Path = RULES_FILE) -> SecretRules:
    """Load the rules.

    Raises:
        ConfigError: The file can't be read or is invalid; the message names file, rule and key.
    """
    import tomllib  # noqa: PLC0415 - not needed before the first text

    written: dict[str, Any] = {}
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
        return SecretRules.model_validate(written)
    except (OSError, ValueError) as error:
        said = ": ".join(_problem(error, written)) if isinstance(error, ValidationError) else str(error)
        raise ConfigError(f"{path}: {said}. Correct the file or reinstall vibe-jupyter, then try again.") from None


def _problem(error: ValidationError, written: dict[str, Any]) -> Iterator[str]:
    """Yield the rule, the key and the message of the first problem."""
    problem = error.errors(include_url=False)[0]
    match problem["loc"]:
        case (str() as table, int() as number, *rest):
            entry: Any = written[table][number]
            yield f"rule {entry.get('id', 'without an id') if isinstance(entry, dict) else number}"  # pyright: ignore[reportUnknownMemberType]
        case rest:
            pass
    yield from filter(None, [".".join(map(str, rest)), problem["msg"]])


class Strength(IntEnum):
    """Strength of the evidence that a name marks a secret."""

    NONE = 0
    WEAK = 1  # may be a secret: values that look random count
    STRONG = 2  # a key or credential: everything but words, paths and URLs counts
    PASSWORD = 3  # chosen by people: any value counts


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength:
    """Return how strongly a name suggests that its value is secret."""
    words = secret_rules().names
    if len(name) > NAME_LIMIT or name in words.places:
        return Strength.NONE
    parts = [part.lower() for part in _PART.findall(name)]
    if not parts or parts[-1] in words.says_what_it_is or parts[0] in words.asks:
        return Strength.NONE
    flat, last, before = "".join(parts), parts[-1], parts[-2] if len(parts) > 1 else ""
    is_key = last in ("key", "keys")
    if (last == "pass" and before in words.filters) or (is_key and before in words.keys_of_data):
        return Strength.NONE
    if words.password.intersection(parts) or last in words.password_last:
        return Strength.PASSWORD
    if any(map(flat.__contains__, words.password_inside)):
        return Strength.PASSWORD
    if words.strong.intersection(parts) or any(map(flat.__contains__, words.strong_inside)):
        return Strength.STRONG
    if words.weak.intersection(parts) or is_key or flat.endswith(("token", "cookie")):
        return Strength.WEAK
    return Strength.NONE


@lru_cache(maxsize=8192)
def is_secret_name(name: str) -> bool:
    """Return whether a variable, setting or header of this name may contain a secret."""
    return strength(name) is not Strength.NONE


def holds_secret(name: str, value: str) -> bool:
    """Return whether a value is a secret, given its name."""
    return fits(strength(name), value)


def fits(said: Strength, value: str) -> bool:
    """Return whether a value is a secret, given the strength of its name."""
    value = value.strip()
    if said is Strength.NONE or _PLACEHOLDER.fullmatch(value):
        return False
    if said is Strength.PASSWORD:
        return len(value) >= SHORTEST_PASSWORD
    if len(value) < SHORTEST or _is_harmless(value):
        return False
    return said is Strength.STRONG or looks_random(value)


def _is_harmless(value: str) -> bool:
    """Return whether a value is words, a number, a path or a URL. One in 64 random base64 keys begins with a slash."""
    return _HARMLESS.fullmatch(value) is not None and not (value[0] == "/" and _RANDOM_PART.search(value))


def is_placeholder(value: str) -> bool:
    """Return whether a value stands for another, such as ``${TOKEN}``, ``<key>`` or ``***``."""
    return _PLACEHOLDER.fullmatch(value) is not None


def looks_random(value: str) -> bool:
    """Return whether a value looks generated: letters mixed with digits, and no words."""
    if len(value) < _SHORTEST_RANDOM or not _TOKEN_LIKE.fullmatch(value) or _is_harmless(value):
        return False
    letters = sum(map(str.isalpha, value))
    if not _IDENTIFIER.fullmatch(value) and letters and any(map(str.isdigit, value)):
        return True
    capitals = sum(map(str.isupper, value))
    return letters >= _MANY_LETTERS and letters // 4 < capitals < letters and value.isalnum()


def kind_of(name: str) -> str:
    """Return the kind of a secret with this name, for its placeholder."""
    if strength(name) is Strength.PASSWORD:
        return "password"
    flat = "".join(_PART.findall(name)).lower()
    return next((kind for word, kind in secret_rules().kinds.items() if word in flat), "secret")


UNCHECKED: Final = "not checked in time by your own rules"  # kind of a text that may or may not hold secrets


class Span(NamedTuple):
    """A secret in a text."""

    start: int
    end: int
    kind: str  # kind, such as ``API key``
    name: str = ""  # the name that marks it, or ""


def any_of(words: Iterable[str]) -> str:
    """Build a pattern for any of these words. Grouping by first letter leaves few alternatives at each position."""
    groups = groupby(sorted(set(words)), key=lambda word: word[0])
    return "|".join(f"{re.escape(first)}(?:{'|'.join(re.escape(word[1:]) for word in all_)})" for first, all_ in groups)


def shaped(text: str) -> Iterator[Span]:
    """Yield secrets in a text that are recognized by their shape, in any order. They may overlap."""
    rules = secret_rules()
    for keyword, rule in rules.by_keyword:
        if keyword in text:
            yield from _of_rule(rule, keyword, text)
    if "://" in text:
        yield from _addresses(text)
    if "PRIVATE KEY" in text:
        yield from _blocks(text)
    lower = text.lower()
    for keyword, rule in rules.by_folded_keyword:
        if keyword in lower:
            yield from _of_rule(rule, keyword, text)


def _of_rule(rule: ShapeRule, keyword: str, text: str) -> Iterator[Span]:
    group, check = rule.secretGroup, _CHECKS[rule.check]
    matches = _begun_by(keyword, rule.pattern, text) if rule.check == "key" else rule.pattern.finditer(text)
    for found in matches:
        start, end = found.span(group)
        if (group or _is_edge(text, start)) and check(text[start:end], keyword):
            yield Span(start, end, rule.description)


def _begun_by(keyword: str, pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches that begin with a keyword. Finding the keyword first is faster than a pattern of all."""
    place = text.find(keyword)
    while place >= 0:
        found = pattern.match(text, place)
        if found is not None:
            yield found
        place = text.find(keyword, place + 1 if found is None else found.end())


def _is_edge(text: str, start: int) -> bool:
    r"""Return whether a word begins here. In an escaped text it may follow the letter of ``\\n``."""
    if start == 0 or text[start - 1] not in _INSIDE_A_WORD:
        return True
    return text[start - 1] in "nrt" and start > 1 and text[start - 2] == "\\"


def _is_key(text: str, prefix: str) -> bool:
    """Return whether the text after a prefix is a key rather than further words of a name."""
    rest = text[len(prefix) :]
    return (
        any(map(str.isdigit, rest))
        or looks_random(rest)
        or (rest.isalpha() and not rest.islower() and not rest.isupper())
    )


def _addresses(text: str) -> Iterator[Span]:
    for found in _AUTHORITY.finditer(text):
        user, word = found["user"], found["word"]
        if word is not None and not _PORT.fullmatch(word) and not is_placeholder(word):
            yield Span(*found.span("word"), "URL password")
        elif word is not None and not is_placeholder(word):
            continue  # host and port: the @ comes later
        if len(user) >= _LONG_USER and looks_random(user):
            yield Span(*found.span("user"), "key in a URL")


def _blocks(text: str) -> Iterator[Span]:
    """Find key blocks, including those with a missing first or last line."""
    covered = 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < covered:
            continue
        end = _END.search(text, begin.end(), begin.end() + _LONGEST_BLOCK)
        if end is not None:
            covered = end.end()
        else:
            rest = _MATERIAL.match(text, begin.end(), begin.end() + _LONGEST_BLOCK)
            covered = rest.end() if rest is not None else begin.end()
        yield Span(begin.start(), covered, "private key")
    for end in _END.finditer(text):
        if end.start() >= covered or covered == 0:
            first = max(covered, end.start() - _LONGEST_BLOCK)
            start = end.start() - len(_tail_of(text[first : end.start()]))
            yield Span(start, end.end(), "private key")
            covered = end.end()


def _tail_of(text: str) -> str:
    """Return the base64 text at the end."""
    kept = len(text)
    while kept and (text[kept - 1].isalnum() or text[kept - 1] in "+/=\r\n\\ \t"):
        kept -= 1
    return text[kept:]


def _is_jwt(text: str) -> bool:
    head, _, rest = text.partition(".")
    if rest.startswith("eyJ"):
        return True
    try:
        decoded = base64.urlsafe_b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return False
    return b'"alg"' in decoded or b'"enc"' in decoded or (bool(rest) and b'"typ"' in decoded)


def _is_pair(text: str) -> bool:
    """Return whether a text decodes to user and password, as in a Basic header."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _check_keyword(word: str) -> str:
    if len(word) < _SHORTEST_KEYWORD or any(map(str.isspace, word)):
        raise ValueError(f"a keyword has {_SHORTEST_KEYWORD} characters or more, without blanks")
    return word


def _check_keywords(words: tuple[str, ...]) -> tuple[str, ...]:
    if not words:
        raise ValueError("write at least one keyword, a word near which the regex is tried")
    return words


def _check_regex(regex: str) -> str:
    from vibe_jupyter.permissions.regex_bounds import check_regex  # noqa: PLC0415 - few users have such rules

    return check_regex(regex)


def _check_exception(regex: str) -> str:
    from vibe_jupyter.permissions.regex_bounds import check_exception  # noqa: PLC0415 - few users have such rules

    return check_exception(regex)


_Exception = Annotated[str, Field(min_length=1, max_length=_LONGEST_REGEX), AfterValidator(_check_exception)]
_Keyword = Annotated[str, Field(max_length=60), AfterValidator(_check_keyword)]


class Allowlist(LazyModel):
    """Matches that aren't secrets."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    regexes: Annotated[tuple[_Exception, ...], Field(max_length=20)] = ()
    """Found anywhere in the secret."""
    stopwords: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Contained in it, in upper or lower case."""


class OwnRule(LazyModel):
    """A rule of the user's. The fields are those of gitleaks' lists."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1, max_length=60)
    regex: Annotated[str, Field(max_length=_LONGEST_REGEX), AfterValidator(_check_regex)]
    """In Python's syntax. Begins in a word that contains a keyword, and ends on the same line."""
    keywords: Annotated[tuple[_Keyword, ...], AfterValidator(_check_keywords)]
    """In upper or lower case."""
    description: str = "secret"
    """Shown in place of the secret."""
    secretGroup: int = Field(default=0, ge=0)
    """Group of the regular expression that is the secret; 0 for the whole match."""
    entropy: float = Field(default=0, ge=0)
    """Minimum entropy of the secret, in bits per character."""
    allowlist: Allowlist = Allowlist.model_construct()

    @field_validator("secretGroup")
    @classmethod
    def _check_group(cls, group: int, info: ValidationInfo) -> int:
        if group > re.compile(info.data.get("regex", "")).groups:
            raise ValueError("the regex has no such group; count its ( from the left, without (?:")
        return group


# What else must hold for a match, by the rule's `check`: given the secret and the keyword.
_CHECKS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "value": lambda text, _: fits(Strength.PASSWORD, text),
    "key": _is_key,
    "jwt": lambda text, _: _is_jwt(text),
    "bearer": lambda text, _: any(map(str.isdigit, text)) or looks_random(text),
    "basic": lambda text, _: _is_pair(text),
}
