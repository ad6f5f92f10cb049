"""Plain text made safe to display: hidden characters become visible codes, and overlong text is shortened.

No control character except newline and tab is ever shown raw. The same goes for direction marks, zero-width characters,
tag characters, other invisible characters, and private-use characters, which each font draws differently.
"""

import re
import unicodedata

from vibe_jupyter.lazy_patterns import lazy_pattern

OUTPUT_LIMIT = 20_000  # characters of one output shown in the live view
LINE_LIMIT = 160  # characters of a text that must fit on one line
LONG_BLANK = 64  # a longer run of blanks is replaced by its count, so that nothing can be hidden after it

_SGR = lazy_pattern(r"\x1b\[[0-9;:]*m")
_LONE_RETURN = lazy_pattern(r"\r+(?!\n)")
# Characters that are never shown raw. Text without any is shown unchanged.
HIDDEN = lazy_pattern(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad"
    "\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff"
    "]"
)
_BLANKS = lazy_pattern(rf"[ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]{{{LONG_BLANK},}}")
_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_STYLE = "\ufe0f"
_UNFINISHED = lazy_pattern(r"(?:\r|\x1b(?:\[[0-9;:]{0,32})?)\Z")


def escape_hidden(text: str) -> str:
    """Replace each hidden character with a code such as ``⟨U+202E⟩``, and Windows line endings with newlines.

    The joiner and the style selector of emoji are kept next to pictographs.
    """
    return HIDDEN.sub(_written_out, text.replace("\r\n", "\n"))


def has_hidden(text: str) -> bool:
    """Return whether `escape_hidden` would replace any character."""
    plain = text.replace("\r\n", "\n")
    return escape_hidden(plain) != plain


def readable_text(text: str) -> str:
    """Apply `escape_hidden` after removing ANSI colors. For text from models."""
    return text if HIDDEN.search(text) is None else escape_hidden(_SGR.sub("", text))


def output_text(text: str) -> str:
    """Apply `readable_text` after turning lone carriage returns into newlines. For output of programs."""
    return text if HIDDEN.search(text) is None else readable_text(_LONE_RETURN.sub("\n", text.replace("\r\n", "\n")))


def fold_blanks(text: str) -> str:
    """Replace very long runs of blanks with their count."""
    return _BLANKS.sub(lambda run: f"⟨{len(run[0]):,} blanks⟩", text)


def split_unfinished(text: str) -> tuple[str, str]:
    """Split off a trailing partial line ending or color sequence that the next chunk may complete."""
    found = _UNFINISHED.search(text)
    return (text[: found.start()], text[found.start() :]) if found else (text, "")


def shorten_text(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Keep head and tail, with a note in between saying how much is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    missing = len(text) - head - tail
    return f"{text[:head]}\n… {missing:,} characters left out …\n{text[len(text) - tail :]}"


def one_line(text: str, limit: int = LINE_LIMIT) -> str:
    """Collapse white space to single spaces and shorten the text, ending in ``…``."""
    # The slice bounds the work for huge texts.
    words = " ".join(text[: limit * 8].split())
    return words if len(words) <= limit else words[: limit - 1].rstrip() + "…"


def plural_text(count: int, word: str) -> str:
    """Format a count, such as ``1 line`` or ``1,200 lines``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def seconds_text(seconds: float) -> str:
    """Format a duration, such as ``0.2 s``, ``14 s`` or ``2 min 5 s``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def count_text(count: int) -> str:
    """Format a count compactly, such as ``840``, ``4.1k`` or ``2.3M``."""
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
