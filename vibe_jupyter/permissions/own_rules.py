"""The user's own rules for secrets, `[privacy] rules`: in gitleaks' form, and bounded in time.

A rule is tried where one of its keywords stands. A match begins in the keyword's word and ends on its line, so a stream
knows what to hold back, and a regular expression sees no more than a piece of a line. One that could take too long for
such a piece is refused when the settings are read. Where a text has so many of these places that they take too long
together, the rest of them is redacted to the ends of the lines.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import log2
from typing import Final

from vibe_jupyter.permissions.regex_bounds import LONGEST
from vibe_jupyter.permissions.secret_shapes import OwnRule, Span, compiled

SECONDS: Final = 0.25  # of CPU for one text
_LONGEST_WORD: Final = 64  # characters before a keyword in which a match may begin


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

    def may_stand_in(self, text: str) -> bool:
        """Return whether a text contains a keyword."""
        return any(_keywords(rule.keywords).search(text) for rule in self.rules)

    def before(self, text: str, cut: int) -> int:
        """Return the last position up to `cut` that doesn't split what a rule looks at, or what it will look at when
        the text continues."""
        for rule in self.rules:
            for start, _, end in _places(rule, text):
                if start < cut and (cut < end or end == len(text)):
                    cut = start
        return cut

    def spans(self, text: str) -> Iterator[Span]:
        """Yield the secrets in a text, in any order. They may overlap."""
        until = time.thread_time() + SECONDS if self.rules else 0.0
        for rule in self.rules:
            place = 0
            for start, keyword, end in _places(rule, text):
                if keyword < place:
                    continue
                span = _first_match(rule, text, range(max(start, place), keyword + 1), end, until)
                if span is not None:
                    place = span[1]
                    yield Span(*span, rule.description)


@cache
def _keywords(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE)


def _places(rule: OwnRule, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield where the words with a keyword begin, where the keyword begins, and the end of what the rule looks at."""
    for found in _keywords(rule.keywords).finditer(text):
        start = keyword = found.start()
        while start > max(0, keyword - _LONGEST_WORD) and not text[start - 1].isspace():
            start -= 1
        end = text.find("\n", keyword, start + LONGEST)
        yield start, keyword, end if end >= 0 else min(len(text), start + LONGEST)


def _first_match(rule: OwnRule, text: str, starts: range, end: int, until: float) -> tuple[int, int] | None:
    for start in starts:
        if time.thread_time() > until:
            return starts[0], end
        found = compiled(rule.regex).match(text, start, end)
        if found is not None:
            span = found.span(rule.secretGroup)
            span = span if span[0] < span[1] else found.span()
            if _accepts(rule, text[slice(*span)]):
                return span
    return None
