"""What the environment says: ``VIBE_*`` variables, and keys from the user's own ``.env`` file.

A project's ``.env`` is never read, and nothing is ever put into this process's environment: what the agent starts does
not inherit keys from the file.
"""

import json
import os
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, Final, get_args, get_origin

from dotenv import dotenv_values
from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from vibe_jupyter.config.settings import RENAMED, TOOL_OPTIONS, Settings
from vibe_jupyter.config.toml_file import SettingNode, SettingOrigin, env_path, make_node
from vibe_jupyter.config.validation import describe_problem
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.file_stamps import ReadCache, stamp_file

PREFIX: Final = "VIBE_"
NESTED: Final = "__"
"""Between a table and its key: ``VIBE_TOOLS__BASH__PERMISSION``."""
NOT_SETTINGS: Final = frozenset({"VIBE_HOME"})
_OTHERS: Final = 0o077
"""What a file lets others do."""
_env_files: Final = ReadCache[Mapping[str, str]]()
"""What the ``.env`` that was read last holds."""


def effective_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, and from the user's ``.env`` what it does not have.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = env_path(environ)
    kept = _env_files.get([stamp_file(path)], path, lambda: _read_env_file(path))
    return {**kept, **{name: value for name, value in environ.items() if value or name not in kept}}


def _read_env_file(path: Path) -> Mapping[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Fix or move the file, then run the cell again.") from error
    written = dotenv_values(stream=StringIO(text), interpolate=False)
    return {name: value for name, value in written.items() if value is not None and name not in NOT_SETTINGS}


def settings_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Every variable that may set something; those of `effective_environment` come on top."""
    return {name: value for name, value in environ.items() if name.startswith(PREFIX)}


def open_keys(environ: Mapping[str, str]) -> list[str]:
    """A warning where other users of the machine can read the ``.env`` file; on Windows the mode says nothing."""
    path = env_path(environ)
    try:
        mode = path.stat().st_mode
    except OSError:
        return []
    if os.name == "nt" or not mode & _OTHERS:
        return []
    command = f"chmod 600 {shlex.quote(str(path))}"
    return [f"Other users of this machine can read the keys in {path}. Restrict it to your account: {command}"]


def environment_layer(environ: Mapping[str, str]) -> tuple[SettingNode, list[str]]:
    """The settings in variables, and what to tell of those that set nothing.

    Raises:
        ConfigError: a value that cannot be what its key wants; names the variable.
    """
    tree = SettingNode({}, SettingOrigin("environment"))
    warnings: list[str] = []
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS or not environ[name]:
            continue
        key, *inner = name.removeprefix(PREFIX).lower().split(NESTED)
        key = RENAMED.get(key, key)
        annotation = _annotation_at(Settings, [key, *inner])
        if annotation is None:
            warnings += _unknown_variable(name, key)
        else:
            origin = SettingOrigin("environment", name=f"the variable {name}")
            tree = _with_node(tree, [key, *inner], make_node(_parse_value(environ[name], annotation, name), origin))
    return tree, warnings


def _annotation_at(model: type[BaseModel], path: list[str]) -> Any:
    """The type wanted at a path; None where nothing can be set."""
    key, *rest = path
    field = model.model_fields.get(key)
    if field is None:
        return None
    if not rest:
        return field.annotation
    inner = field.annotation
    if key == "tools" and model is Settings:
        return _tool_annotation(rest)
    return _annotation_at(inner, rest) if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _tool_annotation(path: list[str]) -> Any:
    if len(path) != 2:
        return None
    tool, key = path
    entry = Settings.model_fields["tools"].annotation
    own = TOOL_OPTIONS.get(tool)
    for model in (get_args(entry)[1], own):
        if model is not None and key in model.model_fields:
            return model.model_fields[key].annotation
    return JsonValue if own is None else None


def _parse_value(text: str, annotation: Any, name: str) -> JsonValue:
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    try:
        return adapter.dump_python(adapter.validate_python(_parse_text(text, annotation)), mode="json")
    except ValidationError as error:
        raise ConfigError(
            f"The environment variable {name} is wrong: {describe_problem(error.errors(include_url=False)[0])}. "
            "Correct or unset it, then run the cell again."
        ) from None


def _parse_text(text: str, annotation: Any) -> Any:
    """JSON for lists and tables, else words between commas; scalars as they are, to be understood by their kind."""
    if annotation in (str, int, float, bool):
        return text
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        is_list = get_origin(annotation) is tuple
        return [word.strip() for word in text.split(",") if word.strip()] if is_list else text
    wants_text = not isinstance(value, list | dict) and annotation is not JsonValue
    return text if wants_text else value


def _with_node(tree: SettingNode, path: list[str], node: SettingNode) -> SettingNode:
    key, *rest = path
    below = _with_node(tree.table.get(key, SettingNode({}, node.origin)), rest, node) if rest else node
    return SettingNode({**tree.table, key: below}, tree.origin)


def _unknown_variable(name: str, key: str) -> list[str]:
    if key in Settings.unused:
        return []
    if key in Settings.model_fields:
        return [f"The environment variable {name} sets nothing: {key} has no such key."]
    # Programs of the same name have variables of their own: only what looks like a slip is reported.
    near = get_close_matches(key, [*Settings.model_fields, *RENAMED], n=1)
    return [f"The environment variable {name} sets nothing. Did you mean {PREFIX}{near[0].upper()}?"] if near else []
