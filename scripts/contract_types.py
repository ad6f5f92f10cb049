"""Write `labextension/src/contract.ts`: the types of what kernel and page say to each other, from those in Python.

    .venv/bin/python scripts/contract_types.py

Run it when a message changes; a test compares. Whoever sends a message sends all of its fields, so a field is optional
in TypeScript only where Python has `NotRequired`.
"""

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from vibe_jupyter.commands.panel import PanelModels, PanelState, PanelUndo
from vibe_jupyter.notebook import bridge_messages as bridge
from vibe_jupyter.protocol import CellEdit, CellKind, Command
from vibe_jupyter.protocol.cells import BRIEF_TEXT
from vibe_jupyter.ui.connect_page import FromForm, ToForm
from vibe_jupyter.ui.page import FromPage, PartKind, ToPage

CONTRACT = Path(__file__).parents[1] / "labextension" / "src" / "contract.ts"

PLAIN = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
    object: "unknown",
    Any: "unknown",
}
ALIASES = {
    "CellKind": CellKind,
    "CellEdit": CellEdit,
    "Command": Command,
    "PartKind": PartKind,
    "FromPage": FromPage,
    "ToPage": ToPage,
    "FromForm": FromForm,
    "ToForm": ToForm,
    "RefusalCode": bridge.RefusalCode,
    "PageEvent": bridge.PageEvent,
}
"""Types that have a name of their own in TypeScript, too."""
CONSTANTS = {
    "BRIDGE_REQUEST": bridge.REQUEST,
    "BRIDGE_REPLY": bridge.REPLY,
    "BRIDGE_EVENT": bridge.EVENT,
    "BRIEF_TEXT": BRIEF_TEXT,
}
LINE = 120  # characters


class Contract:
    """The declarations so far; an interface is declared when a type first needs it."""

    def __init__(self) -> None:
        self._interfaces: dict[str, str] = {}

    def reference(self, annotation: Any) -> str:
        """How TypeScript writes a type."""
        for name, alias in ALIASES.items():
            if annotation == alias:
                return name
        return self.spell(annotation)

    def spell(self, annotation: Any) -> str:
        """The same, with the members of an alias written out."""
        origin, members = get_origin(annotation), get_args(annotation)
        if annotation in PLAIN:
            return PLAIN[annotation]
        if origin in (Annotated, NotRequired, Required):
            return self.reference(members[0]) if origin is not Annotated else self.spell(members[0])
        if origin is Literal:
            return " | ".join(_literal(value) for value in members)
        if origin in (Union, UnionType):
            return " | ".join(self.reference(member) for member in members)
        if origin in (tuple, list):
            item = self.reference(members[0])
            return f"({item})[]" if " | " in item else f"{item}[]"
        if origin is dict:
            return f"Record<string, {self.reference(members[1])}>"
        return self._interface(annotation)

    def text(self) -> str:
        """The whole file."""
        aliases = [f"export type {name} = {_union(self.spell(alias))};" for name, alias in ALIASES.items()]
        methods = "\n".join(
            f"  {name}: {{ args: {self.reference(args)}; result: {self.reference(result)} }};"
            for name, (args, result) in bridge.METHODS.items()
        )
        for told in (bridge.BridgeRequest, PanelState, PanelModels, PanelUndo):
            self.reference(told)
        constants = [f"export const {name} = {_literal(value)};" for name, value in CONSTANTS.items()]
        comment = "/** What the kernel may ask of a notebook, and the answers it gets. */"
        table = f"{comment}\nexport interface Methods {{\n{methods}\n}}\n\nexport type Method = keyof Methods;"
        head = (
            "// Made by scripts/contract_types.py from the types in Python: what kernel and page say to each other.\n"
        )
        return "\n".join((head, *constants, "", *aliases, "", table, "", *self._interfaces.values()))

    def _interface(self, kind: Any) -> str:
        fields = get_type_hints(kind, include_extras=True)
        if issubclass(kind, BaseModel):
            fields = {name: fields[name] for name in kind.model_fields}
        if not fields:
            return "Record<string, never>"
        if kind.__name__ not in self._interfaces:
            self._interfaces[kind.__name__] = ""  # its place, before those it needs
            self._interfaces[kind.__name__] = self._declare(kind, fields)
        return kind.__name__

    def _declare(self, kind: Any, fields: dict[str, Any]) -> str:
        optional: frozenset[str] = getattr(kind, "__optional_keys__", frozenset())
        said = dict(_said_of_fields(kind))
        lines = [*_comment(inspect.cleandoc(kind.__doc__ or "") if _has_own_words(kind) else "")]
        lines.append(f"export interface {kind.__name__} {{")
        for name, annotation in fields.items():
            lines += _comment(said.get(name, ""), "  ")
            lines.append(f"  {name}{'?' if name in optional else ''}: {self.reference(annotation)};")
        return "\n".join((*lines, "}", ""))


def contract_text() -> str:
    """The file's text."""
    return Contract().text()


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _union(spelled: str) -> str:
    return spelled if len(spelled) < LINE - 30 else "\n  | " + spelled.replace(" | ", "\n  | ")


def _has_own_words(kind: type) -> bool:
    return ast.get_docstring(_tree(kind)) is not None


def _said_of_fields(kind: type) -> Iterator[tuple[str, str]]:
    """The strings that stand under fields."""
    body = _tree(kind).body
    for field, below in itertools.pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                yield name, inspect.cleandoc(words)
            case _:
                pass


def _tree(kind: type) -> ast.ClassDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return tree


def _comment(words: str, indent: str = "") -> Iterator[str]:
    words = re.sub(r"\bNone\b", "null", re.sub(r"``?(.+?)``?", r"`\1`", words))
    one_line = f"{indent}/** {words} */"
    if not words:
        return
    if "\n" not in words and len(one_line) <= LINE:
        yield one_line
        return
    yield f"{indent}/**"
    for paragraph in words.split("\n"):
        for line in textwrap.wrap(paragraph, LINE - len(indent) - 3) or [""]:
            yield f"{indent} * {line}".rstrip()
    yield f"{indent} */"


if __name__ == "__main__":
    CONTRACT.write_text(contract_text(), encoding="utf-8")
    print(CONTRACT)
