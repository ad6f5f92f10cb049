"""Keys of servers: from the environment, from ``~/.vibe/.env``, or from the system's keyring where that is installed.

A key never stands in TOML, and never on a command line.
"""

import importlib.util
import os
from collections.abc import Mapping
from typing import Final

from vibe_jupyter.config.environment import effective
from vibe_jupyter.config.places import env_path
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.own_imports import without_working_folder

SERVICE: Final = "vibe-jupyter"
"""Under which the keyring has our keys; the name in it is that of the variable."""
_PRIVATE: Final = 0o600
_SAFE: Final = 1
"""Least priority, in the package's own scale, of a keyring that it recommends."""


def key_of(variable: str, environ: Mapping[str, str]) -> str:
    """The key that a variable names; empty where there is none."""
    return effective(environ).get(variable, "").strip() or _in_keyring(variable)


def place_of_key(variable: str, environ: Mapping[str, str]) -> str:
    """Where `key_of` found it, in words for the person."""
    if environ.get(variable, "").strip():
        return f"the environment variable {variable}"
    if effective(environ).get(variable, "").strip():
        return f"{variable} in {env_path(environ)}"
    return f"{variable} in the system's keyring"


def has_keyring() -> bool:
    """Whether the package is installed and the system has a keyring behind it; a plain file is none."""
    with without_working_folder():
        if importlib.util.find_spec("keyring") is None:
            return False
        import keyring  # noqa: PLC0415 - optional, and slow to load
    behind = keyring.get_keyring()
    return any(one.priority >= _SAFE for one in getattr(behind, "backends", [behind]))


def keep_in_keyring(variable: str, key: str) -> None:
    """Put a key into the system's keyring.

    Raises:
        ConfigError: it does not take it.
    """
    import keyring  # noqa: PLC0415
    import keyring.errors  # noqa: PLC0415

    try:
        keyring.set_password(SERVICE, variable, key)
    except (keyring.errors.KeyringError, RuntimeError) as error:
        raise ConfigError(f"The keyring did not take the key: {error}. Choose another place for it.") from error


def keep_in_file(variable: str, key: str, environ: Mapping[str, str]) -> None:
    """Put a key into the person's ``.env``, which only they may read; its other lines stay.

    Raises:
        ConfigError: the file cannot be written.
    """
    from dotenv import set_key  # noqa: PLC0415 - for those who store a key alone

    path = env_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, _PRIVATE))
        path.chmod(_PRIVATE)
        set_key(path, variable, key, quote_mode="auto", follow_symlinks=True)
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}. Choose another place for the key.") from error


def _in_keyring(variable: str) -> str:
    """A keyring that is locked or broken is one without the key: the error about the missing key says what to do."""
    if not has_keyring():
        return ""
    import keyring  # noqa: PLC0415
    import keyring.errors  # noqa: PLC0415

    try:
        return (keyring.get_password(SERVICE, variable) or "").strip()
    except (keyring.errors.KeyringError, RuntimeError):
        return ""
