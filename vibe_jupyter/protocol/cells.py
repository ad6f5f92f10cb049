"""Cells of the notebook, and the edits that may be asked of it."""

import hashlib
from typing import Annotated, Final, Literal

from pydantic import Field

from vibe_jupyter.protocol.messages import Value

CellKind = Literal["code", "markdown", "raw"]
CellState = Literal["fresh", "edited", "stale", "failed", "never", "running", "unknown"]
"""How a cell stands to its source and to the cells above it; a cell that is no code stays ``never``.

``edited``: its source changed since it ran. ``stale``: what it read is not what the cells above it give. ``failed``:
its last run raised. ``unknown``: nobody can tell; `Cell.why` says why.
"""

METADATA_KEY = "vibe_jupyter"
"""Where our words stand in the metadata of a notebook and of the outputs of runs."""
ORIGIN_KEY = "vibe"
"""Where a cell's metadata say who wrote it."""
SKIP_TAG: Final = "skip-execution"
"""nbclient's tag for a cell that is run only by name."""
CellMark = dict[str, object]
"""What stands there: a dumped `CellOrigin`, or what another version left."""

BRIEF_TEXT = 200
"""Characters of text in an `OutputBrief`."""


def source_hash(source: str) -> str:
    """Eight hex digits that stand for exactly this source."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:8]


class OutputBrief(Value):
    """An output without its weight."""

    type: str
    """nbformat's ``output_type``."""
    mimes: tuple[str, ...] = ()
    size: int
    """Bytes of the whole output."""
    text: str = Field(default="", max_length=BRIEF_TEXT)
    """How its text begins."""


class Cell(Value):
    """One cell as it stands in the notebook."""

    id: str
    """nbformat's id; the only address a write accepts."""
    number: int
    """Place in the notebook, from 1, for people; changes when cells move."""
    kind: CellKind
    source: str
    execution_count: int | None = None
    """None for a cell that never ran and for one that is no code."""
    state: CellState = "never"
    why: str = ""
    """What a stale cell waits for, or why its state is unknown; empty otherwise."""
    may_raise: bool = False
    """Its tag says so: an error of it is meant."""
    tags: tuple[str, ...] = ()
    """Tags in its metadata."""
    outputs: tuple[OutputBrief, ...] = ()
    vibe: CellMark | None = None
    """What its metadata say of who wrote it; None where they say nothing."""

    @property
    def is_skipped(self) -> bool:
        """True if the cell runs only when it is named."""
        return SKIP_TAG in self.tags

    @property
    def hash(self) -> str:
        """Stands for the source: a write names the one it was made for."""
        return source_hash(self.source)


class SetSource(Value):
    """Give a cell another source."""

    op: Literal["set_source"] = "set_source"
    cell: str
    expected: str
    """Hash of the source it must have now."""
    source: str
    vibe: CellMark | None = None
    """For its metadata; None removes what stands there."""


class InsertCell(Value):
    """Put in a new cell."""

    op: Literal["insert"] = "insert"
    id: str
    """Made by the one who asks, so that the cell can be found again."""
    after: str | None
    """Id of the cell above it; None for the top."""
    kind: CellKind
    source: str
    vibe: CellMark | None = None
    """For its metadata."""


class ExpectedCell(Value):
    """A cell and the source it must have now."""

    id: str
    expected: str


class DeleteCells(Value):
    """Remove cells, in one step."""

    op: Literal["delete"] = "delete"
    cells: tuple[ExpectedCell, ...]


class MoveCells(Value):
    """Put cells behind another one, in the given order."""

    op: Literal["move"] = "move"
    cells: tuple[str, ...]
    after: str | None
    """None for the top."""


CellEdit = Annotated[SetSource | InsertCell | DeleteCells | MoveCells, Field(discriminator="op")]
"""Each is one undo step of the user's; a list of them is done whole or not at all."""
