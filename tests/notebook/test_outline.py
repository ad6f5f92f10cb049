"""A cell's line in the outline, where there are several things to choose from."""

import pytest

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
