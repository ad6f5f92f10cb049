"""A TOML file as settings that know their lines.

tomllib says nothing of lines. But each statement of TOML (a header, a key with its value) is a document of its own, so
reading statement by statement tells where each begins, whatever strings and arrays hold.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from vibe_jupyter.config.node import LayerName, Node, Origin, Step
from vibe_jupyter.errors import ConfigError

LOCATING: Final = 20
"""Characters read for each character of the file, until lines are left unknown: a long string is read line by line."""
LOCATING_FREE: Final = 200_000
"""Characters read in any case."""

Place = tuple[Step, ...]


def read_toml(path: Path, layer: LayerName) -> Node | None:
    """The settings of a file; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is no TOML; names the file, and the line where there is one.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Mend or move the file, then run the cell again.") from error
    return parse_toml(text, path, layer)


def parse_toml(text: str, path: Path, layer: LayerName) -> Node:
    """The settings in a text.

    Raises:
        ConfigError: it is no TOML; names the file and the line.
    """
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}. Mend that line, then run the cell again.") from error
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply to be read. Mend it, then run the cell again.") from None
    lines = _lines(text)

    def place(value: Any, at: Place, line: int | None) -> Node:
        line = lines.get(at, line)
        origin = Origin(layer, path, line)
        if isinstance(value, Mapping):
            table: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return Node({key: place(item, (*at, key), line) for key, item in table.items()}, origin)
        if isinstance(value, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return Node([place(item, (*at, number), line) for number, item in enumerate(items)], origin)
        return Node(_json(value), origin)

    return place(values, (), None)


def _json(value: Any) -> JsonValue:
    """Dates and times as text."""
    return value if isinstance(value, str | int | float | bool) else str(value)


def _lines(text: str) -> dict[Place, int]:
    """The line of each header and key."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    prefix: Place = ()
    statement, start = "", 1
    left = LOCATING_FREE + LOCATING * len(text)
    for number, line in enumerate(text.split("\n"), 1):
        start = start if statement else number
        statement += line + "\n"
        left -= len(statement)
        if left < 0:
            break
        try:
            value: dict[str, Any] = tomllib.loads(statement)
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        is_header, statement = statement.lstrip().startswith("["), ""
        if is_header:
            prefix = _header(value, counts)
            found[prefix] = start
        else:
            for path in _keys(value):
                found.setdefault((*prefix, *path), start)
    return found


def _header(value: dict[str, Any], counts: dict[Place, int]) -> Place:
    """The path a header opens; `counts` holds the last index of each array of tables."""
    path: list[Step] = []
    table = value
    while table:
        key, inside = next(iter(table.items()))
        path.append(key)
        table = _table(inside)
        if isinstance(inside, list):
            counts[tuple(path)] = counts.get(tuple(path), -1) + 1
        if tuple(path) in counts:
            path.append(counts[tuple(path)])
    return tuple(path)


def _keys(value: dict[str, Any]) -> list[Place]:
    """Every path in the value of one key."""
    paths: list[Place] = []
    for key, inner in value.items():
        paths.append((key,))
        paths += [(key, *path) for path in _keys(_table(inner))]
    return paths


def _table(value: object) -> dict[str, Any]:
    """The value, if it is a table; else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
