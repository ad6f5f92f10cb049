"""Markdown as safe HTML. The parser comes with the first text: a request need not wait for it."""

from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.ui.code import CodeLook
from vibe_jupyter.ui.markup import Markup

if TYPE_CHECKING:
    from vibe_jupyter.ui.markdown_html import MarkdownBlock


def markdown_html(text: str, look: CodeLook) -> Markup:
    """Render a text as the children of one element."""
    return _load_renderer().markdown_html(text, look)


def markdown_blocks(text: str, look: CodeLook) -> "list[MarkdownBlock]":
    """Render a text, block by block."""
    return _load_renderer().markdown_blocks(text, look)


@cache
def _load_renderer() -> ModuleType:
    with without_working_folder():
        from vibe_jupyter.ui import markdown_html as html  # noqa: PLC0415 - as the module says
    return html
