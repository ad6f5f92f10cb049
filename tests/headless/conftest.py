"""What these tests have in common: kernels that cost little."""

import pytest


@pytest.fixture(autouse=True)
def _kernels(forked_kernels: None) -> None:
    pass
