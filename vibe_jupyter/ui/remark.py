"""Words of ours in the run: notices, and the error it ended with."""

import math
import re

from vibe_jupyter.ui.markup import Markup, element, escape, inert, joined
from vibe_jupyter.ui.text import output_text

CUT_SHORT = "The answer broke off here. It stays for you to read; the model is not sent it again."
CUT_BY_LENGTH = (
    "The answer ends here because it reached the model's output limit. Ask it to go on, or raise max_tokens."
)
REFUSED = (
    "The same call was denied again and again, so the run ended. Say in another %%vibe cell what the model should do "
    "instead, or allow the call."
)

_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")


def notice_html(level: str, text: str, wait: float = 0.0) -> Markup:
    """A notice in the live view, with the seconds it has left to wait, which the page counts down."""
    left = element("span", inert(left_words(wait)), class_="vibe-countdown", data_vibe_countdown=f"{wait:.1f}")
    said = joined(lines(text), Markup(" "), left) if wait > 0 else lines(text)
    return element("div", said, class_="vibe-notice", data_level=level)


def left_words(seconds: float) -> str:
    """How long a wait still is."""
    return f"{math.ceil(seconds)} s left"


def error_html(text: str) -> Markup:
    """An error in the live view: what happened in bold, then the rest."""
    return element("div", error_words(text), class_="vibe-error", role="alert")


def error_words(text: str) -> Markup:
    """The first sentence in bold."""
    end = _SENTENCE_END.search(text)
    cut = end.end() if end else len(text)
    rest = text[cut:].strip()
    first = element("b", lines(text[:cut].strip()))
    return joined(first, Markup(" "), lines(rest)) if rest else first


def lines(text: str) -> Markup:
    """Plain text; ``code`` between backticks, line ends kept."""
    pieces = output_text(text).split("`")
    if len(pieces) % 2 == 0:
        pieces = [output_text(text)]
    marked = [element("code", escape(piece)) if at % 2 else inert(piece) for at, piece in enumerate(pieces)]
    return Markup("".join(marked).replace("\n", "<br>"))
