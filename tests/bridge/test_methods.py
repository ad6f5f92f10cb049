"""The bridge's methods stand in Python and in TypeScript: one table in two spellings."""

import re
from pathlib import Path
from typing import Any

from tests.bridge import cases
from vibe_jupyter.headless.document import BridgeMethods, HeadlessDocument
from vibe_jupyter.notebook.bridge import METHODS

TYPES = Path(__file__).parents[2] / "labextension" / "src" / "bridge" / "methods.ts"
# Each is asked by every conversation with a page, but stops the cell that plays the cases.
PLAYED_OTHERWISE = {"hello", "interrupt"}


class Nobody:
    """The kernel's other end, where nothing runs."""

    client = "client"
    path = "a.ipynb"

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        raise AssertionError(cell)

    def interrupt(self) -> None:
        """Nothing runs."""


def in_typescript() -> dict[str, set[str]]:
    """Methods and the names of their arguments, as the page's half declares them."""
    block = re.search(r"interface Methods {\n(.*?)\n}", TYPES.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    found = re.findall(r"^  (\w+): {\s+args: (object|{.*?});? ", re.sub(r"\n {4,}", " ", block[1]), re.MULTILINE)
    return {name: set(re.findall(r"(\w+)\??: ", args)) for name, args in found}


def test_both_halves_have_the_same_methods_with_the_same_arguments() -> None:
    assert in_typescript() == {name: set(args) for name, args in METHODS.items()}


def test_the_headless_front_end_knows_every_method() -> None:
    requests = BridgeMethods(HeadlessDocument(dict(cases.notebook())), Nobody())
    for method in METHODS:
        args: dict[str, Any] = {"cell": "title-01", "edits": []}
        answer = requests.answer({"id": "1", "method": method, "to": None, "args": args}, {"session": "client"})
        assert answer is not None
        assert "knows no request" not in str(answer.get("error", ""))


def test_every_method_has_a_case_that_all_front_ends_pass() -> None:
    played = {method for method, _, _ in (*cases.FIRST, *cases.SECOND)}
    assert set(METHODS) - PLAYED_OTHERWISE <= played
