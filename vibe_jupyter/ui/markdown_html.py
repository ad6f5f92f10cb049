"""Markdown from models and tools as safe HTML, with links and formulas.

Raw HTML is shown as text. The output of markdown-it is rendered by our own rules and then passed through an nh3
allowlist. Links may be http, https and mailto only and show their target; images must be embedded in the text.

TeX in a notebook can create links, classes, styles and macros. So a formula is typeset only if all of its commands are
on the allowlist; otherwise its source is shown.
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

from vibe_jupyter.ui.cell_references import REFERENCE, FindCell, cell_words, no_cell
from vibe_jupyter.ui.code import KEPT, KEPT_LEFT, KEPT_LINK, KEPT_PRE, KEPT_RIGHT, LIVE, CodeLook, code_html
from vibe_jupyter.ui.markup import Markup, escape_text, html_element, inert_text, is_link, is_picture, picture_size
from vibe_jupyter.ui.text import readable_text, shorten_text

MARKDOWN_LIMIT = 200_000  # characters rendered of one text; longer texts are shortened with a note
_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "code", "em", "strong", "s"),
    *("a", "img", "table", "thead", "tbody", "tr", "th", "td", "span"),
}
_ATTRIBUTES: dict[str, set[str]] = {
    "*": set(),  # otherwise nh3 allows title and lang
    "a": {"href", "style"},
    "pre": {"style"},
    "img": {"src", "alt", "width", "height"},
    "th": {"align", "style"},
    "td": {"align", "style"},
    **{name: {"dir"} for name in ("h3", "h4", "h5", "h6", "blockquote", "ul", "table")},
    "ol": {"start", "dir"},
    "p": {"dir", "style"},
    "code": {"class"},
    "span": {"class", "style", "data-cell"},
}
_OUR_CLASSES = {"vibe-k", "vibe-s", "vibe-m", "vibe-c", "vibe-tex", "vibe-address", "vibe-cell"}
_ALIGNED = {KEPT_LEFT, KEPT_RIGHT, "text-align:center"}
# Allowed style attributes, by element.
_STYLES = {
    "span": {attribute.removeprefix('style="').removesuffix('"') for attribute in KEPT.values()},
    "a": {KEPT_LINK},
    "pre": {KEPT_PRE},
    "p": {KEPT_RIGHT},
    "th": _ALIGNED,
    "td": _ALIGNED,
}
# Newlines between blocks are insignificant; removing them saves a tenth of the bytes of tables and lists.
_LINE_END = re.compile(r"(</?(?:p|h\d|ul|ol|li|table|thead|tbody|tr|th|td|blockquote|hr)(?: [^<>]*)?/?>)\n")
_HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5"}

_Env = MutableMapping[str, Any]

ADDRESS_LIMIT = 120  # characters of a link's target shown after its text

FORMULA_LIMIT = 1_000  # characters; longer formulas are shown as source

_COMMAND = re.compile(r"\\([A-Za-z]+|[\s\S]?)")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^}]*)\}")
_ENVIRONMENT_NAMES = """
aligned alignedat array bmatrix Bmatrix cases gathered matrix pmatrix smallmatrix split vmatrix Vmatrix
"""
_ENVIRONMENTS = frozenset(_ENVIRONMENT_NAMES.split())
_MARKS = frozenset("\\{}|,;:! _&%#()[]")
_COMMAND_NAMES = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho
sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
frac dfrac tfrac cfrac sqrt binom tbinom dbinom over sum prod coprod int iint iiint oint lim limsup liminf sup inf
max min arg argmax argmin log ln lg exp sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh coth det dim
ker deg gcd hom Pr mod bmod pmod limits nolimits displaystyle textstyle scriptstyle scriptscriptstyle
cdot cdots ldots dots dotsb dotsc vdots ddots times div pm mp ast star circ bullet oplus ominus otimes odot wedge
vee cap cup sqcap sqcup setminus le leq ge geq ne neq lt gt ll gg approx approxeq sim simeq cong equiv propto prec
succ preceq succeq subset subseteq supset supseteq in ni notin not mid nmid parallel perp models vdash dashv
forall exists nexists neg lnot land lor top bot emptyset varnothing infty partial nabla aleph hbar ell Re Im wp
angle triangle square prime degree dagger ddagger to gets mapsto leftarrow rightarrow leftrightarrow Leftarrow
Rightarrow Leftrightarrow longleftarrow longrightarrow Longrightarrow Longleftrightarrow iff implies impliedby
uparrow downarrow updownarrow hookrightarrow rightharpoonup xrightarrow xleftarrow
hat widehat bar overline underline tilde widetilde vec dot ddot acute grave breve check overbrace underbrace
overset underset stackrel substack boxed
mathrm mathbf mathit mathsf mathtt mathbb mathcal mathfrak mathscr boldsymbol bm text textbf textit textrm
operatorname rm bf it cal
left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr lvert rvert lVert rVert vert Vert
langle rangle lceil rceil lfloor rfloor lbrace rbrace lbrack rbrack backslash
quad qquad thinspace enspace space hline begin end
"""
_WORDS = frozenset(_COMMAND_NAMES.split())

_DOLLAR_END = re.compile(r"(?<![\s\\])\$(?!\d)")


@dataclass(frozen=True)
class MarkdownBlock:
    """A top-level block of a Markdown text."""

    line: int  # first line in the text, from 0
    html: Markup


def markdown_blocks(text: str, look: CodeLook, find_cell: FindCell = no_cell) -> list[MarkdownBlock]:
    env: _Env = {"look": look, "find_cell": find_cell}
    tokens = _MARKDOWN.parse(readable_text(shorten_text(text, MARKDOWN_LIMIT)), env)
    return [_render_block(group, env) for group in _top_level(tokens)]


def markdown_html(text: str, look: CodeLook, find_cell: FindCell = no_cell) -> Markup:
    """Render a text as the children of one element."""
    return Markup("".join(block.html for block in markdown_blocks(text, look, find_cell)))


def _top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    groups: list[list[Token]] = []
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        groups[-1].append(token)
    return groups


def _render_block(tokens: list[Token], env: _Env) -> MarkdownBlock:
    line = tokens[0].map[0] if tokens[0].map else 0
    if tokens[0].nesting == 1 and _begins_right([token.content for token in tokens]):
        tokens[0].attrs["dir"] = "rtl"
        if tokens[0].tag == "p" and env["look"] is not LIVE:
            tokens[0].attrs["style"] = KEPT_RIGHT
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, env)
    return MarkdownBlock(line, _clean_html(_LINE_END.sub(r"\1", html)))


def _begins_right(texts: Iterable[str]) -> bool:
    """Return whether the first character with a strong direction is right-to-left."""
    for character in itertools.chain.from_iterable(texts):
        if (direction := unicodedata.bidirectional(character)) in ("L", "R", "AL"):
            return direction != "L"
    return False


def _clean_html(html: str) -> Markup:
    """Apply the allowlist. Nothing that runs, loads, navigates or imitates our UI gets past it."""
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
        self.inline.ruler.before("escape", "formula", _formula_rule)
        self.inline.ruler.before("escape", "cell", _cell_rule)
        self.core.ruler.after("inline", "shape", _shape_rule)

    def validateLink(self, url: str) -> bool:
        """Accept links and embedded images; markdown-it shows anything else as source."""
        return is_link(url) or is_picture(url)


class _Renderer(RendererHTML):
    """Renders tokens whose text could have a meaning in a notebook."""

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert_text(tokens[idx].content)

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert_text(tokens[idx].content)

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return inert_text(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return html_element("code", escape_text(tokens[idx].content))

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        return _preformatted(escape_text(tokens[idx].content), env)

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        language = (tokens[idx].info.split() or [""])[0]
        return _preformatted(code_html(tokens[idx].content.rstrip("\n"), language, env["look"]), env)

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        line = "" if env["look"] is LIVE else f' style="{KEPT_LINK}"'
        return f'<a href="{escape_text(str(tokens[idx].attrs["href"]))}"{line}>'

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        words = self.renderInlineAsText(tokens[idx].children, options, env)
        address = str(tokens[idx].attrs["src"])
        size = picture_size(address)
        room = f' width="{size[0]}" height="{size[1]}"' if size and env["look"] is LIVE else ""
        return f'<img src="{escape_text(address)}" alt="{escape_text(words)}"{room}>'

    def formula(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        """Render a formula as TeX in the saved output, which notebooks typeset, and as source in the live view."""
        token = tokens[idx]
        if env["look"] is LIVE or not only_draws(token.content):
            return html_element("code", escape_text(token.markup), class_="vibe-tex" if env["look"] is LIVE else None)
        opening, closing = ("\\[", "\\]") if token.meta["display"] else ("\\(", "\\)")
        return f"<span>{escape_text(opening + token.content + closing)}</span>"

    def cell(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        """Render a cell reference. The page keeps its number up to date and makes it a link."""
        reference = tokens[idx].content
        before = tokens[idx - 1].content if idx else ""
        words, found = inert_text(cell_words(reference, env["find_cell"], before)), env["find_cell"](reference)
        if found is None or env["look"] is not LIVE:
            return words
        return html_element("span", words, class_="vibe-cell", data_cell=found.id)

    def address(self, tokens: Sequence[Token], idx: int, options: Any, env: _Env) -> str:
        shown = inert_text(f" ({tokens[idx].content})")
        return html_element("span", shown, class_="vibe-address") if env["look"] is LIVE else shown


def _preformatted(code: Markup, env: _Env) -> Markup:
    return html_element("pre", html_element("code", code), style=None if env["look"] is LIVE else KEPT_PRE)


def _formula_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule: parse a formula as one token, so that Markdown doesn't interpret its underscores and backslashes."""
    found = find_formula(state.src, state.pos) if state.src[state.pos] in "$\\" else None
    if found is None or found[0] > state.posMax:
        return False
    end, inside, display = found
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.markup, token.meta = inside, state.src[state.pos : end], {"display": display}
    state.pos = end
    return True


def _cell_rule(state: StateInline, silent: bool) -> bool:
    """Inline rule: parse cell references such as ``{{d8dc}}``."""
    found = REFERENCE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("cell", "", 0).content = found[1]
    state.pos = found.end()
    return True


def _shape_rule(state: StateCore) -> None:
    """Core rule: demote headings, align table cells by attribute, and show link targets."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADINGS.get(token.tag, "h6")
        elif token.type in ("th_open", "td_open"):
            _align_cell(token, state.env["look"])
        elif token.children:
            token.children = with_addresses(token.children)


def _align_cell(cell: Token, look: CodeLook) -> None:
    """Align a table cell by attribute, which survives where styles are dropped, and in saved output also by style.

    Without the style, JupyterLab aligns all cells to the right.
    """
    style = str(cell.attrs.pop("style", ""))
    if style:
        cell.attrs["align"] = style.removeprefix("text-align:")
    if look is not LIVE:
        cell.attrs["style"] = style or KEPT_LEFT


def with_addresses(children: Sequence[Token]) -> list[Token]:
    """Show the target after each link unless its text is the target, and replace external images with links."""
    out: list[Token] = []
    link: Token | None = None
    words: list[str] = []
    for token in children:
        if token.type == "link_open":
            link, words = token, []
            if is_link(_link_target(token)):
                out.append(token)
        elif token.type == "link_close" and link is not None:
            if is_link(_link_target(link)):
                out.append(token)
            out += _address_tokens(_link_target(link), "".join(words))
            link = None
        elif token.type == "image":
            out += _picture_tokens(token, inside_link=link is not None)
        else:
            words.append(token.content)
            out.append(token)
    return out


def _address_tokens(address: str, words: str) -> list[Token]:
    if words.strip() in (address, address.removeprefix("mailto:"), address.rstrip("/")):
        return []
    shown = address if len(address) <= ADDRESS_LIMIT else address[:ADDRESS_LIMIT] + "…"
    return [Token("address", "", 0, content=shown)]


def _picture_tokens(token: Token, *, inside_link: bool) -> list[Token]:
    """Keep an embedded image, and replace an external one with a link, since displaying it would fetch it."""
    address = str(token.attrs["src"])
    if is_picture(address):
        return [token]
    words = Token("text", "", 0, content=token.content or "picture")
    if inside_link:
        return [words, *_address_tokens(address, words.content)]
    opening = Token("link_open", "a", 1, attrs={"href": address})
    return [opening, words, Token("link_close", "a", -1), *_address_tokens(address, words.content)]


def _link_target(link: Token) -> str:
    return str(link.attrs["href"])


def only_draws(formula: str) -> bool:
    """Return whether a formula's source uses only allowed commands and environments."""
    if len(formula) > FORMULA_LIMIT or re.search(r"(?<!\\)%", formula):
        return False
    commands: list[str] = _COMMAND.findall(formula)
    environments: list[str] = _ENVIRONMENT.findall(formula)
    return (
        all(command in _WORDS or command in _MARKS for command in commands)
        and all(name.rstrip("*") in _ENVIRONMENTS for name in environments)
        and len(environments) == sum(command in ("begin", "end") for command in commands)
    )


def find_formula(source: str, start: int) -> tuple[int, str, bool] | None:
    """Parse the formula that opens at `start`. Returns its end, its source, and whether it is a display formula.

    A dollar sign opens a formula only before a non-blank, and closes it only after a non-blank and not before a digit,
    so that ``$5 to $6`` stays money.
    """
    if source.startswith("$$", start):
        return _until_closing(source, start + 2, "$$", display=True)
    if source.startswith("$", start):
        return _until_dollar(source, start + 1)
    if source.startswith("\\(", start):
        return _until_closing(source, start + 2, "\\)", display=False)
    if source.startswith("\\[", start):
        return _until_closing(source, start + 2, "\\]", display=True)
    return None


def _until_closing(source: str, start: int, closing: str, *, display: bool) -> tuple[int, str, bool] | None:
    end = source.find(closing, start, start + FORMULA_LIMIT * 4)
    inside = source[start:end] if end > start else ""
    return (end + len(closing), inside, display) if inside.strip() and "$" not in inside else None


def _until_dollar(source: str, start: int) -> tuple[int, str, bool] | None:
    if source[start : start + 1].isspace():
        return None
    found = _DOLLAR_END.search(source, start, start + FORMULA_LIMIT)
    if found is None or found.start() == start:
        return None
    inside = source[start : found.start()]
    return None if "$" in inside.replace("\\$", "") or "\n\n" in inside else (found.end(), inside, False)


_MARKDOWN = _Markdown()
