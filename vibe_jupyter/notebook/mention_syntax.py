"""How a prompt names things with ``@``: one grammar to read a prompt by, and to complete it by.

Light on purpose: completion imports this when the extension is loaded.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# An address has a letter before its @, a matrix product a bracket or a space after it.
_BEFORE: Final = r"(?:^|(?<=[\s(\[{*\"'“„‘«]))"
_PLAIN: Final = r"[^\s@\"'`()\[\]{}<>,;:!?|*’”“«»]"
_MENTION: Final = re.compile(rf'{_BEFORE}@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>{_PLAIN}+))', re.MULTILINE)
_UNFINISHED: Final = re.compile(rf'{_BEFORE}@(?:"(?P<quoted>[^"\n]*)|(?P<plain>{_PLAIN}*))$')
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
# Code that the prompt holds: fenced, or the report that `%vibe fix` adds. What is never closed goes on to the end.
_CODE: Final = re.compile(
    r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)|^<error>$.*?(?:^</error>$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DEFINITION: Final = re.compile(r"[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w+[ \t]*[(\[]|class[ \t]+\w+[ \t]*[(\[:])")


@dataclass(frozen=True)
class Written:
    """What stands after one ``@``."""

    text: str
    is_quoted: bool
    """In double quotes, as paths with spaces are."""


def written(prompt: str) -> Iterator[Written]:
    """What the prompt's own words put after ``@``, in order; code is left out."""
    for found in _MENTION.finditer(_words(prompt)):
        if found["quoted"] is not None:
            yield Written(found["quoted"], is_quoted=True)
        elif text := found["plain"].rstrip(".…"):
            yield Written(text, is_quoted=False)


def unfinished(before: str) -> Written | None:
    """The mention that the text before the cursor ends with; None where it ends with none, or inside a fence."""
    if len(_FENCE.findall(before)) % 2:
        return None
    found = _UNFINISHED.search(before, before.rfind("\n") + 1)
    if found is None:
        return None
    quoted = found["quoted"]
    return Written(found["plain"], is_quoted=False) if quoted is None else Written(quoted, is_quoted=True)


def _words(prompt: str) -> str:
    """The prompt without fenced code, and without decorators of code that stands there bare."""
    lines = _CODE.sub("", prompt).split("\n")
    kept: list[str] = []
    is_above_definition = False
    for line in reversed(lines):
        is_decorator = is_above_definition and line.lstrip().startswith("@")
        is_above_definition = is_decorator or _DEFINITION.match(line) is not None
        if not is_decorator:
            kept.append(line)
    return "\n".join(reversed(kept))
