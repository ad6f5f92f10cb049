"""Variables of a continued conversation that are missing in a new kernel, and the cells that make them again."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from vibe_jupyter.notebook.cell_names import cell_names, read_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.protocol import Cell, Message, SystemMessage, TextPart, ToolCall
from vibe_jupyter.session.journal import JournalContents

_NAMED: Final = 3  # longest list of missing variables that names them all
_WORD: Final = re.compile(r"[^\W\d]\w*")


class Move(NamedTuple):
    """Change of process between the last prompt of a conversation and its continuation."""

    change: Literal["none", "restart", "process"]
    """"restart" if another kernel of the same notebook had the conversation, "process" if any other process had it."""
    left: str
    """Path of the notebook that the conversation leaves for a process without one, else ''."""

    @classmethod
    def of(cls, contents: JournalContents, pid: int, notebook: str, *, has_notebook: bool) -> "Move":
        """Compare this process with the last one that the journal names.

        A process without a notebook's path may have been a terminal or a kernel whose notebook has no known path, so
        only equal paths prove a restart.

        Args:
            contents: contents of the journal.
            pid: id of this process.
            notebook: path of this process's notebook, '' if it is unknown.
            has_notebook: whether this process is the kernel of a notebook.
        """
        pids: list[int] = []
        latest = known = ""
        for one in (*([contents.header] if contents.header is not None else []), *contents.notes):
            if one.pid is not None:
                pids.append(one.pid)
                latest = ""
            latest = one.notebook or latest
            known = latest or known
        change = "process"
        if pid in pids[-1:]:
            change = "none"
        elif notebook and notebook == latest and pid not in pids:
            change = "restart"
        return cls(change, "" if has_notebook else known)

    def report(self, lost: Sequence[str]) -> str:
        """Return the sentences for the model, or '' if nothing changed for it."""
        said: list[str] = []
        if self.left:
            said.append(f"No notebook is open here: the cells of {self.left} can be neither run nor changed.")
        if lost:
            said.append(f"{_CAUSES[self.change]} {', '.join(lost)}.")
        return " ".join(said)


_CAUSES: Final = {
    "none": "These variables are gone:",
    "restart": "The kernel was restarted since. These variables are gone:",
    "process": "The conversation was in another Python process. Its variables are not here:",
}


def lost_variables(known: Sequence[str], present: Mapping[str, object], history: Iterable[Message]) -> list[str]:
    """Return the known variables that no longer exist, those mentioned most in the conversation first."""
    lost = [name for name in known if name not in present]
    if lost:
        mentioned = _mentions(history)
        lost.sort(key=lambda name: -mentioned[name])
    return lost


def loss_text(lost: Sequence[str], cells: Sequence[Cell], present: Mapping[str, object], move: Move) -> str:
    """Return one line for the user, or "" if nothing is missing."""
    if not lost:
        return ""
    named = ", ".join(f"`{name}`" for name in lost) if len(lost) <= _NAMED else f"`{lost[0]}` and {len(lost) - 1} more"
    verb = "is" if len(lost) == 1 else "are"
    said = {
        "none": f"{named} {verb} gone.",
        "restart": f"{named} {verb} gone: the kernel was restarted.",
        "process": f"{named} {verb} not here: the conversation was in another Python process.",
    }[move.change]
    made = cells_that_make(lost, cells, present)
    return f"{said} Run {_cells_text(made, cells)}?" if made else said


def cells_that_make(names: Sequence[str], cells: Sequence[Cell], present: Mapping[str, object]) -> list[Cell]:
    """Return the cells that last bind or change these names, and those that make what they read, in notebook order.

    A cell that reads what it binds, such as ``df = df.dropna()``, needs the cell that bound it before. A name that no
    cell above binds, or that only a function's body reads, uses the notebook's last binding.
    """
    bound: dict[str, int] = {}
    needs: dict[int, dict[str, int]] = {}
    own: dict[int, set[str]] = {}
    for place, cell in enumerate(cells):
        if cell.kind != "code":
            continue
        steps = cell_names(cell.source).steps
        used = {*read_names(cell.source), *(step.name for step in steps if step.act is Act.FORGET)}
        needs[place] = {name: bound[name] for name in used if name in bound}
        own[place] = {step.name for step in steps if step.act in (Act.BIND, Act.ALIAS, Act.CHANGE)}
        bound |= dict.fromkeys(own[place], place)
    wanted = [(name, bound[name]) for name in names if name in bound]
    made: set[int] = set()
    while wanted:
        name, place = wanted.pop()
        if name in present or place in made:
            continue
        made.add(place)
        later = cell_names(cells[place].source).mentioned - own[place] - needs[place].keys()
        wanted += [*needs[place].items(), *((one, bound[one]) for one in later if one in bound)]
    return [cells[place] for place in sorted(made)]


def _cells_text(made: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Format a list of cells such as ``cells [2]-[5] and [7]``. Cells without a number are named by position."""
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
    """Count the words of the conversation."""
    counted: Counter[str] = Counter()
    for message in history:
        if isinstance(message, SystemMessage):
            continue
        for part in message.parts:
            text = part.arguments if isinstance(part, ToolCall) else part.text if isinstance(part, TextPart) else ""
            counted.update(_WORD.findall(text))
    return counted
