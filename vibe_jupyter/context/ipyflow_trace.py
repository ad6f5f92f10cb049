"""What ipyflow saw a cell read while it ran, where the user has loaded it. Nothing of it is imported here."""

import sys
from collections.abc import Container
from typing import Any, Final

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
