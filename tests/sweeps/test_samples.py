"""A hundredth of each sweep; `make sweeps` runs them whole."""

import pytest

from tests.sweeps import SWEEPS, load, sample_of


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sample_of_the_sweep_passes(name: str) -> None:
    sweep, whole = load(name)
    assert list(sweep(sample_of(whole), 1)) == []
