"""Report on the notebook before each prompt: its cells, the user's actions, and the variables.

A conversation's first report is complete; later ones contain only changes. Equal states yield equal texts. The report
goes into the newest user message and is never rewritten, so that the conversation stays append-only.
"""

import platform
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter.context.executions import ExecutionLog, variable_mark
from vibe_jupyter.context.variable_lines import VARIABLES_LIMIT, WORD, variable_lines
from vibe_jupyter.files.truncation import cut_end, head_and_tail, section
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.addresses import short_ids
from vibe_jupyter.notebook.cell_names import cell_names, gives_prompt
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.notebook.outline import (
    WHOLE_OUTLINE,
    heading_line,
    listed,
    outline_line,
    place_and_id,
    state_lines,
    telling_line,
)
from vibe_jupyter.notebook.replay import Execution, Mark
from vibe_jupyter.notebook.staleness import dependents
from vibe_jupyter.protocol import Cell
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.variables.describing import WITH_VALUES

if TYPE_CHECKING:
    from vibe_jupyter.notebook.document import Listing

REPORT_LIMIT: Final = 5_900  # characters of the whole section
OUTLINE_LIMIT: Final = 3_800
CHANGES_LIMIT: Final = 1_600
_NEAR: Final = 3  # cells shown on each side of the prompt in a longer notebook
_NAMED: Final = 6  # cells shown in a longer notebook because the prompt mentions them
_DIFF_LINES: Final = 8
_LINE: Final = 110  # characters shown per line of code
_NUMBER: Final = lazy_pattern(r"\[(\d+)\]|#(\d+)")


class Surroundings(NamedTuple):
    """State of the notebook and front end at a prompt."""

    prompt: str
    listing: "Listing | None" = None  # all cells, or None if unknown
    prompt_cell: str | None = None
    is_live: bool = False  # True if a front end answered, rather than a file being read
    attended: bool = True  # whether someone can approve calls
    has_notebook: bool = True  # whether there can be cells; False in a terminal
    allowed: frozenset[str] = frozenset()  # tools that run without asking in this run
    written: frozenset[str] = frozenset()  # ids of cells that the agent wrote
    # Working directory of code if it differs from the project folder, where files and commands are, else "".
    code_folder: str = ""


class SituationReport:
    """Reports of one conversation. Main thread only, since it reads variables."""

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._marks: dict[str, Mark] = {}
        self._frame = ""
        # State at the end of the last run, or None before the first report with cells.
        self._cells: tuple[Cell, ...] | None = None
        self._path = ""  # path of the notebook with these cells
        self._stale: dict[str, str] = {}
        self._runs = 0  # number of executions already reported
        self._is_first = True
        self.describing = WITH_VALUES
        # Cells whose addresses the last section mentioned. After the first outline of a long notebook, all cells.
        self.shown: Sequence[Cell] = ()

    def section(self, around: Surroundings) -> str:
        """Return the section for the next prompt, or "" if nothing changed."""
        self.shown = ()
        left = self._leave_notebook(around.listing)
        values = self._log.namespace()
        marks = {name: variable_mark(value) for name, value in values.items()}
        runs = self._log.executions()
        changed = marks != self._marks
        parts = [
            *left,
            *_titled("outline", self._outline(around), OUTLINE_LIMIT),
            *_titled("by the user since your last answer", self._user_changes(around, runs), CHANGES_LIMIT),
            *_titled(
                "variables" if self._is_first else "variables new or changed",
                variable_lines(around.prompt, values, self._marks, marks, self.describing) if changed else (),
                VARIABLES_LIMIT,
            ),
        ]
        frame = _frame_line(around)
        if not parts and _without_place(frame) == self._frame:
            return ""
        self._frame = _without_place(frame)
        self._is_first = False
        self._take(around.listing, marks)
        return section("notebook", head_and_tail("\n".join([frame, *parts]), REPORT_LIMIT))

    def _leave_notebook(self, listing: "Listing | None") -> list[str]:
        """Discard the cells if this is another notebook with the same kernel. Returns a line that reports it."""
        known = {cell.id for cell in self._cells or ()}
        if listing is None or not known or listing.path == self._path:
            return []
        if any(cell.id in known for cell in listing.cells):
            return []  # the notebook was renamed
        self._cells, self._stale = None, {}
        return [f"another notebook than {cut_end(self._path, 200)}, in the same kernel; the cells there stay"]

    def remember(self, listing: "Listing | None" = None) -> None:
        """Record the current state as known, since the model saw the effects of its own calls.

        Args:
            listing: The cells at the end of the run, or None if they weren't requested.
        """
        self._take(listing, {name: variable_mark(value) for name, value in self._log.namespace().items()})

    def take_cells(self, listing: "Listing") -> None:
        """Record the cells at the end of the last run."""
        if self._cells is not None:
            self._cells, self._path = listing.cells, listing.path

    def _take(self, listing: "Listing | None", marks: dict[str, Mark]) -> None:
        self._marks = marks
        self._runs = self._log.count
        if listing is not None:
            self._cells, self._path = listing.cells, listing.path
            self._stale = _stale_cells(listing.cells)

    def _outline(self, around: Surroundings) -> list[str]:
        listing = around.listing
        if listing is None and not around.has_notebook:
            return []
        if listing is None:
            return ["not known: no page of the notebook answered; read_notebook asks again"] if self._is_first else []
        if self._cells is None:
            self.shown = listing.cells
            return list(_outline_lines(listing.cells, around))
        now = _stale_cells(listing.cells)
        short = short_ids(listing.cells)
        by_id = {cell.id: cell for cell in listing.cells}
        old = {cell.id: (cell.source, cell.execution_count) for cell in self._cells}
        changed = [cell for cell in listing.cells if old.get(cell.id) != (cell.source, cell.execution_count)]
        self.shown = [*changed, *(by_id[one] for one in now if one not in self._stale)]
        newly = [f"{place_and_id(by_id[one], short)} ({why})" for one, why in now.items() if one not in self._stale]
        return [f"stale now: {listed(newly)}"] if newly else []

    def _user_changes(self, around: Surroundings, runs: Sequence[Execution]) -> list[str]:
        listing = around.listing
        if listing is None:
            first = len(runs) - (self._log.count - self._runs)
            return list(_run_lines(runs[max(0, first) :])) if not self._is_first else []
        if self._cells is None:
            return []
        return list(_cell_changes(self._cells, listing.cells, around))


def _titled(title: str, lines: Sequence[str], limit: int) -> list[str]:
    return [f"{title}:\n{head_and_tail(chr(10).join(lines), limit)}"] if lines else []


# ---- the frame ----


def _frame_line(around: Surroundings) -> str:
    listing = around.listing
    facts: list[str] = []
    if listing is not None:
        facts.append(f"{cut_end(listing.path, 200)}: {len(listing.cells)} cells")
        place = next((cell.number for cell in listing.cells if cell.id == around.prompt_cell), None)
        if place is not None:
            facts.append(f"the prompt is #{place}")
    facts.append(f"Python {platform.python_version()}")
    if around.has_notebook:
        live = "unknown" if listing is None else "yes" if around.is_live else f"no, {listing.note}"
        facts.append(f"live page: {live}")
    if around.code_folder:
        folder = cut_end(around.code_folder, 200)
        facts.append(f"code runs in {folder} now (chdir), files and commands in the project's folder as before")
    if not around.attended:
        facts.append(f"nobody is there to allow anything; allowed: {', '.join(sorted(around.allowed)) or 'reading'}")
    elif around.allowed:
        facts.append(f"allowed unasked: {', '.join(sorted(around.allowed))}")
    return "; ".join(facts)


def _without_place(frame: str) -> str:
    """Remove the prompt's position and the number of cells, which change with every prompt."""
    return re.sub(r": \d+ cells|; the prompt is #\d+", "", frame)


# ---- the outline ----


def _outline_lines(cells: Sequence[Cell], around: Surroundings) -> Iterator[str]:
    short = short_ids(cells)
    if len(cells) <= WHOLE_OUTLINE:
        width = max(24, OUTLINE_LIMIT // max(1, len(cells)) - 30)
        for cell in cells:
            yield outline_line(cell, short, min(width, _LINE))
        return
    yield heading_line(cells)
    place = next((cell.number for cell in cells if cell.id == around.prompt_cell), len(cells))
    yield "near the prompt:"
    for cell in cells[max(0, place - 1 - _NEAR) : place + _NEAR]:
        yield outline_line(cell, short, 70)
    named = list(_named_cells(around.prompt, cells))[:_NAMED]
    if named:
        yield "named by the prompt:"
        for cell in named:
            yield outline_line(cell, short, 70)
    yield from state_lines(cells, short)


def _named_cells(prompt: str, cells: Sequence[Cell]) -> Iterator[Cell]:
    numbers = [(found[1], found[2]) for found in _NUMBER.finditer(prompt)]
    counts = {int(count) for count, _ in numbers if count}
    places = {int(place) for _, place in numbers if place}
    words = set(WORD.findall(prompt))
    for cell in cells:
        if cell.kind != "code":
            continue
        is_named = cell.number in places or cell.execution_count in counts
        bound = (step.name for step in cell_names(cell.source).steps if step.act in (Act.BIND, Act.ALIAS))
        if is_named or not words.isdisjoint(name for name in bound if len(name) > 1):
            yield cell


def _stale_cells(cells: Iterable[Cell]) -> dict[str, str]:
    return {cell.id: cell.why for cell in cells if cell.state == "stale"}


# ---- what the user did ----


def _cell_changes(before: Sequence[Cell], now: Sequence[Cell], around: Surroundings) -> Iterator[str]:
    short = short_ids(now)
    old = {cell.id: cell for cell in before}
    for cell in now:
        if cell.id == around.prompt_cell or (cell.kind == "code" and gives_prompt(cell.source)):
            continue
        known = old.get(cell.id)
        if known is None:
            yield f"added {place_and_id(cell, short)}{_run_words(cell)}: {telling_line(cell, _LINE)}"
            yield from _failure_lines(cell)
        elif known.source != cell.source:
            yield from _edit_lines(known, cell, short, now, around)
        elif cell.execution_count != known.execution_count and cell.execution_count is not None:
            yield f"ran {place_and_id(cell, short)}{_run_words(cell)}: {telling_line(cell, _LINE)}"
            yield from _failure_lines(cell)
    yield from _deleted_lines(before, now, around)
    yield from _moved_lines(before, now, short)


def _edit_lines(
    known: Cell, cell: Cell, short: Mapping[str, str], now: Sequence[Cell], around: Surroundings
) -> Iterator[str]:
    ran = cell.execution_count != known.execution_count
    whose = ", which you wrote" if cell.id in around.written else ""
    how = f", and ran it{_run_words(cell)}" if ran else ", not run" if cell.kind == "code" else ""
    later = dependents(now, [cell.id]) if cell.kind == "code" and not ran else []
    by_id = {one.id: one for one in now}
    depend = "depends" if len(later) == 1 else "depend"
    waiting = f"; {listed([f'#{by_id[one].number}' for one in later])} {depend} on it" if later else ""
    yield f"edited {place_and_id(cell, short)}{whose}{how}{waiting}"
    with without_working_folder():
        import difflib  # noqa: PLC0415 - cells were edited

    lines = list(difflib.unified_diff(known.source.split("\n"), cell.source.split("\n"), n=0, lineterm=""))[2:]
    told = [line for line in lines if not line.startswith("@@")]
    yield from (f"  {cut_end(line, _LINE)}" for line in told[:_DIFF_LINES])
    if len(told) > _DIFF_LINES:
        yield f"  … {len(told) - _DIFF_LINES} more lines"
    if ran:
        yield from _failure_lines(cell)


def _run_words(cell: Cell) -> str:
    count = f" [{cell.execution_count}]" if cell.execution_count is not None else ""
    return f"{count} failed" if cell.state == "failed" else count


def _failure_lines(cell: Cell) -> Iterator[str]:
    for output in cell.outputs:
        if output.type == "error":
            yield f"  {cut_end(' '.join(output.text.split()), _LINE)}"


def _deleted_lines(before: Sequence[Cell], now: Sequence[Cell], around: Surroundings) -> Iterator[str]:
    left = {cell.id for cell in now}
    short = short_ids(before)
    for cell in before:
        if cell.id not in left:
            whose = ", which you wrote" if cell.id in around.written else ""
            yield f"deleted {place_and_id(cell, short)}{whose}: {telling_line(cell, _LINE)}"


def _moved_lines(before: Sequence[Cell], now: Sequence[Cell], short: Mapping[str, str]) -> Iterator[str]:
    places = {cell.id: place for place, cell in enumerate(before)}
    kept = [cell for cell in now if cell.id in places]
    stayed = _rising([places[cell.id] for cell in kept])
    for place, cell in enumerate(kept):
        if place not in stayed:
            yield f"moved {place_and_id(cell, short)}, before it was #{places[cell.id] + 1}"


def _rising(numbers: Sequence[int]) -> set[int]:
    """Return the positions of a longest increasing subsequence."""
    ends: list[int] = []
    places: list[int] = []
    previous: list[int | None] = []
    for place, number in enumerate(numbers):
        at = bisect_left(ends, number)
        previous.append(places[at - 1] if at else None)
        if at == len(ends):
            ends.append(number)
            places.append(place)
        else:
            ends[at], places[at] = number, place
    found: set[int] = set()
    last = places[-1] if places else None
    while last is not None:
        found.add(last)
        last = previous[last]
    return found


def _run_lines(runs: Iterable[Execution]) -> Iterator[str]:
    """Describe the user's runs when the cells themselves are unknown."""
    for one in runs:
        if one.number is not None and one.source and not gives_prompt(one.source):
            failed = "" if one.ok else " failed"
            yield f"ran [{one.number}]{failed}: {cut_end(one.source.strip().split(chr(10))[0], _LINE)}"
