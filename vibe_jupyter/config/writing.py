"""Changing the person's ``config.toml``: what is not meant to change stays as it was written, with its comments."""

import os
import secrets
import shutil
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import tomlkit
import tomlkit.exceptions
import tomlkit.items
from pydantic import JsonValue

from vibe_jupyter.config.places import config_path
from vibe_jupyter.errors import ConfigError

Entry = Mapping[str, JsonValue]


def use_model(
    alias: str, environ: Mapping[str, str], *, provider: Entry | None = None, model: Entry | None = None
) -> Path:
    """Make a model the active one; gives the file that was changed.

    Args:
        alias: what the model is known by.
        environ: the process's environment.
        provider: its server; takes the place of the one with this name. None where it is there.
        model: its entry; takes the place of the one known as this. None where it is there.

    Raises:
        ConfigError: the file is no TOML, or cannot be written; nothing was changed.
    """
    with changed(environ) as (path, document):
        document["active_model"] = alias
        if provider is not None:
            put(document, "providers", provider, ("name",))
        if model is not None:
            put(document, "models", model, ("alias", "name"))
    return path


@contextmanager
def changed(environ: Mapping[str, str]) -> "Generator[tuple[Path, Any]]":
    """The person's file and what is in it; what is changed there is written at the end, unless that fails.

    Raises:
        ConfigError: the file is no TOML, or cannot be written; nothing was changed.
    """
    path = config_path(environ)
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8-sig")) if path.exists() else tomlkit.document()
        yield path, document
        _write(path, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType]
    except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigError(f"Cannot change {path}: {error}. Mend it, then run the cell again.") from error


def put(document: Any, key: str, entry: Entry, names: tuple[str, ...]) -> None:
    """Write one entry of a named list, in the list's own form: ``[[tables]]``, or one array."""
    entries: Any = document.get(key)
    if entries is None:
        document.add(tomlkit.nl())
        entries = document[key] = tomlkit.aot()
    known = _known_as(entry, names)
    there: Any = next((one for one in entries if _known_as(cast(Entry, one), names) == known), None)
    if there is None:
        there = tomlkit.inline_table() if type(entries) is tomlkit.items.Array else tomlkit.table()
        cast(Any, entries).append(_filled(there, entry))
        return
    _filled(there, entry)


def _filled(table: Any, entry: Entry) -> Any:
    for name, value in entry.items():
        table[name] = value
    return table


def _known_as(entry: Entry, names: tuple[str, ...]) -> JsonValue:
    return next((entry[name] for name in names if entry.get(name)), None)


def _write(path: Path, text: str) -> None:
    """Whole or not at all; a link stays a link."""
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            shutil.copymode(place, temporary)
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)
