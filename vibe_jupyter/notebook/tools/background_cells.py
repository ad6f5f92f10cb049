"""The tool `run_cells` for notebooks with a page, where cells can also be queued to run after the current run."""

from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol

from pydantic import Field

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.tools.cell_report import sees_no_images
from vibe_jupyter.notebook.tools.run_cells import RunCellsArgs, RunCellsTool
from vibe_jupyter.protocol import Cell, Headline, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext

QUEUED: Final = (
    "Queued: {cells}. They run when your turn is over, as the user's own would, and not before: end it when nothing "
    "else is to be done. {then} What came of them is reported to you then, or with the next prompt."
)
_BY_CLICK: Final = "When they are done, the user is asked whether you go on."
_BY_ITSELF: Final = "When they are done, you go on by yourself."

GoingOn = Literal["click", "continue"]  # how the agent continues after background cells: on a click, or automatically


class QueueCells(Protocol):
    """Queues cells to run after everything that is already queued."""

    async def __call__(self, cells: Sequence[Cell], *, by_itself: bool, redact: Callable[[str], str]) -> None:
        """
        Raises:
            ToolError: Some or all of the cells couldn't be queued.
        """
        ...


class BackgroundRunCellsArgs(RunCellsArgs):
    """Arguments of `run_cells` with the option to run in the background."""

    background: GoingOn | None = Field(
        default=None,
        description="Behind your turn; then you go on at a click, or unasked if the user wants that.",
    )


class BackgroundRunCellsTool(RunCellsTool):
    """Runs cells as the user's Shift-Enter would, now or after the run."""

    arguments = BackgroundRunCellsArgs

    def __init__(
        self, access: CellAccess, queue: QueueCells, *, sees_images: Callable[[], bool] = sees_no_images
    ) -> None:
        super().__init__(access, sees_images=sees_images)
        self._queue = queue

    def can_foresee(self, args: RunCellsArgs) -> bool:
        """Return False for background cells, which will run in a different state."""
        return super().can_foresee(args) and _going_on(args) is None

    def headline(self, args: RunCellsArgs) -> Headline:
        head = super().headline(args)
        match _going_on(args):
            case None:
                return head
            case "click":
                note = "in the background"
            case "continue":
                note = "in the background, and goes on by itself"
        return head.model_copy(update={"verb": "Queued", "doing": "Queueing", "note": note})

    async def precheck(self, args: RunCellsArgs) -> None:
        """Check cells as usual, and that a page can queue them, before asking the user."""
        await super().precheck(args)
        if _going_on(args) is not None:
            _must_be_queueable(args)
            if (await self._access.reads.listing(fresh=False)).fixed:
                raise NothingDone("Nothing was queued: no page shows the notebook. Run the cells without background.")

    async def run(self, args: RunCellsArgs, context: ToolContext) -> ToolResult:
        going_on = _going_on(args)
        if going_on is None:
            return await super().run(args, context)
        _must_be_queueable(args)
        cells = await self._cells_to_run(args)
        await self._queue(cells, by_itself=going_on == "continue", redact=context.redact)
        names = ", ".join(self._access.reads.address(cell) for cell in cells)
        told = QUEUED.format(cells=names, then=_BY_ITSELF if going_on == "continue" else _BY_CLICK)
        return ToolResult(parts=(TextPart(text=told),), summary="runs when this run is over")


def _must_be_queueable(args: RunCellsArgs) -> None:
    if args.timeout is not None or not args.stop_on_error:
        raise NothingDone("Nothing was queued: cells in the background have no timeout, and an error ends them.")


def _going_on(args: RunCellsArgs) -> GoingOn | None:
    return args.background if isinstance(args, BackgroundRunCellsArgs) else None
