"""The few lines all HTML of this package is written with."""

import html
import re
from typing import NewType

from vibe_jupyter.ui.text import escape_hidden

Markup = NewType("Markup", str)
"""HTML that is safe to insert: written by us, every foreign text in it escaped."""

_TYPESETTERS = re.compile(r"[$\\]")


def escape(text: str) -> Markup:
    """Text for an element or a quoted attribute; hidden characters are written out."""
    return Markup(html.escape(escape_hidden(text)))


def inert(text: str) -> Markup:
    """`escape` for text outside of code, where notebooks look for formulas.

    Every dollar and backslash stands in an element of its own: MathJax never joins delimiters across elements.
    """
    return Markup(_TYPESETTERS.sub(lambda found: f"<span>{found[0]}</span>", escape(text)))


def element(name: str, *children: Markup, **attributes: str | bool | None) -> Markup:
    """An element; ``_`` in an attribute's name is ``-``, a trailing one is dropped, None and False leave it out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Markup(f"<{name}{written}>{''.join(children)}</{name}>")


def joined(*pieces: Markup) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(pieces))


NOTHING = Markup("")


def _attribute(key: str, value: str | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(value)}"'
