"""Storage of sign-in tokens: the system's keyring, or memory."""

import threading
from typing import Final, Protocol
from urllib.parse import urlsplit

from vibe_jupyter.config.model_choice import SERVICE, has_keyring

WHILE_IT_RUNS: Final = "as long as this kernel runs; `pip install 'vibe-jupyter[keyring]'` keeps it"


def store_name(url: str) -> str:
    """Return the key of a server's tokens in the store."""
    parts = urlsplit(url)
    return f"mcp {parts.scheme}://{parts.netloc}{parts.path}"


class KeyringStore:
    """Store in the system's keyring, which is detected on first use. Thread-safe."""

    def __init__(self) -> None:
        self._memory: dict[str, str] = {}
        self._has_keyring: bool | None = None
        self._lock = threading.Lock()

    @property
    def how_long(self) -> str:
        """Retention period as text for the user; "" if permanent."""
        return "" if self._uses_keyring() else WHILE_IT_RUNS

    def get(self, name: str) -> str:
        """Return a stored value, or "" if there is none or the keyring is locked or broken."""
        if name in self._memory or not self._uses_keyring():
            return self._memory.get(name, "")
        import keyring  # noqa: PLC0415
        import keyring.errors  # noqa: PLC0415

        try:
            return keyring.get_password(SERVICE, name) or ""
        except (keyring.errors.KeyringError, RuntimeError):
            return ""

    def put(self, name: str, text: str) -> None:
        """Store a value, or delete it if empty. Values that the keyring rejects are kept in memory."""
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
    """Named secrets. Called on worker threads, because keyrings may block."""

    @property
    def how_long(self) -> str:
        """Retention period as text for the user; "" if permanent."""
        ...

    def get(self, name: str) -> str:
        """Return a stored value, or "" if there is none or the store is locked."""
        ...

    def put(self, name: str, text: str) -> None:
        """Store a value, or delete it if empty."""
        ...


class MemoryStore:
    """Store that lasts as long as the kernel runs."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    @property
    def how_long(self) -> str:
        return WHILE_IT_RUNS

    def get(self, name: str) -> str:
        return self._kept.get(name, "")

    def put(self, name: str, text: str) -> None:
        self._kept[name] = text
