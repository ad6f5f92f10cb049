"""`%vibe config`: list each setting with its origin, never showing secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel, JsonValue

from vibe_jupyter.config.loading import SettingsReading, effective_environment
from vibe_jupyter.config.model_choice import key_variables
from vibe_jupyter.config.project import FILE_NAME
from vibe_jupyter.config.settings import TOOL_OPTIONS, Settings
from vibe_jupyter.config.toml_file import SettingNode, Step, config_path, env_path, vibe_home
from vibe_jupyter.config.validation import key_text
from vibe_jupyter.permissions.folder_trust import PROJECT_FOLDER
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_shapes import is_secret_name

_NAMES_A_VARIABLE: Final = frozenset({"api_key_env_var", "api_key_env", "api_key_header", "api_key_format"})
_HOLDS_SECRETS: Final = frozenset({"headers", "env", "extra_headers"})
_PASSWORD: Final = re.compile(r"(?<=://)[^/@\s]+@")
# A secret in a command, such as `--token=…`.
_ARGUMENT: Final = re.compile(r"(?i)(?<![\w$])(-{0,2}[\w-]*(?:key|token|secret|passw\w*)[\w-]*(?:=|\s+))\S+")
_LONG: Final = 100  # characters shown of a value


def list_settings(reading: SettingsReading, environ: Mapping[str, str]) -> str:
    """List all settings with values and origins, followed by warnings."""
    known = effective_environment(environ)
    rows = sorted([*_written_lines(reading, known), *_default_lines(reading)], key=lambda row: row[1] == "default")
    width = max((len(left) for left, _ in rows), default=0)
    lines = [f"{left:<{width}}  # {origin}" for left, origin in rows]
    strike = Redactor.of(known, key_variables(reading.settings))
    return strike("\n".join([*lines, *(f"! {warning}" for warning in reading.warnings)]))


def list_places(environ: Mapping[str, str], folder: str) -> str:
    """List the files that settings are read from."""
    files = [
        (config_path(environ), "yours"),
        (env_path(environ), "your keys"),
        (vibe_home(environ) / "hooks.toml", "your hooks"),
        (f"{folder}/{PROJECT_FOLDER}/config.toml", "the folder's, as far as you trust it"),
        (f"{folder}/{PROJECT_FOLDER}/hooks.toml", "the folder's hooks, if you trust it"),
        (f"{folder}/{FILE_NAME}", "the folder's MCP servers, if you trust it"),
    ]
    return "\n".join(f"{path}  # {words}" for path, words in files)


def _written_lines(reading: SettingsReading, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, node in reading.tree.leaves():
        if path and _is_known(path) and node.plain() not in (None, ""):
            value = _shown_value(path, node.plain(), environ)
            origins = {item.origin.source: None for item in node.items} or {node.origin.source: None}
            yield f"{key_text(path, reading.tree)} = {value}", " and ".join(origins)


def _default_lines(reading: SettingsReading) -> Iterator[tuple[str, str]]:
    """Yield the settings that have their defaults."""
    for key, value in _model_values(reading.settings, reading.tree, ()):
        yield f"{key} = {_toml_value(value)}", "default"
    for name, model in TOOL_OPTIONS.items():
        options = reading.settings.tool_options(name, model)
        for key, value in _model_values(options, reading.tree, ("tools", name)):
            yield f"{key} = {_toml_value(value)}", "default"


def _model_values(model: BaseModel, tree: SettingNode, at: tuple[Step, ...]) -> Iterator[tuple[str, JsonValue]]:
    table = tree.at(at).table if tree.at(at) is not tree or not at else {}
    for key, value in model:
        if isinstance(value, BaseModel):
            yield from _model_values(value, tree, (*at, key))
        elif key not in table and isinstance(value, str | int | float | bool):
            yield ".".join(map(str, (*at, key))), value
        elif key not in table and value == ():
            yield ".".join(map(str, (*at, key))), []


def _is_known(path: tuple[Step, ...]) -> bool:
    return path[0] in Settings.model_fields


def _shown_value(path: tuple[Step, ...], value: JsonValue, environ: Mapping[str, str]) -> str:
    last = str(path[-1])
    if last in _NAMES_A_VARIABLE and last.startswith("api_key_env"):
        return f"{_toml_value(value)} ({'set' if environ.get(str(value)) else 'not set'})"
    if last not in _NAMES_A_VARIABLE and is_secret_name(last):
        return '"(not shown)"'
    if any(step in _HOLDS_SECRETS for step in path[:-1] if isinstance(step, str)):
        return '"(not shown)"'
    return _toml_value(value)


def _toml_value(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = _ARGUMENT.sub(r"\1(not shown)", _PASSWORD.sub("(not shown)@", value))
        text = '"' + value.replace("\n", "\\n") + '"'
        return text if len(text) <= _LONG else f"{text[:_LONG]}…"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return str(value)
