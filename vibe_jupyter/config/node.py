"""Settings as they were written: every value with the place it comes from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

LayerName = Literal["default", "user", "project", "agent", "environment", "flag"]
"""From the weakest to the strongest."""
Step = str | int


@dataclass(frozen=True)
class Origin:
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


@dataclass(frozen=True)
class Node:
    """A value, a list or a table, with its origin all the way down."""

    value: "JsonValue | dict[str, Node] | list[Node]"
    origin: Origin

    @property
    def table(self) -> "dict[str, Node]":
        """Its entries; none where it is no table."""
        return _nodes(self.value)

    @property
    def items(self) -> "list[Node]":
        """Its items; none where it is no list."""
        return [item for item in self.value if isinstance(item, Node)] if isinstance(self.value, list) else []

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

    def at(self, steps: "tuple[Step, ...]") -> "Node":
        """What lies at the end of a path, or as far along it as there is something; other steps are passed over."""
        node = self
        for step in steps:
            if isinstance(step, int) and step < len(node.items):
                node = node.items[step]
            elif isinstance(step, str) and step in node.table:
                node = node.table[step]
        return node

    def leaves(self, path: "tuple[Step, ...]" = ()) -> "Iterator[tuple[tuple[Step, ...], Node]]":
        """Each value that is no table and no list of tables, with its path."""
        if self.is_table:
            for key, node in self.table.items():
                yield from node.leaves((*path, key))
        elif any(item.is_table for item in self.items):
            for number, node in enumerate(self.items):
                yield from node.leaves((*path, number))
        else:
            yield path, self


def node_of(value: JsonValue, origin: Origin) -> Node:
    """Everything in `value`, from one place."""
    if isinstance(value, dict):
        return Node({key: node_of(item, origin) for key, item in value.items()}, origin)
    if isinstance(value, list):
        return Node([node_of(item, origin) for item in value], origin)
    return Node(value, origin)


def _nodes(value: object) -> dict[str, Node]:
    if not isinstance(value, dict):
        return {}
    return {key: node for key, node in value.items() if isinstance(key, str) and isinstance(node, Node)}  # pyright: ignore[reportUnknownVariableType]
