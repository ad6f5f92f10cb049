"""The lines that say what a run changed, as `snapshots` keeps them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from vibe_jupyter.protocol import CellKind, CellMark
from vibe_jupyter.protocol.messages import Value


class CellContent(Value):
    """A cell without its outputs."""

    kind: CellKind
    source: str
    vibe: CellMark | None = None
    """What its metadata said of who wrote it."""


class CellSnapshot(Value):
    """A cell before an edit."""

    type: Literal["cell"] = "cell"
    entry: int
    cell: str
    name: str
    """As the user saw it then, such as ``[4]``; empty for one that was not there."""
    before: CellContent | None
    """None for a cell that was not there."""
    after: str | None
    """The source that the agent gives it; None where the agent deletes it."""
    had_outputs: bool = False


class OrderSnapshot(Value):
    """All cells before some were deleted or moved."""

    type: Literal["order"] = "order"
    entry: int
    order: tuple[str, ...]
    moved: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """Of the moved ones."""


class FileSnapshot(Value):
    """A file before it is written."""

    type: Literal["file"] = "file"
    entry: int
    path: str
    name: str
    """As the user knows it: relative to the project where it is inside."""
    digest: str
    """Of its content; empty where there is no file."""
    kept: str = ""
    """Name of the file with its bytes; empty where there are none."""
    problem: str = ""
    """Why its bytes are not kept."""


class FileLeft(Value):
    """A file as the agent left it."""

    type: Literal["left"] = "left"
    path: str
    digest: str
    """Of its content; empty where there is no file."""


class VariablesChanged(Value):
    """Variables that code of the run bound, deleted or changed: what they held is in the kernel's memory alone."""

    type: Literal["variables"] = "variables"
    names: tuple[str, ...]


class NotMade(Value):
    """The change of an entry was refused."""

    type: Literal["not_made"] = "not_made"
    entry: int


class RunMark(Value):
    """What is known of the run as a whole."""

    type: Literal["run"] = "run"
    what: Literal["begun", "undone", "told"]
    """``told``: the model was told that it was undone."""
    time: str
    prompt: str = ""


ChangeLine = Annotated[
    CellSnapshot | OrderSnapshot | FileSnapshot | FileLeft | VariablesChanged | NotMade | RunMark,
    Field(discriminator="type"),
]
LINE: TypeAdapter[ChangeLine] = TypeAdapter(ChangeLine, config=ConfigDict(defer_build=True))
