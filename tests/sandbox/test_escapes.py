"""Nothing that code does in a copy of the kernel reaches anything outside the copy. Real kernels, real attempts."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import kernels, target_of
from tests.kernel.matrix import WITH_PANDAS, with_pandas
from tests.kernel.wire import Wire, running_kernel
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal, overlay_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
ROWS, OF_OVERLAY = (
    {row["name"]: row for row in tomllib.loads(Path(__file__).with_name(file).read_text())["escape"]}
    for file in ("escapes.toml", "overlay_escapes.toml")
)
POWERLESS = """
import ctypes, struct
from vibe_jupyter.sandbox.system_calls import capabilities, system_call
head, kept = struct.pack("II", 0x20080522, 0), struct.pack("6I", 1 << 31, 1 << 31, 0, 0, 0, 0)
_ = capabilities() and system_call("capset", ctypes.create_string_buffer(head), ctypes.create_string_buffer(kept))
"""
"""Of root's rights it keeps the one to be root in a namespace, too; others need none for being themselves."""

HEAVY = frozenset({"matplotlib savefig", "duckdb COPY TO"})
"""Libraries that take seconds of computing to be imported, and write as others do."""
NAMES = [further(name) if name in HEAVY else name for name in ROWS]
FEW = [*OF_OVERLAY, *(name if place % 10 == 0 else further(name) for place, name in enumerate(ROWS))]
"""What has files of its own is confined by the same steps as what has none, and some more."""
WITH_FILES = [
    *(pytest.param(name, marks=pytest.mark.attack("copies with files", always=True)) for name in OF_OVERLAY),
    *FEW[len(OF_OVERLAY) :],
]

TOGETHER = {
    writes: [name for name in names if name not in HEAVY and not (ROWS | OF_OVERLAY)[name].get("alone")]
    for writes, names in ((False, list(ROWS)), (True, [*OF_OVERLAY, *list(ROWS)[::10]]))
}
"""What one copy can make after another; by whether it has files of its own."""
IN_ONE_COPY = 16


class Attempts:
    """What attempts in copies of one kernel came to, each made when it is first asked for, with those of its copy."""

    def __init__(self, kernel: Wire) -> None:
        kernel.run("from tests.sandbox.escape_world import *")
        kernel.cell(kernel.send("1 / 0"))  # what formats errors is imported here once, not in every copy
        self._kernel = kernel
        self._made: dict[tuple[str, bool], dict[str, Any]] = {}

    def alone(self, name: str, *, writes: bool) -> dict[str, Any]:
        """In a copy of its own, as the model has code run."""
        return json.loads(self._kernel.run(f"attempt({name!r}, writes={writes})").text)

    def outcome(self, name: str, *, writes: bool) -> dict[str, Any]:
        """In a copy with others, where it can be."""
        several = TOGETHER[writes]
        if name not in several:
            return self.alone(name, writes=writes)
        if (name, writes) not in self._made:
            start = several.index(name) // IN_ONE_COPY * IN_ONE_COPY
            batch = several[start : start + IN_ONE_COPY]
            told = json.loads(self._kernel.run(f"attempts({batch!r}, writes={writes})").text)
            self._made |= {(one, writes): outcome for one, outcome in told.items()}
        if (name, writes) not in self._made:  # another ended the copy before
            return self.alone(name, writes=writes)
        return self._made[name, writes]


@pytest.fixture(scope="module", params=kernels())
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempts]:
    with running_kernel(with_pandas(target_of(request.param)), tmp_path_factory.mktemp("escapes")) as wire:
        yield Attempts(wire)


@pytest.fixture(scope="module")
def powerless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempts]:
    """A kernel that may mount something in a user namespace alone, and read no file of others."""
    with running_kernel(WITH_PANDAS, tmp_path_factory.mktemp("powerless")) as wire:
        wire.run(POWERLESS)
        yield Attempts(wire)


@pytest.mark.attack("copies of the kernel", always=True)
@pytest.mark.parametrize("name", NAMES)
def test_no_attempt_gets_out_of_a_copy(kernel: Attempts, name: str) -> None:
    has_no_effect(kernel.outcome(name, writes=False))


@pytest.mark.parametrize("name", WITH_FILES)
def test_no_attempt_gets_out_of_a_copy_that_has_files_of_its_own(kernel: Attempts, name: str) -> None:
    try_with_files(kernel, name)


@pytest.mark.parametrize("name", FEW)
def test_no_attempt_gets_out_of_a_copy_in_a_user_namespace(powerless: Attempts, name: str) -> None:
    try_with_files(powerless, name)


@pytest.mark.matrix
@pytest.mark.parametrize("name", ROWS)
def test_no_attempt_by_itself_gets_out_of_a_copy(kernel: Attempts, name: str) -> None:
    has_no_effect(kernel.alone(name, writes=False))


@pytest.mark.matrix
@pytest.mark.parametrize("name", OF_OVERLAY)
def test_no_attempt_by_itself_gets_out_of_a_copy_in_a_user_namespace(powerless: Attempts, name: str) -> None:
    try_with_files(powerless, name, by_itself=True)


def try_with_files(kernel: Attempts, name: str, *, by_itself: bool = False) -> None:
    if overlay_refusal():
        pytest.skip("no overlay on this machine")
    told = (kernel.alone if by_itself else kernel.outcome)(name, writes=True)
    assert name in ROWS or told["said"] != "NOT EXPLORED", "an attempt that was not made"
    has_no_effect(told)
    assert told["disk"], told["said"]


def has_no_effect(told: dict[str, Any]) -> None:
    assert not told["escaped"], told["said"]
    assert "NameError" not in told["said"], "an attempt that was not made"
    assert "SyntaxError" not in told["said"], "an attempt that was not made"
