"""Markdown as safe HTML. The parser comes with the first text: a request need not wait for it."""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from vibe_jupyter.own_imports import without_working_folder
from vibe_jupyter.ui.code import Look
from vibe_jupyter.ui.markup import Markup

if TYPE_CHECKING:
    from vibe_jupyter.ui.html import Block


def markdown_html(text: str, look: Look) -> Markup:
    """Render a text as the children of one element."""
    return _renderer().markdown_html(text, look)


def markdown_blocks(text: str, look: Look) -> "list[Block]":
    """Render a text, block by block."""
    return _renderer().markdown_blocks(text, look)


@cache
def _renderer() -> ModuleType:
    with without_working_folder():
        from vibe_jupyter.ui import html  # noqa: PLC0415 - as the module says
    return html
