"""How variables look before and after code runs, to tell which it changed in place."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Final

from vibe_jupyter.variables.describe import value_fingerprint, value_kind

TIME_LIMIT: Final = 0.02
"""Seconds of one look."""
_WORD: Final = re.compile(r"[^\W\d]\w*")


class VariableLooks:
    """Main thread only, since it reads variables; runs none of their code."""

    def __init__(self, namespace: Callable[[], Mapping[str, object]]) -> None:
        self._namespace = namespace

    def of_code(self, code: str) -> dict[str, object]:
        """Marks of the variables, those that the code names first; equal as long as the variable looks unchanged."""
        namespace = self._namespace()
        named = [name for name in dict.fromkeys(_WORD.findall(code)) if name in namespace]
        until = time.monotonic() + TIME_LIMIT
        marks: dict[str, object] = {}
        for name in dict.fromkeys([*named, *reversed(list(namespace))]):
            if time.monotonic() > until:
                break
            if value_kind(namespace[name]) != "module":
                marks[name] = value_fingerprint(namespace[name])
        return marks
