"""A run's output in its cell: during the run, the static form over which a page draws the live view.

So the document always contains what happened so far, whatever happens to the kernel, and nothing that needs a kernel to
display. Pages that load widgets only on first display are offered the widget as well.

Output of code goes after the step that ran it: the run continues in another piece below.

The metadata of the final output records how the run ended, and a hash of the prompt it answers. It contains neither the
prompt nor the answer.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import (
    display,  # pyright: ignore[reportUnknownVariableType] (untyped)
    update_display,  # pyright: ignore[reportUnknownVariableType] (untyped)
)
from pydantic import JsonValue

from vibe_jupyter.kernel.outputs import join_lines
from vibe_jupyter.protocol import METADATA_KEY, FinishReason, MimeBundle

MARK: Final = "data-vibe-view"  # attribute by which the page finds the output of a view
STEP: Final = "data-vibe-step"  # attribute of a piece that names the step whose outputs precede it
MOVED: Final = "This run is now shown in another cell."  # left in place of a moved view


HTML: Final = "text/html"
PLAIN: Final = "text/plain"
NO_PIECE: Final[MimeBundle] = {HTML: "", PLAIN: ""}  # an empty piece


class RunAuthor(NamedTuple):
    """Author of the code in a run's output, for the origin of cells that users create from it (see `CellOrigin`)."""

    model: str
    conversation: str = ""
    run: int | None = None


class KeptOutput(NamedTuple):
    """The saved form of one run."""

    html: str  # as found in the notebook; not validated
    plain: str
    author: RunAuthor | None = None  # author according to the metadata, if valid


class UndoableRun(NamedTuple):
    """A run that changed cells or files, as identified for `%vibe undo`."""

    conversation: str
    number: int


class KeptPiece(NamedTuple):
    """Static form of a run between two calls with outputs in the cell."""

    bundle: MimeBundle
    step: str = ""  # part id of the call before it; "" for the first piece


class RunOutput:
    """Outputs of one run in a cell: the first, and another after each call that displayed something."""

    def __init__(self, view_id: str) -> None:
        self._view_id = view_id
        self._pieces = [secrets.token_hex(8)]  # display ids, in cell order
        self._held: list[KeptPiece] = []  # content of each piece
        self._known: dict[int, KeptPiece] = {}  # content of each piece as last sent to the pages, by index
        self._cell: Any = None  # request of the cell
        self._widget: Mapping[str, Any] = {}  # MIME bundle that makes a page draw the widget; empty if it isn't needed

    @property
    def display_id(self) -> str:
        """Display id of the first piece."""
        return self._pieces[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks by which the page finds the pieces."""
        return tuple(map(self._mark, range(len(self._pieces))))

    def put(self, held: MimeBundle) -> None:
        """Display the output in the running cell. Main thread."""
        self._held = [KeptPiece(held)]
        self._cell = getattr(_publisher(), "parent_header", None)
        display(self._bundle(0), raw=True, display_id=self.display_id)

    def divide(self) -> None:
        """Start a new piece after the cell's current outputs. Main thread."""
        self._pieces.append(secrets.token_hex(8))
        self._held.append(KeptPiece(NO_PIECE))
        display(self._bundle(-1), raw=True, display_id=self._pieces[-1])

    def join(self) -> None:
        """Merge all pieces into the first, the only one that a reloaded page has. Thread-safe."""
        for piece in self._pieces[1:]:
            _publish_update(NO_PIECE, piece)
        del self._pieces[1:]
        del self._held[1:]
        self.renew()

    def put_again(self) -> None:
        """Display everything as one piece after the user cleared the cell's outputs. Thread-safe."""
        for piece in self._pieces:
            _publish_update(NO_PIECE, piece)
        self._pieces = [secrets.token_hex(8)]
        del self._held[1:]
        self.renew()
        _publish("display_data", self._bundle(0), self.display_id, self._cell)

    def move_here(self) -> None:
        """Move the output, which must be in one piece, to the running cell. Main thread."""
        update_display({"text/plain": MOVED}, raw=True, display_id=self.display_id)
        self._pieces = [secrets.token_hex(8)]
        self.put(self._held[0].bundle)

    def hold(self, held: Sequence[KeptPiece]) -> None:
        """Store these pieces in the document. Thread-safe, even while the main thread runs code.

        Once a page draws the widget, the pieces are only remembered: an update would make the page draw it again.
        """
        self._held = self._fitting(held)
        for place, piece in enumerate(self._held):
            if self._known.get(place) != piece and not self._widget:
                self._known[place] = piece
                _publish_update(self._bundle(place), self._pieces[place])

    def renew(self) -> None:
        """Resend everything with the next `hold`, for a newly loaded page. Thread-safe."""
        self._known.clear()

    def offer_widget(self, widget: Mapping[str, Any]) -> None:
        """Make the page draw this widget in the first piece. Thread-safe."""
        self._widget = widget
        for place, piece in enumerate(self._pieces):
            _publish_update(self._bundle(place), piece)

    def leave(self, kept: Sequence[MimeBundle], metadata: Mapping[str, Any] | None) -> None:
        """Set the final content of each piece. Main thread."""
        for one, piece in zip(self._fitting(list(map(KeptPiece, kept))), self._pieces, strict=True):
            update_display(one.bundle, metadata=metadata, raw=True, display_id=piece)

    def _fitting(self, kept: Sequence[KeptPiece]) -> list[KeptPiece]:
        """Pad with empty pieces."""
        return [*kept, *[KeptPiece(NO_PIECE)] * (len(self._pieces) - len(kept))]

    def _mark(self, place: int) -> str:
        return f"{self._view_id}{place:04x}" if place else self._view_id

    def _bundle(self, place: int) -> MimeBundle:
        place %= len(self._pieces)
        if self._widget:
            return {**self._widget, **marked(self._view_id, self._held[0].bundle)} if place == 0 else NO_PIECE
        return marked(self._mark(place), self._held[place].bundle, step=self._held[place].step)


def marked(view_id: str, held: MimeBundle, *, step: str = "") -> MimeBundle:
    """Wrap static output in the element over which a page draws this view."""
    name = f' {STEP}="{step}"' if step else ""
    return {**held, "text/html": f'<div {MARK}="{view_id}"{name}>{held.get("text/html", "")}</div>'}


def _publish_update(bundle: MimeBundle, display_id: str) -> None:
    """Send `update_display` without flushing stdout, which only the main thread may do."""
    _publish("update_display_data", bundle, display_id, _publisher().parent_header)


def _publish(kind: str, bundle: MimeBundle, display_id: str, parent: object) -> None:
    publisher = _publisher()
    content = {"data": bundle, "metadata": {}, "transient": {"display_id": display_id}}
    publisher.session.send(publisher.pub_socket, kind, content, parent=parent, ident=publisher.topic)


def _publisher() -> Any:
    return InteractiveShell.instance().display_pub


def output_metadata(
    reason: FinishReason | None,
    key: str,
    undoable: UndoableRun | None = None,
    not_undone: Sequence[str] = (),
    *,
    author: RunAuthor | None = None,
) -> dict[str, JsonValue]:
    """Return the output metadata of a run.

    Args:
        reason: Finish reason, or None if unknown.
        key: Hash of the cell's prompt, or "" if there is none.
        undoable: The run, if it made changes.
        not_undone: Variables that may have been changed without approval and that undo wouldn't restore.
        author: Author of the code, or None if unknown.
    """
    said: dict[str, JsonValue] = {"reason": reason}
    if key:
        said["prompt"] = key
    if undoable is not None:
        said["undo"] = {"conversation": undoable.conversation, "run": undoable.number}
    if author is not None:
        said["author"] = author._asdict()
    if not_undone:
        said["not_undone"] = list(not_undone)
    return {METADATA_KEY: said}


def kept_outputs(outputs: Iterable[object], key: str) -> tuple[KeptOutput, ...]:
    """Return the outputs that answer the prompt with this key; none if one of its runs didn't finish.

    Args:
        outputs: A cell's outputs in nbformat.
        key: Hash of the prompt.
    """
    found = [(said, data) for said, data in map(_run_output, outputs) if said.get("prompt") == key]
    if any(said.get("reason") != "stop" for said, _ in found):
        return ()
    kept = tuple(
        KeptOutput(join_lines(data.get(HTML)), join_lines(data.get(PLAIN)), _author(said)) for said, data in found
    )
    return kept if all(output.html for output in kept) else ()


def _run_output(output: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return the run's entry in an output's metadata, and the output's data."""
    said = _mapping(_mapping(_mapping(output).get("metadata")).get(METADATA_KEY))
    return said, _mapping(_mapping(output).get("data"))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _author(said: Mapping[str, object]) -> RunAuthor | None:
    match _mapping(said.get("author")):
        case {"model": str(model), "conversation": str(conversation), "run": int() | None as run}:
            return RunAuthor(model, conversation, run)
        case _:
            return None
