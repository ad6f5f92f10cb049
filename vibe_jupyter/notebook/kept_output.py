"""What the output of a run says of it: how it ended, and to which prompt it is the answer.

Only its metadata says so: a word, and a number made of the prompt. Of what was asked and answered nothing is there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, cast

from pydantic import JsonValue

from vibe_jupyter.kernel.outputs import join_lines
from vibe_jupyter.protocol import FinishReason

METADATA_KEY: Final = "vibe_jupyter"
"""Where our words stand in a notebook's metadata."""
HTML = "text/html"
PLAIN = "text/plain"


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
