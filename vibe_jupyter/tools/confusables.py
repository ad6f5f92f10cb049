"""Confusable characters in tool names and in text that a user approves.

Python and shells distinguish `сору` with Cyrillic letters from the word that it imitates; a reader doesn't. Conversely,
Python treats ``ｅｖａｌ`` as ``eval`` (NFKC, PEP 3131). Words in a single script, whichever it is, are left alone.
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
    ("ıɩɑɡ|1i0", "llaglllo"),  # Latin, and characters that are hard to distinguish from it
    ("-‐‑‒–—−./ ", "__________"),
)
_SAME: Final = {ord(one): like for alike, likes in _LIKENESSES for one, like in zip(alike, likes, strict=True)}
_SAME.update({one: _SAME.get(ord(like), like) for one, like in _SAME.items()})
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_IDLE: Final = frozenset({"title", "$comment"})  # schema keywords that are useless to a model
_OF_NAMES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
WORDS_LIMIT: Final = 2_000  # characters of one description sent to the model

# Runs of letters. Names are split at ``_`` and digits, so that `x_α` and `σ2max` are each in one script.
_SEGMENT: Final = re.compile(
    r"\\\\|\\[A-Za-z]"  # `"\nСумма"` is an escape and a word, not a word in two scripts
    r"|%[-+ #0]*\d*(?:\.\d+)?[A-Za-z]"  # likewise `"%dруб"`
    r"|[^\W\d_]+"
)
_ESCAPES: Final = ("\\", "%")
_TRAILING: Final = 2  # superscript or subscript letters at the end of a word that are accepted, as in ``xᵢⱼ`` or ``nº``


def name_skeleton(name: str) -> str:
    """Return a key that is equal for confusable names (case, script, width, diacritics)."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    seen = "".join(character for character in plain if unicodedata.category(character) not in {*_UNSEEN, "Mn"})
    return seen.translate(_SAME)


def letter_like(letter: str) -> str:
    """Return the ASCII letter, in lower case, that a letter of another script or an unusual one resembles, or "".

    The dotless ``ı`` is excluded, since it is a regular letter in Turkish.
    """
    small = letter.lower()[0]
    like = "" if small.isascii() or small == "ı" else _SAME.get(ord(small), "")
    return like if like.isalpha() else ""


def visible_words(text: str, limit: int = WORDS_LIMIT) -> str:
    """Remove characters that a user couldn't see from a server's text, and limit its length."""
    kept = "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in _UNSEEN
    ).strip()
    return kept if len(kept) <= limit else f"{kept[:limit]} […]"


def visible_schema(node: JsonValue, *, names: bool = False) -> JsonValue:
    """Clean the descriptions in a schema and remove titles. `names` is True if the keys are argument names."""
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
    """Replace letters that imitate their neighbors, or that Python reads as ASCII letters, by ``⟨U+0430⟩``."""
    return text if text.isascii() else _SEGMENT.sub(_written_out, text)


def without_lookalikes(preview: Preview) -> Preview:
    """Escape confusable letters in a preview. For display only; never run the result."""
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
    """Return whether a letter resembles a Latin one.

    Small Greek letters other than omicron count only between Latin letters.
    """
    letter = segment[at]
    if not letter_like(letter):
        return False
    if "α" <= letter <= "ω" and letter != "ο":
        return segment[at - 1 : at].isascii() and segment[at + 1 : at + 2].isascii() and 0 < at < len(segment) - 1
    return letter != "Ω"  # only its lower-case form resembles a Latin letter


def _is_ascii_letter(character: str) -> bool:
    """Return whether Python normalizes a character to one or more ASCII letters."""
    plain = unicodedata.normalize("NFKC", character)
    return not character.isascii() and character.isalpha() and plain.isascii() and plain.isalpha()


def _small_at_end(segment: str) -> int:
    """Return the start of trailing superscripts or subscripts, or the length if there are none or too many."""
    at = len(segment)
    while at > 0 and unicodedata.decomposition(segment[at - 1]).startswith(("<super>", "<sub>")):
        at -= 1
    return at if at > 0 and len(segment) - at <= _TRAILING else len(segment)
