"""Layers of settings made one: scalars replace, tables merge, lists join, named entries unite by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from vibe_jupyter.config.node import Node
from vibe_jupyter.errors import ConfigError


def name_of(entry: Node) -> str:
    """What an entry of a named list is known by."""
    return _text(entry, "name")


def alias_of(entry: Node) -> str:
    """What a model is known by."""
    return _text(entry, "alias") or _text(entry, "name")


NAMED_LISTS: Final[Mapping[str, Callable[[Node], str]]] = {
    "providers": name_of,
    "models": alias_of,
    "mcp_servers": name_of,
}
"""Top-level lists whose entries are known by a name. An entry of a stronger layer takes the place of the whole weaker
one: a key never meets an address its own entry does not name."""


def merged(layers: Sequence[Node]) -> Node:
    """All layers, the later ones stronger.

    Raises:
        ConfigError: a name stands twice in one list of one layer.
    """
    whole, *others = layers
    _check_names(whole)
    for layer in others:
        _check_names(layer)
        whole = _over(whole, layer, top=True)
    return whole


def _over(weak: Node, strong: Node, *, top: bool = False) -> Node:
    if not (weak.is_table and strong.is_table):
        return _joined(weak, strong) if weak.is_list and strong.is_list else strong
    table = dict(weak.table)
    for key, node in strong.table.items():
        if key not in table:
            table[key] = node
        elif top and key in NAMED_LISTS and table[key].is_list and node.is_list:
            table[key] = _united(table[key], node, NAMED_LISTS[key])
        else:
            table[key] = _over(table[key], node)
    return Node(table, strong.origin)


def _joined(weak: Node, strong: Node) -> Node:
    have = [node.plain() for node in weak.items]
    return Node([*weak.items, *(node for node in strong.items if node.plain() not in have)], strong.origin)


def _united(weak: Node, strong: Node, name: Callable[[Node], str]) -> Node:
    own = {name(entry) for entry in strong.items}
    kept = [entry for entry in weak.items if not name(entry) or name(entry) not in own]
    return Node([*strong.items, *kept], strong.origin)


def _check_names(layer: Node) -> None:
    for key, name in NAMED_LISTS.items():
        seen: dict[str, Node] = {}
        for entry in layer.table[key].items if key in layer.table else ():
            known = name(entry)
            if known and known in seen:
                raise ConfigError(
                    f"{entry.origin}: [[{key}]] names {known!r} a second time; the first is in line "
                    f"{seen[known].origin.line}. Give one of them another {'alias' if key == 'models' else 'name'}."
                )
            seen[known] = entry


def _text(entry: Node, key: str) -> str:
    node = entry.table.get(key)
    return node.value if node is not None and isinstance(node.value, str) else ""
