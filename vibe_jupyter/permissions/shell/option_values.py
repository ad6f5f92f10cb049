"""Values of options that make a program run nothing, and keep it from running for ever."""

import re
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern

_REPEAT: Final = lazy_pattern(r"\\?\{(\d*)(?:,(\d*))?\\?\}")
_BACK_REFERENCE: Final = lazy_pattern(r"\\(?:[1-9]|[gk])")
_FORMATS: Final = ("oneline", "short", "medium", "full", "fuller", "reference", "email", "raw")
_FORMAT: Final = lazy_pattern(r"(?:[^%]|%(?![-+ ]?G|\(describe|[-+ ]?\(describe|<<))*", re.DOTALL)
"""No ``%G``, for which git runs gpg."""
_DATE: Final = lazy_pattern(r"[\w,.:-]*|format(?:-local)?:(?:[^%]|%[-_^#EO]?[A-Za-z%])*", re.DOTALL | re.ASCII)
"""No width, which may fill the memory."""
_WIDE: Final = lazy_pattern(r"\d{4,}|\*")
_SPECIFIER: Final = lazy_pattern(r"%[^A-Za-z%]*")
REPEATS_LIMIT: Final = 255
"""What the counted repetitions of one search pattern come to when they are multiplied."""
PATTERN_LIMIT: Final = 1_000
"""Characters of a search pattern."""


def is_safe_format(text: str) -> bool:
    """Whether a format of git prints commits, makes git run nothing, and pads nothing without bound."""
    if text in _FORMATS or not text:
        return True
    return "%" in text and _FORMAT.fullmatch(text) is not None and not re.search(r"\d{4,}", text)


def is_safe_date(text: str) -> bool:
    """Whether a way to write dates has no widths that could fill the memory."""
    return len(text) <= 100 and _DATE.fullmatch(text) is not None


def is_narrow(text: str) -> bool:
    """Whether no specifier of a format, as of ``printf`` or ``stat``, pads without bound."""
    return not any(_WIDE.search(specifier) for specifier in _SPECIFIER.findall(text))


def is_safe_pattern(text: str) -> bool:
    """Whether a search pattern cannot take for ever: no back reference, no huge or nested counts."""
    if _BACK_REFERENCE.search(text) or len(text) > PATTERN_LIMIT:
        return False
    product = 1
    for least, most in _REPEAT.findall(text):
        if max(len(least), len(most)) > 3:
            return False
        product *= max(int(most or 0), int(least or 0), 1)
    return product <= REPEATS_LIMIT and not re.search(r"\{\d{4,}", text)
