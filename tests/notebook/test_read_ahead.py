"""What the first look at a long notebook finds known already: the names of cells that ran, and of no others."""

import asyncio
import warnings
from typing import Any, Final

import pytest
from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.context.read_ahead import ReadAhead
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.staleness import Replay, cell_standings
from vibe_jupyter.protocol import Cell

_WAIT: Final = 30
"""Seconds until everything must have been read."""


@pytest.fixture
def shell() -> Any:
    shell: Any = InteractiveShell()
    shell.history_manager.enabled = False
    return shell


async def names_known(count: int) -> None:
    async with asyncio.timeout(_WAIT):
        while cell_names.cache_info().currsize < count:
            await asyncio.sleep(0)


def test_cells_that_ran_are_read_while_the_kernel_rests_also_those_before_the_extension(shell: Any) -> None:
    async def kernel() -> list[int]:
        for number in range(300):
            shell.run_cell(f"early_{number} = {number}", store_history=True)
        cell_names.cache_clear()
        ahead = ReadAhead(shell)
        known: list[int] = []
        shell.run_cell("late = 1", store_history=True)
        known.append(cell_names.cache_info().currsize)
        await names_known(301)
        shell.run_cell("later = 1", store_history=True)
        await names_known(302)
        ahead.close()
        shell.run_cell("after = 1", store_history=True)
        await asyncio.sleep(0)
        return [*known, cell_names.cache_info().currsize]

    assert asyncio.run(kernel()) == [0, 302]


def test_where_no_loop_runs_a_cell_runs_as_ever(shell: Any) -> None:
    ahead = ReadAhead(shell)

    assert shell.run_cell("late = 1", store_history=True).success
    ahead.close()


def test_no_cell_of_an_opened_notebook_is_parsed_to_say_that_it_did_not_run_here() -> None:
    cells = [
        Cell(id=f"cell-{number}", number=number, kind="code", source=f"x_{number} = {number}", execution_count=count)
        for number, count in ((1, None), (2, 7))
    ]
    cell_names.cache_clear()

    states = [status.state for status in cell_standings(cells, Replay()).values()]

    assert states == ["never", "unknown"]
    assert cell_names.cache_info().misses == 0


def test_reading_a_cell_repeats_no_warning_of_python(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")

    assert cell_names("pattern = '\\d' # for the first time").mentioned == {"pattern"}
    assert not recwarn.list
