"""What a docstring says of a function and of each argument: Google's, NumPy's and Sphinx's ways of writing."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_SECTION: Final = re.compile(
    r"^(?:(Args|Arguments|Parameters|Params)|Returns?|Raises|Yields?|Examples?|Notes?|See Also|References):?\s*$"
)
_RULE: Final = re.compile(r"^-{3,}\s*$")
_GOOGLE: Final = re.compile(r"^\s*\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<words>.*)$")
_NUMPY: Final = re.compile(r"^(?P<name>\w+)\s*(?::.*)?$")
_SPHINX: Final = re.compile(r"^:(?P<field>\w+)(?:[^:\n]*\b(?P<name>\w+))?:\s*(?P<words>.*)$")


@dataclass(frozen=True)
class Documented:
    """A docstring taken apart."""

    summary: str = ""
    """What it does: everything before the first section."""
    arguments: dict[str, str] = field(default_factory=dict[str, str])


def documented(text: str | None) -> Documented:
    """Take a docstring apart; nothing in it is required."""
    lines = inspect.cleandoc(text or "").split("\n")
    start = next((at for at, line in enumerate(lines) if _SECTION.match(line) or _SPHINX.match(line)), len(lines))
    summary = "\n".join(lines[:start]).strip()
    arguments: dict[str, str] = {}
    for name, words in [*_sphinx(lines[start:]), *_sections(lines[start:])]:
        arguments.setdefault(name, " ".join(words.split()))
    return Documented(summary, arguments)


def _sphinx(lines: list[str]) -> Iterator[tuple[str, str]]:
    name, words = "", ""
    for line in lines:
        found = _SPHINX.match(line)
        if found is None and line.startswith((" ", "\t")):
            words += f" {line}"
            continue
        if name:
            yield name, words
        name, words = (found["name"] or "", found["words"]) if found and found["field"] == "param" else ("", "")
    if name:
        yield name, words


def _sections(lines: list[str]) -> Iterator[tuple[str, str]]:
    section: list[str] = []
    is_arguments = False
    for line in [*lines, "Returns:"]:
        if (header := _SECTION.match(line)) is None:
            section.append(line)
            continue
        if is_arguments:
            yield from _arguments(section)
        section, is_arguments = [], header[1] is not None


def _arguments(lines: list[str]) -> Iterator[tuple[str, str]]:
    is_numpy = bool(lines) and _RULE.match(lines[0]) is not None
    body = lines[1:] if is_numpy else inspect.cleandoc("\n" + "\n".join(lines)).split("\n")
    form = _NUMPY if is_numpy else _GOOGLE
    name, words = "", ""
    for line in body:
        found = None if line.startswith((" ", "\t")) else form.match(line)
        if found is None:
            words += f" {line}"
            continue
        if name:
            yield name, words
        name, words = found["name"], "" if is_numpy else found["words"]
    if name:
        yield name, words
