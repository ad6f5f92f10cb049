"""A few tries of each sweep; `make sweeps` runs them whole."""

import pytest

from tests.sweeps import SWEEPS, load, sample_of
from tests.tiers import further

PROVED_ELSEWHERE = frozenset(
    [
        "copies",  # sandbox/test_copies.py
        "gateway_kills",  # gateway/test_workers.py
        "held",  # browser/test_dead_kernel.py, browser/test_mid_run.py
        "kills",  # tools/test_atomic_write.py, tools/test_bash.py, session/test_journal.py; and by kills_resumed
        "places_with_card",  # by places
        "trial_runs",  # sandbox/test_foresight.py
        "withheld_values",  # app/test_privacy.py
    ]
)


@pytest.mark.parametrize("name", [further(name) if name in PROVED_ELSEWHERE else name for name in SWEEPS])
def test_a_sample_of_the_sweep_passes(name: str) -> None:
    sweep, whole = load(name)
    assert list(sweep(sample_of(whole), 1)) == []
