"""Three hundred objects as notebooks hold them: each is described, none runs code or fails."""

import logging
import threading

import pytest

from tests.patience import patient
from tests.variables.hostile import ran
from vibe_jupyter.variables.describe import describe_value, value_fingerprint, value_kind, value_line

pytestmark = pytest.mark.xdist_group("libraries")
SECONDS = patient(60.0)
"""Bound on looking at all of them; a hostile one hangs for good."""
OBJECTS, KINDS = 300, 60
LINE, TEXT = 600, 12_000
"""Characters of one line and of one description."""


@pytest.mark.requirement("notebook.variables.safe")
def test_every_object_is_described_within_bounds_and_none_runs_code(caplog: pytest.LogCaptureFixture) -> None:
    from tests.variables.corpus import FAMILIES

    corpus = [entry for family in FAMILIES for entry in family()]
    ran.clear()
    caplog.clear()
    caplog.set_level(logging.WARNING, logger="vibe_jupyter")
    wrong: dict[str, str] = {}
    told: set[str] = set()
    seen: list[str] = []

    def look() -> None:
        for name, value, word in corpus:
            line, described = value_line(value), describe_value(value)
            said = f"{line}\n{described.headline}\n{described.body}"
            value_fingerprint(value)
            if word not in said or len(line) > LINE or len(said) > TEXT or "could not be described" in said or ran:
                wrong[name] = f"{word!r} {ran} {len(line)} {len(said)} {said[:300]}"
            elif word:
                told.add(value_kind(value))
            seen.append(name)
            ran.clear()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(SECONDS)

    assert wrong == {}
    assert len(seen) == len(corpus), f"hangs after {seen[-1]}"
    assert [record.getMessage() for record in caplog.records if record.name.startswith("vibe_jupyter")] == []
    assert len({name for name, _, _ in corpus}) == len(corpus) >= OBJECTS
    assert len(told) >= KINDS
