"""Where that is kept which a sign-in gave."""

from typing import Final, Protocol

WHILE_IT_RUNS: Final = "as long as this kernel runs; `pip install 'vibe-jupyter[keyring]'` keeps it"


class SecretStore(Protocol):
    """Keeps a text by its name. Called on threads, since keyrings may take their time."""

    @property
    def how_long(self) -> str:
        """For how long, in words; empty for until it is forgotten."""
        ...

    def get(self, name: str) -> str:
        """The text; empty where there is none, and where the store is locked."""
        ...

    def put(self, name: str, text: str) -> None:
        """Keep it; an empty text is forgotten."""
        ...


class InMemory:
    """As long as the kernel runs."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    @property
    def how_long(self) -> str:
        return WHILE_IT_RUNS

    def get(self, name: str) -> str:
        return self._kept.get(name, "")

    def put(self, name: str, text: str) -> None:
        self._kept[name] = text
