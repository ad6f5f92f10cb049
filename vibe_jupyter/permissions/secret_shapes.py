"""Recognize secrets by their shape, and names that mark a value as secret.

strength("DB_PASSWORD")              # Strength.PASSWORD
holds_secret("token_count", "1000")  # False: the name describes a count
holds_secret("token", "the")         # False: a token is never a plain word

The formats follow the rules of gitleaks and detect-secrets. Every pattern runs in linear time: quantifiers are
possessive or bounded, and a rule is tried only if its literal occurs in the text.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cache, lru_cache
from itertools import groupby
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern

NAME_LIMIT: Final = 64  # characters of a name; longer ones were not chosen by a person
SHORTEST_PASSWORD: Final = 4  # characters of a value that counts as a password
SHORTEST: Final = 8  # characters of a value that counts as any other secret
_SHORTEST_RANDOM: Final = 12  # minimum number of characters for letters and digits to look random

_MANY_LETTERS: Final = 18  # minimum number of letters for mixed case to look random

_PART: Final = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_PASSWORD_PARTS: Final = frozenset(
    {"pwd", "passwd", "passphrase", "passcode", "psk", "passwort", "kennwort", "contrasena"}
)
_LAST_PASSWORD_PARTS: Final = frozenset({"pass", "pw"})
# Parts before a ``pass`` that is no password
_FILTERS: Final = frozenset({"low", "high", "band", "all", "by", "single", "first", "second"})
_PASSWORD_INSIDE: Final = ("password", "passwd", "passphrase", "contraseña")
_STRONG_PARTS: Final = frozenset({"secret", "secrets", "credential", "credentials", "creds", "authorization", "apikey"})
_STRONG_INSIDE: Final = (
    *("apikey", "accesskey", "secretkey", "privatekey", "signingkey", "encryptionkey", "masterkey", "accountkey"),
    *("servicekey", "clientkey", "authkey", "sharedkey", "deploykey", "licensekey", "sshkey", "clientsecret"),
    *("authtoken", "accesstoken", "refreshtoken", "bearertoken", "sessiontoken", "apitoken", "bottoken", "idtoken"),
    *("connectionstring", "connstr", "setcookie", "webhookurl", "databaseurl"),
)
_WEAK_PARTS: Final = frozenset(
    {"token", "tokens", "auth", "cookie", "cookies", "session", "sessionid", "sid", "jwt", "bearer", "dsn", "otp"}
    | {"signature", "sig", "sas", "hmac", "webhook", "salt", "license", "pat"}
)
# A last part that gives the name another meaning: ``token_count``, ``password_file``.
_SAYS_WHAT_IT_IS: Final = frozenset(
    {"count", "counts", "type", "types", "len", "length", "limit", "limits", "size", "sizes", "name", "names", "field"}
    | {"label", "labels", "expiry", "expires", "expiration", "in", "at", "ttl", "path", "file", "policy", "required"}
    | {"enabled", "valid", "rate", "index", "idx", "column", "columns", "env", "var", "variable", "prompt", "regex"}
    | {"pattern", "min", "max", "strength", "score", "mode", "method", "scheme", "provider", "ids", "usage", "kind"}
    | {"address", "addr", "host", "port", "user", "username", "rule"}
    | {"format", "header", "status", "error", "errors", "reset", "hint", "history", "manager", "sock", "position"}
)
# A first part that does the same.
_ASKS: Final = frozenset(
    {"is", "has", "num", "n", "max", "min", "total", "count", "use", "no", "show", "public", "with"}
)
# Parts before a final ``key`` that identifies a row, a file or an entry and is no credential.
_KEYS_OF_DATA: Final = frozenset({"primary", "foreign", "surrogate", "natural", "join", "merge", "sort", "group"}) | {
    *("partition", "cluster", "object", "row", "cache", "cite", "bib")
}
_PLACES: Final = frozenset({"PWD", "OLDPWD"})  # variables of every shell

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

_KINDS: Final = (
    ("apikey", "API key"),
    ("privatekey", "private key"),
    ("connectionstring", "connection string"),
    ("connstr", "connection string"),
    ("cookie", "cookie"),
    ("credential", "credential"),
    ("creds", "credential"),
    ("jwt", "token"),
    ("token", "token"),
    ("secret", "secret"),
    ("key", "key"),
    ("session", "session"),
    ("auth", "credential"),
    ("dsn", "connection string"),
    ("url", "connection string"),
)

_AWS: Final = ("AKIA", "ASIA", "ABIA", "ACCA")
_LONG_USER: Final = 16  # characters of a user name in a URL that may be a key, as in a DSN
_CUT: Final = 10  # characters after a prefix that suffice for a key, since it may have been truncated
_LONGEST_BLOCK: Final = 20_000  # characters of a block of key material
_INSIDE_A_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/")
_ALNUM: Final = r"[A-Za-z0-9]"
_URL_SAFE: Final = r"[A-Za-z0-9_-]"
_BASE64: Final = r"[A-Za-z0-9+/=]"
_HEX: Final = r"[a-f0-9]"

# Kind, regular expression for the characters that follow, and prefixes assigned by issuers.
_PREFIXES: Final[Sequence[tuple[str, str, str]]] = (
    ("AWS access key", r"[A-Z0-9]", "AKIA ASIA ABIA ACCA"),
    ("private key", r"[A-Z0-9]", "AGE-SECRET-KEY-1"),
    ("API key", _BASE64, "ABSK"),
    ("token", _BASE64, "glc_ fm1a_ fm1r_ fm2_ ops_eyJ"),
    ("GitHub token", r"[A-Za-z0-9_]", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"),
    ("GitLab token", r"[\w.-]", "glpat- gldt- glft- glimt- glagent- gloas- glptt- glrt- glcbt- glsoat- glffct-"),
    ("API key", r"[\w.-]", "SG."),
    ("token", r"[\w.-]", "ya29."),
    ("GitLab token", _URL_SAFE, "GR1348941"),
    ("API key", _URL_SAFE, "sk- AIza xai- tgp_v1_ HRKU-AA"),
    ("PyPI token", _URL_SAFE, "pypi-"),
    ("secret", _URL_SAFE, "GOCSPX- sq0csp- FLWSECK"),
    ("token", _URL_SAFE, "hvs. hvb. sq0atp- EAAA fo1_ sha256~ PRIVATE-TOKEN-"),
    ("API key", r"\w", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_"),
    ("token", r"\w", "glsa_"),
    ("secret", r"[\w+/=]", "whsec_"),
    ("token", r"[\w+/=]", "sntrys_"),
    ("Slack token", r"[A-Za-z0-9-]", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xox xapp-"),
    ("API key", r"[A-Za-z0-9-]", "xkeysib- NRII-"),
    ("Hugging Face token", _ALNUM, "hf_ api_org_"),
    ("npm token", _ALNUM, "npm_"),
    ("token", _ALNUM, "dp.pt. EAAC EAAM ntn_ secret_"),
    ("API key", _ALNUM, "lin_api_ NRAK- gsk_ pplx- r8_ AKCp pnu_ EZAK EZTK ico-"),
    ("access key", _ALNUM, "LTAI"),
    ("secret", _ALNUM, "p8e-"),
    ("token", r"[a-f0-9-]", "dapi"),
    ("key", r"[a-f0-9-]", "v1.0-"),
    ("token", _HEX, "doo_v1_ dop_v1_ dor_v1_ sntryu_ pul- sbp_"),
    ("API key", _HEX, "NRJS- rubygems_ key-"),
    ("token", r"[a-fA-F0-9]", "shpat_ shpca_ shppa_ shippo_live_ shippo_test_"),
    ("secret", r"[a-fA-F0-9]", "shpss_"),
    ("API key", r"[a-fA-F0-9-]", "PMAK-"),
    ("token", r"[\w=.-]", "pscale_tkn_ pscale_oauth_ tfp_"),
    ("password", r"[\w=.-]", "pscale_pw_"),
    ("token", r"[A-Za-z0-9.]", "dt0c01."),
    ("token", r"[\w=-]", "fio-u- duffel_live_ duffel_test_ ATBB"),
    ("API key", r"[\w=-]", "ATATT3"),
    ("token", r"[a-z0-9]", "rdme_ squ_ sqp_ CLOJARS_"),
    ("token", r"[\w-]", "sgp_ dckr_pat_ dckr_oat_"),
    ("API key", r"[\w-]", "nvapi- tvly- jina_ pcsk_ lsv2_pt_ lsv2_sk_ sb_secret_"),
    ("API key", r"[\w=%&.-]", "bedrock-api-key-"),
)
# Prefix, kind, and pattern of the whole key.
_BEGINNINGS: Final = tuple(
    (prefix, kind, f"{re.escape(prefix)}{follow}{{{_CUT},2000}}+")
    for kind, follow, prefixes in _PREFIXES
    for prefix in prefixes.split()
)

_LONGEST_BEFORE: Final = 40  # characters

_BEGIN: Final = lazy_pattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END: Final = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_MATERIAL: Final = lazy_pattern(r"[A-Za-z0-9+/=\s\\,:.-]*+")
# The parts may be on separate lines
_JWT: Final = lazy_pattern(
    r"""eyJ[\w-]{8,4000}+(?:\.(?:[\\"' \t]{0,12}+\r?\n[\\"' \t]{0,60}+(?=[\w-]{16}))?[\w=-]{0,8000}+){0,4}"""
)
# A password never contains ``://``, so each part of a text is searched for one URL only.
_AUTHORITY: Final = lazy_pattern(
    r"""://(?P<user>[^\s:/?#@'"<>\[\]{}|\\]{0,300}+)(?::(?P<word>(?:[^\s'"<>\[\]`|:]|:(?!//)){1,300}))?@"""
)
_PORT: Final = lazy_pattern(r"\d{1,5}(?:[/?#].*)?", re.DOTALL)
_BEARER: Final = lazy_pattern(r"(?i)\bbearer[\s:=\"']{1,4}(?P<s>[\w.~+/=-]{8,4000}+)")
_BASIC: Final = lazy_pattern(r"(?i)\bbasic\s{1,4}(?P<s>[A-Za-z0-9+/]{8,2000}+={0,2}+)")


class Strength(IntEnum):
    """Strength of the evidence that a name marks a secret."""

    NONE = 0
    WEAK = 1  # may be a secret: values that look random count
    STRONG = 2  # a key or credential: everything but words, paths and URLs counts
    PASSWORD = 3  # chosen by people: any value counts


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength:
    """Return how strongly a name suggests that its value is secret."""
    if len(name) > NAME_LIMIT or name in _PLACES:
        return Strength.NONE
    parts = [part.lower() for part in _PART.findall(name)]
    if not parts or parts[-1] in _SAYS_WHAT_IT_IS or parts[0] in _ASKS:
        return Strength.NONE
    flat = "".join(parts)
    if parts[-1] == "pass" and parts[-2:-1] and parts[-2] in _FILTERS:
        return Strength.NONE
    if parts[-1] in ("key", "keys") and parts[-2:-1] and parts[-2] in _KEYS_OF_DATA:
        return Strength.NONE
    if _PASSWORD_PARTS.intersection(parts) or parts[-1] in _LAST_PASSWORD_PARTS:
        return Strength.PASSWORD
    if any(map(flat.__contains__, _PASSWORD_INSIDE)):
        return Strength.PASSWORD
    if _STRONG_PARTS.intersection(parts) or any(map(flat.__contains__, _STRONG_INSIDE)):
        return Strength.STRONG
    if _WEAK_PARTS.intersection(parts) or parts[-1] in ("key", "keys") or flat.endswith(("token", "cookie")):
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
    parts = [part.lower() for part in _PART.findall(name)]
    if strength(name) is Strength.PASSWORD:
        return "password"
    flat = "".join(parts)
    for word, kind in _KINDS:
        if word in flat:
            return kind
    return "secret"


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


class _Shape(NamedTuple):
    """A format that has no fixed prefix."""

    literal: str  # must occur in the text
    kind: str
    pattern: str  # the secret is group ``s``, else the whole match
    before: str = ""  # pattern that must match right before and is part of the secret; "" for anything


_SHAPES: Final[Sequence[_Shape]] = (
    _Shape(
        "hooks.slack.com",
        "webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[\w/+-]{8,200}+)",
    ),
    _Shape("/api/webhooks/", "webhook", r"/api/webhooks/\d{5,25}+/(?P<s>[\w-]{8,200}+)"),
    _Shape("webhook.office.com", "webhook", r"webhook\.office\.com/\w{0,20}+/(?P<s>[\w@/-]{16,500}+)"),
    _Shape("-us", "API key", r"-us\d{1,2}+(?!\w)", r"(?<![0-9a-zA-Z])[0-9a-f]{32}\Z"),
    _Shape("SK", "API key", r"SK[0-9a-f]{32}(?!\w)"),
    _Shape("Q~", "secret", r"Q~[\w~.-]{10,40}+", r"(?<![\w~.])[\w~.]{3}\d\Z"),
    _Shape(".atlasv1.", "token", r"\.atlasv1\.[\w=-]{10,80}+", r"(?<!\w)[A-Za-z0-9]{14}\Z"),
    _Shape(":AA", "token", r":AA[\w-]{8,40}+", r"(?<!\d)\d{7,12}\Z"),
    _Shape("_gitlab_session=", "cookie", r"_gitlab_session=(?P<s>[0-9a-z]{16,64}+)"),
    _Shape("$", "password hash", r"\$(?:6|5|1|y|2[abxy]|argon2\w{1,2}|apr1)\$[\w./$=,+-]{20,300}+"),
    _Shape(".", "token", r"[MNO][\w-]{23,25}+\.[\w-]{6}\.[\w-]{27,38}+(?!\w)"),
    _Shape("login", "password", r"login\s{1,8}\S{1,200}+\s{1,8}password\s{1,8}(?P<s>\S{1,200}+)"),
    _Shape("machine", "password", r"machine\s{1,8}\S{1,200}+\s{1,8}password\s{1,8}(?P<s>\S{1,200}+)"),
    _Shape(
        "curl",
        "password",
        r"""curl\b[^\n]{0,120}?\s(?:-u|--user)[ =]?["']?[^\s:'"]{1,60}+:(?P<s>[^\s'"]{1,200}+)""",
    ),
    _Shape("mysql", "password", r"""mysql\w{0,10}+\s[^\n]{0,100}?-p(?P<s>[^\s'"]{4,200}+)"""),
    *(
        _Shape(option, "password", rf"""{option}\s{{1,4}}["']?[^\s:'"]{{1,60}}+:(?P<s>[^\s'"]{{4,200}}+)""")
        for option in ("http -a", "https -a", "http --auth", "https --auth")
    ),
    _Shape("login", "password", r"""login\b[^\n]{0,80}?\s-p[ =]{0,4}["']?(?P<s>[^\s'"]{4,200}+)"""),
    *(
        _Shape(word, "password", rf""";\s{{0,4}}{word}\s{{0,4}}=\s{{0,4}}\{{?(?P<s>[^\s;{{}}"']{{4,200}}+)""")
        for word in ("PWD", "Pwd", "pwd")
    ),
    _Shape(
        "%3D",
        "key in a URL",
        r"(?:token|[kK]ey|password|pwd|secret|[sS]ignature|sig|code)%3D(?P<s>[\w.~+/-]{8,4000}+)",
    ),
    _Shape("Fernet(", "key", r"""Fernet\(\s{0,8}b?["'](?P<s>[\w=-]{20,60}+)"""),
    _Shape("sshpass", "password", r"""sshpass\s{1,4}-p\s{0,4}["']?(?P<s>[^\s'"]{1,200}+)"""),
    _Shape("redis-cli", "password", r"""redis-cli\b[^\n]{0,100}?\s-a\s{1,4}["']?(?P<s>[^\s'"]{1,200}+)"""),
    *(
        _Shape(
            port,
            "password",
            rf"{re.escape(port)}[\w.*-]{{1,100}}+:[\w.*-]{{1,100}}+:(?P<s>\S{{4,200}}+)(?!\S)",
        )
        for port in (":5432:", ":6432:", ":*:")
    ),
    _Shape(
        "Private-Lines",
        "private key",
        r"Private-Lines: \d{1,3}\s{1,2}(?P<s>(?:[A-Za-z0-9+/=]{1,64}\s{1,2}){1,200}+)",
    ),
)


@cache
def _compiled_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when its literal first occurs.

    Compiling all of them would take longer than the rest of the module.
    """
    return re.compile(pattern)


def shaped(text: str) -> Iterator[Span]:
    """Yield secrets in a text that are recognized by their shape, in any order. They may overlap."""
    yield from _prefixed(text)
    for shape in _SHAPES:
        if shape.literal in text:
            yield from _of_shape(shape, text)
    if "://" in text:
        yield from _addresses(text)
    if "PRIVATE KEY" in text:
        yield from _blocks(text)
    lower = text.lower()
    if "bearer" in lower or "basic" in lower:
        yield from _headers(text, lower)


def _prefixed(text: str) -> Iterator[Span]:
    for prefix, kind, pattern in _BEGINNINGS:
        if prefix in text:
            for found in _compiled_pattern(pattern).finditer(text):
                if _is_edge(text, found.start()) and _is_key(prefix, found[0][len(prefix) :]):
                    yield Span(found.start(), found.end(), kind)
    if "eyJ" in text:
        for found in _JWT.finditer(text):
            if _is_edge(text, found.start()) and _is_jwt(found[0]):
                yield Span(*found.span(), "JWT")


def _headers(text: str, lower: str) -> Iterator[Span]:
    if "bearer" in lower:
        for found in _BEARER.finditer(text):
            if any(map(str.isdigit, found["s"])) or looks_random(found["s"]):
                yield Span(*found.span("s"), "token")
    if "basic" in lower:
        yield from (Span(*found.span("s"), "password") for found in _BASIC.finditer(text) if _is_pair(found["s"]))


def _of_shape(shape: _Shape, text: str) -> Iterator[Span]:
    pattern = _compiled_pattern(shape.pattern)
    group = "s" if "s" in pattern.groupindex else 0
    for found in pattern.finditer(text):
        start, end = found.span(group)
        if shape.before:
            before = _compiled_pattern(shape.before).search(text[max(0, start - _LONGEST_BEFORE) : start])
            if before is None:
                continue
            start -= len(before[0])
        elif group == 0 and not _is_edge(text, start):
            continue
        if fits(Strength.PASSWORD, text[start:end]):
            yield Span(start, end, shape.kind)


def _is_edge(text: str, start: int) -> bool:
    r"""Return whether a word begins here. In an escaped text it may follow the letter of ``\\n``."""
    if start == 0 or text[start - 1] not in _INSIDE_A_WORD:
        return True
    return text[start - 1] in "nrt" and start > 1 and text[start - 2] == "\\"


def _is_key(prefix: str, rest: str) -> bool:
    """Return whether the text after a prefix is a key rather than further words of a name."""
    if prefix in _AWS or any(map(str.isdigit, rest)):
        return True
    return looks_random(rest) or (rest.isalpha() and not rest.islower() and not rest.isupper())


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
