"""Secrets by their shape, wherever they stand: prefixes that issuers gave them, addresses with a password, key blocks.

The formats are those of the rule lists of gitleaks and detect-secrets. Every pattern takes time in proportion to the
text: quantifiers are possessive or bounded, and a rule is tried only where its literal is.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from vibe_jupyter.policy.secret_names import Strength, fits, is_placeholder, looks_random


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text that is a secret."""

    start: int
    end: int
    kind: str
    """What it is, such as ``API key``."""
    name: str = ""
    """What it is called where it stands; empty where nothing names it."""


def any_of(words: Iterable[str]) -> str:
    """A pattern for any of these words, those with the same first letter together: few are tried at each place."""
    groups = groupby(sorted(set(words)), key=lambda word: word[0])
    return "|".join(f"{re.escape(first)}(?:{'|'.join(re.escape(word[1:]) for word in all_)})" for first, all_ in groups)


_AWS: Final = ("AKIA", "ASIA", "ABIA", "ACCA")
_LONG_USER: Final = 16
"""Characters of a user in an address from which it may be a key, as in a DSN."""
_CUT: Final = 10
"""Characters after a prefix from which it is taken for a key: it may have been cut off."""
_LONGEST_BLOCK: Final = 20_000
"""Characters of a block of key material."""
_INSIDE_A_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/")
_URL_SAFE: Final = r"[A-Za-z0-9_-]"

_PREFIXES: Final[Sequence[tuple[str, str, str]]] = (
    *((prefix, "AWS access key", r"[A-Z0-9]") for prefix in _AWS),
    ("ABSK", "API key", r"[A-Za-z0-9+/=]"),
    *((f"gh{kind}_", "GitHub token", r"[A-Za-z0-9_]") for kind in "pousr"),
    ("github_pat_", "GitHub token", r"[A-Za-z0-9_]"),
    *((f"gl{kind}-", "GitLab token", r"[\w.-]") for kind in ("pat", "dt", "ft", "imt", "agent", "oas", "ptt", "rt")),
    *((f"gl{kind}-", "GitLab token", r"[\w.-]") for kind in ("cbt", "soat", "ffct")),
    ("GR1348941", "GitLab token", _URL_SAFE),
    ("sk-", "API key", _URL_SAFE),
    ("sk_live_", "API key", r"\w"),
    ("sk_test_", "API key", r"\w"),
    ("sk_prod_", "API key", r"\w"),
    ("rk_live_", "API key", r"\w"),
    ("rk_test_", "API key", r"\w"),
    ("rk_prod_", "API key", r"\w"),
    ("whsec_", "secret", r"[\w+/=]"),
    *((f"xox{kind}-", "Slack token", r"[A-Za-z0-9-]") for kind in "abeoprs"),
    ("xoxe.xox", "Slack token", r"[A-Za-z0-9-]"),
    ("xapp-", "Slack token", r"[A-Za-z0-9-]"),
    ("hf_", "Hugging Face token", r"[A-Za-z0-9]"),
    ("api_org_", "Hugging Face token", r"[A-Za-z0-9]"),
    ("npm_", "npm token", r"[A-Za-z0-9]"),
    ("pypi-", "PyPI token", _URL_SAFE),
    ("SG.", "API key", r"[\w.-]"),
    ("AIza", "API key", _URL_SAFE),
    ("GOCSPX-", "secret", _URL_SAFE),
    ("ya29.", "token", r"[\w.-]"),
    ("dapi", "token", r"[a-f0-9-]"),
    *((f"do{kind}_v1_", "token", r"[a-f0-9]") for kind in "opr"),
    ("hvs.", "token", _URL_SAFE),
    ("hvb.", "token", _URL_SAFE),
    ("dp.pt.", "token", r"[A-Za-z0-9]"),
    ("shpat_", "token", r"[A-Fa-f0-9]"),
    ("shpca_", "token", r"[A-Fa-f0-9]"),
    ("shppa_", "token", r"[A-Fa-f0-9]"),
    ("shpss_", "secret", r"[A-Fa-f0-9]"),
    ("sq0atp-", "token", _URL_SAFE),
    ("sq0csp-", "secret", _URL_SAFE),
    ("EAAA", "token", _URL_SAFE),
    ("EAAC", "token", r"[A-Za-z0-9]"),
    ("EAAM", "token", r"[A-Za-z0-9]"),
    ("lin_api_", "API key", r"[A-Za-z0-9]"),
    ("ntn_", "token", r"[A-Za-z0-9]"),
    ("PMAK-", "API key", r"[a-fA-F0-9-]"),
    ("xkeysib-", "API key", r"[A-Za-z0-9-]"),
    ("NRAK-", "API key", r"[A-Za-z0-9]"),
    ("NRII-", "API key", r"[A-Za-z0-9-]"),
    ("NRJS-", "API key", r"[a-f0-9]"),
    ("glsa_", "token", r"\w"),
    ("glc_", "token", r"[A-Za-z0-9+/=]"),
    ("sntrys_", "token", r"[\w+/=]"),
    ("sntryu_", "token", r"[a-f0-9]"),
    ("gsk_", "API key", r"[A-Za-z0-9]"),
    ("pplx-", "API key", r"[A-Za-z0-9]"),
    ("xai-", "API key", _URL_SAFE),
    ("r8_", "API key", r"[A-Za-z0-9]"),
    ("tgp_v1_", "API key", _URL_SAFE),
    ("AGE-SECRET-KEY-1", "private key", r"[A-Z0-9]"),
    ("AKCp", "API key", r"[A-Za-z0-9]"),
    ("rubygems_", "API key", r"[a-f0-9]"),
    ("pscale_tkn_", "token", r"[\w=.-]"),
    ("pscale_oauth_", "token", r"[\w=.-]"),
    ("pscale_pw_", "password", r"[\w=.-]"),
    ("pul-", "token", r"[a-f0-9]"),
    ("pnu_", "API key", r"[A-Za-z0-9]"),
    ("tfp_", "token", r"[\w.=-]"),
    ("dt0c01.", "token", r"[A-Za-z0-9.]"),
    ("EZAK", "API key", r"[A-Za-z0-9]"),
    ("EZTK", "API key", r"[A-Za-z0-9]"),
    ("FLWSECK", "secret", r"[A-Za-z0-9_-]"),
    ("fio-u-", "token", r"[\w=-]"),
    ("duffel_live_", "token", r"[\w=-]"),
    ("duffel_test_", "token", r"[\w=-]"),
    ("fo1_", "token", _URL_SAFE),
    ("fm1a_", "token", r"[A-Za-z0-9+/=]"),
    ("fm1r_", "token", r"[A-Za-z0-9+/=]"),
    ("fm2_", "token", r"[A-Za-z0-9+/=]"),
    ("ico-", "API key", r"[A-Za-z0-9]"),
    ("sha256~", "token", _URL_SAFE),
    ("rdme_", "token", r"[a-z0-9]"),
    ("shippo_live_", "token", r"[a-fA-F0-9]"),
    ("shippo_test_", "token", r"[a-fA-F0-9]"),
    ("sgp_", "token", r"[\w-]"),
    ("sbp_", "token", r"[a-f0-9]"),
    ("LTAI", "access key", r"[A-Za-z0-9]"),
    ("p8e-", "secret", r"[A-Za-z0-9]"),
    ("ATATT3", "API key", r"[\w=-]"),
    ("ATBB", "token", r"[\w=-]"),
    ("HRKU-AA", "API key", _URL_SAFE),
    ("ops_eyJ", "token", r"[A-Za-z0-9+/=]"),
    ("squ_", "token", r"[a-z0-9]"),
    ("sqp_", "token", r"[a-z0-9]"),
    ("v1.0-", "key", r"[a-f0-9-]"),
    ("PRIVATE-TOKEN-", "token", _URL_SAFE),
    ("CLOJARS_", "token", r"[a-z0-9]"),
    ("secret_", "token", r"[A-Za-z0-9]"),
    ("bedrock-api-key-", "API key", r"[\w=%&.-]"),
    ("key-", "API key", r"[a-f0-9]"),
)
"""Beginning, what it is, and the characters that follow."""
_COMPILED: Final = tuple(
    (prefix, kind, re.compile(f"{re.escape(prefix)}{follow}{{{_CUT},2000}}+")) for prefix, kind, follow in _PREFIXES
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One format that is no prefix."""

    literal: str
    """Must be in the text."""
    kind: str
    pattern: re.Pattern[str]
    """Its group ``s`` is the secret; else all of it."""
    before: re.Pattern[str] | None = None
    """What must stand right before, and belongs to it."""


_SHAPES: Final[Sequence[_Shape]] = (
    _Shape(
        "hooks.slack.com",
        "webhook",
        re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[\w/+-]{8,200}+)"),
    ),
    _Shape("/api/webhooks/", "webhook", re.compile(r"/api/webhooks/\d{5,25}+/(?P<s>[\w-]{8,200}+)")),
    _Shape("webhook.office.com", "webhook", re.compile(r"webhook\.office\.com/\w{0,20}+/(?P<s>[\w@/-]{16,500}+)")),
    _Shape("-us", "API key", re.compile(r"-us\d{1,2}+(?!\w)"), re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{32}\Z")),
    _Shape("SK", "API key", re.compile(r"SK[0-9a-f]{32}(?!\w)")),
    _Shape("Q~", "secret", re.compile(r"Q~[\w~.-]{10,40}+"), re.compile(r"(?<![\w~.])[\w~.]{3}\d\Z")),
    _Shape(".atlasv1.", "token", re.compile(r"\.atlasv1\.[\w=-]{10,80}+"), re.compile(r"(?<!\w)[A-Za-z0-9]{14}\Z")),
    _Shape(":AA", "token", re.compile(r":AA[\w-]{8,40}+"), re.compile(r"(?<!\d)\d{7,12}\Z")),
    _Shape("_gitlab_session=", "cookie", re.compile(r"_gitlab_session=(?P<s>[0-9a-z]{16,64}+)")),
    _Shape("$", "password hash", re.compile(r"\$(?:6|5|1|y|2[abxy]|argon2\w{1,2}|apr1)\$[\w./$=,+-]{20,300}+")),
    _Shape(".", "token", re.compile(r"[MNO][\w-]{23,25}+\.[\w-]{6}\.[\w-]{27,38}+(?!\w)")),
    _Shape("login", "password", re.compile(r"login\s{1,8}\S{1,200}+\s{1,8}password\s{1,8}(?P<s>\S{1,200}+)")),
    _Shape("machine", "password", re.compile(r"machine\s{1,8}\S{1,200}+\s{1,8}password\s{1,8}(?P<s>\S{1,200}+)")),
    _Shape(
        "curl",
        "password",
        re.compile(r"""curl\b[^\n]{0,120}?\s(?:-u|--user)[ =]?["']?[^\s:'"]{1,60}+:(?P<s>[^\s'"]{1,200}+)"""),
    ),
    _Shape("mysql", "password", re.compile(r"""mysql\w{0,10}+\s[^\n]{0,100}?-p(?P<s>[^\s'"]{4,200}+)""")),
    *(
        _Shape(option, "password", re.compile(rf"""{option}\s{{1,4}}["']?[^\s:'"]{{1,60}}+:(?P<s>[^\s'"]{{4,200}}+)"""))
        for option in ("http -a", "https -a", "http --auth", "https --auth")
    ),
    _Shape("login", "password", re.compile(r"""login\b[^\n]{0,80}?\s-p[ =]{0,4}["']?(?P<s>[^\s'"]{4,200}+)""")),
    *(
        _Shape(
            word, "password", re.compile(rf""";\s{{0,4}}{word}\s{{0,4}}=\s{{0,4}}\{{?(?P<s>[^\s;{{}}"']{{4,200}}+)""")
        )
        for word in ("PWD", "Pwd", "pwd")
    ),
    _Shape(
        "%3D",
        "key in a URL",
        re.compile(r"(?:token|[kK]ey|password|pwd|secret|[sS]ignature|sig|code)%3D(?P<s>[\w.~+/-]{8,4000}+)"),
    ),
    _Shape("Fernet(", "key", re.compile(r"""Fernet\(\s{0,8}b?["'](?P<s>[\w=-]{20,60}+)""")),
    _Shape("sshpass", "password", re.compile(r"""sshpass\s{1,4}-p\s{0,4}["']?(?P<s>[^\s'"]{1,200}+)""")),
    _Shape("redis-cli", "password", re.compile(r"""redis-cli\b[^\n]{0,100}?\s-a\s{1,4}["']?(?P<s>[^\s'"]{1,200}+)""")),
    *(
        _Shape(
            port,
            "password",
            re.compile(rf"{re.escape(port)}[\w.*-]{{1,100}}+:[\w.*-]{{1,100}}+:(?P<s>\S{{4,200}}+)(?!\S)"),
        )
        for port in (":5432:", ":6432:", ":*:")
    ),
    _Shape(
        "Private-Lines",
        "private key",
        re.compile(r"Private-Lines: \d{1,3}\s{1,2}(?P<s>(?:[A-Za-z0-9+/=]{1,64}\s{1,2}){1,200}+)"),
    ),
)
_LONGEST_BEFORE: Final = 40
"""Characters."""
_LITERAL: Final = re.compile(
    any_of((*(prefix for prefix, _, _ in _PREFIXES), "eyJ", *(one.literal for one in _SHAPES)))
)
"""One search for all of them; short texts seldom have any."""

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_MATERIAL: Final = re.compile(r"[A-Za-z0-9+/=\s\\,:.-]*+")
_JWT: Final = re.compile(
    r"""eyJ[\w-]{8,4000}+(?:\.(?:[\\"' \t]{0,12}+\r?\n[\\"' \t]{0,60}+(?=[\w-]{16}))?[\w=-]{0,8000}+){0,4}"""
)
"""Its parts may stand on lines of their own."""
_AUTHORITY: Final = re.compile(
    r"""://(?P<user>[^\s:/?#@'"<>\[\]{}|\\]{0,300}+)(?::(?P<word>(?:[^\s'"<>\[\]`|:]|:(?!//)){1,300}))?@"""
)
"""No password holds ``://``, so that each part of a text is looked at for one address alone."""
_PORT: Final = re.compile(r"\d{1,5}(?:[/?#].*)?", re.DOTALL)
_BEARER: Final = re.compile(r"(?i)\bbearer[\s:=\"']{1,4}(?P<s>[\w.~+/=-]{8,4000}+)")
_BASIC: Final = re.compile(r"(?i)\bbasic\s{1,4}(?P<s>[A-Za-z0-9+/]{8,2000}+={0,2}+)")


def shaped(text: str) -> Iterator[Span]:
    """The secrets in a text that their shape gives away, in no order; they may overlap."""
    if _LITERAL.search(text) is not None:
        yield from _prefixed(text)
        for shape in _SHAPES:
            if shape.literal in text:
                yield from _of_shape(shape, text)
    if "://" in text:
        yield from _addresses(text)
    if "PRIVATE KEY" in text:
        yield from _blocks(text)
    yield from _headers(text)


def _prefixed(text: str) -> Iterator[Span]:
    for prefix, kind, pattern in _COMPILED:
        if prefix in text:
            for found in pattern.finditer(text):
                if _is_edge(text, found.start()) and _is_key(prefix, found[0][len(prefix) :]):
                    yield Span(found.start(), found.end(), kind)
    if "eyJ" in text:
        for found in _JWT.finditer(text):
            if _is_edge(text, found.start()) and _is_jwt(found[0]):
                yield Span(*found.span(), "JWT")


def _headers(text: str) -> Iterator[Span]:
    lower = text.lower()
    if "bearer" in lower:
        for found in _BEARER.finditer(text):
            if any(map(str.isdigit, found["s"])) or looks_random(found["s"]):
                yield Span(*found.span("s"), "token")
    if "basic" in lower:
        yield from (Span(*found.span("s"), "password") for found in _BASIC.finditer(text) if _is_pair(found["s"]))


def _of_shape(shape: _Shape, text: str) -> Iterator[Span]:
    group = "s" if "s" in shape.pattern.groupindex else 0
    for found in shape.pattern.finditer(text):
        start, end = found.span(group)
        if shape.before is not None:
            before = shape.before.search(text[max(0, start - _LONGEST_BEFORE) : start])
            if before is None:
                continue
            start -= len(before[0])
        elif group == 0 and not _is_edge(text, start):
            continue
        if fits(Strength.PASSWORD, text[start:end]):
            yield Span(start, end, shape.kind)


def _is_edge(text: str, start: int) -> bool:
    """Whether a word begins here; in an escaped text the letter of ``\\n`` may stand before."""
    if start == 0 or text[start - 1] not in _INSIDE_A_WORD:
        return True
    return text[start - 1] in "nrt" and start > 1 and text[start - 2] == "\\"


def _is_key(prefix: str, rest: str) -> bool:
    """Whether what follows a prefix is a key, and not the next words of a name."""
    if prefix in _AWS or any(map(str.isdigit, rest)):
        return True
    return looks_random(rest) or (rest.isalpha() and not rest.islower() and not rest.isupper())


def _addresses(text: str) -> Iterator[Span]:
    for found in _AUTHORITY.finditer(text):
        user, word = found["user"], found["word"]
        if word is not None and not _PORT.fullmatch(word) and not is_placeholder(word):
            yield Span(*found.span("word"), "URL password")
        elif word is not None and not is_placeholder(word):
            continue  # a host and its port: the @ is further on
        if len(user) >= _LONG_USER and looks_random(user):
            yield Span(*found.span("user"), "key in a URL")


def _blocks(text: str) -> Iterator[Span]:
    """Key material between its two lines, or what is left of it where one of the lines is missing."""
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
    """The end of a text that is base64, as far as it goes."""
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
    """Whether it is a user's name and password, as a Basic header has them."""
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()
