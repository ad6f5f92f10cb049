"""The tool `verify_notebook`: checks whether a run from the top in a fresh kernel gives the same outputs."""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.notebook.access import CellReads
from vibe_jupyter.notebook.tools.cell_report import cell_number
from vibe_jupyter.notebook.verification import (
    CellVerdict,
    ShownCell,
    VerdictHeard,
    VerifiedCells,
    unheard_verdict,
    verify_in_process,
)
from vibe_jupyter.protocol import SKIP_TAG, WHOLE, Cell, Headline, Preview, Resource, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext

# Labels of cells without a comparison, by kind.
_NOT_COMPARED: Final = (
    ("not compared", "Not compared, because they had not run before"),
    ("prompt", "Skipped prompts"),
    ("skipped", f"Skipped because of the tag {SKIP_TAG}"),
)
_NAMED: Final = 30  # cells of one kind to name


class VerifyNotebookArgs(BaseModel):
    """Arguments of `verify_notebook`: the last cell, and the time limit."""

    model_config = ConfigDict(extra="forbid")

    until: str | None = Field(default=None, min_length=1, description="The last cell.")
    timeout: float | None = Field(default=None, gt=0, json_schema_extra=UNLISTED)  # seconds per cell


class NotebookVerification:
    """Runs the current cells in a fresh kernel. On the engine's loop."""

    def __init__(self, reads: CellReads, folder: Path) -> None:
        """
        Args:
            reads: Cells of the notebook.
            folder: Working directory of the fresh kernel.
        """
        self._reads = reads
        self._folder = folder

    async def chosen_cells(self, until: str | None) -> list[Cell]:
        """Return all cells from the top, up to `until`.

        Raises:
            ToolError: There is no notebook, no such cell, or no code.
        """
        cells = list((await self._reads.listing()).cells)
        if until is not None:
            last = (await self._reads.find_one(until)).cells[0]
            cells = cells[: last.number]
        if not any(cell.kind == "code" and cell.source.strip() for cell in cells):
            raise NothingDone("Nothing was done: the notebook has no code.")
        return cells

    async def verify(
        self, cells: Sequence[Cell], *, seconds: float | None, heard: VerdictHeard = unheard_verdict
    ) -> list[CellVerdict]:
        """Run the cells with `verify_in_process` and store the verdicts."""
        shown = [ShownCell(cell, await self._reads.outputs(cell) if cell.outputs else ()) for cell in cells]
        verdicts = await verify_in_process(shown, self._folder, seconds=seconds, heard=heard)
        self._reads.verified = VerifiedCells(datetime.now(UTC), verdicts, {cell.id: cell.hash for cell in cells})
        return verdicts


class VerifyNotebookTool(Tool[VerifyNotebookArgs]):
    """Runs the notebook in a separate kernel, leaving the live kernel alone."""

    name = "verify_notebook"
    description = (
        "Run the notebook from the top in a fresh kernel: first error, differing outputs. "
        "Repeats its effects on files and services."
    )
    arguments = VerifyNotebookArgs
    without_values = "always"

    def __init__(self, verification: NotebookVerification, reads: CellReads) -> None:
        self._verification = verification
        self._reads = reads

    def headline(self, args: VerifyNotebookArgs) -> Headline:
        target = "the notebook"
        if args.until is not None:
            known = self._reads.known(args.until)
            target = f"the notebook up to cell {cell_number(known)}" if known else "part of the notebook"
        note = "from the top in a fresh kernel: repeats what its cells do to files and services"
        return Headline(verb="Verified", doing="Verifying", asking="Verify", target=target, note=note)

    def preview(self, args: VerifyNotebookArgs) -> Preview:
        cells = list(self._reads.last.cells) if self._reads.last else []
        known = self._reads.known(args.until) if args.until is not None else None
        shown = [
            cell for cell in cells[: known.number if known else None] if cell.kind == "code" and not cell.is_skipped
        ]
        text = "\n\n".join(f"# cell {cell_number(cell)}\n{cell.source}" for cell in shown)
        return Preview(kind="code", text=text, language="python", edits=WHOLE)

    def touches(self, args: VerifyNotebookArgs) -> Sequence[Resource]:
        return (Resource(kind="cell", value=args.until or "all", access="execute"),)

    async def precheck(self, args: VerifyNotebookArgs) -> None:
        """Check, before asking the user, that there is something to run."""
        await self._verification.chosen_cells(args.until)

    async def run(self, args: VerifyNotebookArgs, context: ToolContext) -> ToolResult:
        cells = await self._verification.chosen_cells(args.until)
        code = sum(cell.kind == "code" and bool(cell.source.strip()) for cell in cells)
        done = 0

        def heard(verdict: CellVerdict) -> None:
            nonlocal done
            done += 1
            context.advance(done, code, f"cell #{verdict.number}")

        began = time.monotonic()
        try:
            verdicts = await self._verification.verify(cells, seconds=args.timeout, heard=heard)
        except ToolError:
            if context.schema_only:  # the message ends with the fresh kernel's last output
                raise ToolError("The notebook could not be run in a fresh kernel.") from None
            raise
        told = [_without_values(one) for one in verdicts] if context.schema_only else verdicts
        lines = verification_lines(told, self._reads.short)
        failing = [one for one in verdicts if one.kind in ("differs", "error")]
        head = f"{'differs' if failing else 'verified'}: {lines[0]}, {time.monotonic() - began:.1f} s"
        details: dict[str, JsonValue] = {"verdicts": [one.model_dump(mode="json") for one in verdicts]}
        result = ToolResult.text("\n".join([head, *lines[1:]]), summary=verification_summary(verdicts))
        return result.model_copy(update={"details": details})


def _without_values(verdict: CellVerdict) -> CellVerdict:
    words = "its output differs" if verdict.kind == "differs" else "an error"
    return verdict.model_copy(update={"words": words})


def verification_summary(verdicts: Sequence[CellVerdict]) -> str:
    """Summarize the verdicts for the user."""
    differing = sum(one.kind == "differs" for one in verdicts)
    error = next((one for one in verdicts if one.kind == "error"), None)
    parts = ["1 cell's output differs" if differing == 1 else f"{differing} cells' outputs differ"] if differing else []
    parts += [f"cell #{error.number} fails"] if error is not None else []
    return ", ".join(parts) or "shows the same from the top"


def verification_lines(verdicts: Sequence[CellVerdict], short: Mapping[str, str]) -> list[str]:
    """Return the number of cells that ran, then a line for each difference.

    Args:
        verdicts: The verdicts.
        short: Short ids by id.
    """
    ran = sum(one.kind not in ("prompt", "skipped") for one in verdicts)
    lines = [f"{ran} cell{'s' * (ran != 1)} ran from the top in a fresh kernel"]
    for one in verdicts:
        if one.kind in ("differs", "error"):
            what = "fails: " if one.kind == "error" else ""
            lines.append(f"#{one.number} {short.get(one.cell, one.cell)} {what}{one.words}")
    for kind, words in _NOT_COMPARED:
        numbers = [f"#{one.number}" for one in verdicts if one.kind == kind]
        if numbers:
            more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
            lines.append(f"{words}: {', '.join(numbers[:_NAMED])}{more}")
    return lines
