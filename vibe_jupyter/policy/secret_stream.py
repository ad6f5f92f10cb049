"""Redacting text that comes in pieces: what could still become a secret is held back until it is decided.

Nearly all pieces of an answer are plain words. Two linear searches say so, and the rules are tried on the rest alone.
"""

import re
from os.path import commonprefix
from typing import Final

from vibe_jupyter.policy.secret_assignments import HINTS
from vibe_jupyter.policy.secret_shapes import any_of
from vibe_jupyter.policy.secrets import Redactor

HELD_LIMIT: Final = 8_000
"""Characters held back at most; what is longer is redacted as far as it came."""

_WORDS: Final = "|".join(sorted({*HINTS, "basic", "login", "machine", "curl", "mysql"}))
_HINT: Final = re.compile(f"(?i){_WORDS}")
_OPEN: Final = re.compile(
    rf"""(?i)(?<![\w.-])(?:-{{0,2}}[\w.-]{{0,64}}(?:{_WORDS})[\w.-]{{0,40}}["'\])\\]{{0,6}}[ \t]{{0,16}}"""
    r"""(?:(?:=>|[:=,!]{1,3})[ \t]{0,16}(?:[A-Za-z]\w{0,30}[ \t]{1,4})?"""
    r"""(?:["'\\]{1,4}[^"'\n]{0,4000}(?:["']\S{0,200})?|[^\s"']{0,4000}))?"""
    r"""|(?:bearer|basic|password|passwd|by|--[\w-]{2,40}"""
    r"""|(?:password|passphrase|token|key|secret)[ \t]{1,4}(?:is|was))[ \t]{1,4}["']?[^\s"']{0,4000}["']?)\Z"""
)
"""A name and a value that may go on."""
_TO_LINE_END: Final = re.compile(
    r"(?i)(?:cookie|authorization|curl|mysql\w*|redis-cli|sshpass|machine|login)\b[^\n]{0,4000}\Z"
)
_BEGUN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_ENDED: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----")
_PLAIN: Final = re.compile(r"[^\w\s]{0,200}(?:[^\W\d_]?[^\W\d_A-Z]{0,24}|\d{1,6}(?:[.,:]\d{1,6})?)[^\w\s]{0,4}")
"""A word or number as people write it, with its punctuation: a random secret does not end here, though it may begin."""
_SHORT_HINTS: Final = frozenset({"dsn", "hmac", "otp", "pat", "psk", "pw", "salt", "sas", "sid", "sig"})
"""Of the hints, those that name a secret only as a part of their own: `user_sid`, and not `inside`."""
_RULE_WORDS: Final = (
    *(word for word in HINTS if word not in _SHORT_HINTS),
    *("basic", "curl", "http", "machine", "mysql", "redis", "slack.com", "fernet", "://", ":*:", "$y$", "\x1b"),
)
"""In small letters, what rules look for: names, commands, and the beginnings of values that are all small letters."""
_ANY_WORD: Final = re.compile(any_of((*_RULE_WORDS, *_SHORT_HINTS)))
_RULE_WORD: Final = re.compile(any_of(_RULE_WORDS))
_PART: Final = re.compile(
    "|".join(f"(?:(?<![a-z]){hint[0]}|{hint[0].upper()})(?i:{hint[1:]})(?![a-z])" for hint in sorted(_SHORT_HINTS))
)
_TOKEN: Final = re.compile(r"(?<!\S)(?![^\w\s]{0,8}[A-Z]?[a-z]+[^\w\s]{0,8}(?!\S))(?=\S{11})\S*?[^\W_a-zß-öø-ÿ]")
"""As long as the shortest secret that its shape gives away, with a digit or capital, and no word as people write it."""


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

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._early = 0
        """Characters at the beginning of what is held that were shown already."""

    def feed(self, piece: str) -> str:
        """What may be shown once this piece has come; may be empty."""
        self._held = held = self._held + piece
        if not may_hold_secret(held) and not self._redactor.may_know(held):
            return self._pass_on(held)
        cut = self._safe()
        return (self._take(cut) if cut else "") + self._plain_word()

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
        text = self._redactor(ready, look=False)
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
