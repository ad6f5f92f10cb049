"""API dialects, one module each, imported on first use. A new one must be added to `_CLASSES` and `DialectName`."""

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from vibe_jupyter.llm.request import Dialect
from vibe_jupyter.safe_imports import without_working_folder

_CLASSES: Final = {
    "openai": "OpenAIDialect",
    "mistral": "MistralDialect",
    "mistralrs": "MistralrsDialect",
    "ollama": "OllamaDialect",
}


@cache
def _dialect(name: str) -> Dialect:
    with without_working_folder():
        return getattr(importlib.import_module(f"{__name__}.{name}"), _CLASSES[name])()


class _Dialects(Mapping[str, Dialect]):
    def __getitem__(self, name: str) -> Dialect:
        return _dialect(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_CLASSES)

    def __len__(self) -> int:
        return len(_CLASSES)


DIALECTS: Final = _Dialects()  # dialects by name
