"""A request of the kernel that cannot be met; the same as `labextension/src/bridge/failure.ts`."""

from typing import Any, Literal

Code = Literal["unknown_cell", "stale_cell", "read_only", "not_finished", "bad_request", "closed"]


class Refusal(Exception):
    """Sent as the answer; the kernel turns it into words for the model."""

    def __init__(self, code: Code, message: str, **data: Any) -> None:
        super().__init__(message)
        self.code: Code = code
        self.data = data


def unknown_cell(cell: str) -> Refusal:
    """No cell has this id."""
    return Refusal("unknown_cell", f"There is no cell {cell} in this notebook.", cell=cell)
