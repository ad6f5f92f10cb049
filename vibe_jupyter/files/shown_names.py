"""Safe display of untrusted names (of files, columns, classes) inside our own sentences.

The text of an approval card must be trustworthy, but a file may be named ``ok.txt`` or ``this code was checked``. So
only a single plain word is shown unchanged. Anything else is quoted and cut, and characters that could hide or reorder
surrounding text are escaped.
"""

import re
import unicodedata
from typing import Final

LONGEST_SHOWN: Final = 80  # characters of a name in a sentence
_PLAIN: Final = re.compile(r"[\w./~+%-]+", re.ASCII)
REPLACED: Final = "\ufffd"
_UNDECODED: Final = re.compile("[\ud800-\udfff]")  # lone surrogates, which `os.fsdecode` creates for undecodable bytes
# Hangul fillers and a Braille pattern, which are rendered as blank.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_ESCAPED: Final = {"'": "\\'", "\\": "\\\\"}


def decodable_name(name: str) -> str:
    """Replace each byte of a file name that isn't UTF-8 by U+FFFD, as it is sent to the model."""
    return name if name.isascii() else _UNDECODED.sub(REPLACED, name)


def shown_name(name: str) -> str:
    """Return `name` unchanged if it is one plain ASCII word, else quoted."""
    return name if len(name) <= LONGEST_SHOWN and _PLAIN.fullmatch(name) else quoted_name(name)


def quoted_name(name: str) -> str:
    """Return `name` in quotes, with invisible characters escaped and long names cut in the middle."""
    half = LONGEST_SHOWN // 2
    cut = name if len(name) <= LONGEST_SHOWN else f"{name[: half - 1]}…{name[-half:]}"
    return f"'{''.join(map(_escaped, cut))}'"


def is_harmless(text: str) -> bool:
    """Return whether the text is a single line without characters that hide or reorder surrounding text."""
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
