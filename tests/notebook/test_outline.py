"""A cell's line in the outline, where there are several things to choose from."""

import pytest

from vibe_jupyter.notebook.addresses import in_order, select_cells, short_ids
from vibe_jupyter.notebook.outline import outline_line
from vibe_jupyter.protocol.cells import Cell, OutputBrief

FIRST = OutputBrief(type="stream", size=5, text="first")
ERROR = OutputBrief(type="error", size=5, text="KeyError: 'a'")
LAST = OutputBrief(type="execute_result", size=5, text="the last")


@pytest.mark.parametrize(
    ("outputs", "told"),
    [((FIRST, LAST), "the last"), ((FIRST, ERROR, LAST), "KeyError: 'a'"), ((LAST, FIRST, FIRST), "first")],
)
def test_of_several_outputs_the_error_or_the_last_is_told(outputs: tuple[OutputBrief, ...], told: str) -> None:
    cell = Cell(id="ab12", number=1, kind="code", source="x = 1", state="fresh", outputs=outputs)
    assert outline_line(cell, {"ab12": "ab12"}, 80).endswith(f"x = 1 -> {told}")


def cells_of(*ids: str) -> list[Cell]:
    return [Cell(id=name, number=number, kind="code", source="x = 1") for number, name in enumerate(ids, 1)]


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (("abcd1111", "ffff0000"), ("abcd", "ffff")),
        (("abcd2222", "abce0000", "abcd1111"), ("abcd2", "abce", "abcd1")),
        (("abcd1110", "abcd1111", "abcd2222"), ("abcd1110", "abcd1111", "abcd2")),
        (("abcd1111", "abcd1111"), ("abcd", "abcd")),
        (("last1111", "lasu0000"), ("last1", "lasu")),
    ],
)
def test_an_id_is_as_short_as_tells_it_from_those_before_and_behind_it(
    ids: tuple[str, ...], short: tuple[str, ...]
) -> None:
    found = short_ids(cells_of(*ids))
    assert tuple(found[one] for one in ids) == short


@pytest.mark.parametrize(
    ("references", "places"),
    [
        (["#2-#4"], [2, 3, 4]),
        (["#4-#2"], [2, 3, 4]),
        (["#3-#3"], [3]),
        (["#3", "#2-#4"], [3, 2, 4]),
        (["#2-#4", "#3"], [2, 3, 4, 3]),
        (["#3", "#3"], [3, 3]),
        (["#2-#3", "#3-#5"], [2, 3, 4, 5]),
        (["below:#3", "#1"], [4, 5, 1]),
    ],
)
def test_a_range_takes_each_cell_once_and_a_cell_that_is_named_again_is_meant_again(
    references: list[str], places: list[int]
) -> None:
    cells = cells_of("aaaa1111", "bbbb1111", "cccc1111", "dddd1111", "eeee1111")
    assert [cell.number for cell in in_order(select_cells(references, cells))] == places
