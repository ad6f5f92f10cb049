"""What `make test` leaves to `make test-matrix`: further values of a test whose promise one of them proves."""

from typing import Any

import pytest

LEFT_OUT = "not matrix"
"""What pyproject.toml selects: `make test`."""

_chosen = {"matrix": True}


def choose_tier(selection: str) -> None:
    """Take what `-m` selects: where that leaves the matrix out, its parameters are not even made."""
    _chosen["matrix"] = selection != LEFT_OUT


def runs_matrix() -> bool:
    """Whether tests of the matrix may be selected."""
    return _chosen["matrix"]


def further(*values: object, **named: Any) -> Any:
    """As `pytest.param`, run by `make test-matrix` alone."""
    return pytest.param(*values, marks=pytest.mark.matrix, **named)
