"""Grammar of ``@`` mentions, shared by prompt parsing and completion.

Kept lightweight, because completion imports this when the extension is loaded.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern

# E-mail addresses have a letter before the @; matrix products have a bracket or a space after it.
_BEFORE: Final = r"(?:^|(?<=[\s(\[{*\"'“„‘«]))"
_PLAIN: Final = r"[^\s@\"'`()\[\]{}<>,;:!?|*’”“«»]"

# MCP resources are written as server name and URI with a scheme: `@docs:file:///guide.md`.
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

# Code in the prompt: fenced blocks, or the report that `%vibe fix` adds. An unclosed block extends to the end.
_CODE: Final = lazy_pattern(
    r"^[ \t]*(?P<fence>```|~~~).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)|^<error>$.*?(?:^</error>$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_DEFINITION: Final = lazy_pattern(r"[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w+[ \t]*[(\[]|class[ \t]+\w+[ \t]*[(\[:])")


class Mention(NamedTuple):
    """A variable, path or other name written after ``@``."""

    text: str
    is_quoted: bool  # in double quotes, as for paths with spaces


def written_mentions(prompt: str) -> Iterator[Mention]:
    """Yield the mentions in the prompt in order, ignoring code."""
    for found in _MENTION.finditer(_own_text(prompt)):
        if found["quoted"] is not None:
            yield Mention(found["quoted"], is_quoted=True)
        elif text := found["plain"].rstrip(".…"):
            yield Mention(text, is_quoted=False)


def unfinished_mention(before: str) -> Mention | None:
    """Return the mention being typed before the cursor. None if there is none, or inside a fence."""
    if len(_FENCE.findall(before)) % 2:
        return None
    found = _UNFINISHED.search(before, before.rfind("\n") + 1)
    if found is None:
        return None
    quoted = found["quoted"]
    return Mention(found["plain"], is_quoted=False) if quoted is None else Mention(quoted, is_quoted=True)


class ResourceMention(NamedTuple):
    """An MCP resource named in a prompt."""

    server: str
    uri: str
    is_quoted: bool = False


def mentioned_resources(prompt: str) -> Iterator[ResourceMention]:
    """Yield the resources that the prompt mentions as ``@server:uri``, in order, ignoring code."""
    for found in _RESOURCE.finditer(_own_text(prompt)):
        server, _, uri = (found["quoted"] or _without_sentence(found["plain"])).partition(":")
        if uri:
            yield ResourceMention(server, uri, is_quoted=found["plain"] is None)


def unfinished_resource(before: str) -> ResourceMention | None:
    """Return the ``@server:`` mention being typed before the cursor, or None."""
    found = _UNFINISHED_RESOURCE.search(before, before.rfind("\n") + 1)
    if found is None or len(_FENCE.findall(before)) % 2:
        return None
    server, _, uri = (found["plain"] or found["quoted"]).partition(":")
    return ResourceMention(server, uri, is_quoted=found["plain"] is None)


def mentioned_numbers(prompt: str) -> list[int]:
    """Return the distinct numbers of cells that the prompt mentions as ``@[4]``, ignoring code."""
    return list(dict.fromkeys(int(found["number"]) for found in _CELL.finditer(_own_text(prompt))))


def unfinished_cell(before: str) -> str | None:
    """Return the cell mention being typed before the cursor, without its ``@``, or None."""
    if len(_FENCE.findall(before)) % 2:
        return None
    found = _UNFINISHED_CELL.search(before, before.rfind("\n") + 1)
    return None if found is None else found["begun"]


def _without_sentence(uri: str) -> str:
    """Strip trailing punctuation that belongs to the sentence rather than to the URI."""
    while uri:
        last = uri[-1]
        opener = _CLOSERS.get(last)
        if last in ".,;:!?…'\"`*’”»" or (opener is not None and uri.count(opener) < uri.count(last)):
            uri = uri[:-1]
            continue
        break
    return uri


def _own_text(prompt: str) -> str:
    """Remove fenced code, and decorators of unfenced code, from the prompt."""
    lines = _CODE.sub("", prompt).split("\n")
    kept: list[str] = []
    is_above_definition = False
    for line in reversed(lines):
        is_decorator = is_above_definition and line.lstrip().startswith("@")
        is_above_definition = is_decorator or _DEFINITION.match(line) is not None
        if not is_decorator:
            kept.append(line)
    return "\n".join(reversed(kept))
