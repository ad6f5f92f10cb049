"""Messages of the bridge between kernel and page: names, arguments and results.

``scripts/contract_types.py`` generates `labextension/src/contract.ts` from these types. docs/bridge.md explains them.
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
# Error codes of requests.
RefusalCode = Literal["unknown_cell", "stale_cell", "read_only", "not_finished", "bad_request", "closed"]
# Events sent by pages: page loaded, end of a run received, cells changed while a card is open.
PageEvent = Literal["hello", "run_done", "edited"]


class ViewAddress(Value):
    """A view of the notebook in a browser tab."""

    client: str
    """Session id of the tab's connection to the kernel."""
    panel: str
    """Name that is unique among the views of a tab."""


class BridgeRequest(TypedDict):
    """A request, as sent on iopub."""

    id: str
    method: str
    to: ViewAddress | None
    """The recipient; null addresses every panel of this kernel."""
    args: object


HEADLESS: Final = "headless"  # front end of a program that runs a notebook


class NotebookPanel(Value):
    """A view's description of itself."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client: str
    panel: str
    path: str
    """Path of the notebook on the server, also correct after a rename."""
    version: str = ""
    """Version of the extension."""
    front_end: str = ""
    """Such as ``jupyterlab 4.6.6``."""
    visible: bool = False
    ran: bool = False
    """Whether this tab started the running cell."""
    conversation: str = ""
    """Conversation id in the notebook's metadata, or ""."""

    @classmethod
    def of(cls, client: str, panel: str, said: dict[str, JsonValue]) -> "NotebookPanel":
        """Parse the response to a hello.

        Raises:
            pydantic.ValidationError: The response isn't valid.
        """
        return cls.model_validate({**said, "client": client, "panel": panel})

    @property
    def is_seen(self) -> bool:
        """True if it draws views, so that a user may answer a card."""
        return self.front_end != HEADLESS

    @property
    def address(self) -> ViewAddress:
        return ViewAddress(client=self.client, panel=self.panel)

    def version_advice(self, ours: str) -> str:
        """Return what to upgrade if page and kernel differ in more than the patch version, else ""."""
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
    """An output without its data."""

    model_config = ConfigDict(extra="ignore")

    type: str
    mimes: tuple[str, ...] = ()
    size: int = 0
    """Bytes of the whole output."""
    text: str = ""
    """Beginning of its text."""


class ListedCell(BaseModel):
    """A cell, as reported by its page."""

    model_config = ConfigDict(extra="ignore")

    id: str
    kind: CellKind
    source: str
    execution_count: int | None = None
    running: bool = False
    """Running or queued."""
    edited_since_run: bool = False
    may_raise: bool = False
    """Whether it has the tag ``raises-exception``."""
    tags: tuple[str, ...] = ()
    outputs: tuple[ListedOutput, ...] = ()
    vibe: CellMark | None = None
    """Our key in the cell's metadata; null if that isn't an object."""

    def state(self) -> CellState:
        """Return the state of the outputs relative to the source."""
        if self.running:
            return "running"
        if self.execution_count is None:
            return "never"
        if self.edited_since_run:
            return "edited"
        return "failed" if any(output.type == "error" for output in self.outputs) else "fresh"


class CellListing(BaseModel):
    """All cells, in order."""

    model_config = ConfigDict(extra="ignore")

    path: str
    dirty: bool = False
    """Whether there are unsaved changes."""
    cells: tuple[ListedCell, ...]


class NoFields(TypedDict):
    """Arguments or result without fields."""


class HelloArgs(TypedDict):
    version: NotRequired[str]
    """Version of the kernel's package."""


class OutputsArgs(TypedDict):
    cell: str
    index: NotRequired[int | None]
    limit: int
    """Characters of one text."""


class OutputsResult(TypedDict):
    outputs: list[dict[str, Any]]
    """In nbformat."""


class PictureArgs(TypedDict):
    cell: str
    index: int
    """Index of the output."""
    count: int
    """Number of outputs in the cell, to detect that they have changed."""
    side: int
    """Maximum length of the longer side, in pixels."""
    limit: int
    """Maximum length of the response, in characters."""


class PictureResult(TypedDict):
    image: str | None
    """Base64 PNG; null if the page shows no chart there."""


class EditArgs(TypedDict):
    edits: list[CellEdit]


class WrittenCell(TypedDict):
    """A cell after an edit."""

    id: str
    source: str


class EditResult(TypedDict):
    """State read back from the notebook."""

    cells: list[WrittenCell]
    """The cells that were written."""
    order: list[str]
    """Ids of all cells."""


class RunArgs(TypedDict):
    cell: str
    code_hash: str


class RunResult(TypedDict):
    started: Literal[True]
    request: str
    """Id of the execute request, by which the kernel recognizes it if it arrives late."""


class InnerCell(TypedDict):
    """A cell that the agent is running in place, or has just run."""

    cell: str
    request: str
    """Id of the execute request."""
    number: int
    """Execution count."""
    outputs: list[dict[str, Any]]
    """Outputs so far, as in their messages."""
    is_over: bool


class ShowArgs(TypedDict):
    cell: str
    model_id: str
    display_id: NotRequired[str | None]
    inner: NotRequired[InnerCell | None]
    """Outputs of another cell that a newly loaded page missed."""


class FindArgs(TypedDict):
    model_id: str


class FindResult(TypedDict):
    cell: str | None
    """The cell that contains the live view, for servers that don't report which cell runs."""


class KeepArgs(TypedDict):
    cell: str
    model_id: str
    data: NotRequired[dict[str, Any] | None]
    """A MIME bundle."""
    metadata: NotRequired[dict[str, Any]]
    """Metadata of the output."""
    number: NotRequired[int | None]
    """Execution count of the cell."""
    adds: NotRequired[bool]
    """Whether to append the data to the cell's outputs if the view isn't in the cell."""


class KeepResult(TypedDict):
    stands: bool
    """Whether the live view is still in the cell."""


class HeldArgs(TypedDict):
    cell: str


class HeldResult(TypedDict):
    """Outputs that the cell lost when it was run."""

    outputs: list[dict[str, Any]]
    """Outputs of an agent run, in nbformat."""


class RememberArgs(TypedDict):
    conversation: str
    """Id for the notebook's metadata, which stores nothing else of the conversation."""


# Types of each method's arguments and result.
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


def argument_names(method: Method) -> frozenset[str]:
    return frozenset(METHODS[method][0].__annotations__)


def _release_numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
