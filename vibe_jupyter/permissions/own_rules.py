"""The user's own rules for secrets, `[privacy] rules`: in gitleaks' form, and bounded in time.

A rule is tried where one of its keywords stands. A match begins in the keyword's word and ends on its line, so a stream
knows what to hold back, and a regular expression sees no more than a piece of a line. One that could take too long for
such a piece is refused when the settings are read. Where a text has so many of these places that they take too long
together, it is redacted from the next keyword to its end.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import log2
from typing import Final

from vibe_jupyter.permissions.regex_bounds import LONGEST
from vibe_jupyter.permissions.secret_shapes import UNCHECKED, OwnRule, Span, any_of, compiled

SECONDS: Final = 0.25  # of CPU for one text
_LONGEST_WORD: Final = 64  # characters of a keyword, and before one in which a match may begin


def _accepts(rule: OwnRule, secret: str) -> bool:
    """Return whether neither the entropy nor the allowlist excludes a match."""
    lower = secret.lower()
    return not (
        (rule.entropy and _entropy(secret) < rule.entropy)
        or any(word.lower() in lower for word in rule.allowlist.stopwords)
        or any(compiled(one).search(secret) for one in rule.allowlist.regexes)
    )


def _entropy(text: str) -> float:
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


class OwnRules:
    """The user's own rules, applied to texts."""

    def __init__(self, rules: Sequence[OwnRule] = ()) -> None:
        self.rules = tuple(rules)
        self._words = tuple(word for rule in self.rules for word in rule.keywords)

    def may_stand_in(self, text: str) -> bool:
        """Return whether a text contains a keyword."""
        return _first(self._words, text) >= 0

    def before(self, text: str, cut: int) -> int:
        """Return the last position up to `cut` that doesn't split what a rule looks at, or what it will look at when
        the text continues."""
        while self._words and (moved := self._parting(text, cut)) < cut:
            cut = moved
        return cut

    def _parting(self, text: str, cut: int) -> int:
        """Return the start of the first place that a cut would split, or the cut itself."""
        search = _keywords(self._words).search
        keyword, last = max(0, cut - LONGEST), cut + 2 * _LONGEST_WORD
        while found := search(text, keyword, last):
            start, end = _place(text, found.start())
            if start < cut and (cut < end or end == len(text)):
                return start
            keyword = found.start() + 1
        return cut

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the secrets in a text, in any order. They may overlap."""
        if not self.may_stand_in(text):
            return
        until = time.thread_time() + SECONDS
        for number, rule in enumerate(self.rules):
            if time.thread_time() > until:
                yield from self._unchecked(number, text, len(text))
                return
            search, done = _keywords(rule.keywords).search, 0
            while found := search(text, done):
                start, end = _place(text, found.start())
                span = None
                for at in range(max(start, done), found.start() + 1):
                    if time.thread_time() > until:
                        yield from self._unchecked(number + 1, text, start)
                        return
                    span = _match(rule, text, at, end)
                    if span is not None:
                        yield Span(*span, rule.description)
                        break
                done = max(found.end(), span[1] if span else 0)

    def _unchecked(self, number: int, text: str, start: int) -> Iterator[Span]:
        """Yield the text from a position, or from an earlier keyword of the rules from that number on, if any."""
        keyword = _first(tuple(word for rule in self.rules[number:] for word in rule.keywords), text)
        start = min(start, _place(text, keyword)[0]) if keyword >= 0 else start
        if start < len(text):
            yield Span(start, len(text), UNCHECKED)


@cache
def _keywords(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(any_of(words), re.IGNORECASE)


@cache
def _folded(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(any_of(word.casefold() for word in words))


def _first(words: tuple[str, ...], text: str) -> int:
    """Return where the first of these keywords begins, or -1."""
    if not words:
        return -1
    # Many times faster than to ignore the case
    found = _folded(words).search(text.lower()) if text.isascii() else _keywords(words).search(text)
    return found.start() if found else -1


def _place(text: str, keyword: int) -> tuple[int, int]:
    """Return where the word with a keyword begins, and the end of what a rule looks at."""
    before = text[max(0, keyword - _LONGEST_WORD) : keyword]
    start = keyword if not before or before[-1].isspace() else keyword - len(before.rsplit(maxsplit=1)[-1])
    end = text.find("\n", keyword, start + LONGEST)
    return start, end if end >= 0 else min(len(text), start + LONGEST)


def _match(rule: OwnRule, text: str, start: int, end: int) -> tuple[int, int] | None:
    found = compiled(rule.regex).match(text, start, end)
    if found is None:
        return None
    span = found.span(rule.secretGroup)
    span = span if span[0] < span[1] else found.span()
    return span if _accepts(rule, text[slice(*span)]) else None
