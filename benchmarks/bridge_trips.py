"""Imported in the kernel by `bridge.py`: round trips over the real bridge, while the cell serves as `%%vibe` does."""

import asyncio
import concurrent.futures
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

from IPython import get_ipython

import vibe_jupyter
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.notebook.access import OUTPUT_LIMIT
from vibe_jupyter.notebook.bridge import Bridge
from vibe_jupyter.notebook.chart_pictures import with_page_pictures
from vibe_jupyter.notebook.live import LiveNotebook
from vibe_jupyter.protocol import CellEdit, DeleteCells, InsertCell, MoveCells, SetSource
from vibe_jupyter.protocol.cells import ExpectedCell, source_hash

WARM_UP = 5  # trips that are not counted
PAGE_WAIT = 60  # seconds; JupyterLab scrolls to the cell that was run, which such a notebook takes long for
STRIDE = 37  # cells between two edits, so that they are all over the notebook

Trip = Callable[[int], Awaitable[object]]


def measure(kind: str, trips: int, pause: float) -> None:
    """Print milliseconds of each trip, as JSON; `kind` may be a library whose chart is pictured."""
    shell: Any = get_ipython()
    pump = shell.magics_manager.registry["VibeMagics"].pump
    main_thread = MainThread(pump)
    bridge = Bridge(shell.kernel, version=vibe_jupyter.__version__, on_page=lambda _: None)
    bridge.on_heard = pump.idle_said.set
    bridge.install()
    bridge.begin()
    engine = Engine()
    try:
        notebook = LiveNotebook(bridge, main_thread, NestedCells(shell, pump))
        done = engine.submit(_trips(bridge, notebook, kind, trips, pause))
        main_thread.serve(done, interrupt=lambda: _cancel(done))
        print(json.dumps(done.result()))
    finally:
        engine.close()
        bridge.uninstall()


def _cancel(done: "concurrent.futures.Future[list[float]]") -> None:
    done.cancel()


async def _trips(bridge: Bridge, notebook: LiveNotebook, kind: str, trips: int, pause: float) -> list[float]:
    begin = {"hello": _hello, "read": _read, "edit": _edit, "insert": _insert, "move": _move, "delete": _delete}
    async with asyncio.timeout(PAGE_WAIT):
        while await bridge.panel(again=True) is None:
            pass
    trip = await (begin[kind](bridge, notebook) if kind in begin else _picture(notebook, kind))
    times: list[float] = []
    for number in range(WARM_UP + trips):
        await asyncio.sleep(pause)
        started = time.perf_counter()
        await trip(number)
        times.append(1000 * (time.perf_counter() - started))
    return times[WARM_UP:]


async def _hello(bridge: Bridge, _notebook: LiveNotebook) -> Trip:
    return lambda _: bridge.request("hello")


async def _read(_bridge: Bridge, notebook: LiveNotebook) -> Trip:
    return lambda _: notebook.cells()


async def _edit(_bridge: Bridge, notebook: LiveNotebook) -> Trip:
    cells = [cell for cell in (await notebook.cells()).cells if cell.id.startswith("cell-")]
    sources = {cell.id: cell.source for cell in cells}

    def trip(number: int) -> Awaitable[object]:
        cell = cells[number * STRIDE % len(cells)].id
        before, sources[cell] = sources[cell], f"{sources[cell]}\n# edit {number}"
        return _one(notebook, SetSource(cell=cell, expected=source_hash(before), source=sources[cell]))

    return trip


async def _insert(_bridge: Bridge, notebook: LiveNotebook) -> Trip:
    cells = await _ours(notebook)
    return lambda number: _one(
        notebook,
        InsertCell(id=f"new-{number:04}", after=cells[number * STRIDE % len(cells)], kind="code", source=_new(number)),
    )


async def _move(_bridge: Bridge, notebook: LiveNotebook) -> Trip:
    cells = await _ours(notebook)
    return lambda number: _one(
        notebook, MoveCells(cells=(f"new-{number:04}",), after=cells[(number + 1) * STRIDE % len(cells)])
    )


async def _delete(_bridge: Bridge, notebook: LiveNotebook) -> Trip:
    return lambda number: _one(
        notebook, DeleteCells(cells=(ExpectedCell(id=f"new-{number:04}", expected=source_hash(_new(number))),))
    )


async def _picture(notebook: LiveNotebook, library: str) -> Trip:
    """Of the chart in the cell that imports this library, as if its renderer had not kept one."""
    cell = next(cell for cell in (await notebook.cells()).cells if cell.source.startswith(f"import {library}"))
    outputs = await notebook.outputs(cell.id, index=None, limit=OUTPUT_LIMIT)
    for one in outputs:
        cast("dict[str, object]", one.get("data", {})).pop("image/png", None)

    def page_gives(place: int) -> Awaitable[str | None]:
        return notebook.picture(cell.id, place, count=len(outputs))

    async def trip(number: int) -> None:
        seen = await with_page_pictures(outputs, page_gives)
        if not any("image/png" in one.get("data", {}) for one in seen):  # type: ignore[operator]
            raise RuntimeError(f"{library}: no picture")

    return trip


def _new(number: int) -> str:
    return f"new = {number}"


async def _ours(notebook: LiveNotebook) -> list[str]:
    return [cell.id for cell in (await notebook.cells()).cells if cell.id.startswith("cell-")]


async def _one(notebook: LiveNotebook, edit: CellEdit) -> None:
    done = await notebook.edit([edit])
    if done.outcome != "done":
        raise RuntimeError(f"{edit} was {done.outcome}")
