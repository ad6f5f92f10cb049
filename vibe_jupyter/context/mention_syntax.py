"""How a prompt names things with ``@``: one grammar to read a prompt by, and to complete it by.

Light on purpose: completion imports this when the extension is loaded.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern

# An address has a letter before its @, a matrix product a bracket or a space after it.
_BEFORE: Final = r"(?:^|(?<=[\s(\[{*\"'“„‘«]))"
_PLAIN: Final = r"[^\s@\"'`()\[\]{}<>,;:!?|*’”“«»]"

# What an MCP server offers to read is named by the server and an address with a scheme: `@docs:file:///guide.md`.
_ADDRESS: Final = r":[A-Za-z][A-Za-z0-9+.-]*:\S"
_MENTION: Final = lazy_pattern(
    rf'{_BEFORE}@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>{_PLAIN}++)(?!{_ADDRESS}))', re.MULTILINE
)
_SERVER: Final = "[A-Za-z0-9_-]{1,64}"
_RESOURCE: Final = lazy_pattern(
    rf'{_BEFORE}@(?:"(?P<quoted>{_SERVER}:[^"\n]+)"|(?P<plain>{_SERVER}(?={_ADDRESS}):\S+))', re.MULTILINE
)
_UNFINISHED_RESOURCE: Final = lazy_pattern(
    rf'{_BEFORE}@(?:"(?P<quoted>{_SERVER}:[^"\n]*)|(?P<plain>{_SERVER}:[^\s"]*))$'
)
_CELL: Final = lazy_pattern(rf"{_BEFORE}@\[(?P<number>\d{{1,9}})\]", re.MULTILINE)
_UNFINISHED_CELL: Final = lazy_pattern(rf"{_BEFORE}@(?P<begun>\[\d{{0,9}})$")
_CLOSERS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}
_UNFINISHED: Final = lazy_pattern(rf'{_BEFORE}@(?:"(?P<quoted>[^"\n]*)|(?P<plain>{_PLAIN}*))$')
_FENCE: Final = lazy_pattern(r"^[ \t]*(?:```|~~~)", re.MULTILINE)

# Code that the prompt holds: fenced, or the report that `%vibe fix` adds. What is never closed goes on to the end.
_CODE: Final = lazy_pattern(
    r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)|^<error>$.*?(?:^</error>$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DEFINITION: Final = lazy_pattern(r"[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w+[ \t]*[(\[]|class[ \t]+\w+[ \t]*[(\[:])")


class Mention(NamedTuple):
    """What stands after one ``@``."""

    text: str
    is_quoted: bool
    """In double quotes, as paths with spaces are."""


def written_mentions(prompt: str) -> Iterator[Mention]:
    """What the prompt's own words put after ``@``, in order; code is left out."""
    for found in _MENTION.finditer(_own_text(prompt)):
        if found["quoted"] is not None:
            yield Mention(found["quoted"], is_quoted=True)
        elif text := found["plain"].rstrip(".…"):
            yield Mention(text, is_quoted=False)


def unfinished_mention(before: str) -> Mention | None:
    """The mention that the text before the cursor ends with; None where it ends with none, or inside a fence."""
    if len(_FENCE.findall(before)) % 2:
        return None
    found = _UNFINISHED.search(before, before.rfind("\n") + 1)
    if found is None:
        return None
    quoted = found["quoted"]
    return Mention(found["plain"], is_quoted=False) if quoted is None else Mention(quoted, is_quoted=True)


class ResourceMention(NamedTuple):
    """What an MCP server offers to read, as a prompt names it."""

    server: str
    uri: str
    is_quoted: bool = False


def mentioned_resources(prompt: str) -> Iterator[ResourceMention]:
    """What the prompt's own words name as ``@server:uri``, in order; code is left out."""
    for found in _RESOURCE.finditer(_own_text(prompt)):
        server, _, uri = (found["quoted"] or _without_sentence(found["plain"])).partition(":")
        if uri:
            yield ResourceMention(server, uri, is_quoted=found["plain"] is None)


def unfinished_resource(before: str) -> ResourceMention | None:
    """The ``@server:`` that the text before the cursor ends with, and what follows it; None where there is none."""
    found = _UNFINISHED_RESOURCE.search(before, before.rfind("\n") + 1)
    if found is None or len(_FENCE.findall(before)) % 2:
        return None
    server, _, uri = (found["plain"] or found["quoted"]).partition(":")
    return ResourceMention(server, uri, is_quoted=found["plain"] is None)


def mentioned_numbers(prompt: str) -> list[int]:
    """The numbers of the cells that the prompt's own words name as ``@[4]``, each once."""
    return list(dict.fromkeys(int(found["number"]) for found in _CELL.finditer(_own_text(prompt))))


def unfinished_cell(before: str) -> str | None:
    """What follows the ``@`` of the cell that the text before the cursor ends with; None where it ends with none."""
    if len(_FENCE.findall(before)) % 2:
        return None
    found = _UNFINISHED_CELL.search(before, before.rfind("\n") + 1)
    return None if found is None else found["begun"]


def _without_sentence(uri: str) -> str:
    """An address without what the sentence around it ends with."""
    while uri:
        last = uri[-1]
        opener = _CLOSERS.get(last)
        if last in ".,;:!?…'\"`*’”»" or (opener is not None and uri.count(opener) < uri.count(last)):
            uri = uri[:-1]
            continue
        break
    return uri


def _own_text(prompt: str) -> str:
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
