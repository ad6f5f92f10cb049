"""The user's own rules for secrets, `[privacy] rules`: in gitleaks' form, and bounded in time.

A rule is tried where one of its keywords stands. A match begins in the keyword's word and ends on its line, so a stream
knows what to hold back, and a regular expression sees no more than a piece of a line. One that could take too long for
such a piece is refused when the settings are read. Where a text has so many of these places that they take too long
together, the rest of them is redacted to the ends of the lines.
"""

import importlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from math import inf, log2
from typing import Any, Final

from vibe_jupyter.permissions.secret_shapes import OwnRule, Span, compiled

LONGEST: Final = 1_000  # characters in which a match is looked for
SECONDS: Final = 0.25  # of CPU for one text
MOST_STEPS: Final = 20_000_000  # for trying a regular expression at one position; less than a tenth of a second
_LONGEST_WORD: Final = 64  # characters before a keyword in which a match may begin
_SHORTEST: Final = 4  # characters of a match
_ANYTHING: Final = "a7~-é "  # a regular expression that matches runs of each of these matches any text
_ONE_STEP: Final = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "CATEGORY"})


def check_regex(regex: str) -> str:
    """Check the regular expression of a rule.

    Raises:
        ValueError: It is invalid, matches too much, or may take too long.
    """
    pattern, width = _check_time(regex, 1)
    if width < _SHORTEST:
        raise ValueError(f"it matches fewer than {_SHORTEST} characters; write more of what the secret has")
    if all(pattern.match(sign * LONGEST) for sign in _ANYTHING):
        raise ValueError("it matches any text; write what only the secret has")
    return regex


def check_exception(regex: str) -> str:
    """Check a regular expression of an allowlist.

    Raises:
        ValueError: It is invalid or may take too long.
    """
    _check_time(regex, LONGEST)
    return regex


def _check_time(regex: str, positions: int) -> tuple[re.Pattern[str], int]:
    """Return the pattern and the smallest number of characters it matches.

    Raises:
        ValueError: Not a regular expression, or one that may take too long at that many positions.
    """
    if "[:" in regex:  # Python takes its letters for a set
        raise ValueError("Python has no classes such as [:alnum:]; write their characters, as in [A-Za-z0-9]")
    try:
        pattern = re.compile(regex)
        parsed = importlib.import_module("re._parser").parse(regex)
        steps = _effort(parsed)[1] * positions
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"Python doesn't accept this regular expression: {error}") from None
    if not steps <= MOST_STEPS:
        raise ValueError(
            "it could take too long, because its repetitions can share a text in too many ways; give them bounds, such "
            "as {20,40}, or let them keep what they matched, as in [a-z]++"
        )
    return pattern, parsed.getwidth()[0]


def _effort(parsed: Any) -> tuple[float, float]:
    """Return upper bounds of the ways in which a parsed expression can match at a position, and of the steps to try all
    of them."""
    ways, steps = 1.0, 1.0
    for code, value in parsed:
        more_ways, more_steps = _effort_of(str(code), value)
        steps += ways * more_steps
        ways *= more_ways
    return ways, steps


def _effort_of(code: str, value: Any) -> tuple[float, float]:
    if code in _ONE_STEP:
        return 1, 1
    match code:
        case "SUBPATTERN":
            return _effort(value[3])
        case "BRANCH":
            efforts = [_effort(one) for one in value[1]]
            return sum(ways for ways, _ in efforts), sum(steps for _, steps in efforts)
        case "ASSERT" | "ASSERT_NOT":
            return 1, _effort(value[1])[1]
        case "ATOMIC_GROUP":
            return 1, _effort(value)[1]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least, most = value[0], min(value[1], LONGEST)
            ways, steps = _effort(value[2])
            if code == "POSSESSIVE_REPEAT":
                return 1, most * steps
            once = ways**most if most * log2(ways) < 64 else inf
            return once * max(1, most - least + 1), once * max(1, most) * steps
        case _:  # references to groups, and what later versions of Python add
            return inf, inf


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
