"""What the kernel asks of the page, and what the page answers: names, arguments and results of the bridge.

`labextension/src/contract.ts` is made from these types, by ``scripts/contract_types.py``. Meaning is in docs/bridge.md.
"""

from typing import Any, Final, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, JsonValue

from vibe_jupyter.installation import pip_install
from vibe_jupyter.protocol.cells import CellEdit, CellKind, CellMark, CellState
from vibe_jupyter.protocol.messages import Value

REQUEST: Final = "vibe_bridge"
REPLY: Final = "vibe_bridge_reply"
EVENT: Final = "vibe_bridge_event"

Method = Literal[
    "hello", "cells", "outputs", "picture", "edit", "run", "interrupt", "show", "find", "keep", "held", "remember"
]
RefusalCode = Literal["unknown_cell", "stale_cell", "read_only", "not_finished", "bad_request", "closed"]
"""The ways a request fails."""
PageEvent = Literal["hello", "run_done", "edited"]
"""What a page tells unasked: it was loaded; it has heard of the end of a run; cells changed while a card waits."""


class ViewAddress(Value):
    """One view of the notebook in one browser tab."""

    client: str
    """The session of its connection to the kernel."""
    panel: str
    """Its own name among the views of one tab."""


class BridgeRequest(TypedDict):
    """One request, as it comes on iopub."""

    id: str
    method: str
    to: ViewAddress | None
    """The one panel that is asked; null asks every panel of this kernel."""
    args: object


HEADLESS: Final = "headless"
"""The front end of a program that runs a notebook."""


class NotebookPanel(Value):
    """What a view said of itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client: str
    panel: str
    path: str
    """Of the notebook, as the server knows it; right also after a rename."""
    version: str = ""
    """Of the extension."""
    front_end: str = ""
    """Such as ``jupyterlab 4.6.6``."""
    visible: bool = False
    ran: bool = False
    """Whether this tab started the running cell."""
    conversation: str = ""
    """Id of the conversation that the notebook's metadata names; empty for none."""

    @classmethod
    def of(cls, client: str, panel: str, said: dict[str, JsonValue]) -> "NotebookPanel":
        """From the answer to a hello.

        Raises:
            pydantic.ValidationError: it is none.
        """
        return cls.model_validate({**said, "client": client, "panel": panel})

    @property
    def is_seen(self) -> bool:
        """Whether it draws views, so that somebody may answer a card."""
        return self.front_end != HEADLESS

    @property
    def address(self) -> ViewAddress:
        return ViewAddress(client=self.client, panel=self.panel)

    def version_advice(self, ours: str) -> str:
        """What to install where, if the two halves differ in more than the last number; empty where they fit."""
        page, kernel = _release_numbers(self.version), _release_numbers(ours)
        if page == kernel:
            return ""
        remedy = (
            f"run `{pip_install()}` where JupyterLab runs, and reload the page"
            if page < kernel
            else f"install vibe-jupyter {self.version} in the kernel's environment, and restart the kernel"
        )
        return (
            f"The notebook extension is version {self.version or 'unknown'}, this kernel's package {ours}. "
            f"If something misbehaves, {remedy}."
        )


class ListedOutput(BaseModel):
    """An output without its weight."""

    model_config = ConfigDict(extra="ignore")

    type: str
    mimes: tuple[str, ...] = ()
    size: int = 0
    """Bytes of the whole output."""
    text: str = ""
    """How its text begins."""


class ListedCell(BaseModel):
    """A cell, as its page has it."""

    model_config = ConfigDict(extra="ignore")

    id: str
    kind: CellKind
    source: str
    execution_count: int | None = None
    running: bool = False
    """Running, or waiting for its turn."""
    edited_since_run: bool = False
    may_raise: bool = False
    """Whether it has the tag ``raises-exception``."""
    tags: tuple[str, ...] = ()
    outputs: tuple[ListedOutput, ...] = ()
    vibe: CellMark | None = None
    """What its metadata have under this key; null where that is no object."""

    def state(self) -> CellState:
        """How its outputs stand to its source."""
        if self.running:
            return "running"
        if self.execution_count is None:
            return "never"
        if self.edited_since_run:
            return "edited"
        return "failed" if any(output.type == "error" for output in self.outputs) else "fresh"


class CellListing(BaseModel):
    """All cells, in their order."""

    model_config = ConfigDict(extra="ignore")

    path: str
    dirty: bool = False
    """Whether anything was changed since it was saved."""
    cells: tuple[ListedCell, ...]


class NoFields(TypedDict):
    """Nothing to say."""


class HelloArgs(TypedDict):
    version: NotRequired[str]
    """Of the package in the kernel."""


class OutputsArgs(TypedDict):
    cell: str
    index: NotRequired[int | None]
    limit: int
    """Characters of one text."""


class OutputsResult(TypedDict):
    outputs: list[dict[str, Any]]
    """As nbformat has them."""


class PictureArgs(TypedDict):
    cell: str
    index: int
    """Of the output."""
    count: int
    """Outputs of the cell, so that no other one is taken for it."""
    side: int
    """Pixels of the longer side, at most."""
    limit: int
    """Characters of the answer, at most."""


class PictureResult(TypedDict):
    image: str | None
    """PNG in base64; null where the page shows no chart there."""


class EditArgs(TypedDict):
    edits: list[CellEdit]


class WrittenCell(TypedDict):
    """A cell as it stands after an edit."""

    id: str
    source: str


class EditResult(TypedDict):
    """Read back from the notebook."""

    cells: list[WrittenCell]
    """The cells written to."""
    order: list[str]
    """Ids of all cells."""


class RunArgs(TypedDict):
    cell: str
    code_hash: str


class RunResult(TypedDict):
    started: Literal[True]
    request: str
    """Id of the message that was sent, so that the kernel knows it when it comes too late."""


class InnerCell(TypedDict):
    """A cell that the agent runs in its place, or has just run there."""

    cell: str
    request: str
    """Id of the message that the kernel executes."""
    number: int
    """Execution count."""
    outputs: list[dict[str, Any]]
    """Until now, each as its message has it."""
    is_over: bool


class ShowArgs(TypedDict):
    cell: str
    model_id: str
    display_id: NotRequired[str | None]
    inner: NotRequired[InnerCell | None]
    """What a page that was loaded missed of another cell."""


class FindArgs(TypedDict):
    model_id: str


class FindResult(TypedDict):
    cell: str | None
    """The cell that holds a live view, where the server does not say which cell runs."""


class KeepArgs(TypedDict):
    cell: str
    model_id: str
    data: NotRequired[dict[str, Any] | None]
    """A MIME bundle."""
    metadata: NotRequired[dict[str, Any]]
    """Of the output."""
    number: NotRequired[int | None]
    """Execution count of the cell."""
    adds: NotRequired[bool]
    """Whether the data is put below the other outputs where the view is not in the cell."""


class KeepResult(TypedDict):
    stands: bool
    """Whether the live view is still in the cell."""


class HeldArgs(TypedDict):
    cell: str


class HeldResult(TypedDict):
    """What the cell lost when it was run."""

    outputs: list[dict[str, Any]]
    """Those of a run of the agent, as nbformat has them."""


class RememberArgs(TypedDict):
    conversation: str
    """Id for the notebook's metadata; nothing else of a conversation goes there."""


METHODS: Final[dict[Method, tuple[type, type]]] = {
    "hello": (HelloArgs, NotebookPanel),
    "cells": (NoFields, CellListing),
    "outputs": (OutputsArgs, OutputsResult),
    "picture": (PictureArgs, PictureResult),
    "edit": (EditArgs, EditResult),
    "run": (RunArgs, RunResult),
    "interrupt": (NoFields, NoFields),
    "show": (ShowArgs, NoFields),
    "find": (FindArgs, FindResult),
    "keep": (KeepArgs, KeepResult),
    "held": (HeldArgs, HeldResult),
    "remember": (RememberArgs, NoFields),
}
"""What may be asked: the types of its arguments and of its result."""


def argument_names(method: Method) -> frozenset[str]:
    """The names of the arguments that a method takes."""
    return frozenset(METHODS[method][0].__annotations__)


def _release_numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
