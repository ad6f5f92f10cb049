"""Where settings are kept."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ConfigError

CONFIG_FILE: Final = "config.toml"
ENV_FILE: Final = ".env"
PROJECT_FOLDER: Final = ".vibe"
"""In the folder a kernel works in; the person's own has the same form."""


def vibe_home(environ: Mapping[str, str]) -> Path:
    """The person's folder: ``VIBE_HOME``, or ``~/.vibe``.

    Raises:
        ConfigError: there is no home folder, as for a user without an account in a container.
    """
    path = environ.get("VIBE_HOME") or "~/.vibe"
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"Cannot tell where {path} is. Set VIBE_HOME to a folder you can write.") from error


def config_path(environ: Mapping[str, str]) -> Path:
    """Where the person's settings are."""
    return vibe_home(environ) / CONFIG_FILE


def env_path(environ: Mapping[str, str]) -> Path:
    """Where the person's keys may be."""
    return vibe_home(environ) / ENV_FILE
