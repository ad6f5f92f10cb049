"""Bounds on regular expressions that users write: what one may match, and how long it may take."""

import importlib
import re
from math import inf, log2
from typing import Any, Final

LONGEST: Final = 1_000  # characters in which a match is looked for
MOST_STEPS: Final = 20_000_000  # for trying a regular expression at one position; less than a tenth of a second
_SHORTEST: Final = 4  # characters of a match
# A regular expression that matches all of these matches any text
_ORDINARY: Final = (
    "The new plan is to go on as before, and it was sent to all of us. ",
    "x = 7  # the sum of a, b and c\n",
    "if (n > 0) { return f(n - 1) + 1; }\n",
    "7 of 9 rows, 1.5 % of them empty; ",
    "é a été là, où ça va: über Öl. ",
    "| a | b | c |\t- [ ] ~/x/y.txt <p> ",
)
_ONE_STEP: Final = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY", "AT", "CATEGORY"})


def check_regex(regex: str) -> str:
    """Check the regular expression of a rule.

    Raises:
        ValueError: It is invalid, matches too much, or may take too long.
    """
    pattern, width = check_time(regex, 1)
    if width < _SHORTEST:
        raise ValueError(f"it can match fewer than {_SHORTEST} characters; make it more specific")
    if all(pattern.match((text * LONGEST)[:LONGEST]) for text in _ORDINARY):
        raise ValueError("it matches any text; make it specific to the secret")
    return regex


def check_exception(regex: str) -> str:
    """Check a regular expression of an allowlist.

    Raises:
        ValueError: It is invalid or may take too long.
    """
    check_time(regex, LONGEST)
    return regex


def check_time(regex: str, positions: int) -> tuple[re.Pattern[str], int]:
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
        case "GROUPREF":
            raise ValueError("back references such as \\1 are not supported in rules")
        case "GROUPREF_EXISTS":
            raise ValueError("conditions such as (?(1)…) are not supported in rules")
        case _:  # what later versions of Python add
            return inf, inf
