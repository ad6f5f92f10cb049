"""Where the tokens of a sign-in are kept: the keyring of the system, or memory."""

import threading
from typing import Final, Protocol
from urllib.parse import urlsplit

from vibe_jupyter.config.model_choice import SERVICE, has_keyring

WHILE_IT_RUNS: Final = "as long as this kernel runs; `pip install 'vibe-jupyter[keyring]'` keeps it"


def store_name(url: str) -> str:
    """Under which a server's sign-in is kept."""
    parts = urlsplit(url)
    return f"mcp {parts.scheme}://{parts.netloc}{parts.path}"


class KeyringStore:
    """Looks for a keyring when it is used first. From any thread."""

    def __init__(self) -> None:
        self._memory: dict[str, str] = {}
        self._has_keyring: bool | None = None
        self._lock = threading.Lock()

    @property
    def how_long(self) -> str:
        """For how long it keeps, in words; empty for until it is forgotten."""
        return "" if self._uses_keyring() else WHILE_IT_RUNS

    def get(self, name: str) -> str:
        """What is kept; empty where there is nothing, and where the keyring is locked or broken."""
        if name in self._memory or not self._uses_keyring():
            return self._memory.get(name, "")
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            return keyring.get_password(SERVICE, name) or ""
        except (keyring.errors.KeyringError, RuntimeError):
            return ""

    def put(self, name: str, text: str) -> None:
        """Keep it; an empty text is forgotten. What the keyring does not take is kept in memory."""
        if not self._uses_keyring():
            self._memory[name] = text
            return
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            if text:
                keyring.set_password(SERVICE, name, text)
            elif keyring.get_password(SERVICE, name) is not None:
                keyring.delete_password(SERVICE, name)
            self._memory.pop(name, None)
        except (keyring.errors.KeyringError, RuntimeError):
            self._memory[name] = text

    def _uses_keyring(self) -> bool:
        with self._lock:
            if self._has_keyring is None:
                self._has_keyring = has_keyring()
            return self._has_keyring


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


class MemoryStore:
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
