"""What an empty kernel no longer has of a conversation that is continued, and which cells made it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.protocol import Cell, Message, SystemMessage, TextPart, ToolCall

_NAMED: Final = 3
"""Variables named, where there are no more."""
_WORD: Final = re.compile(r"[^\W\d]\w*")


def lost_variables(known: Sequence[str], present: Mapping[str, object], history: Iterable[Message]) -> list[str]:
    """The known ones that are not there any more, those first that the conversation speaks of most."""
    lost = [name for name in known if name not in present]
    if lost:
        mentioned = _mentions(history)
        lost.sort(key=lambda name: -mentioned[name])
    return lost


def loss_text(lost: Sequence[str], cells: Sequence[Cell], present: Mapping[str, object]) -> str:
    """One line for the user; empty where nothing is missing."""
    if not lost:
        return ""
    named = ", ".join(f"`{name}`" for name in lost) if len(lost) <= _NAMED else f"`{lost[0]}` and {len(lost) - 1} more"
    said = f"{named} {'is' if len(lost) == 1 else 'are'} gone: the kernel was restarted."
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
