"""The tools `edit_cell` and `insert_cell`, which change or add a cell and optionally run it."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.access import diff_size
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.addresses import END, PROMPT, TOP
from vibe_jupyter.notebook.near_miss import near_miss
from vibe_jupyter.notebook.tools.cell_report import (
    cell_diff,
    cell_number,
    headline_words,
    loaded_addresses,
    must_be_no_prompt,
    sees_no_images,
    touched_by_write,
    with_newlines,
)
from vibe_jupyter.notebook.tools.run_cells import CodeOutlook
from vibe_jupyter.notebook.tools.run_report import CellChange, run_written
from vibe_jupyter.protocol import Cell, Headline, InsertCell, Preview, Resource, SetSource, ToolResult
from vibe_jupyter.tools.contract import Tool, ToolContext

_STARTED: Final = (
    "The user started this cell before: when this run is over it runs as it was, and what it shows is of that source"
)
_STARTED_BRIEF: Final = "runs once as it was: you started it before"

_SOURCE: Final = 4_000  # characters of a source in a result


class EditCellArgs(BaseModel):
    """Arguments of `edit_cell`: the cell, and either a replacement or its new source."""

    model_config = ConfigDict(extra="forbid")

    cell: str = Field(min_length=1)
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False
    source: str | None = Field(default=None, description="The whole, instead.")
    run: bool = False

    @model_validator(mode="after")
    def _one_way(self) -> "EditCellArgs":
        replaces = self.old_string is not None and self.new_string is not None
        if replaces == (self.source is not None) or (self.old_string is None) != (self.new_string is None):
            raise ValueError("give either old_string and new_string, or source")
        if self.old_string == "":
            raise ValueError("old_string is empty: give old_string and new_string, or source")
        return self


class EditCellTool(Tool[EditCellArgs]):
    """Applies an edit only if it fits the cell exactly; otherwise changes nothing."""

    name = "edit_cell"
    description = "Change a text that is once in a cell, or the whole of a cell you have read. run=true runs it."
    arguments = EditCellArgs
    may_lose = True
    without_values = "always"

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images
        self.outlook: CodeOutlook | None = None  # previews the effects of code; None if unavailable

    def can_foresee(self, args: EditCellArgs) -> bool:
        """Return whether the cell will run, so that its effects can be previewed."""
        cell = self._access.reads.known(args.cell)
        return self.outlook is not None and args.run and cell is not None and cell.kind == "code"

    async def foresee(self, args: EditCellArgs, context: ToolContext, *, tries: bool) -> str:
        """Preview the effects of the edited cell in one line."""
        _, source = await self._change(args)
        return await self.outlook.words(source, context, tries=tries) if self.outlook is not None else ""

    def headline(self, args: EditCellArgs) -> Headline:
        cell = [self._access.reads.known(args.cell)]
        verbs = ("Edited and ran", "Editing and running", "Edit and run") if args.run else ("Edited", "Editing", "Edit")
        verb, doing, asking = (headline_words(one, cell)[0] for one in verbs)
        return Headline(verb=verb, doing=doing, asking=asking, target=headline_words("", cell)[1])

    def preview(self, args: EditCellArgs) -> Preview:
        cell = self._access.reads.known(args.cell)
        if cell is None:
            return cell_diff(args.old_string or "", args.source if args.source is not None else args.new_string or "")
        try:
            edits = "source" if args.source is not None else "new_string"
            return cell_diff(cell.source, _edited_source(cell.source, args)).model_copy(
                update={"edits": edits, "language": "python" if cell.kind == "code" else "markdown"}
            )
        except ToolError as error:
            return Preview(kind="text", text=str(error))

    def touches(self, args: EditCellArgs) -> Sequence[Resource]:
        cell = self._access.reads.known(args.cell)
        new = args.source if args.source is not None else args.new_string or ""
        if cell is not None and args.old_string is not None:
            new = cell.source.replace(args.old_string, new)
        return touched_by_write(args.cell, cell.kind if cell is not None else "markdown", new, run=args.run)

    async def precheck(self, args: EditCellArgs) -> None:
        """Check, before asking the user, that the edit fits the cell as the agent knows it and a page can apply it."""
        await self._access.reads.must_be_changeable()
        cell, _ = await self._change(args)
        if args.run:
            self._access.must_rest(cell)

    async def look(self, args: EditCellArgs) -> None:
        """Refresh the listing from which the preview is made."""
        await self._access.reads.listing()

    async def wait_for_change(self, args: EditCellArgs) -> None:
        """Wait for an edit by the user while the card is open."""
        await self._access.reads.wait_for_edit()

    async def run(self, args: EditCellArgs, context: ToolContext) -> ToolResult:
        cell, source = await self._change(args)
        new = cell.model_copy(update={"source": source})
        unseen = self._unseen_change(cell, source)
        done = await self._access.edit(SetSource(cell=cell.id, expected=cell.hash, source=source), context=context)
        name = self._access.reads.address(cell)
        if done.outcome != "done":
            return ToolResult.text(f"queued: {name} did not show the change yet; read it before you go on.")
        change = cell_diff(cell.source, source)
        if args.run and cell.kind == "code":
            return await run_written(
                self._access, new, context, written=CellChange("edited", unseen), sees_images=self._sees_images()
            )
        brief = diff_size(change.text)
        started = ""
        if self._access.waits(cell):
            started, brief = f". {_STARTED}", f"{brief}, {_STARTED_BRIEF}"
        return ToolResult.text(f"edited {name}{started}{unseen}", summary=brief, display={"text/plain": change.text})

    async def _change(self, args: EditCellArgs) -> tuple[Cell, str]:
        """Return the current cell and its new source."""
        by_text = args.old_string is not None
        cell = await self._access.to_change(args.cell, needed="nothing" if by_text else "whole")
        new = _edited_source(cell.source, args)
        if by_text and (_is_many(cell.source, args) or _loads_more(cell, new)):
            await self._access.to_change(args.cell)
        if args.run and cell.kind == "code":
            must_be_no_prompt(self._access.reads.address(cell), cell.source, new)
        self._access.must_parse(cell.kind, new)
        return cell, new

    def _unseen_change(self, cell: Cell, new: str) -> str:
        """Return the new source if the user changed the cell since the model read it, else ""."""
        remembered = self._access.reads.remembered
        if remembered.get(cell.id) is None or remembered.is_current(cell):
            return ""
        return f"\nThe user had changed it since you read it; its source now:\n{head_and_tail(new, _SOURCE)}"


def _is_many(source: str, args: EditCellArgs) -> bool:
    return source.count(args.old_string or "") > 1


def _loads_more(cell: Cell, new: str) -> bool:
    """Return whether the page would load further URLs, which is judged against the source that was read."""
    return cell.kind == "markdown" and not set(loaded_addresses(new)) <= set(loaded_addresses(cell.source))


def _edited_source(source: str, args: EditCellArgs) -> str:
    if args.source is not None:
        new = args.source
    else:
        old = args.old_string or ""
        count = source.count(old)
        if not count:
            near = near_miss(old, source) or "nothing in it looks like it: read the cell"
            raise NothingDone(f"Nothing was done: old_string is not in the cell; {near}")
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
    """Arguments of `insert_cell`: the position and the source."""

    model_config = ConfigDict(extra="forbid")

    source: str
    after: str = Field(default=PROMPT, min_length=1, description="A cell, top or end.")
    before: str | None = Field(default=None, min_length=1)
    cell_type: Literal["code", "markdown"] = "code"
    run: bool = False

    @model_validator(mode="after")
    def _one_place(self) -> "InsertCellArgs":
        if self.before is not None and "after" in self.model_fields_set:
            raise ValueError("give after or before, not both")
        return self


class InsertCellTool(Tool[InsertCellArgs]):
    """Inserts a cell where the user sees it."""

    name = "insert_cell"
    description = "Add a cell, by default below the prompt; run=true runs it."
    arguments = InsertCellArgs
    may_lose = True
    without_values = "always"

    def __init__(self, access: CellAccess, *, sees_images: Callable[[], bool] = sees_no_images) -> None:
        self._access = access
        self._sees_images = sees_images
        self.outlook: CodeOutlook | None = None  # previews the effects of code; None if unavailable

    def can_foresee(self, args: InsertCellArgs) -> bool:
        """Return whether the cell will run, so that its effects can be previewed."""
        return self.outlook is not None and _does_run(args)

    async def foresee(self, args: InsertCellArgs, context: ToolContext, *, tries: bool) -> str:
        """Preview the effects of the new cell in one line."""
        must_be_no_prompt("the new cell", args.source)
        return await self.outlook.words(args.source, context, tries=tries) if self.outlook is not None else ""

    def headline(self, args: InsertCellArgs) -> Headline:
        places = {PROMPT: "a new cell below", TOP: "a new cell at the top", END: "a new cell at the end"}
        place = places.get(args.after, "a new cell below") if args.before is None else "a new cell above"
        anchor = args.before or args.after
        target = "" if anchor in places else cell_number(self._access.reads.known(anchor))
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
        """Check, before asking the user, that the position exists and that the cell can be inserted."""
        self._check_source(args)
        listing = await self._access.reads.listing()
        is_offered = args.cell_type == "code" and args.before is None and args.after == PROMPT
        if listing.fixed and not (listing.offers_cell and is_offered):
            raise NothingDone(f"Not inserted: {listing.fixed[0].lower()}{listing.fixed[1:]}")
        await self._find_place(args)

    async def run(self, args: InsertCellArgs, context: ToolContext) -> ToolResult:
        self._check_source(args)
        below = await self._find_place(args)
        source = with_newlines(args.source)
        edit = InsertCell(id=await self._access.new_id(), after=below, kind=args.cell_type, source=source)
        done = await self._access.edit(edit, context=context)
        if done.outcome != "done":
            return _left_to_the_person(args, queued=done.outcome == "queued")
        if args.before is None and args.after == PROMPT:
            self._access.put_below(edit.id)
        cell = self._access.reads.remembered.get(edit.id)
        assert cell is not None
        if not _does_run(args):
            status = f"inserted {self._access.reads.address(cell)}"
            return ToolResult.text(status, summary=_insert_size(cell), display={"text/x-python": args.source})
        inserted = CellChange("inserted")
        return await run_written(self._access, cell, context, written=inserted, sees_images=self._sees_images())

    def _check_source(self, args: InsertCellArgs) -> None:
        if _does_run(args):
            must_be_no_prompt("the new cell", args.source)
        self._access.must_parse(args.cell_type, args.source)

    async def _find_place(self, args: InsertCellArgs) -> str | None:
        """Return the cell above the new one, or None for the top."""
        if args.before is not None:
            return await self._access.above(args.before)
        if args.after == PROMPT:
            return await self._access.below_prompt() or PROMPT
        return await self._access.anchor(args.after)


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
