"""The tools `edit_cell` and `insert_cell`: change or add a cell, and run it if wanted."""

import secrets
from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.access import diff_size
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.file_notebook import PROMPT
from vibe_jupyter.notebook.tools.cell_report import (
    cell_diff,
    cell_number,
    headline_words,
    must_be_no_prompt,
    run_written,
    sees_no_images,
    touched_by_write,
    with_newlines,
)
from vibe_jupyter.protocol import Cell, Headline, InsertCell, Level, Preview, Resource, SetSource, ToolResult
from vibe_jupyter.tools.contract import ToolContext

_STARTED: Final = (
    "The user started this cell before: when this run is over it runs as it was, and what it shows is of that source"
)
_STARTED_BRIEF: Final = "runs once as it was: you started it before"

TOP: Final = "top"
END: Final = "end"


class EditCellArgs(BaseModel):
    """Which cell, and a replacement in it or all of it."""

    model_config = ConfigDict(extra="forbid")

    cell_id: str = Field(min_length=1)
    old_string: str | None = Field(default=None, min_length=1)
    new_string: str | None = None
    replace_all: bool = False
    source: str | None = Field(default=None, description="The whole new source, in place of old/new_string.")
    run: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> "EditCellArgs":
        replaces = self.old_string is not None and self.new_string is not None
        if replaces == (self.source is not None) or (self.old_string is None) != (self.new_string is None):
            raise ValueError("give either old_string and new_string, or source")
        return self


class EditCellTool:
    """Changes exactly what the agent read, or nothing."""

    name = "edit_cell"
    description = "Change a cell you have read; run=true runs it then."
    level: Level = "ask"
    arguments = EditCellArgs

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images

    def headline(self, args: EditCellArgs) -> Headline:
        cell = [self._access.reads.known(args.cell_id)]
        verbs = ("Edited and ran", "Editing and running", "Edit and run") if args.run else ("Edited", "Editing", "Edit")
        verb, doing, asking = (headline_words(one, cell)[0] for one in verbs)
        return Headline(verb=verb, doing=doing, asking=asking, target=headline_words("", cell)[1])

    def preview(self, args: EditCellArgs) -> Preview:
        cell = self._read_cell(args)
        if cell is None:
            return cell_diff(args.old_string or "", args.source if args.source is not None else args.new_string or "")
        try:
            return cell_diff(cell.source, _edited_source(cell.source, args))
        except ToolError as error:
            return Preview(kind="text", text=str(error))

    def touches(self, args: EditCellArgs) -> Sequence[Resource]:
        cell = self._read_cell(args) or self._access.reads.known(args.cell_id)
        new = args.source if args.source is not None else args.new_string or ""
        if cell is not None and args.old_string is not None:
            new = cell.source.replace(args.old_string, new)
        return touched_by_write(args.cell_id, cell.kind if cell is not None else "markdown", new, run=args.run)

    async def precheck(self, args: EditCellArgs) -> None:
        """Before the user is asked: the cell is as the agent read it, and the replacement fits."""
        await self._access.check([args.cell_id])
        cell = self._read_cell(args)
        if cell is not None:
            _must_be_no_prompt(cell, _edited_source(cell.source, args), args)
        if args.run:
            self._access.must_rest(await self._access.reads.find(args.cell_id))

    async def run(self, args: EditCellArgs, context: ToolContext) -> ToolResult:
        cell = await self._access.to_change(args.cell_id)
        new = cell.model_copy(update={"source": _edited_source(cell.source, args)})
        _must_be_no_prompt(cell, new.source, args)
        done = await self._access.edit(SetSource(cell=cell.id, expected=cell.hash, source=new.source))
        if done.outcome != "done":
            return ToolResult.text(f"queued: cell {cell.id} did not show the change yet; read it before you go on.")
        status = f"edited #{cell.number} {cell.id}, now hash {new.hash}"
        change = cell_diff(cell.source, new.source)
        if args.run and cell.kind == "code":
            return await run_written(self._access, new, context, first=status, sees_images=self._sees_images())
        brief = diff_size(change.text)
        if self._access.waits(cell):
            status, brief = f"{status}. {_STARTED}", f"{brief}, {_STARTED_BRIEF}"
        return ToolResult.text(status, summary=brief, display={"text/plain": change.text})

    def _read_cell(self, args: EditCellArgs) -> Cell | None:
        """The cell as the agent read it."""
        known = self._access.reads.known(args.cell_id)
        return self._access.reads.remembered.get(known.id if known is not None else args.cell_id)


def _must_be_no_prompt(cell: Cell, new: str, args: EditCellArgs) -> None:
    if args.run and cell.kind == "code":
        must_be_no_prompt(f"cell {cell.number} ({cell.id})", cell.source, new)


def _edited_source(source: str, args: EditCellArgs) -> str:
    if args.source is not None:
        new = args.source
    else:
        old = args.old_string or ""
        count = source.count(old)
        if not count:
            raise NothingDone(f"Nothing was done: old_string is not in the cell. Its source:\n{source}")
        if count > 1 and not args.replace_all:
            raise NothingDone(
                f"Nothing was done: old_string is {count} times in the cell. "
                "Give more of what surrounds it, or replace_all."
            )
        new = source.replace(old, args.new_string or "")
    new = with_newlines(new)
    if new == source:
        raise NothingDone("Nothing was done: the cell already has this source.")
    return new


class InsertCellArgs(BaseModel):
    """Where, and what."""

    model_config = ConfigDict(extra="forbid")

    source: str
    after: str = Field(default=PROMPT, min_length=1, description="A cell's id, top, end, or prompt.")
    cell_type: Literal["code", "markdown"] = "code"
    run: bool = False


class InsertCellTool:
    """Adds a cell in sight of the user."""

    name = "insert_cell"
    description = "Put a new cell below one, by default below the prompt; run=true runs it then."
    level: Level = "ask"
    arguments = InsertCellArgs

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images

    def headline(self, args: InsertCellArgs) -> Headline:
        places = {PROMPT: "a new cell below", TOP: "a new cell at the top", END: "a new cell at the end"}
        place = places.get(args.after, "a new cell below")
        target = "" if args.after in places else cell_number(self._access.reads.known(args.after))
        ran = (" and ran", " and running", " and run") if _does_run(args) else ("", "", "")
        return Headline(
            verb=f"Inserted{ran[0]} {place}",
            doing=f"Inserting{ran[1]} {place}",
            asking=f"Insert{ran[2]} {place}",
            target=target,
        )

    def preview(self, args: InsertCellArgs) -> Preview:
        language = "python" if args.cell_type == "code" else "markdown"
        return Preview(kind="code", text=args.source, language=language, edits="source")

    def touches(self, args: InsertCellArgs) -> Sequence[Resource]:
        return touched_by_write("new", args.cell_type, args.source, run=_does_run(args))

    async def precheck(self, args: InsertCellArgs) -> None:
        """Before the user is asked: the place is there."""
        _new_cell_must_be_no_prompt(args)
        await self._access.reads.listing()
        if args.after not in (PROMPT, TOP, END):
            await self._access.reads.find(args.after)

    async def run(self, args: InsertCellArgs, context: ToolContext) -> ToolResult:
        _new_cell_must_be_no_prompt(args)
        below = await self._find_place(args.after)
        edit = InsertCell(id=secrets.token_hex(4), after=below, kind=args.cell_type, source=with_newlines(args.source))
        done = await self._access.edit(edit)
        if done.outcome != "done":
            return _left_to_the_person(args, queued=done.outcome == "queued")
        if args.after == PROMPT:
            self._access.put_below(edit.id)
        cell = self._access.reads.remembered.get(edit.id)
        assert cell is not None
        status = f"inserted #{cell.number} {cell.id}"
        if not _does_run(args):
            return ToolResult.text(status, summary=_insert_size(cell), display={"text/x-python": args.source})
        return await run_written(self._access, cell, context, first=status, sees_images=self._sees_images())

    async def _find_place(self, after: str) -> str | None:
        """The cell above the new one; None for the top."""
        if after == TOP:
            return None
        if after == PROMPT:
            return await self._access.below_prompt() or PROMPT
        if after == END:
            cells = (await self._access.reads.listing()).cells
            return cells[-1].id if cells else None
        return (await self._access.reads.find(after)).id


def _new_cell_must_be_no_prompt(args: InsertCellArgs) -> None:
    if _does_run(args):
        must_be_no_prompt("the new cell", args.source)


def _does_run(args: InsertCellArgs) -> bool:
    return args.run and args.cell_type == "code"


def _left_to_the_person(args: InsertCellArgs, *, queued: bool) -> ToolResult:
    if queued:
        text = "queued: the cell appears below the prompt when this cell has ended. It was not run."
    else:
        text = "Not inserted: no page with the vibe-jupyter extension answers. The code is shown to the user, to copy."
    advice = " Use run_code to see what it does." if _does_run(args) else ""
    return ToolResult.text(
        text + advice,
        summary="appears when this cell ends" if queued else "to copy: the notebook extension does not answer",
        display={"text/x-python": args.source},
    )


def _insert_size(cell: Cell) -> str:
    lines = cell.source.count("\n") + 1
    return f"{lines} line{'s' * (lines != 1)}"
