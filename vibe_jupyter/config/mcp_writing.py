"""Changing ``[[mcp_servers]]`` in the person's ``config.toml``; comments and everything else stay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vibe_jupyter.config.declared import clean_name
from vibe_jupyter.config.writing import Entry, changed, put
from vibe_jupyter.errors import ConfigError

_KEY = "mcp_servers"


def add_server(entry: Entry, environ: Mapping[str, str]) -> Path:
    """Write a server that has a name; gives the file.

    Raises:
        ConfigError: the file is no TOML, or cannot be written; nothing was changed.
    """
    with changed(environ) as (path, document):
        put(document, _KEY, entry, ("name",))
    return path


def remove_server(name: str, environ: Mapping[str, str]) -> Path:
    """Take a server out; gives the file.

    Raises:
        ConfigError: it is not in the person's file, or that cannot be written; nothing was changed.
    """
    with changed(environ) as (path, document):
        entries, place = _found(document, name, path)
        del entries[place]
        if not entries:
            del document[_KEY]
    return path


def switch_server(name: str, environ: Mapping[str, str], *, on: bool) -> Path:
    """Switch a server on or off; gives the file.

    Raises:
        ConfigError: it is not in the person's file, or that cannot be written; nothing was changed.
    """
    with changed(environ) as (path, document):
        entries, place = _found(document, name, path)
        if on:
            entries[place].pop("disabled", None)
        else:
            entries[place]["disabled"] = True
    return path


def _found(document: Any, name: str, path: Path) -> tuple[Any, int]:
    """The list of servers and the place in it."""
    entries = document.get(_KEY, [])
    for place, entry in enumerate(entries):
        if clean_name(str(entry.get("name", ""))) == name:
            return entries, place
    raise ConfigError(f"{path} names no MCP server {name}. %vibe mcp says where each is declared; change it there.")
