"""What a Markdown cell makes the page load as soon as it is shown."""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from vibe_jupyter.own_imports import without_working_folder

if TYPE_CHECKING:
    from markdown_it.token import Token

_REMOTE: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//[^\s\"'<>)]+", re.IGNORECASE)
_TAG: Final = re.compile(r"<[a-z]", re.IGNORECASE)
RAW_HTML: Final = "raw HTML"


def loaded_addresses(source: str) -> tuple[str, ...]:
    """Addresses of remote images, and `RAW_HTML` with the addresses in it, in the order they stand."""
    with without_working_folder():
        from markdown_it import MarkdownIt  # noqa: PLC0415 - a request need not wait for it

    found: list[str] = []
    for token in _flat(MarkdownIt("commonmark", {"html": True}).parse(source)):
        if token.type == "image":
            found.extend(_REMOTE.findall(str(token.attrs.get("src", ""))))
        elif token.type in ("html_block", "html_inline") and _TAG.search(token.content):
            found.append(RAW_HTML)
            found.extend(_REMOTE.findall(token.content))
    return tuple(dict.fromkeys(found))


def _flat(tokens: "Iterable[Token]") -> "Iterator[Token]":
    for token in tokens:
        yield token
        yield from _flat(token.children or ())
