"""Notebooks that are really run, in IPython; and what each cell would show were all run again from the top.

Nothing here looks at code: which cells are stale is found by running them.
"""

import contextlib
import copy
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from tests.notebook.planted_state import Deed
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.kernel.ipython_types import user_names
from vibe_jupyter.notebook.replay import Replay
from vibe_jupyter.notebook.staleness import CellStatus, cell_standings
from vibe_jupyter.protocol import Cell

RECORDED = Path(__file__).parents[1] / "corpora" / "recorded_runs.txt"
_CLOCK = ("CPU times", "Wall time", "user ")


@dataclass
class RunCell:
    id: str
    source: str
    ran: str | None = None
    """The source that ran last."""
    count: int | None = None
    ok: bool = True
    seen: dict[str, str] = field(default_factory=dict)
    """What it printed, under the empty name, and each variable afterwards."""
    changed: set[str] = field(default_factory=set)
    """Variables that a run of its source bound or changed."""
    left: dict[str, Any] = field(default_factory=dict)
    """Copies of these, after its last run."""

    def differs(self, other: "RunCell") -> bool:
        """Whether a run of the same source showed or left another thing."""
        names = {"", *self.changed, *other.changed}
        return self.ok != other.ok or any(self.seen.get(name) != other.seen.get(name) for name in names)


class LiveNotebook:
    """Cells and a kernel of their own."""

    def __init__(self, sources: Sequence[str]) -> None:
        self.cells = [RunCell(f"cell-{place}", source) for place, source in enumerate(sources)]
        self._first = list(self.cells)
        self.runs: list[tuple[str, str]] = []
        """Ids and sources of the cells, in the order in which they were run."""
        self.shell = _new_shell()
        self.log = ExecutionLog(self.shell, lambda: user_names(self.shell.user_ns, self.shell.user_ns_hidden))

    def do(self, deed: Deed) -> None:
        match deed:
            case ("all",):
                for cell in self.cells:
                    self.run(cell)
            case ("run", *places):
                for place in places:
                    self.run(self._first[place])
            case ("edit", place, source):
                self._first[place].source = source
            case ("delete", place):
                self.cells.remove(self._first[place])
            case _:
                raise AssertionError(f"unknown deed {deed}")

    def run(self, cell: RunCell) -> None:
        self.runs.append((cell.id, cell.source))
        _run_cell(self.shell, cell)

    def differing_from_top(self) -> list[str]:
        """Cells that show something else when all are run from the top in a new shell, up to the first that raises."""
        fresh, found = _new_shell(), list[str]()
        for cell in self.cells:
            anew = RunCell(cell.id, cell.source)
            _run_cell(fresh, anew)
            if not anew.ok or (cell.ran is not None and cell.seen[""] != anew.seen[""]):
                found.append(cell.id)
            if not anew.ok:
                break
        return found

    def standings(self, *, looked: bool) -> dict[str, CellStatus]:
        """What is told of the cells; where nobody `looked` at the variables, by IPython's history alone."""
        if looked:
            return self.log.standings(self._listed())
        runs = (one._replace(cell=None, marks=None) for one in self.log.executions())
        return cell_standings(self._listed(), Replay(runs))

    def _listed(self) -> list[Cell]:
        return [
            Cell(
                id=cell.id,
                number=number,
                kind="code",
                source=cell.source,
                execution_count=cell.count,
                state="never" if cell.count is None else "fresh" if cell.ok else "failed",
            )
            for number, cell in enumerate(self.cells, start=1)
        ]

    def truly_stale(self) -> set[str]:
        """Cells that show another thing than they would if run again: each on what the last runs of the cells above it
        left, or all that ran, as they stand, in a new kernel."""
        fresh = _new_shell()
        stale: set[str] = set()
        left: dict[str, Any] = {}
        for cell in self.cells:
            if cell.ran is None:
                continue
            alone, anew = RunCell(cell.id, cell.source), RunCell(cell.id, cell.source)
            _clear(self.shell)
            self.shell.user_ns.update(_copied(left))
            _run_cell(self.shell, alone)
            _run_cell(fresh, anew)
            left |= cell.left
            if cell.ran == cell.source and cell.ok and (cell.differs(alone) or cell.differs(anew)):
                stale.add(cell.id)  # else it is told as edited, or as failed
        return stale


def recorded_notebook(line: str) -> LiveNotebook:
    """A notebook with the counts and the flow of names of a recorded one, run in the order of its counts."""
    cells = [(int(count), *flow.partition("<")[::2]) for count, _, flow in (one.partition(":") for one in line.split())]
    notebook = LiveNotebook([_small_code(place, binds, reads) for place, (_, binds, reads) in enumerate(cells)])
    by_count = {count: cell for (count, _, _), cell in zip(cells, notebook.cells, strict=True)}
    for count in range(1, max(by_count) + 1):
        # A number that no cell has any more was an earlier run of the cell that has the next one.
        cell = by_count[min(one for one in by_count if one >= count)]
        notebook.run(cell)
    return notebook


def _small_code(place: int, binds: str, reads: str) -> str:
    """A cell that binds and reads these names, in one of several styles."""
    used = " + ".join(f"sum({name})" for name in reads if name not in binds) or "0"
    lines: list[str] = []
    for name in binds:
        if name in reads:
            lines.append(f"{name}.append({used} + {place})" if place % 2 else f"{name} = [*{name}, {used} + {place}]")
        elif place % 3 == 0 and used != "0":
            lines.append(f"def make_{name}():\n    return [{used}, {place}]\n{name} = make_{name}()")
        else:
            lines.append(f"{name} = [{used}, {place}]")
    return "\n".join([*lines, f"print({', '.join([str(place), *reads])})"])


def _new_shell() -> InteractiveShell:
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.register_magic_function(lambda line, cell: print(2 * eval(cell, shell.user_ns)), "cell", "doubled")
    return shell


def _run_cell(shell: InteractiveShell, cell: RunCell) -> None:
    before = _looks(shell)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        result: Any = shell.run_cell(cell.source, store_history=True, cell_id=cell.id)
    after = _looks(shell)
    if cell.ran != cell.source:
        cell.changed = set()
    cell.ran, cell.ok, cell.count = cell.source, result.success, result.execution_count
    lines = [line for line in printed.getvalue().split("\n") if not line.startswith(_CLOCK)]
    cell.seen = {**after, "": "\n".join(lines).replace(f"Out[{cell.count}]", "Out[]")}
    cell.changed |= {name for name in {*before, *after} if before.get(name) != after.get(name)}
    kept = {id(shell.user_ns[name]) for name in cell.changed if name in shell.user_ns}
    cell.left = _copied({name: shell.user_ns[name] for name in after if id(shell.user_ns[name]) in kept})


def _clear(shell: InteractiveShell) -> None:
    for name in user_names(shell.user_ns, shell.user_ns_hidden):
        del shell.user_ns[name]


def _copied(values: dict[str, Any]) -> dict[str, Any]:
    """One copy of all, so that what was shared is shared."""
    code = {name: value for name, value in values.items() if isinstance(value, ModuleType | FunctionType | type)}
    return {**code, **copy.deepcopy({name: value for name, value in values.items() if name not in code})}


def _looks(shell: InteractiveShell) -> dict[str, str]:
    names = user_names(shell.user_ns, shell.user_ns_hidden)
    return {name: _look(value) for name, value in names.items()}


def _look(value: Any) -> str:
    if isinstance(value, ModuleType | FunctionType | type):
        return type(value).__name__
    if hasattr(value, "to_dict"):
        return str(value.to_dict())
    if type(value).__module__ == "__main__":
        return f"{type(value).__name__} {vars(value)}"
    return repr(value)
