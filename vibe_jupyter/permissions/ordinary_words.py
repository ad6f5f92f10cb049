"""Words that are redacted only beside the name that calls them secret, even if they are somebody's password.

`password = "DataFrame"` must not strike out every "DataFrame" of the session: the texts would be unreadable, and the
gaps in sentences that everybody knows would tell the password. Ordinary are the words of the product, of Python and of
the interfaces of loaded libraries. Anything else, also another plain word, is redacted wherever it stands.
"""

import builtins
import keyword
import sys
import types
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern

_WORD: Final = lazy_pattern(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*")
_WORDS: Final = lazy_pattern(r"[A-Za-z]{8,}")
_PRODUCT: Final = Path(__file__).resolve().parents[1]
_NO_VOCABULARY: Final = frozenset({"__main__", "__mp_main__"})
"""Modules of the user's own code."""


@lru_cache(maxsize=1024)
def is_ordinary_word(value: str) -> bool:
    """Return whether a value is a word of the product, of Python, or of a loaded library's interface."""
    return _WORD.fullmatch(value) is not None and all(map(_is_ordinary, value.split(".")))


def _is_ordinary(word: str) -> bool:
    if keyword.iskeyword(word) or word in vars(builtins) or word in sys.stdlib_module_names or word in sys.modules:
        return True
    libraries = [sys.modules.get(name) for name in tuple(sys.modules) if "." not in name and name not in _NO_VOCABULARY]
    if any(type(library) is types.ModuleType and word in vars(library) for library in libraries):
        return True
    return word in _words_of_product()


@cache
def _words_of_product() -> frozenset[str]:
    """The words of our sources, which hold all that the product says. Takes a third of a second, and few need it."""
    files = (path for kind in ("*.py", "*.md") for path in _PRODUCT.rglob(kind))
    texts = (path.read_text("utf-8", "replace") for path in files if "testing" not in path.parts)
    return frozenset(word for text in texts for word in _WORDS.findall(text))
