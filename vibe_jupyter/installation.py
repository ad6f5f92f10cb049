"""Instructions to install this build of the package in another environment."""

import json
from importlib import metadata
from shlex import quote
from typing import Final
from urllib.parse import unquote, urlsplit

from vibe_jupyter.version import __version__

PACKAGE: Final = "vibe-jupyter"


def pip_install(pip: str = "pip", options: str = "") -> str:
    """Return the command that installs this build elsewhere.

    A build from a checkout or a wheel is named by its location (PEP 610), since no index may have it.
    """
    return " ".join(filter(None, (pip, "install", options, quote(_source() or f"{PACKAGE}=={__version__}"))))


def _source() -> str:
    """Return the path or URL that this package was installed from, or "" if that was an index."""
    try:
        url: str = json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}").get("url", "")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url
