"""Ordinary words, which are redacted only next to a name that marks them as secret, even if they are a password.

`password = "DataFrame"` must not redact every "DataFrame" of the session: texts would become unreadable, and gaps in
well-known sentences would reveal the password. Ordinary words are those of the product, of Python and of the interfaces
of loaded libraries. Anything else, including other dictionary words, is redacted everywhere.
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
_NO_VOCABULARY: Final = frozenset({"__main__", "__mp_main__"})  # modules with the user's own code


@lru_cache(maxsize=1024)
def is_ordinary_word(value: str) -> bool:
    """Return whether a value consists of words of the product, of Python, or of a loaded library's interface."""
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
    """Return the words in our sources, which include all of the product's texts.

    Takes a third of a second and is rarely needed.
    """
    files = (path for kind in ("*.py", "*.md") for path in _PRODUCT.rglob(kind))
    texts = (path.read_text("utf-8", "replace") for path in files if "testing" not in path.parts)
    return frozenset(word for text in texts for word in _WORDS.findall(text))
