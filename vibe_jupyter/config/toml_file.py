"""Settings as written: each value with the file it comes from, and its key there."""

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
PROJECT_FOLDER: Final = ".vibe"  # in a kernel's working folder; the user's own folder has the same layout

LayerName = Literal["default", "user", "project", "agent", "environment", "flag"]  # from weakest to strongest
Step = str | int

DEEPEST: Final = 50  # nesting depth of tables and lists
MOST_PARTS: Final = 16  # parts of one dotted key in a project's file; tomllib's time is quadratic in them
# Strings, quoted keys and comments, including unterminated ones, so that each is skipped once.
_STRING: Final = lazy_pattern(
    r"""\"{3}(?:[^"\\]|\\.|"(?!""))*(?:"{3}|\Z)|'{3}(?:[^']|'(?!''))*(?:'{3}|\Z)"""
    r"""|"(?:[^"\\\n]|\\[^\n])*(?:"|$)|'[^'\n]*(?:'|$)|\#[^\n]*""",
    re.DOTALL | re.MULTILINE,
)
_LONG_KEY: Final = lazy_pattern(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MOST_PARTS},}}")

Place = tuple[Step, ...]

Entry = Mapping[str, JsonValue]


def vibe_home(environ: Mapping[str, str]) -> Path:
    """Return the user's folder, which is `VIBE_HOME` or `~/.vibe`.

    Raises:
        ConfigError: There is no home folder, as for a user without an account in a container.
    """
    path = environ.get("VIBE_HOME") or "~/.vibe"
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"Cannot tell where {path} is. Set VIBE_HOME to a folder you can write.") from error


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's settings."""
    return vibe_home(environ) / CONFIG_FILE


def env_path(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's `.env`, which may contain keys."""
    return vibe_home(environ) / ENV_FILE


class SettingOrigin(NamedTuple):
    """Place where a value was set."""

    layer: LayerName
    path: Path | None = None  # None unless it was set in a file
    key: Place = ()  # as written in the file, with entries of lists by name if they have one; () if unknown
    name: str = ""  # the variable or option, unless it was set in a file

    @property
    def source(self) -> str:
        """The file, variable or option."""
        return str(self.path) if self.path is not None else self.name or self.layer

    def __str__(self) -> str:
        key = ".".join(
            step if step and step.isprintable() and "." not in step else repr(step) for step in map(str, self.key)
        )
        return f"{self.source}, at {key}" if key else self.source


class SettingNode(NamedTuple):
    """A value, list or table with its origin, recursively."""

    value: "JsonValue | dict[str, SettingNode] | list[SettingNode]"
    origin: SettingOrigin

    @property
    def table(self) -> "dict[str, SettingNode]":
        """Its entries; empty unless it is a table."""
        return _child_nodes(self.value)

    @property
    def items(self) -> "list[SettingNode]":
        """Its items; empty unless it is a list."""
        return [item for item in self.value if isinstance(item, SettingNode)] if isinstance(self.value, list) else []

    @property
    def is_table(self) -> bool:
        return isinstance(self.value, dict)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, list)

    def plain(self) -> JsonValue:
        """Return the value without origins."""
        if self.is_table:
            return {key: node.plain() for key, node in self.table.items()}
        if self.is_list:
            return [node.plain() for node in self.items]
        assert not isinstance(self.value, dict | list)
        return self.value

    def at(self, steps: "tuple[Step, ...]") -> "SettingNode":
        """Return the node at a path. Steps that don't exist are skipped."""
        node = self
        for step in steps:
            # `items` and `table` copy all children, which takes long for the thousands an untrusted file may have.
            inner: object = None
            if isinstance(step, int) and isinstance(node.value, list) and step < len(node.value):
                inner = node.value[step]
            elif isinstance(step, str) and isinstance(node.value, dict):
                inner = node.value.get(step)
            node = inner if isinstance(inner, SettingNode) else node
        return node

    def leaves(self, path: "tuple[Step, ...]" = ()) -> "Iterator[tuple[tuple[Step, ...], SettingNode]]":
        """Yield each value other than tables and lists of tables, with its path."""
        if self.is_table:
            for key, node in self.table.items():
                yield from node.leaves((*path, key))
        elif any(item.is_table for item in self.items):
            for number, node in enumerate(self.items):
                yield from node.leaves((*path, number))
        else:
            yield path, self


def make_node(value: JsonValue, origin: SettingOrigin) -> SettingNode:
    """Build a node and its children with the same origin."""
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
    """Read the settings in a file, or return None if it doesn't exist.

    Raises:
        ConfigError: It can't be read, or isn't TOML; the message names the file and, for a syntax error, the line.
    """
    try:
        text = read_plain_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Fix or move the file, then try again.") from error
    return parse_toml(text, path, layer)


def parse_toml(text: str, path: Path, layer: LayerName) -> SettingNode:
    """Parse settings.

    Raises:
        ConfigError: Invalid TOML, or a key with too many parts in a project's file; the message names the file.
    """
    if layer != "project":
        return _parse(text, path, layer)
    parsed = _parse_of_project(text, path)
    if isinstance(parsed, str):
        raise ConfigError(parsed)
    return parsed


@lru_cache(maxsize=64)
def _parse_of_project(text: str, path: Path) -> SettingNode | str:
    """Return the settings or an error message. Cached, because an untrusted file is parsed for several checks."""
    if _LONG_KEY.search(_STRING.sub(_passed_over, text)):
        return f"{path} has a key of more than {MOST_PARTS} parts. Shorten it, then try again."
    try:
        return _parse(text, path, "project")
    except ConfigError as error:
        return str(error)


def _parse(text: str, path: Path, layer: LayerName) -> SettingNode:
    with without_working_folder():
        import tomllib  # noqa: PLC0415 - many users have no such file

    try:
        values: dict[str, Any] = tomllib.loads(text)
    except ValueError as error:  # includes a number of thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}. Fix that line, then try again.") from error
    except RecursionError:
        raise _too_deep(path) from None

    def place(value: Any, at: Place) -> SettingNode:
        if len(at) > DEEPEST:
            raise _too_deep(path)
        origin = SettingOrigin(layer, path, at)
        if isinstance(value, Mapping):
            table: Mapping[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return SettingNode({key: place(item, (*at, key)) for key, item in table.items()}, origin)
        if isinstance(value, list):
            items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            return SettingNode([place(one, (*at, _step_to(one, number))) for number, one in enumerate(items)], origin)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ConfigError(f"{origin}: the number is larger than TOML's integers may be. Fix it, then try again.")
        return SettingNode(_json_value(value), origin)

    return place(values, ())


def _step_to(item: Any, number: int) -> Step:
    """Return the name of an entry in a list of tables, or its number."""
    table = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    name = table.get("alias", table.get("name", table.get("id")))
    return name if isinstance(name, str) and name else number


def _passed_over(found: re.Match[str]) -> str:
    """Replace a string, which may be a quoted part of a key, by a word, and a comment by nothing."""
    return "" if found[0].startswith("#") else "_"


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path} is nested too deeply to be read. Fix it, then try again.")


def _json_value(value: Any) -> JsonValue:
    """Convert dates and times to text."""
    return value if isinstance(value, str | int | float | bool) else str(value)


def use_model(
    alias: str, environ: Mapping[str, str], *, provider: Entry | None = None, model: Entry | None = None
) -> Path:
    """Make a model the active one. Returns the path of the changed file.

    Args:
        alias: Name or alias of the model.
        environ: The process's environment.
        provider: Entry of its provider, replacing one of the same name. None if it exists.
        model: Entry of the model, replacing one of the same name or alias. None if it exists.

    Raises:
        ConfigError: The file isn't TOML, or can't be written; nothing was changed.
    """
    with changed_config(environ) as (path, document):
        document["active_model"] = alias
        if provider is not None:
            put_entry(document, "providers", provider, ("name",))
        if model is not None:
            put_entry(document, "models", model, ("alias", "name"))
    return path


def load_tomlkit() -> Any:
    """Import tomlkit, which preserves formatting. Only needed to change a file. It is mostly untyped."""
    with without_working_folder():
        return importlib.import_module("tomlkit")


@contextmanager
def changed_config(environ: Mapping[str, str]) -> "Generator[tuple[Path, Any]]":
    """Open the user's file for changes, and write it at the end unless an exception is raised.

    Yields:
        The path and the tomlkit document.

    Raises:
        ConfigError: The file isn't TOML, or can't be written; nothing was changed.
    """
    import tomllib  # noqa: PLC0415 - already imported

    tomlkit = load_tomlkit()
    path = config_path(environ)
    try:
        text = read_plain_file(path).decode("utf-8-sig").replace("\r\n", "\n") if path.exists() else ""
        # Without a final line break, tomlkit would append to the last line.
        document = tomlkit.parse(f"{text}\n" if text and not text.endswith("\n") else text)
        yield path, document
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)  # refuse to write a file that can't be parsed, in case of a bug in tomlkit
        _write_config(path, changed)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigError(f"Cannot change {path}: {error}. Fix it, then try again.") from error


def put_entry(document: Any, key: str, entry: Entry, names: tuple[str, ...]) -> None:
    """Write an entry to a named list, in the list's own form: `[[tables]]` or an inline array."""
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
    """Replace the file atomically. Follows symbolic links."""
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
