"""Letters that look like others: in names of tools, and in text that a user decides on.

Python and shells tell `сору` with a Cyrillic letter from the word that it imitates; a reader does not. The other way
round, Python takes ``ｅｖａｌ`` for ``eval``. Words of one script, whichever it is, are what people write and stay.
"""

import re
import unicodedata
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.protocol import Preview

_LIKENESSES: Final = (
    ("авеѕіјкӏмнорсԛԝтухһԁԍѵ", "abesijklmhopcqwtyxhdgv"),  # Cyrillic
    ("αβεηικνορτυχω", "abenikvoptuxw"),  # Greek
    ("աոսցհօզ", "wnughoq"),  # Armenian
    ("ıɩɑɡ|1i0", "llaglllo"),  # Latin, and what is hard to tell apart in it
    ("-‐‑‒–—−./ ", "__________"),
)
_SAME: Final = {ord(one): like for alike, likes in _LIKENESSES for one, like in zip(alike, likes, strict=True)}
_SAME.update({one: _SAME.get(ord(like), like) for one, like in _SAME.items()})
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_IDLE: Final = frozenset({"title", "$comment"})
"""Words in a schema that tell a model nothing."""
_OF_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
WORDS_LIMIT: Final = 2_000
"""Characters of one description that the model is given."""

_SEGMENT: Final = re.compile(
    r"\\\\|\\[A-Za-z]"  # `"\nСумма"` is a line end and a word, not a word of two scripts
    r"|%[-+ #0]*\d*(?:\.\d+)?[A-Za-z]"  # so with `"%dруб"`
    r"|[^\W\d_]+"
)
"""Letters in a row. A name is split at ``_`` and digits, so that `x_α` and `σ2max` are of one script each."""
_ESCAPES: Final = ("\\", "%")
_TRAILING: Final = 2
"""Raised or lowered letters at the end of a word that are read as such: ``xᵢⱼ``, ``nº``."""


def name_skeleton(name: str) -> str:
    """The same for names that look alike: in case, in script, in width, in marks above letters."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(character for character in plain if unicodedata.category(character) not in {*_UNSEEN, "Mn"})
    return seen.translate(_SAME)


def letter_like(letter: str) -> str:
    """The ASCII letter that a letter of another script, or an odd one, looks like, in either case; empty if none.

    The dotless ``ı`` is one of Turkish, where it stands among Latin letters by right.
    """
    small = letter.lower()[0]
    like = "" if small.isascii() or small == "ı" else _SAME.get(ord(small), "")
    return like if like.isalpha() else ""


def visible_words(text: str, limit: int = WORDS_LIMIT) -> str:
    """A server's words for the model: what a user could not see in them is no part of them."""
    kept = "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in _UNSEEN
    ).strip()
    return kept if len(kept) <= limit else f"{kept[:limit]} […]"


def visible_schema(node: JsonValue, *, names: bool = False) -> JsonValue:
    """A schema with its descriptions made so, and without titles; `names` says that the keys here are arguments."""
    if isinstance(node, list):
        return [visible_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {key: visible_schema(value) for key, value in node.items()}
    return {
        key: visible_words(value)
        if key == "description" and isinstance(value, str)
        else visible_schema(value, names=key in _OF_NAMES)
        for key, value in node.items()
        if not (key in _IDLE and isinstance(value, str))
    }


def escape_lookalikes(text: str) -> str:
    """Write letters as ``⟨U+0430⟩`` that imitate those around them, or that Python reads as ASCII ones."""
    return text if text.isascii() else _SEGMENT.sub(_written_out, text)


def without_lookalikes(preview: Preview) -> Preview:
    """The same with such letters written out: for showing, never for running."""
    return preview.model_copy(update={"text": escape_lookalikes(preview.text), "note": escape_lookalikes(preview.note)})


def _written_out(match: re.Match[str]) -> str:
    segment = match[0]
    if segment.isascii() or sum(map(str.isalpha, segment)) == 1 or segment.startswith(_ESCAPES):
        return segment
    latin = any(map(str.isascii, segment))
    read_as_ascii = latin or unicodedata.normalize("NFKC", segment).isascii()
    small = _small_at_end(segment)
    return "".join(
        f"⟨U+{ord(one):04X}⟩"
        if (latin and _imitates(segment, at)) or (read_as_ascii and at < small and _is_ascii_letter(one))
        else one
        for at, one in enumerate(segment)
    )


def _imitates(segment: str, at: int) -> bool:
    """Whether a letter looks like a Latin one. Small Greek letters, but for the omicron, do so only between those."""
    letter = segment[at]
    if not letter_like(letter):
        return False
    if "α" <= letter <= "ω" and letter != "ο":
        return segment[at - 1 : at].isascii() and segment[at + 1 : at + 2].isascii() and 0 < at < len(segment) - 1
    return letter != "Ω"  # only its small form does


def _is_ascii_letter(character: str) -> bool:
    """Whether Python reads it as one or more ASCII letters."""
    plain = unicodedata.normalize("NFKC", character)
    return not character.isascii() and character.isalpha() and plain.isascii() and plain.isalpha()


def _small_at_end(segment: str) -> int:
    """Where raised and lowered letters at the end begin; the segment's length if there are none, or too many."""
    at = len(segment)
    while at > 0 and unicodedata.decomposition(segment[at - 1]).startswith(("<super>", "<sub>")):
        at -= 1
    return at if at > 0 and len(segment) - at <= _TRAILING else len(segment)
