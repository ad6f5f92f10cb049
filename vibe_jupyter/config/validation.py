"""From written settings to typed ones."""

import json

from pydantic import BaseModel, ValidationError

from vibe_jupyter.config.node import Node
from vibe_jupyter.config.problems import config_error
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.config.tools import TOOL_OPTIONS


def validated(tree: Node) -> Settings:
    """The settings in a tree.

    Strictly: text is no number. As JSON, where a list may become a tuple all the same.

    Raises:
        ConfigError: a value is none of those allowed; names file, line and key, or the variable.
    """
    try:
        settings = Settings.model_validate_json(json.dumps(tree.plain()), strict=True)
    except ValidationError as error:
        raise config_error(error, tree) from None
    for name, options in TOOL_OPTIONS.items():
        if name in settings.tools:
            _check_options(name, options, tree)
    return settings


def _check_options(name: str, options: type[BaseModel], tree: Node) -> None:
    at = ("tools", name)
    written = {key: node.plain() for key, node in tree.at(at).table.items() if key in options.model_fields}
    try:
        options.model_validate_json(json.dumps(written), strict=True)
    except ValidationError as error:
        raise config_error(error, tree, at) from None
