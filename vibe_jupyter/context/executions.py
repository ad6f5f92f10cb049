"""What ran in this kernel, and how variables looked when it was over.

What ran before the first prompt is known by its source alone, from IPython's history. Where the user has loaded
ipyflow, what it saw a cell read counts too; nothing of it is imported here.
"""

import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from vibe_jupyter.context.read_ahead import KEPT, earlier_runs
from vibe_jupyter.context.row_ledger import RowLedger
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.notebook.replay import Execution, Mark, Replay
from vibe_jupyter.notebook.staleness import CellStatus, cell_standings
from vibe_jupyter.protocol import Cell
from vibe_jupyter.variables.adapters import type_name
from vibe_jupyter.variables.describe import value_fingerprint
from vibe_jupyter.variables.plain_values import comparison_mark, is_scalar

_EVENT: Final = "post_run_cell"


class _Result(Protocol):
    """An `IPython.core.interactiveshell.ExecutionResult`."""

    info: Any
    success: bool
    execution_count: int | None


class ExecutionLog:
    """One for a kernel. Main thread, but for `standings`."""

    def __init__(self, shell: Any, namespace: Callable[[], Mapping[str, object]], replay: Replay | None = None) -> None:
        """
        Args:
            shell: IPython's.
            namespace: the user's variables.
            replay: of the runs that were read ahead, the oldest that is remembered first.
        """
        self._shell = shell
        self.namespace = namespace
        self._replay = replay or Replay()
        last = self._replay.executions()[-1].number if replay else None
        for number, source in earlier_runs(shell, last or 0):
            self._replay.add(Execution(source, number))
        self.count = len(self._replay)
        """Runs so far, also those that were forgotten."""
        self._scratch: set[str] = set()
        """Names that code of no cell mentioned, not looked at since."""
        shell.events.register(_EVENT, self._on_ran)
        self.rows = RowLedger(shell, namespace)

    def close(self) -> None:
        """Hear of nothing any more."""
        if self._on_ran in self._shell.events.callbacks[_EVENT]:
            self._shell.events.unregister(_EVENT, self._on_ran)
        self.rows.close()

    def executions(self) -> list[Execution]:
        """All runs so far, in their order."""
        return self._replay.executions()

    def standings(self, cells: Sequence[Cell]) -> dict[str, CellStatus]:
        """Cell id to how it stands, for cells of code."""
        return cell_standings(cells, self._replay)

    def read(self) -> None:
        """Read the code that ran and that nobody read yet, so that a look at the cells finds it done. Any thread."""
        self._replay.read()

    def _on_ran(self, result: _Result) -> None:
        info = result.info
        number = result.execution_count
        source = info.raw_cell
        names = cell_names(source)
        if number is None:  # what it bound may be taken back
            self._scratch |= names.mentioned
            return
        namespace = self.namespace()
        is_open = bool(names.unknown) or any(step.act is Act.STAR for step in names.steps)
        if self._scratch:
            self._add(Execution("", marks=_marks(self._scratch - names.mentioned, namespace)))
            self._scratch = set()
        mentioned = namespace if is_open else _with_aliases(names.mentioned, namespace)
        cell_id = getattr(info, "cell_id", None)
        marks = _marks(mentioned, namespace)
        self._add(Execution(source, number, cell_id, result.success, marks, traced_reads(cell_id, namespace)))

    def _add(self, execution: Execution) -> None:
        self._replay.add(execution)
        self.count += 1
        if len(self._replay) > KEPT:
            self._replay = Replay(self._replay.executions()[KEPT // 10 :])


def _with_aliases(names: Iterable[str], namespace: Mapping[str, object]) -> set[str]:
    """These names, and all others of the same objects."""
    found = {name for name in names if name in namespace}
    objects = {id(namespace[name]) for name in found}
    return found | {name for name, value in namespace.items() if id(value) in objects}


def _marks(names: Iterable[str], namespace: Mapping[str, object]) -> dict[str, Mark]:
    return {name: variable_mark(namespace[name]) for name in names if name in namespace}


def variable_mark(value: object) -> Mark:
    """How a variable looks now."""
    if is_scalar(value):
        return Mark(0, (type_name(value), comparison_mark(value)), exact=True)
    look = value_fingerprint(value)
    if type(look) is int:
        return Mark(look)
    if type(look) is tuple:
        parts = cast("tuple[object, ...]", look)
        if parts[:1] == (id(value),):
            return Mark(id(value), parts[1:])
        return Mark(0, parts, exact=True)
    return Mark(0, look, exact=True)


_CELLS: Final = "ipyflow.data_model.cell"


def traced_reads(cell_id: str | None, names: Container[str]) -> frozenset[str]:
    """Those of these names that earlier cells bound and the cell read in its last run; empty where nobody traced it."""
    module: Any = sys.modules.get(_CELLS)
    if module is None or cell_id is None:
        return frozenset()
    try:
        parents = module.Cell.from_id(cell_id).dynamic_parents
        found = {str(symbol) for symbols in parents.values() for symbol in symbols}
    except Exception:  # noqa: BLE001 - another version of it, or a cell it does not know
        return frozenset()
    return frozenset(name for name in found if name in names)
