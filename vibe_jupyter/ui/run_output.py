"""What stands of a run in its cell: while it goes on, the static form over which a page draws the live view.

So the document holds what happened at every moment, whatever becomes of the kernel, and nothing that only a kernel can
show. A page that loads widgets with their first view alone is offered the widget as well.

What code shows in the cell stands behind the step that ran it: the run goes on in a further piece below.

The metadata of what is left for good says how the run ended, and to which prompt it is the answer: a word, and a number
made of the prompt. Of what was asked and answered nothing is there.
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

MARK: Final = "data-vibe-view"
"""The attribute by which the page finds the output that a view belongs to."""
STEP: Final = "data-vibe-step"
"""The attribute by which a piece names the part whose outputs stand before it."""
MOVED: Final = "This run is now shown in another cell."
"""Stands where a view was."""


HTML: Final = "text/html"
PLAIN: Final = "text/plain"
NO_PIECE: Final[MimeBundle] = {HTML: "", PLAIN: ""}
"""A piece of a run that says nothing."""


class RunAuthor(NamedTuple):
    """Who wrote what a run shows, for the origin of a cell that the user makes of it: as in `CellOrigin`."""

    model: str
    conversation: str = ""
    run: int | None = None


class KeptOutput(NamedTuple):
    """The kept form of one run."""

    html: str
    """As the notebook has it: not known to be ours."""
    plain: str
    author: RunAuthor | None = None
    """Who its metadata say wrote it; None where they say nothing that is known."""


class UndoableRun(NamedTuple):
    """A run that changed cells or files, as `%vibe undo` finds it."""

    conversation: str
    number: int


class KeptPiece(NamedTuple):
    """The static form of a run from one call whose outputs stand in the cell to the next."""

    bundle: MimeBundle
    step: str = ""
    """Id of the part of the call before it; empty for the first piece."""


class RunOutput:
    """What stands of one run in a cell: an output, and one more behind each call that showed something there."""

    def __init__(self, view_id: str) -> None:
        self._view_id = view_id
        self._pieces = [secrets.token_hex(8)]
        """Display ids, in the order of the cell."""
        self._held: list[KeptPiece] = []
        """What each piece holds."""
        self._known: dict[int, KeptPiece] = {}
        """What the pages were told that a piece holds, by its place."""
        self._cell: Any = None
        """The request of the cell it stands in."""
        self._widget: Mapping[str, Any] = {}
        """What makes a page draw the widget; empty where none needs to be told."""

    @property
    def display_id(self) -> str:
        """Of the first piece."""
        return self._pieces[0]

    @property
    def marks(self) -> tuple[str, ...]:
        """By which the page knows each piece."""
        return tuple(map(self._mark, range(len(self._pieces))))

    def put(self, held: MimeBundle) -> None:
        """Show it in the cell that runs now. Main thread."""
        self._held = [KeptPiece(held)]
        self._cell = getattr(_publisher(), "parent_header", None)
        display(self._bundle(0), raw=True, display_id=self.display_id)

    def divide(self) -> None:
        """Let what comes next stand behind what the cell shows now. Main thread."""
        self._pieces.append(secrets.token_hex(8))
        self._held.append(KeptPiece(NO_PIECE))
        display(self._bundle(-1), raw=True, display_id=self._pieces[-1])

    def join(self) -> None:
        """Hold all in the first piece: a page that was reloaded has no other. From any thread."""
        for piece in self._pieces[1:]:
            _publish_update(NO_PIECE, piece)
        del self._pieces[1:]
        del self._held[1:]
        self.renew()

    def put_again(self) -> None:
        """Show all in one piece in its cell, whose outputs the user cleared. From any thread."""
        for piece in self._pieces:
            _publish_update(NO_PIECE, piece)
        self._pieces = [secrets.token_hex(8)]
        del self._held[1:]
        self.renew()
        _publish("display_data", self._bundle(0), self.display_id, self._cell)

    def move_here(self) -> None:
        """Show it, as long as it is in one piece, in the cell that runs now, and nowhere else. Main thread."""
        update_display({"text/plain": MOVED}, raw=True, display_id=self.display_id)
        self._pieces = [secrets.token_hex(8)]
        self.put(self._held[0].bundle)

    def hold(self, held: Sequence[KeptPiece]) -> None:
        """Have the document hold these. From any thread, also while the main thread runs code.

        Where a page draws the widget they stay as they are: with another content the page would draw it again.
        """
        self._held = self._fitting(held)
        for place, piece in enumerate(self._held):
            if self._known.get(place) != piece and not self._widget:
                self._known[place] = piece
                _publish_update(self._bundle(place), self._pieces[place])

    def renew(self) -> None:
        """Say everything again with the next `hold`: a page that was loaded knows nothing. From any thread."""
        self._known.clear()

    def offer_widget(self, widget: Mapping[str, Any]) -> None:
        """Have the page draw this widget in the first piece. From any thread."""
        self._widget = widget
        for place, piece in enumerate(self._pieces):
            _publish_update(self._bundle(place), piece)

    def leave(self, kept: Sequence[MimeBundle], metadata: Mapping[str, Any] | None) -> None:
        """Leave these for good, one in each piece. Main thread."""
        for one, piece in zip(self._fitting(list(map(KeptPiece, kept))), self._pieces, strict=True):
            update_display(one.bundle, metadata=metadata, raw=True, display_id=piece)

    def _fitting(self, kept: Sequence[KeptPiece]) -> list[KeptPiece]:
        """As many as there are pieces."""
        return [*kept, *[KeptPiece(NO_PIECE)] * (len(self._pieces) - len(kept))]

    def _mark(self, place: int) -> str:
        return f"{self._view_id}{place:04x}" if place else self._view_id

    def _bundle(self, place: int) -> MimeBundle:
        place %= len(self._pieces)
        if self._widget:
            return {**self._widget, **marked(self._view_id, self._held[0].bundle)} if place == 0 else NO_PIECE
        return marked(self._mark(place), self._held[place].bundle, step=self._held[place].step)


def marked(view_id: str, held: MimeBundle, *, step: str = "") -> MimeBundle:
    """What the document holds, as an output that a page draws this view over."""
    name = f' {STEP}="{step}"' if step else ""
    return {**held, "text/html": f'<div {MARK}="{view_id}"{name}>{held.get("text/html", "")}</div>'}


def _publish_update(bundle: MimeBundle, display_id: str) -> None:
    """`update_display` without waiting for what was printed, which a thread other than the main one must not do."""
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
    """What stands in the metadata of the output of a run.

    Args:
        reason: how it ended; None where that is not known.
        key: of its cell's prompt; empty where it had none.
        undoable: the run, where it made changes.
        not_undone: variables that it may have changed unasked, and that undo would not restore.
        author: whose code it shows; None where that is not known.
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
    """The outputs that are the answer to the prompt with this key; none where one of its runs did not come to its end.

    Args:
        outputs: of a cell, as nbformat has them.
        key: of the prompt.
    """
    found = [(said, data) for said, data in map(_run_output, outputs) if said.get("prompt") == key]
    if any(said.get("reason") != "stop" for said, _ in found):
        return ()
    kept = tuple(
        KeptOutput(join_lines(data.get(HTML)), join_lines(data.get(PLAIN)), _author(said)) for said, data in found
    )
    return kept if all(output.html for output in kept) else ()


def _run_output(output: object) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """What the metadata of an output say of its run, and its data."""
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
