"""Which calls on cells run, ask or do not run: editing is not running, and what loads from outside always asks."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel

from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Ask, Decision, Deny, Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.contract import Tool, ToolContext


class CellArguments(BaseModel):
    run: bool = False
    shows: list[str] = []


class EditCell(Tool[CellArguments]):
    """A tool that writes a cell, and runs it if wanted."""

    name = "edit_cell"
    description = "Edits."
    level: Level = "ask"
    arguments = CellArguments

    def headline(self, args: CellArguments) -> Headline:
        return Headline(verb="Edited", doing="Editing", asking="Edit", target="")

    def preview(self, args: CellArguments) -> Preview:
        return Preview(kind="text", text="")

    def touches(self, args: CellArguments) -> Sequence[Resource]:
        write = Resource(kind="cell", value="abcd", access="write")
        urls = [Resource(kind="url", value=url, access="read") for url in args.shows]
        return [write, *urls, *([Resource(kind="cell", value="abcd", access="execute")] if args.run else [])]

    async def run(self, args: CellArguments, context: ToolContext) -> ToolResult:
        raise NotImplementedError


@pytest.fixture
def permissions(tmp_path: Path) -> Permissions:
    return Permissions(Workspace(tmp_path))


def decide(permissions: Permissions, terms: RunTerms | None = None, *, run: bool = False, shows: str = "") -> Decision:
    arguments = CellArguments(run=run, shows=shows.split())
    return permissions.decide(EditCell(), arguments, terms or RunTerms())


def test_the_card_says_what_a_call_does_to_cells(permissions: Permissions) -> None:
    assert decide(permissions) == Ask(reason="changes your notebook", remember_as="edit_cell", keepable=True)
    both = Ask(reason="changes your notebook · runs code", remember_as="edit_cell+run_cells")
    assert decide(permissions, run=True) == both


@pytest.mark.requirement("permission.approve.session")
def test_a_grant_covers_what_its_card_showed_and_no_more(permissions: Permissions) -> None:
    permissions.grant("edit_cell")
    assert isinstance(decide(permissions), Allow)
    assert isinstance(decide(permissions, run=True), Ask)
    permissions.grant("edit_cell+run_cells")
    assert isinstance(decide(permissions, run=True), Allow)
    assert permissions.granted() == ("edit_cell", "run_cells")


def test_allowing_edits_beforehand_does_not_let_cells_run(permissions: Permissions) -> None:
    edits = RunTerms(allowed=frozenset({"edit_cell"}))
    assert isinstance(decide(permissions, edits), Allow)
    assert isinstance(decide(permissions, edits, run=True), Ask)
    both = RunTerms(allowed=frozenset({"edit_cell", "run_cells"}))
    assert isinstance(decide(permissions, both, run=True), Allow)


def test_forbidding_cells_to_run_forbids_it_to_every_tool(permissions: Permissions) -> None:
    permissions.levels = {"run_cells": "never", "edit_cell": "always"}
    assert isinstance(decide(permissions), Allow)
    refused = decide(permissions, run=True, shows="https://evil.example")
    assert isinstance(refused, Deny)
    assert "run_cells" in refused.reason


def test_what_the_page_would_load_is_asked_for_each_time(permissions: Permissions) -> None:
    permissions.levels = {"edit_cell": "always"}
    permissions.grant("edit_cell")
    for terms in (RunTerms(), RunTerms(allowed=frozenset({"edit_cell"}))):
        assert decide(permissions, terms, shows="https://evil.example/x.png") == Ask(
            reason="changes your notebook · the page then loads https://evil.example/x.png", remember_as=None
        )
    unattended = decide(permissions, RunTerms(attended=False), shows="https://evil.example/x.png")
    assert isinstance(unattended, Deny)
    assert "--yes" not in unattended.reason


def test_where_nobody_is_the_refusal_names_all_that_must_be_allowed(permissions: Permissions) -> None:
    refused = decide(permissions, RunTerms(attended=False), run=True)
    assert isinstance(refused, Deny)
    assert "--yes=edit_cell,run_cells" in refused.reason
