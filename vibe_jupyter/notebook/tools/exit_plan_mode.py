"""The tool `exit_plan_mode`: stores the plan where the user can edit it, and asks whether to carry it out."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.atomic_write import replace_text
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.tools.cell_report import touched_by_write, with_newlines
from vibe_jupyter.protocol import (
    Answered,
    Cell,
    Choice,
    Headline,
    InsertCell,
    Preview,
    Question,
    Resource,
    SetSource,
    TextPart,
    ToolResult,
)
from vibe_jupyter.tools.contract import Tool, ToolContext

QUESTION: Final = "Carry out this plan? Choose the agent that does, or write what to change."
PLANS_FOLDER: Final = "plans"  # subdirectory of the user's directory, for plans of runs without a page


class PlanDecision(Protocol):
    """Handler of the user's decision on a plan."""

    def choices(self) -> Sequence[Choice]:
        """Return the agents that may carry out the plan."""
        ...

    def accept(self, agent: str) -> None:
        """Record the agent that the user chose."""
        ...


class PlanDocument:
    """The plan of one conversation, as a Markdown cell or a file. On the engine's loop."""

    def __init__(self, cells: CellAccess | None, folder: Path, *, has_page: Callable[[], bool]) -> None:
        """
        Args:
            cells: Cells of the notebook; None in a terminal.
            folder: Directory for plan files.
            has_page: Returns whether a page shows the notebook, so that a cell can be inserted.
        """
        self._cells = cells
        self._folder = folder
        self._has_page = has_page
        self._cell = ""
        self._path: Path | None = None

    def forget(self) -> None:
        """Forget the plan when a new conversation starts."""
        self._cell, self._path = "", None

    async def write(self, text: str, context: ToolContext) -> str:
        """Write the plan, replacing an earlier one, and describe its location.

        Raises:
            ToolError: It can't be written.
        """
        if self._cells is not None and self._has_page():
            where = await self._write_cell(self._cells, text, context)
            if where:
                return where
        if self._path is None:
            self._path = self._folder / f"{datetime.now().astimezone():%Y-%m-%d-%H%M%S}-{secrets.token_hex(2)}.md"
        try:
            await asyncio.to_thread(self._write_file, self._path, text)
        except OSError as error:
            raise ToolError(f"The plan cannot be written to {self._path}: {error}.") from error
        return str(self._path)

    async def read(self) -> str | None:
        """Return the current plan, which the user may have edited, or None if it is gone."""
        if self._cells is not None and self._cell:
            cell = await self._present_cell(self._cells)
            return None if cell is None else cell.source
        try:
            return None if self._path is None else await asyncio.to_thread(self._path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    async def _write_cell(self, cells: CellAccess, text: str, context: ToolContext) -> str:
        source = with_newlines(text)
        there = await self._present_cell(cells)
        if there is not None:
            if there.source != source:
                await cells.edit(SetSource(cell=there.id, expected=there.hash, source=source), context=context)
            return f"the Markdown cell {cells.reads.address(there)}"
        edit = InsertCell(id=await cells.new_id(), after=await cells.below_prompt(), kind="markdown", source=source)
        if (await cells.edit(edit, context=context)).outcome != "done":
            return ""
        cells.put_below(edit.id)
        self._cell = edit.id
        cell = cells.reads.remembered.get(edit.id)
        return f"the Markdown cell {cells.reads.address(cell)}" if cell is not None else "a new Markdown cell"

    async def _present_cell(self, cells: CellAccess) -> Cell | None:
        if not self._cell:
            return None
        return next((cell for cell in (await cells.reads.listing()).cells if cell.id == self._cell), None)

    @staticmethod
    def _write_file(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, text)


class ExitPlanModeArgs(BaseModel):
    """Arguments of `exit_plan_mode`: the plan."""

    model_config = ConfigDict(extra="forbid")

    plan: str = Field(min_length=1, description="Markdown: the goal, then steps as `- [ ]` items, each with its check.")


class ExitPlanModeTool(Tool[ExitPlanModeArgs]):
    """Writes only the plan. Further changes are up to the agent that the user chooses."""

    name = "exit_plan_mode"
    description = (
        "Show the user your plan and ask them to accept it. Call it once, when you have read enough. If they accept, "
        "another agent carries it out; if they ask for changes, call it again with the whole new plan."
    )
    level = "always"
    arguments = ExitPlanModeArgs
    without_values = "always"

    def __init__(self, document: PlanDocument, decision: PlanDecision) -> None:
        self._document = document
        self._decision = decision

    def forget(self) -> None:
        """Forget the plan when a new conversation starts."""
        self._document.forget()

    def headline(self, args: ExitPlanModeArgs) -> Headline:
        return Headline(verb="Wrote a plan", doing="Writing a plan", asking="Show a plan", target="")

    def preview(self, args: ExitPlanModeArgs) -> Preview:
        return Preview(kind="code", text=args.plan, language="markdown")

    def touches(self, args: ExitPlanModeArgs) -> Sequence[Resource]:
        return touched_by_write("new", "markdown", args.plan, run=False)

    async def run(self, args: ExitPlanModeArgs, context: ToolContext) -> ToolResult:
        where = await self._document.write(args.plan, context)
        choices = self._decision.choices()
        try:
            answers = await context.ask([Question(question=QUESTION, header="Plan", options=tuple(choices))], "")
        except ToolError as error:
            return _decided(where, f"not yet. {error}", "nobody is here to accept it")
        chosen, words = _choice_of(answers, choices)
        if chosen:
            now = await self._document.read()
            self._decision.accept(chosen)
            note = f"yes; the agent {chosen} carries it out"
            if now is not None and now.strip() != with_newlines(args.plan).strip():
                return _decided(where, f"{note}, as the user changed it:\n{now}", f"accepted with changes: {chosen}")
            return _decided(where, note, f"accepted: {chosen}")
        if words:
            return _decided(
                where, f"no. The user says: {words}\nChange the plan, then call exit_plan_mode again.", words
            )
        return _decided(where, "not decided. End your turn: the user will say how to go on.", "not decided")


def _choice_of(answers: Sequence[Answered] | None, choices: Sequence[Choice]) -> tuple[str, str]:
    """Return the chosen agent and the user's text. If there is text, it isn't an acceptance."""
    if not answers:
        return "", ""
    said = answers[0]
    known = [choice.label for choice in choices if choice.label in said.selected]
    return (known[0], "") if known and not said.other.strip() else ("", said.other.strip() or "")


def _decided(where: str, accepted: str, summary: str) -> ToolResult:
    return ToolResult(parts=(TextPart(text=f"plan: {where}\naccepted: {accepted}"),), summary=summary)
