"""Settings as they were written: every value with the file and line it comes from.

tomllib says nothing of lines. But each statement of TOML (a header, a key with its value) is a document of its own, so
reading statement by statement tells where each begins, whatever strings and arrays hold.
"""

import importlib
import os
import re
import secrets
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.safe_imports import without_working_folder

CONFIG_FILE: Final = "config.toml"
ENV_FILE: Final = ".env"
PROJECT_FOLDER: Final = ".vibe"
"""In the folder a kernel works in; the user's own has the same form."""

LayerName = Literal["default", "user", "project", "agent", "environment", "flag"]
"""From the weakest to the strongest."""
Step = str | int

DEEPEST: Final = 50
"""Tables and lists within one another."""
LOCATING: Final = 2
"""Characters read for each character of the file, until lines are left unknown: a long array is read line by line."""
LOCATING_FREE: Final = 100_000
"""Characters read in any case; of a project's file, which nobody may trust yet, a tenth."""
MOST_PARTS: Final = 16  # of one dotted key in a project's file; tomllib's time grows with their square
_STRING: Final = lazy_pattern(
    r"""\"{3}(?:[^"\\]|\\.|"(?!""))*(?:"{3}|\Z)|'{3}(?:[^']|'(?!''))*(?:'{3}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*(?:"|$)|'[^'\n]*(?:'|$)|\#[^\n]*""",
    re.DOTALL | re.MULTILINE,
)
"""Strings, quoted keys and comments, also such as have no end, so that each is passed over once."""
_LONG_KEY: Final = lazy_pattern(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MOST_PARTS},}}")

Place = tuple[Step, ...]

Entry = Mapping[str, JsonValue]


def vibe_home(environ: Mapping[str, str]) -> Path:
    """The user's folder: ``VIBE_HOME``, or ``~/.vibe``.

    Raises:
        ConfigError: there is no home folder, as for a user without an account in a container.
    """
    path = environ.get("VIBE_HOME") or "~/.vibe"
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"Cannot tell where {path} is. Set VIBE_HOME to a folder you can write.") from error


def config_path(environ: Mapping[str, str]) -> Path:
    """Where the user's settings are."""
    return vibe_home(environ) / CONFIG_FILE


def env_path(environ: Mapping[str, str]) -> Path:
    """Where the user's keys may be."""
    return vibe_home(environ) / ENV_FILE


class SettingOrigin(NamedTuple):
    """Where a value was set."""

    layer: LayerName
    path: Path | None = None
    """The file; None for what is in no file."""
    line: int | None = None
    """From 1; None where it was not found out."""
    name: str = ""
    """The variable or option, for what is in no file."""

    def __str__(self) -> str:
        if self.path is not None:
            return f"{self.path}, line {self.line}" if self.line is not None else str(self.path)
        return self.name or self.layer


class SettingNode(NamedTuple):
    """A value, a list or a table, with its origin all the way down."""

    value: "JsonValue | dict[str, SettingNode] | list[SettingNode]"
    origin: SettingOrigin

    @property
    def table(self) -> "dict[str, SettingNode]":
        """Its entries; none where it is no table."""
        return _child_nodes(self.value)

    @property
    def items(self) -> "list[SettingNode]":
        """Its items; none where it is no list."""
        return [item for item in self.value if isinstance(item, SettingNode)] if isinstance(self.value, list) else []

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.value, list)

    def plain(self) -> JsonValue:
        """The bare value."""
        if self.is_table:
            return {key: node.plain() for key, node in self.table.items()}
        if self.is_list:
            return [node.plain() for node in self.items]
        assert not isinstance(self.value, dict | list)
        return self.value

    def at(self, steps: "tuple[Step, ...]") -> "SettingNode":
        """What lies at the end of a path, or as far along it as there is something; other steps are passed over."""
        node = self
        for step in steps:
            # Not by `items` and `table`, which go through all of them: an untrusted file may have thousands.
            inner: object = None
            if isinstance(step, int) and isinstance(node.value, list) and step < len(node.value):
                inner = node.value[step]
            elif isinstance(step, str) and isinstance(node.value, dict):
                inner = node.value.get(step)
            node = inner if isinstance(inner, SettingNode) else node
        return node

    def leaves(self, path: "tuple[Step, ...]" = ()) -> "Iterator[tuple[tuple[Step, ...], SettingNode]]":
        """Each value that is no table and no list of tables, with its path."""
        if self.is_table:
            for key, node in self.table.items():
                yield from node.leaves((*path, key))
        elif any(item.is_table for item in self.items):
            for number, node in enumerate(self.items):
                yield from node.leaves((*path, number))
        else:
            yield path, self


def make_node(value: JsonValue, origin: SettingOrigin) -> SettingNode:
    """Everything in `value`, from one place."""
    if isinstance(value, dict):
        return SettingNode({key: make_node(item, origin) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return SettingNode([make_node(item, origin) for item in value], origin)
    return SettingNode(value, origin)


def _child_nodes(value: object) -> dict[str, SettingNode]:
    if not isinstance(value, dict):
        return {}
    return {key: node for key, node in value.items() if isinstance(key, str) and isinstance(node, SettingNode)}  # pyright: ignore[reportUnknownVariableType]


def read_toml(path: Path, layer: LayerName) -> SettingNode | None:
    """The settings of a file; None where there is none.

    Raises:
        ConfigError: it cannot be read, or is no TOML; names the file, and the line where there is one.
    """
    try:
        text = read_plain_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Fix or move the file, then try again.") from error
    return parse_toml(text, path, layer)


def parse_toml(text: str, path: Path, layer: LayerName) -> SettingNode:
    """The settings in a text.

    Raises:
        ConfigError: it is no TOML; names the file and the line. Of a project's file, also if a key has too many parts.
    """
    if layer != "project":
        return _parse(text, path, layer)
    parsed = _parse_of_project(text, path)
    if isinstance(parsed, str):
        raise ConfigError(parsed)
    return parsed


@lru_cache(maxsize=64)
def _parse_of_project(text: str, path: Path) -> SettingNode | str:
    """The settings, or what is wrong; several questions are asked of one file before anybody trusts it."""
    if _LONG_KEY.search(_STRING.sub(_passed_over, text)):
        return f"{path} has a key of more than {MOST_PARTS} parts. Shorten it, then try again."
    try:
        return _parse(text, path, "project")
    except ConfigError as error:
        return str(error)


def _parse(text: str, path: Path, layer: LayerName) -> SettingNode:
    with without_working_folder():
        import tomllib  # noqa: PLC0415 - many have no such file

    try:
        values: dict[str, Any] = tomllib.loads(text)
        lines = _key_lines(text, LOCATING_FREE // 10 if layer == "project" else LOCATING_FREE)
    except ValueError as error:  # also a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}. Fix that line, then try again.") from error
    except RecursionError:
        raise _too_deep(path) from None

    def place(value: Any, at: Place, line: int | None) -> SettingNode:
        if len(at) > DEEPEST:
            raise _too_deep(path)
        line = lines.get(at, line)
        origin = SettingOrigin(layer, path, line)
        if isinstance(value, Mapping):
            table: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return SettingNode({key: place(item, (*at, key), line) for key, item in table.items()}, origin)
        if isinstance(value, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return SettingNode([place(item, (*at, number), line) for number, item in enumerate(items)], origin)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ConfigError(f"{origin}: a number is larger than TOML's integers may be. Fix it, then try again.")
        return SettingNode(_json_value(value), origin)

    return place(values, (), None)


def _passed_over(found: re.Match[str]) -> str:
    """A word in the place of a string, which may be a quoted part of a key; nothing in that of a comment."""
    return "" if found[0].startswith("#") else "_"


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path} is nested too deeply to be read. Fix it, then try again.")


def _json_value(value: Any) -> JsonValue:
    """Dates and times as text."""
    return value if isinstance(value, str | int | float | bool) else str(value)


def _key_lines(text: str, free: int) -> dict[Place, int]:
    """The line of each header and key."""
    import tomllib  # noqa: PLC0415 - it is loaded

    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    prefix: Place = ()
    statement, start = "", 1
    left = free + LOCATING * len(text)
    for number, line in enumerate(text.split("\n"), 1):
        start = start if statement else number
        statement += line + "\n"
        left -= len(statement)
        if left < 0:
            break
        try:
            value: dict[str, Any] = tomllib.loads(statement)
        except (ValueError, RecursionError):
            continue
        is_header, statement = statement.lstrip().startswith("["), ""
        if is_header:
            prefix = _header_path(value, counts)
            found[prefix] = start
        else:
            for path in _key_paths(value):
                found.setdefault((*prefix, *path), start)
    return found


def _header_path(value: dict[str, Any], counts: dict[Place, int]) -> Place:
    """The path a header opens; `counts` holds the last index of each array of tables."""
    path: list[Step] = []
    table = value
    while table:
        key, inside = next(iter(table.items()))
        path.append(key)
        table = _table_or_empty(inside)
        if isinstance(inside, list):
            counts[tuple(path)] = counts.get(tuple(path), -1) + 1
        if tuple(path) in counts:
            path.append(counts[tuple(path)])
    return tuple(path)


def _key_paths(value: dict[str, Any]) -> list[Place]:
    """Every path in the value of one key."""
    paths: list[Place] = []
    for key, inner in value.items():
        paths.append((key,))
        paths += [(key, *path) for path in _key_paths(_table_or_empty(inner))]
    return paths


def _table_or_empty(value: object) -> dict[str, Any]:
    """The value, if it is a table; else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


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
    with changed_config(environ) as (path, document):
        document["active_model"] = alias
        if provider is not None:
            put_entry(document, "providers", provider, ("name",))
        if model is not None:
            put_entry(document, "models", model, ("alias", "name"))
    return path


def load_tomlkit() -> Any:
    """What keeps a file as it was written; for those who change one alone. It has hardly any types."""
    with without_working_folder():
        return importlib.import_module("tomlkit")


@contextmanager
def changed_config(environ: Mapping[str, str]) -> "Generator[tuple[Path, Any]]":
    """The user's file and what is in it; what is changed there is written at the end, unless that fails.

    Raises:
        ConfigError: the file is no TOML, or cannot be written; nothing was changed.
    """
    import tomllib  # noqa: PLC0415 - it is loaded

    tomlkit = load_tomlkit()
    path = config_path(environ)
    try:
        text = read_plain_file(path).decode("utf-8-sig").replace("\r\n", "\n") if path.exists() else ""
        # What is put behind a last line without an end would stand in it.
        document = tomlkit.parse(f"{text}\n" if text and not text.endswith("\n") else text)
        yield path, document
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)  # whatever tomlkit made of it: a file that nobody can read is not written
        _write_config(path, changed)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigError(f"Cannot change {path}: {error}. Fix it, then try again.") from error


def put_entry(document: Any, key: str, entry: Entry, names: tuple[str, ...]) -> None:
    """Write one entry of a named list, in the list's own form: ``[[tables]]``, or one array."""
    entries: Any = document.get(key)
    tomlkit = load_tomlkit()
    if entries is None:
        document.add(tomlkit.nl())
        entries = document[key] = tomlkit.aot()
    known = _known_as(entry, names)
    there: Any = next((one for one in entries if _known_as(cast(Entry, one), names) == known), None)
    if there is None:
        there = tomlkit.inline_table() if type(entries) is tomlkit.items.Array else tomlkit.table()
        entries.append(_filled_table(there, entry))
        return
    _filled_table(there, entry)


def _filled_table(table: Any, entry: Entry) -> Any:
    for name, value in entry.items():
        table[name] = value
    return table


def _known_as(entry: Entry, names: tuple[str, ...]) -> JsonValue:
    return next((entry[name] for name in names if entry.get(name)), None)


def _write_config(path: Path, text: str) -> None:
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
