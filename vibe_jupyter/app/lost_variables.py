"""What an empty kernel no longer has of a conversation that is continued, and which cells made it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.protocol import Cell, Message, SystemMessage, TextPart, ToolCall
from vibe_jupyter.session.journal import JournalContents

_NAMED: Final = 3
"""Variables named, where there are no more."""
_WORD: Final = re.compile(r"[^\W\d]\w*")


class Move(NamedTuple):
    """How a conversation came to the process that continues it."""

    is_restart: bool
    """Whether a kernel held it last, and another than this one, which never did."""
    left: str
    """Path of its notebook, where this process has none; else empty."""

    @classmethod
    def of(cls, contents: JournalContents, pid: int, *, in_kernel: bool) -> "Move":
        """The move that brings it here.

        Args:
            contents: of its journal.
            pid: of this process.
            in_kernel: whether this process is the kernel of a notebook.
        """
        holders = [*reversed(contents.notes), *([contents.header] if contents.header is not None else [])]
        notebook = next((one.notebook for one in holders if one.notebook), "")
        was_in_kernel = next((one.in_kernel for one in holders if one.in_kernel is not None), True)
        is_restart = in_kernel and was_in_kernel and pid not in {one.pid for one in holders}
        return cls(is_restart, "" if in_kernel else notebook)

    def report(self, lost: Sequence[str]) -> str:
        """What the model is told; empty where nothing changed for it."""
        names = ", ".join(lost)
        if self.is_restart:
            return f"The kernel was restarted since. These variables are gone: {names}." if lost else ""
        said: list[str] = []
        if self.left:
            said.append(f"No notebook is open here: the cells of {self.left} can be neither run nor changed.")
        if lost:
            said.append(f"The conversation was in another Python process. Its variables are not here: {names}.")
        return " ".join(said)


def lost_variables(known: Sequence[str], present: Mapping[str, object], history: Iterable[Message]) -> list[str]:
    """The known ones that are not there any more, those first that the conversation speaks of most."""
    lost = [name for name in known if name not in present]
    if lost:
        mentioned = _mentions(history)
        lost.sort(key=lambda name: -mentioned[name])
    return lost


def loss_text(lost: Sequence[str], cells: Sequence[Cell], present: Mapping[str, object], move: Move) -> str:
    """One line for the user; empty where nothing is missing."""
    if not lost:
        return ""
    named = ", ".join(f"`{name}`" for name in lost) if len(lost) <= _NAMED else f"`{lost[0]}` and {len(lost) - 1} more"
    verb = "is" if len(lost) == 1 else "are"
    said = f"{named} {verb} gone: the kernel was restarted."
    if not move.is_restart:
        said = f"{named} {verb} not here: the conversation was in another Python process."
    made = cells_that_make(lost, cells, present)
    return f"{said} Run {_cells_text(made, cells)}?" if made else said


def cells_that_make(names: Sequence[str], cells: Sequence[Cell], present: Mapping[str, object]) -> list[Cell]:
    """The cells that bind these names last, with those that bind what they read; in the order of the notebook."""
    bound: dict[str, int] = {}
    code = [cell if cell.kind == "code" else None for cell in cells]
    for place, cell in enumerate(code):
        for step in cell_names(cell.source).steps if cell is not None else ():
            if step.act in (Act.BIND, Act.ALIAS, Act.CHANGE):
                bound[step.name] = place
    wanted = list(names)
    seen: set[str] = set()
    made: set[int] = set()
    while wanted:
        name = wanted.pop()
        if name in seen or name in present or name not in bound:
            continue
        seen.add(name)
        made.add(bound[name])
        wanted += cell_names(cells[bound[name]].source).mentioned
    return [cells[place] for place in sorted(made)]


def _cells_text(made: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Such as ``cells [2]-[5] and [7]``; cells without a number by their place."""
    places = {cell.id: place for place, cell in enumerate(one for one in cells if one.kind == "code")}
    runs: list[list[Cell]] = []
    for cell in made:
        if runs and places[cell.id] == places[runs[-1][-1].id] + 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    texts = [_label(run[0]) if len(run) == 1 else f"{_label(run[0])}-{_label(run[-1])}" for run in runs]
    listed = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"{'cell' if len(made) == 1 else 'cells'} {listed}"


def _label(cell: Cell) -> str:
    return f"[{cell.execution_count}]" if cell.execution_count is not None else f"#{cell.number}"


def _mentions(history: Iterable[Message]) -> Counter[str]:
    """How often each word stands in the conversation."""
    counted: Counter[str] = Counter()
    for message in history:
        if isinstance(message, SystemMessage):
            continue
        for part in message.parts:
            text = part.arguments if isinstance(part, ToolCall) else part.text if isinstance(part, TextPart) else ""
            counted.update(_WORD.findall(text))
    return counted
