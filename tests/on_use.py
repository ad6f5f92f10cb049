"""Large libraries in tests: imported where a test uses them, not where tests are collected, which every worker does."""

from importlib import import_module
from typing import Any


class OnUse:
    """Stands for a module.

    Tests that use the same large libraries are of one `xdist_group`, "libraries", so that one worker imports them.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks everything whether it is a fixture
            raise AttributeError(name)
        return getattr(import_module(self.__name__), name)
