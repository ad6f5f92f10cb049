"""Markdown of a model or a tool as safe HTML (security control C20).

Raw HTML is text. What markdown-it makes is written by rules of ours and then held against an allow-list by nh3. Links
go to http, https and mail only and show where they lead; pictures are only ones that come with the text.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from vibe_jupyter.ui.addresses import is_link, is_picture, picture_size
from vibe_jupyter.ui.code import KEPT, KEPT_LEFT, KEPT_LINK, KEPT_PRE, KEPT_RIGHT, LIVE, Look, code_html
from vibe_jupyter.ui.formulas import find_formula, only_draws
from vibe_jupyter.ui.links import with_addresses
from vibe_jupyter.ui.markup import Markup, element, escape, inert
from vibe_jupyter.ui.text import readable, shorten

MARKDOWN_LIMIT = 200_000
"""Characters of one text that are rendered; more is cut with a word."""
_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code", "em", "strong", "s"),
    *("a", "img", "table", "thead", "tbody", "tr", "th", "td", "span"),
}
_ATTRIBUTES: dict[str, set[str]] = {
    "*": set(),  # or nh3 lets titles and languages through
    "a": {"href", "style"},
    "pre": {"style"},
    "img": {"src", "alt", "width", "height"},
    "th": {"align", "style"},
    "td": {"align", "style"},
    **{name: {"dir"} for name in ("h3", "h4", "h5", "h6", "blockquote", "ul", "table")},
    "ol": {"start", "dir"},
    "p": {"dir", "style"},
    "code": {"class"},
    "span": {"class", "style"},
}
_OUR_CLASSES = {"vibe-k", "vibe-s", "vibe-m", "vibe-c", "vibe-tex", "vibe-address"}
_ALIGNED = {KEPT_LEFT, KEPT_RIGHT, "text-align:center"}
_STYLES = {
    "span": {attribute.removeprefix('style="').removesuffix('"') for attribute in KEPT.values()},
    "a": {KEPT_LINK},
    "pre": {KEPT_PRE},
    "p": {KEPT_RIGHT},
    "th": _ALIGNED,
    "td": _ALIGNED,
}
"""All a style may say, by element."""
_LINE_END = re.compile(r"(</?(?:p|h\d|ul|ol|li|table|thead|tbody|tr|th|td|blockquote|hr)(?: [^<>]*)?/?>)\n")
"""Between blocks a line end says nothing; in tables and lists they are a tenth of what is sent."""
_HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5"}

_Env = MutableMapping[str, Any]


@dataclass(frozen=True)
class Block:
    """One top-level piece of a Markdown text."""

    line: int
    """Where it starts in the text, from 0."""
    html: Markup


def markdown_blocks(text: str, look: Look) -> list[Block]:
    """Render a text, block by block."""
    env: _Env = {"look": look}
    tokens = _MARKDOWN.parse(readable(shorten(text, MARKDOWN_LIMIT)), env)
    return [_block(group, env) for group in _top_level(tokens)]


def markdown_html(text: str, look: Look) -> Markup:
    """Render a text as the children of one element."""
    return Markup("".join(block.html for block in markdown_blocks(text, look)))


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    return groups


def _block(tokens: list[Token], env: _Env) -> Block:
    line = tokens[0].map[0] if tokens[0].map else 0
    if tokens[0].nesting == 1 and _begins_right(token.content for token in tokens):
        tokens[0].attrs["dir"] = "rtl"
        if tokens[0].tag == "p" and env["look"] is not LIVE:
            tokens[0].attrs["style"] = KEPT_RIGHT
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)
    return Block(line, _clean(_LINE_END.sub(r"\1", html)))


def _begins_right(texts: Iterable[str]) -> bool:
    """Whether the first letter that has a direction goes from right to left."""
    for character in itertools.chain.from_iterable(texts):
        if (direction := unicodedata.bidirectional(character)) in ("L", "R", "AL"):
            return direction != "L"
    return False


def _clean(html: str) -> Markup:
    """The allow-list: nothing that runs, loads, navigates or imitates us gets past it, whatever came before."""
    return Markup(
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_allowed_value,
            url_schemes={"http", "https", "mailto", "data"},
            link_rel="noopener noreferrer",
            set_tag_attribute_values={"a": {"target": "_blank"}},
            strip_comments=True,
        )
    )


def _allowed_value(tag: str, attribute: str, value: str) -> str | None:
    match attribute:
        case "class":
            allowed = value in _OUR_CLASSES
        case "style":
            allowed = value in _STYLES.get(tag, ())
        case "href":
            allowed = is_link(value)
        case "dir":
            allowed = value == "rtl"
        case "src":
            allowed = is_picture(value)
        case _:
            allowed = True
    return value if allowed else None


class _Markdown(MarkdownIt):
    """CommonMark without raw HTML, with tables and strikethrough."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"html": False}, renderer_cls=_Renderer)
        self.enable(["table", "strikethrough"])
        self.inline.ruler.before("escape", "formula", _formula)
        self.core.ruler.after("inline", "shape", _shape)

    def validateLink(self, url: str) -> bool:
        """A link elsewhere stays visible as its source."""
        return is_link(url) or is_picture(url)


class _Renderer(RendererHTML):
    """Writes the tokens whose text could mean something to a notebook."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert(tokens[idx].content)

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert(tokens[idx].content)

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return element("code", escape(tokens[idx].content))

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return _pre(escape(tokens[idx].content), env)

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        language = (tokens[idx].info.split() or [""])[0]
        return _pre(code_html(tokens[idx].content.rstrip("\n"), language, env["look"]), env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        line = "" if env["look"] is LIVE else f' style="{KEPT_LINK}"'
        return f'<a href="{escape(str(tokens[idx].attrs["href"]))}"{line}>'

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        words = self.renderInlineAsText(tokens[idx].children, options, env)
        address = str(tokens[idx].attrs["src"])
        size = picture_size(address)
        room = f' width="{size[0]}" height="{size[1]}"' if size and env["look"] is LIVE else ""
        return f'<img src="{escape(address)}" alt="{escape(words)}"{room}>'

    def formula(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        """The kept form is typeset by notebooks that can; the live view, which is not, shows the source."""
        token = tokens[idx]
        if env["look"] is LIVE or not only_draws(token.content):
            return element("code", escape(token.markup), class_="vibe-tex" if env["look"] is LIVE else None)
        opening, closing = ("\\[", "\\]") if token.meta["display"] else ("\\(", "\\)")
        return f"<span>{escape(opening + token.content + closing)}</span>"

    def address(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        shown = inert(f" ({tokens[idx].content})")
        return element("span", shown, class_="vibe-address") if env["look"] is LIVE else shown


def _pre(code: Markup, env: _Env) -> Markup:
    return element("pre", element("code", code), style=None if env["look"] is LIVE else KEPT_PRE)


def _formula(state: StateInline, silent: bool) -> bool:
    """Inline rule: a formula is one piece, so Markdown does not take its underscores and backslashes."""
    found = find_formula(state.src, state.pos) if state.src[state.pos] in "$\\" else None
    if found is None or found[0] > state.posMax:
        return False
    end, inside, display = found
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.markup, token.meta = inside, state.src[state.pos : end], {"display": display}
    state.pos = end
    return True


def _shape(state: StateCore) -> None:
    """Core rule: smaller headings, alignment as an attribute, links with their addresses."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADINGS.get(token.tag, "h6")
        elif token.type in ("th_open", "td_open"):
            _align(token, state.env["look"])
        elif token.children:
            token.children = with_addresses(token.children)


def _align(cell: Token, look: Look) -> None:
    """Alignment as an attribute, which lives where styles are dropped, and for what is kept also as a style.

    JupyterLab would have everything to the right.
    """
    style = str(cell.attrs.pop("style", ""))
    if style:
        cell.attrs["align"] = style.removeprefix("text-align:")
    if look is not LIVE:
        cell.attrs["style"] = style or KEPT_LEFT


_MARKDOWN = _Markdown()
