"""Keys that mean nothing: told with the nearest one that does, never an error."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from vibe_jupyter.config.entry import Entry
from vibe_jupyter.config.mcp_servers import MODELS, kind_of
from vibe_jupyter.config.node import Node
from vibe_jupyter.config.settings import RENAMED, Settings
from vibe_jupyter.config.tools import OTHER_TOOLS, TOOL_OPTIONS, UNUSED_OPTIONS, ToolEntry
from vibe_jupyter.policy.secrets import is_secret_name
from vibe_jupyter.tools.definition import BUILT_IN

HOISTED = "include_"
"""Keys of the top of the file that people write below ``[project_context]``, as the manual itself does."""


def in_place(layer: Node) -> tuple[Node, list[str]]:
    """The layer with renamed keys under their present names and misplaced ones where they belong, and what to tell."""
    table = {RENAMED.get(key, key): node for key, node in layer.table.items()}
    context = table.get("project_context")
    if context is None:
        return Node(table, layer.origin), []
    strayed = {key: node for key, node in context.table.items() if key.startswith(HOISTED)}
    rest = {key: node for key, node in context.table.items() if key not in strayed}
    table = {**strayed, **table, "project_context": Node(rest, context.origin) if context.is_table else context}
    told = [
        f"{node.origin}: {key} belongs to the top of the file, before the first [table]; below [project_context] it "
        "is taken all the same."
        for key, node in strayed.items()
    ]
    return Node(table, layer.origin), told


def unknown_keys(layer: Node) -> list[str]:
    """A sentence for each key of a layer that sets nothing."""
    return list(_in_table(layer, Settings, ""))


def _in_table(node: Node, model: type[BaseModel], below: str) -> Iterator[str]:
    unused = model.unused if issubclass(model, Entry) else frozenset[str]()
    for key, inner in node.table.items():
        field = model.model_fields.get(key)
        if field is not None and field.annotation == dict[str, ToolEntry]:
            yield from _in_tools(inner)
        elif field is not None:
            for table, kind in _tables(inner, field.annotation):
                yield from _in_table(table, kind, f"{below}{key}.")
        elif key not in unused:
            yield _told(inner, key, below, model.model_fields)


def _in_tools(tools: Node) -> Iterator[str]:
    for name, tool in tools.table.items():
        options = TOOL_OPTIONS.get(name)
        if options is None:
            known = [*sorted(BUILT_IN), *OTHER_TOOLS]
            # People have tools of their own: only what looks like a slip is told.
            near = get_close_matches(name, known, n=1, cutoff=0.75) if name not in known else []
            if near:
                yield f"{tool.origin}: there is no tool {name}. Did you mean [tools.{near[0]}]?"
            continue
        for key, inner in tool.table.items():
            if key not in ToolEntry.model_fields and key not in options.model_fields and key not in UNUSED_OPTIONS:
                yield _told(inner, key, f"tools.{name}.", [*ToolEntry.model_fields, *options.model_fields])


def _told(node: Node, key: str, below: str, known: Collection[str]) -> str:
    where = f"{node.origin}: {below}{key} sets nothing."
    if below and key in Settings.model_fields:
        return f"{where} {key} belongs to the top of the file, before the first [table]."
    near = get_close_matches(key, known, n=1)
    if near:
        return f"{where} Did you mean {near[0]}?"
    if is_secret_name(key):
        return f"{where} Keys do not belong into this file: put them into the environment, or into .env beside it."
    return where


def _tables(node: Node, annotation: Any) -> Iterator[tuple[Node, type[BaseModel]]]:
    """The tables in a value, with the models they are read by."""
    kinds = list(_models(annotation))
    for table in node.items if node.is_list else [node]:
        fits = [kind for kind in kinds if _fits(table, kind)]
        if table.is_table and fits:
            yield table, fits[0]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and get_origin(annotation) is None and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _fits(table: Node, kind: type[BaseModel]) -> bool:
    """Whether a table is of this kind, where there are several."""
    return kind not in MODELS.values() or MODELS[kind_of(table.plain())] is kind
