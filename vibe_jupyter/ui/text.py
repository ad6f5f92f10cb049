"""Plain text made honest: what cannot be seen is written out, what is too long is cut with a word.

The rules: no control character but line feed and tab is ever shown raw, and neither are
direction marks, zero-width characters, tag characters, other invisible ones and those of private use, which each font
draws as it likes.
"""

import re
import unicodedata

from vibe_jupyter.lazy_patterns import lazy_pattern

OUTPUT_LIMIT = 20_000
"""Characters of one output shown in the live view."""
LINE_LIMIT = 160
"""Characters of a text that must stay on one line."""
LONG_BLANK = 64
"""Blanks in a row from which a run is written as its count, so that nothing hides behind it."""

_SGR = lazy_pattern(r"\x1b\[[0-9;:]*m")
_LONE_RETURN = lazy_pattern(r"\r+(?!\n)")
HIDDEN = lazy_pattern(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
"""A character that is never shown raw; a text without one is shown as it is."""
_BLANKS = lazy_pattern(rf"[ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]{{{LONG_BLANK},}}")
_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_UNFINISHED = lazy_pattern(r"(?:\r|\x1b(?:\[[0-9;:]{0,32})?)\Z")


def escape_hidden(text: str) -> str:
    """Write every hidden character as ``⟨U+202E⟩``; Windows line ends become plain ones.

    The joiner and the style mark of emoji stay where they stand between or behind pictures.
    """
    return HIDDEN.sub(_written_out, text.replace("\r\n", "\n"))


def has_hidden(text: str) -> bool:
    """Whether `escape_hidden` would write something out."""
    plain = text.replace("\r\n", "\n")
    return escape_hidden(plain) != plain


def readable_text(text: str) -> str:
    """`escape_hidden`, with terminal colours taken off first: for what a model says."""
    return text if HIDDEN.search(text) is None else escape_hidden(_SGR.sub("", text))


def output_text(text: str) -> str:
    """`readable_text`, where a return to the line's start begins a new line: for what a program prints."""
    return text if HIDDEN.search(text) is None else readable_text(_LONE_RETURN.sub("\n", text.replace("\r\n", "\n")))


def fold_blanks(text: str) -> str:
    """Write very long runs of blanks as their count."""
    return _BLANKS.sub(lambda run: f"⟨{len(run[0]):,} blanks⟩", text)


def split_unfinished(text: str) -> tuple[str, str]:
    """Cut off an end that the next piece may complete: half a line end, half a colour."""
    found = _UNFINISHED.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def shorten_text(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Keep head and tail and say between them how much is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    missing = len(text) - head - tail
    return f"{text[:head]}\n… {missing:,} characters left out …\n{text[len(text) - tail :]}"


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Lines and runs of blanks become single blanks; the end is cut with ``…``."""
    words = " ".join(text[: limit * 8].split())
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def plural_text(count: int, word: str) -> str:
    """``1 line``, ``1,200 lines``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def seconds_text(seconds: float) -> str:
    """``0.2 s``, ``14 s``, ``2 min 5 s``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def count_text(count: int) -> str:
    """``840``, ``4.1k``, ``2.3M``."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 999_950 else f"{count / 1_000_000:.1f}M"


def _written_out(match: re.Match[str]) -> str:
    character, text, at = match[0], match.string, match.start()
    before = text[at - 1] if at else ""
    after = text[at + 1 : at + 2]
    if character == _EMOJI_STYLE and _takes_style(before):
        return character
    if character == _ZERO_WIDTH_JOINER and _is_picture(before) and _is_picture(after):
        return character
    return f"⟨U+{ord(character):04X}⟩"


def _is_picture(character: str) -> bool:
    return character == _EMOJI_STYLE or (character > "\u2000" and unicodedata.category(character) in ("So", "Sk"))


def _takes_style(character: str) -> bool:
    return (
        character not in ("", _EMOJI_STYLE)
        and (character in "#*0123456789©®" or character >= "\u203c")
        and (unicodedata.category(character) in ("So", "Sm", "Po", "Nd", "Sk"))
    )
