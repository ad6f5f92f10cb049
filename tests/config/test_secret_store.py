"""What a sign-in gave is kept in the system's keyring, or in memory alone."""

from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.errors
import keyrings.alt.file
import pytest

from vibe_jupyter.config.model_choice import SERVICE
from vibe_jupyter.mcp.token_store import WHILE_IT_RUNS, KeyringStore


class Ring(keyrings.alt.file.PlaintextKeyring):
    """A keyring that counts as one of the system's."""

    priority = 5  # type: ignore[assignment]


class Locked(Ring):
    """One that gives and takes nothing."""

    def get_password(self, service: str, username: str) -> str | None:
        raise keyring.errors.KeyringLocked("locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise keyring.errors.KeyringLocked("locked")


@pytest.fixture
def use() -> Iterator[type]:
    """Puts another keyring in the place of the system's."""
    before = keyring.get_keyring()

    class Use:
        def __init__(self, ring: Ring, folder: Path) -> None:
            ring.file_path = str(folder / "ring")  # type: ignore[misc]
            keyring.set_keyring(ring)

    yield Use
    keyring.set_keyring(before)


def test_a_keyring_keeps_it_for_the_next_kernel(use: type, tmp_path: Path) -> None:
    use(Ring(), tmp_path)
    first = KeyringStore()
    assert first.how_long == ""
    first.put("mcp https://a.example/mcp", "token")
    assert KeyringStore().get("mcp https://a.example/mcp") == "token"
    assert keyring.get_password(SERVICE, "mcp https://a.example/mcp") == "token"
    assert KeyringStore().get("mcp https://b.example/mcp") == ""


def test_what_is_empty_is_forgotten(use: type, tmp_path: Path) -> None:
    use(Ring(), tmp_path)
    store = KeyringStore()
    store.put("it", "token")
    store.put("it", "")
    store.put("never", "")
    assert keyring.get_password(SERVICE, "it") is None


def test_a_plain_file_is_no_keyring_so_it_is_kept_in_memory_alone(use: type, tmp_path: Path) -> None:
    use(keyrings.alt.file.PlaintextKeyring(), tmp_path)
    store = KeyringStore()
    assert store.how_long == WHILE_IT_RUNS
    store.put("it", "token")
    assert store.get("it") == "token"
    assert not (tmp_path / "ring").exists()
    assert KeyringStore().get("it") == ""


def test_a_locked_keyring_is_one_that_has_nothing_and_memory_helps_out(use: type, tmp_path: Path) -> None:
    use(Locked(), tmp_path)
    store = KeyringStore()
    assert store.get("it") == ""
    store.put("it", "token")
    assert store.get("it") == "token"
