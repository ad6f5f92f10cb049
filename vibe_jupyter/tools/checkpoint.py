"""The tool `checkpoint`: cells, files and variables as they were before each run that changed them.

Restoring a state is itself recorded as a change, which `%vibe undo` can take back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.access import FileAccess, unified_diff
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Cell, CellEdit, Headline, Preview, Resource, ToolResult
from vibe_jupyter.session.snapshots import ChangedFile, RunChanges, Snapshots
from vibe_jupyter.session.undo_plan import UndoPlan, joined_runs, plan_undo
from vibe_jupyter.tools.contract import Tool, ToolContext

COMPARED: Final = 200_000  # bytes of a file that are compared line by line
_PROMPT: Final = 60  # characters of a prompt in the list
_NO_STATE: Final = "No run of this conversation changed a cell or file."


class CheckpointArgs(BaseModel):
    """What to do with which state."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["list", "diff", "restore"] = "list"
    run: int | None = Field(default=None, ge=1)  # None for the last run


class CheckpointCells(Protocol):
    """Access to the notebook's cells."""

    async def listing(self) -> Sequence[Cell]:
        """Return all cells in their current state.

        Raises:
            ToolError: there is no notebook, or it does not respond.
        """
        ...

    async def put_back(self, edits: Sequence[CellEdit]) -> None:
        """Apply edits as an undoable change.

        Raises:
            ToolError: the edits were rejected. None was applied.
        """
        ...

    async def must_be_changeable(self) -> None:
        """Check that the notebook can be edited, before the user is asked.

        Raises:
            ToolError: no open page accepts edits.
        """
        ...


# Restores the variables that a run and all later ones changed. Returns those restored, and those not with the reason.
PutBackVariables = Callable[[int], Awaitable[tuple[Sequence[str], Sequence[str]]]]


class CheckpointTool(Tool[CheckpointArgs]):
    """Lists, compares and restores earlier states."""

    name = "checkpoint"
    description = "Cells and files before each run that changed them: list, diff with now, restore."
    arguments = CheckpointArgs

    def __init__(
        self,
        conversation: Callable[[], Path | None],
        cells: CheckpointCells | None,
        files: FileAccess,
        workspace: Workspace,
        put_back_variables: PutBackVariables,
        written: Callable[[int], str],
    ) -> None:
        """Create the tool.

        Args:
            conversation: returns the conversation's folder, or None if it isn't stored.
            cells: access to the notebook; None if there is none.
            files: writes files.
            workspace: decides which files may be shown without approval.
            put_back_variables: restores variables in the kernel.
            written: describes the files that code and commands wrote in a run and all later ones. Thread-safe.
        """
        self._conversation = conversation
        self._cells = cells
        self._files = files
        self._workspace = workspace
        self._put_back_variables = put_back_variables
        self._written = written
        # Cells when the last call was checked, i.e. what its card shows and so what it restores
        self._seen: Sequence[Cell] | None = None

    def is_harmless(self, args: CheckpointArgs) -> bool:
        """Return whether the call only lists or compares."""
        return args.action != "restore"

    def headline(self, args: CheckpointArgs) -> Headline:
        target = f"before run {args.run}" if args.run else "before the last run that changed something"
        match args.action:
            case "list":
                return Headline(verb="Listed", doing="Listing", asking="List", target="the states before each run")
            case "diff":
                return Headline(verb="Compared", doing="Comparing", asking="Compare", target=f"with the state {target}")
            case "restore":
                restored = f"cells, files and variables as {target}"
                return Headline(verb="Restored", doing="Restoring", asking="Restore", target=restored)

    def preview(self, args: CheckpointArgs) -> Preview:
        if args.action == "list":
            return Preview(kind="text", text="List the states of cells and files.")
        try:
            cells = self._seen or ()
            plan = self._plan(args.run, cells)
        except ToolError as error:
            return Preview(kind="text", text=str(error))
        return Preview(kind="diff", text=self._plan_text(plan, cells, backwards=args.action == "restore"))

    def touches(self, args: CheckpointArgs) -> Sequence[Resource]:
        try:
            changes = self._changes(args.run) if args.action == "restore" else None
        except ToolError:
            changes = None
        if changes is None:
            return (Resource(kind="cell", value="all", access="read"),)
        cells = [Resource(kind="cell", value=one, access="write") for one in (*changes.cells, *changes.moved)]
        return (*cells, *(Resource(kind="path", value=path, access="write") for path in changes.files))

    async def precheck(self, args: CheckpointArgs) -> None:
        """Check that there is something to restore before the user is asked."""
        self._seen = await self._cells.listing() if self._cells is not None else ()
        plan = await asyncio.to_thread(self._plan, args.run, self._seen)
        if args.action == "restore" and not (plan.restored or plan.run.variables):
            raise NothingDone(f"Nothing was done: all is as it was then{_but_for(plan)}.")
        if args.action == "restore" and plan.edits and self._cells is not None:
            await self._cells.must_be_changeable()

    async def run(self, args: CheckpointArgs, context: ToolContext) -> ToolResult:
        if args.action == "list":
            runs = await asyncio.to_thread(self._runs)
            return ToolResult.text(_listing(runs), summary=f"{len(runs)} state{'s' * (len(runs) != 1)}")
        cells = await self._cells.listing() if self._cells is not None else ()
        plan = await asyncio.to_thread(self._plan, args.run, cells)
        if args.action == "diff":
            text = await asyncio.to_thread(self._plan_text, plan, cells, backwards=False)
            return ToolResult.text(head_and_tail(context.redact(text)) or "no difference")
        seen, self._seen = self._seen, None
        if seen is not None and [(one.id, one.source) for one in cells] != [(one.id, one.source) for one in seen]:
            raise NothingDone("Nothing was done: the notebook was changed since this was shown. Compare it again.")
        return await self._restore(plan)

    async def _restore(self, plan: UndoPlan) -> ToolResult:
        if plan.edits and self._cells is not None:
            await self._cells.put_back(plan.edits)
        lost = list(plan.lost)
        for file in plan.files:
            try:
                await asyncio.to_thread(self._restore_file, file)
            except (OSError, ToolError) as error:
                lost.append(f"{file.name}: {error}")
        restored = plan.restored_without(lost)
        variables, unkept = await self._put_back_variables(plan.run.number) if plan.run.variables else ((), ())
        lost += unkept
        lines = [f"restored: {', '.join((*restored, *variables)) or 'nothing'}", "outputs are unchanged"]
        lines += [f"not restored: {'; '.join(lost)}"] if lost else []
        return ToolResult.text("\n".join(lines), summary=f"{len(restored) + len(variables)} restored")

    def _plan_text(self, plan: UndoPlan, cells: Sequence[Cell], *, backwards: bool) -> str:
        """Diff each cell and file between the state and now, or from now to the state if `backwards`."""
        parts: list[str] = []
        now = {cell.id: cell.source for cell in cells}
        for cell in plan.run.cells.values():
            before = _as_lines(cell.before.source if cell.before is not None else "")
            after = _as_lines(now.get(cell.cell, ""))
            parts += _change_text(cell.name or f"new cell {cell.cell}", before, after, backwards=backwards)
        for file in plan.files:
            if self._workspace.resolve(str(file.path)).is_open:
                parts += _file_text(file.name, file.kept, file.path, backwards=backwards)
            else:
                parts.append(f"file {file.name}: changed; what it holds is not shown")
        moved = [name for name in plan.restored if name.endswith("(moved back)")]
        parts += [f"order: {', '.join(moved)}"] if moved else []
        parts += [f"variables: {', '.join(plan.run.variables)}"] if plan.run.variables else []
        parts += [f"changed since by somebody else: {', '.join(plan.changed_since)}"] if plan.changed_since else []
        parts += [f"cannot be restored: {'; '.join(plan.lost)}"] if plan.lost else []
        return "\n".join(parts)

    def _restore_file(self, file: ChangedFile) -> None:
        self._files.restore(file.path, file.content())

    def _runs(self) -> list[RunChanges]:
        """Return runs whose changes have not been undone."""
        folder = self._conversation()
        return [run for run in Snapshots(folder).runs() if not run.undone] if folder is not None else []

    def _plan(self, number: int | None, cells: Sequence[Cell]) -> UndoPlan:
        """Plan restoring the state before a run.

        Raises:
            ToolError: there is no such run.
        """
        plan = plan_undo(self._changes(number), cells)
        written = self._written(plan.run.number)
        plan.lost += [written] if written else []
        return plan

    def _changes(self, number: int | None) -> RunChanges:
        """Return the changes of a run and all later ones.

        Raises:
            ToolError: there is no such run.
        """
        runs = self._runs()
        if not runs:
            raise NothingDone(_NO_STATE)
        number = runs[-1].number if number is None else number
        if number not in [run.number for run in runs]:
            raise NothingDone(f"No run {number} changed something. There are:\n{_listing(runs)}")
        return joined_runs([run for run in runs if run.number >= number])


def _listing(runs: Sequence[RunChanges]) -> str:
    lines = [
        f"{run.number} before {run.prompt[:_PROMPT]!r} ({run.time}), which changed "
        f"{', '.join([f'{one.kind} {one.name}' for one in run.changes] + [f'variable {one}' for one in run.variables])}"
        for run in runs
    ]
    return "\n".join(lines) or _NO_STATE


def _but_for(plan: UndoPlan) -> str:
    return f", but for {'; '.join(plan.lost)}" if plan.lost else ""


def _file_text(name: str, kept: Path | None, path: Path, *, backwards: bool) -> list[str]:
    sides: list[str] = []
    for side in (kept, path):
        try:
            raw = side.read_bytes() if side is not None and side.exists() else b""
            sides.append(raw.decode("utf-8") if len(raw) <= COMPARED else f"[{len(raw):,} bytes]")
        except (OSError, UnicodeDecodeError):
            sides.append("[no text]")
    return _change_text(f"file {name}", sides[0], sides[1], backwards=backwards) or [f"file {name}: other bytes"]


def _as_lines(source: str) -> str:
    return f"{source}\n" if source else ""


def _change_text(name: str, before: str, now: str, *, backwards: bool) -> list[str]:
    change = unified_diff(now, before) if backwards else unified_diff(before, now)
    return [f"{name}:", change] if change else []
