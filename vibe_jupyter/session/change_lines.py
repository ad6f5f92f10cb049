"""Records of what a run changed, as stored by `snapshots`."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from vibe_jupyter.protocol import CellKind, CellMark
from vibe_jupyter.protocol.messages import Value


class CellContent(Value):
    """A cell without its outputs."""

    kind: CellKind
    source: str
    vibe: CellMark | None = None  # origin in its metadata


class CellSnapshot(Value):
    """A cell before an edit."""

    type: Literal["cell"] = "cell"
    entry: int
    cell: str
    name: str  # as the user saw it then, such as ``[4]``; "" if it didn't exist
    before: CellContent | None  # None if the cell didn't exist
    after: str | None  # the source written by the agent; None if the agent deletes the cell
    had_outputs: bool = False


class OrderSnapshot(Value):
    """The order of all cells before some were deleted or moved."""

    type: Literal["order"] = "order"
    entry: int
    order: tuple[str, ...]
    moved: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of the moved cells


class FileSnapshot(Value):
    """A file before it is written."""

    type: Literal["file"] = "file"
    entry: int
    path: str
    name: str  # display path: relative to the project if inside it
    digest: str  # of the content; "" if there is no file
    kept: str = ""  # name of the file with the backup; "" if there is none
    problem: str = ""  # why there is no backup


class FileLeft(Value):
    """A file as the agent left it."""

    type: Literal["left"] = "left"
    path: str
    digest: str  # of the content; "" if there is no file


class VariablesChanged(Value):
    """Variables that a run's code bound, deleted or changed.

    Their previous values exist only in the kernel's memory.
    """

    type: Literal["variables"] = "variables"
    names: tuple[str, ...]


class NotMade(Value):
    """Marks the change of an entry as refused."""

    type: Literal["not_made"] = "not_made"
    entry: int


class RunMark(Value):
    """A fact about the whole run."""

    type: Literal["run"] = "run"
    what: Literal["begun", "undone", "told"]  # ``told``: the model has been informed of the undo
    time: str
    prompt: str = ""


ChangeLine = Annotated[
    CellSnapshot | OrderSnapshot | FileSnapshot | FileLeft | VariablesChanged | NotMade | RunMark,
    Field(discriminator="type"),
]
# Built on first use, as most models are not needed before the first request.
LINE: TypeAdapter[ChangeLine] = TypeAdapter(ChangeLine, config=ConfigDict(defer_build=True))
