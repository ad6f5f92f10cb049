"""Names that code chose freely (of files, columns, classes) as they may stand inside a sentence of ours.

A sentence on an approval card is the product's own. A file may be called ``ok.txt`` or ``this code was checked``, so
only one plain word stands in a sentence as it is; anything else is quoted, cut, and holds no character that hides
or reorders the text around it.
"""

import re
import unicodedata
from typing import Final

LONGEST_SHOWN: Final = 80
"""Characters of a name in a sentence."""
_PLAIN: Final = re.compile(r"[\w./~+%-]+", re.ASCII)
REPLACED: Final = "\ufffd"
_UNDECODED: Final = re.compile("[\ud800-\udfff]")
"""What `os.fsdecode` makes of such a byte, among others."""
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters of Hangul and a pattern of Braille that are drawn as nothing."""
_ESCAPED: Final = {"'": "\\'", "\\": "\\\\"}


def decodable_name(name: str) -> str:
    """Return the name of a file with U+FFFD for each byte that isn't UTF-8, as it is sent to the model."""
    return name if name.isascii() else _UNDECODED.sub(REPLACED, name)


def shown_name(name: str) -> str:
    """Return `name` as it is if it is one plain word of ASCII, else in quotes."""
    return name if len(name) <= LONGEST_SHOWN and _PLAIN.fullmatch(name) else quoted_name(name)


def quoted_name(name: str) -> str:
    """Return `name` in quotes, with what can't be seen written out; a long one is cut in its middle."""
    half = LONGEST_SHOWN // 2
    cut = name if len(name) <= LONGEST_SHOWN else f"{name[: half - 1]}…{name[-half:]}"
    return f"'{''.join(map(_escaped, cut))}'"


def is_harmless(text: str) -> bool:
    """Return whether no character of it hides or reorders the text around it, and all stand on one line."""
    return all(map(_is_drawn, text))


def _escaped(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if _is_drawn(character):
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _is_drawn(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    return unicodedata.category(character)[0] in "LNPS" and character not in _BLANK
