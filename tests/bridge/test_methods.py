"""The bridge's methods: the page has the types of the kernel, and every front end answers all of them."""

from typing import Any

from scripts.contract_types import CONTRACT, contract_text
from tests.bridge import cases
from vibe_jupyter.headless.document import BridgeMethods, HeadlessDocument
from vibe_jupyter.notebook.bridge_messages import METHODS

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


def test_the_page_has_the_types_that_the_script_makes_of_ours() -> None:
    assert CONTRACT.read_text(encoding="utf-8") == contract_text(), "run `.venv/bin/python scripts/contract_types.py`"


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
