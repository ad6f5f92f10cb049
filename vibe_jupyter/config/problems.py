"""What is wrong with a value, in words for the person who wrote it."""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from vibe_jupyter.config.mcp_servers import MODELS
from vibe_jupyter.config.node import Node, Step
from vibe_jupyter.errors import ConfigError

_WANTED: Final[Mapping[str, str]] = {
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "string_type": "expected text in quotes",
    "string_too_short": "expected some text; it is empty",
    "tuple_type": "expected a list in [ ]",
    "list_type": "expected a list in [ ]",
    "dict_type": "expected a table",
    "model_type": "expected a table",
    "model_attributes_type": "expected a table",
    "missing": "it is missing, and must be given",
}
_BOUNDS: Final[Mapping[str, str]] = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}
_WITH_WORDS: Final[Mapping[str, Callable[[dict[str, object]], str]]] = {
    "literal_error": lambda context: f"expected {context['expected']}",
    "union_tag_invalid": lambda context: f"expected {context['expected_tags']}",
    "union_tag_not_found": lambda context: f"{context['discriminator']} is missing, and must be given",
    "value_error": lambda context: str(context["error"]),
    "string_pattern_mismatch": lambda _: "expected a name, not a path: letters, digits, “_”, “-” and “.”",
}


def said(problem: ErrorDetails) -> str:
    """What is allowed instead; never the value itself, which may be a secret."""
    kind, context = problem["type"], problem.get("ctx") or {}
    if kind in _WANTED:
        return _WANTED[kind]
    if kind in _BOUNDS:
        return f"expected {_BOUNDS[kind].format(**context)}"
    return _WITH_WORDS[kind](context) if kind in _WITH_WORDS else problem["msg"]


def config_error(error: ValidationError, tree: Node, at: tuple[Step, ...] = ()) -> ConfigError:
    """The first problem, with the file and line, or the variable, that is to blame."""
    problem = error.errors(include_url=False)[0]
    path = (*at, *problem["loc"])
    origin = tree.at(path).origin
    return ConfigError(f"{origin}: {key_of(path, tree)}: {said(problem)}. Mend it, then run the cell again.")


def key_of(path: tuple[Step, ...], tree: Node) -> str:
    """A key as a person finds it: an entry of a list by its name."""
    words: list[str] = []
    node = tree
    for step in path:
        inner = node.at((step,))
        is_tag = inner is node and node.is_table and step in MODELS
        if isinstance(step, int):
            entry = inner.table.get("alias", inner.table.get("name"))
            words.append(str(entry.value) if entry is not None and isinstance(entry.value, str) else str(step))
        elif not is_tag:
            words.append(step)
        node = inner
    return ".".join(words)
