"""What the first look at a long notebook finds known already: the names of cells that ran, and of no others."""

import asyncio
import warnings
from typing import Any, Final

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.patience import patient
from vibe_jupyter.context import read_ahead
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.read_ahead import ReadAhead
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.replay import Replay
from vibe_jupyter.notebook.staleness import cell_standings
from vibe_jupyter.protocol import Cell

_WAIT: Final = patient(30)
"""Seconds until everything must have been read."""


@pytest.fixture
def shell() -> Any:
    shell: Any = InteractiveShell()
    shell.history_manager.enabled = False
    return shell


@pytest.mark.parametrize(
    ("runs", "after", "found"),
    [
        (3, 0, [1, 2, 3]),
        (3, 2, [3]),
        (3, 3, []),
        (3, 9, []),
        (7, 0, [4, 5, 6, 7]),
        (7, 5, [6, 7]),
        (7, 2, [4, 5, 6, 7]),
    ],
)
def test_of_many_runs_the_latest_are_read_and_none_that_is_known(
    shell: Any, monkeypatch: pytest.MonkeyPatch, runs: int, after: int, found: list[int]
) -> None:
    monkeypatch.setattr(read_ahead, "KEPT", 4)
    ran(shell, *(f"a = {number}" for number in range(1, runs + 1)))
    assert list(read_ahead.earlier_runs(shell, after)) == [(number, f"a = {number}") for number in found]


async def all_read(ahead: ReadAhead, last: str) -> None:
    """Wait until this source and those before it were read."""
    async with asyncio.timeout(_WAIT):
        while ahead.replay is None or ahead.replay.executions()[-1].source != last or not ahead.replay.read(0):
            await asyncio.sleep(0)


def ran(shell: Any, *sources: str) -> None:
    for source in sources:
        assert shell.run_cell(source, store_history=True).success


def test_cells_that_ran_are_read_while_the_kernel_rests_also_those_before_the_extension(shell: Any) -> None:
    async def kernel() -> ReadAhead:
        ran(shell, *(f"early_{number} = {number}" for number in range(300)))
        ahead = ReadAhead(shell)
        ran(shell, "late = 1")
        assert ahead.replay is None
        await all_read(ahead, "late = 1")
        ran(shell, "later = 1")
        await all_read(ahead, "later = 1")
        ahead.close()
        ran(shell, "after = 1")
        await asyncio.sleep(0)
        return ahead

    replay = asyncio.run(kernel()).replay

    assert replay is not None
    assert [(one.number, one.source) for one in replay.executions()] == [
        *((number + 1, f"early_{number} = {number}") for number in range(300)),
        (301, "late = 1"),
        (302, "later = 1"),
    ]


def test_the_log_of_the_app_goes_on_where_the_kernel_has_read(shell: Any) -> None:
    async def kernel() -> ExecutionLog:
        ahead = ReadAhead(shell)
        ran(shell, "limit = 1", "double = limit * 2")
        await all_read(ahead, "double = limit * 2")
        ahead.close()
        ran(shell, "limit = 5")
        return ExecutionLog(shell, lambda: shell.user_ns, ahead.replay)

    log = asyncio.run(kernel())
    ran(shell, "half = limit / 2")
    sources = ("limit = 5", "double = limit * 2", "half = limit / 2")
    cells = [
        Cell(id=f"cell-{number}", number=number, kind="code", source=source, execution_count=count)
        for number, (source, count) in enumerate(zip(sources, (3, 2, 4), strict=True), start=1)
    ]
    log.close()

    assert [one.number for one in log.executions()] == [1, 2, 3, 4]
    assert [status.state for status in log.standings(cells).values()] == ["fresh", "stale", "fresh"]


def test_what_runs_after_a_reset_of_the_shell_is_read(shell: Any) -> None:
    async def kernel() -> ReadAhead:
        ahead = ReadAhead(shell)
        ran(shell, "first = 1", "second = 2")
        await all_read(ahead, "second = 2")
        shell.reset()
        ran(shell, "third = 3")
        await all_read(ahead, "third = 3")
        ahead.close()
        return ahead

    replay = asyncio.run(kernel()).replay

    assert replay is not None
    assert [one.source for one in replay.executions()] == ["third = 3"]


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
