"""Rules for secrets and their names, as data: those of `secret_rules.toml`, loaded on first use."""

import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol.messages import Value

RULES_FILE: Final = Path(__file__).with_suffix(".toml")
compiled: Final = cache(re.compile)


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
    table, *rest = problem["loc"]
    if rest and isinstance(rest[0], int):
        entry = written[table][rest.pop(0)]
        yield f"rule {entry.get('id', 'without an id') if isinstance(entry, dict) else entry}"
    else:
        rest = [table, *rest]
    if rest:
        yield ".".join(map(str, rest))
    yield problem["msg"]
