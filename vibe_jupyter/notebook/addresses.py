"""Cell addresses: position ``#8``, unique id prefix, execution count ``[18]``, ``prompt`` or ``last``.

address(cell, short_ids(cells))             # "#8 d8dc [18]"
find_cell("[18]", cells)                    # one cell, or an error naming the candidates
select_cells(["#3-#30", "stale"], cells)    # several
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from vibe_jupyter.errors import NothingDone
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.near_names import near_names
from vibe_jupyter.notebook.cell_names import gives_prompt
from vibe_jupyter.protocol import Cell

MIN_PREFIX: Final = 4  # minimum length of an id prefix that may stand for the id
PROMPT: Final = "prompt"  # the cell that the run is in
LAST: Final = "last"  # the last cell of the notebook
TOP: Final = "top"
END: Final = "end"  # with TOP: positions for new and moved cells
STALE: Final = "stale"  # the stale and edited cells
BELOW: Final = "below:"  # all cells below the one named after it

_NEAREST: Final = 5  # suggestions in an error
_LONGEST_NUMBER: Final = 5  # digits of a position or execution count; a longer number is probably a mistyped id
_FIRST_LINE: Final = 60  # characters of a cell's first line that identify it
_NUMBERED: Final = lazy_pattern(r"#(?P<place>\d{1,9})|\[(?P<count>\d{1,9})\]")
_RANGE: Final = lazy_pattern(r"#(\d{1,9})\s*(?:-|–|\.\.)\s*#?(\d{1,9})")
_FILLERS: Final = frozenset({"in", "out", "cell"})


class NumberGone(NothingDone):
    """Error for an execution count that no cell has any longer."""

    def __init__(self, reference: str, nearest: str) -> None:
        super().__init__(f"No cell carries {reference} now; nothing was done. {nearest}")
        self.reference = reference


class Selected(NamedTuple):
    """The cells matched by one reference."""

    reference: str
    cells: Sequence[Cell]
    numbered: Sequence[Cell] = ()  # matched by position or number, which may refer to other cells later
    skipped: Sequence[Cell] = ()  # cells that a group excludes because of their tag


def short_ids(cells: Iterable[Cell]) -> dict[str, str]:
    """Return the shortest unique prefix of each id."""
    ids = sorted({cell.id for cell in cells})
    short: dict[str, str] = {}
    for place, one in enumerate(ids):
        others = (*ids[max(0, place - 1) : place], *ids[place + 1 : place + 2])
        shared = max((_common_length(one, other) for other in others), default=0)
        head = one[: max(MIN_PREFIX, shared + 1)]
        short[one] = one[: len(head) + 1] if head in (PROMPT, LAST, STALE) else head
    return short


def _common_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((place for place, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def address(cell: Cell, short: Mapping[str, str]) -> str:
    """Return the cell's address in results, such as ``#8 d8dc [18]``."""
    number = f" [{cell.execution_count}]" if cell.execution_count is not None else ""
    return f"#{cell.number} {short.get(cell.id, cell.id)}{number}"


def first_line(cell: Cell, width: int = _FIRST_LINE) -> str:
    """Return the beginning of the cell's first line."""
    return cell.source.strip().split("\n", 1)[0][:width]


def cells_text(cells: Iterable[Cell], all_cells: Sequence[Cell]) -> str:
    """List cells by address and first line."""
    short = short_ids(all_cells)
    return "; ".join(f"{address(cell, short)} {first_line(cell)!r}" for cell in cells)


def number_of(reference: str) -> str:
    """Return the part of a reference that identifies a cell only by position or number; "" if an id does."""
    wanted = _id_of(reference)
    if wanted:
        return wanted if wanted == LAST else ""
    return next((word for word in _words_of(reference) if _NUMBERED.fullmatch(word)), "")


def find_cell(reference: str, cells: Sequence[Cell], *, prompt: str | None = None) -> Cell:
    """Return the one cell that a reference matches.

    Args:
        reference: An address or part of one. If it has an id, the id decides.
        cells: All cells of the notebook.
        prompt: Id of the cell that the run is in.

    Raises:
        NothingDone: No cell or several match; lists them or the nearest.
    """
    wanted = _id_of(reference)
    if not wanted and (number := number_of(reference)):
        return _by_number(number, cells)
    exact = next((cell for cell in cells if cell.id == wanted), None)
    if exact is not None:
        return exact
    if wanted == PROMPT:
        return _prompt_cell(cells, prompt)
    if wanted == LAST and cells:
        return cells[-1]
    return _by_prefix(wanted, cells)


def select_cells(
    references: Iterable[str], cells: Sequence[Cell], *, prompt: str | None = None, runnable: bool = False
) -> list[Selected]:
    """Return the cells of each reference, which may also be a range, ``stale``, or ``below:`` an address.

    Args:
        references: As given by the model.
        cells: All cells of the notebook.
        prompt: Id of the cell that the run is in.
        runnable: Whether ranges exclude cells that can't run (text and prompts) or are tagged to be skipped.

    Raises:
        NothingDone: A reference matches no cell, or several.
    """

    def is_in_range(cell: Cell) -> bool:
        return not runnable or (cell.kind == "code" and cell.id != prompt and not gives_prompt(cell.source))

    def group(reference: str, within: Sequence[Cell]) -> Selected:
        ranged = list(filter(is_in_range, within))
        skipped = [cell for cell in ranged if runnable and cell.is_skipped]
        return Selected(reference, [cell for cell in ranged if cell not in skipped], skipped=skipped)

    found: list[Selected] = []
    for reference in references:
        if reference == STALE:
            stale = [cell for cell in cells if cell.kind == "code" and cell.state in ("stale", "edited")]
            found.append(group(reference, stale))
        elif reference.startswith(BELOW):
            above = reference.removeprefix(BELOW)
            start = find_cell(above, cells, prompt=prompt)
            named = (start,) if number_of(above) else ()
            found.append(group(reference, cells[start.number :])._replace(numbered=named))
        elif ends := _RANGE.fullmatch(reference.strip()):
            first, last = (_by_number(f"#{end}", cells).number for end in ends.groups())
            part = group(reference, cells[min(first, last) - 1 : max(first, last)])
            found.append(part._replace(numbered=part.cells))
        else:
            cell = find_cell(reference, cells, prompt=prompt)
            found.append(Selected(reference, (cell,), (cell,) if number_of(reference) else ()))
    return found


def in_order(selected: Iterable[Selected]) -> list[Cell]:
    """Return all cells in order. Cells repeated by name are kept; cells repeated by a range are dropped."""
    cells: list[Cell] = []
    for one in selected:
        known = {cell.id for cell in cells} if is_group(one.reference) else ()
        cells += [cell for cell in one.cells if cell.id not in known]
    return cells


def is_group(reference: str) -> bool:
    """Return whether a reference may match several cells."""
    return reference == STALE or reference.startswith(BELOW) or _RANGE.fullmatch(reference.strip()) is not None


def nearest_cell(reference: str, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell with the most similar id, or None."""
    ids = [cell.id for cell in cells]
    close = near_names(reference, [*ids, *(one[: len(reference)] for one in ids)])
    return next((cell for cell in cells if close and cell.id.startswith(close[0])), None)


def _words_of(reference: str) -> list[str]:
    return reference.replace("[", " [").split()  # also splits In[18]


def _id_of(reference: str) -> str:
    words = _words_of(reference)
    others = (word for word in words if len(words) == 1 or word.lower() not in _FILLERS)
    return next((word for word in others if not _NUMBERED.fullmatch(word)), "")


def _by_number(reference: str, cells: Sequence[Cell]) -> Cell:
    found = _NUMBERED.fullmatch(reference)
    assert found is not None
    if found["place"]:
        place = int(found["place"])
        if not 0 < place <= len(cells):
            raise NothingDone(f"There is no cell {reference}: the notebook has {len(cells)}. Nothing was done.")
        return cells[place - 1]
    count = int(found["count"])
    same = [cell for cell in cells if cell.execution_count == count]
    if len(same) == 1:
        return same[0]
    if same:
        raise NothingDone(
            f"Nothing was done: {len(same)} cells carry {reference}; name one by its id: {cells_text(same, cells)}."
        )
    ran = [cell for cell in cells if cell.execution_count is not None and not gives_prompt(cell.source)]
    ran.sort(key=lambda cell: abs((cell.execution_count or 0) - count))
    raise NumberGone(reference, _nearest_text(ran, cells))


def _prompt_cell(cells: Sequence[Cell], prompt: str | None) -> Cell:
    found = next((cell for cell in cells if cell.id == prompt), None)
    if found is None:
        raise NothingDone("Nothing was done: it is not known which cell the prompt is in; name a cell by its id.")
    return found


def _by_prefix(wanted: str, cells: Sequence[Cell]) -> Cell:
    begun = [cell for cell in cells if cell.id.startswith(wanted)] if len(wanted) >= MIN_PREFIX else []
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise NothingDone(
            f"Nothing was done: the id {wanted!r} fits {len(begun)} cells; give more of it: "
            f"{', '.join(cell.id for cell in begun[:_NEAREST])}."
        )
    is_number = wanted.isdecimal() and len(wanted) <= _LONGEST_NUMBER
    as_number = f"say #{wanted} for a place, or [{wanted}] for an execution count." if is_number else ""
    if is_number and len(wanted) < MIN_PREFIX:
        raise NothingDone(f"Nothing was done: {as_number}")
    if len(wanted) < MIN_PREFIX:
        raise NothingDone(
            f"Nothing was done: {wanted!r} is too short for an id: give {MIN_PREFIX} characters or more. "
            f"{_nearest_text(cells, cells)}"
        )
    by_id = {cell.id: cell for cell in cells}
    close = [by_id[one] for one in near_names(wanted, by_id, _NEAREST, 0.5)]
    nearest = close or ([one] if (one := nearest_cell(wanted, cells)) else cells)
    said = f"There is no cell {wanted!r}; nothing was done. {_nearest_text(nearest, cells)}"
    raise NothingDone(f"{said} If it is no id, {as_number}" if is_number else said)  # many ids consist of digits


def _nearest_text(nearest: Sequence[Cell], cells: Sequence[Cell]) -> str:
    if not nearest:
        return "read_notebook lists all cells."
    return f"The nearest: {cells_text(nearest[:_NEAREST], cells)}. read_notebook lists all."
