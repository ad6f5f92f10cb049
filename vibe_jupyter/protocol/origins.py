"""Where a cell comes from: what its metadata have under `ORIGIN_KEY` if the agent made or changed it."""

from pydantic import ConfigDict, ValidationError

from vibe_jupyter.protocol.cells import Cell, CellMark, source_hash
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.protocol.tools import Approval


class InputMark(Value):
    """A variable that the code reads, as it was when the cell was written."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    shape: str
    """Class and extent, without any value: ``pandas DataFrame 344 × 8``."""
    hash: str = ""
    """Eight hex digits of SHA-256 over its description: types, counts, ranges and first rows, of at most 1,000 sampled
    rows. Empty where no value may be told, not even by a hash: few possible values can all be tried."""


class CellOrigin(Value):
    """The agent's last change of a cell."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    conversation: str = ""
    """Id of the conversation, as `%vibe sessions` lists it; empty for none."""
    run: int | None = None
    """Of the conversation, as `%vibe undo list` numbers it; None where nothing is kept of it."""
    turn: int = 0
    """Request of that run, from 1; 0 for none."""
    prompt: str = ""
    """Id of the cell with the prompt; empty where the front end names none."""
    model: str
    """Name and server, such as ``devstral-2512@api.mistral.ai``, or the external client."""
    approved: Approval
    source: str
    """`source_hash` of what the agent left: another one now means that somebody changed it afterwards."""
    inputs: dict[str, InputMark] = {}
    """By name; variables that were not there yet are left out."""

    def mark(self) -> CellMark:
        """As it stands in the metadata; what says nothing is left out."""
        return self.model_dump(mode="json", exclude_defaults=True)


def origin_of(cell: Cell) -> CellOrigin | None:
    """Where a cell comes from; None where its metadata do not say so in a form that is known."""
    if cell.vibe is None:
        return None
    try:
        return CellOrigin.model_validate(cell.vibe)
    except ValidationError:
        return None


def changed_since(cell: Cell, origin: CellOrigin) -> bool:
    """Whether somebody else changed the source after the agent."""
    return source_hash(cell.source) != origin.source
