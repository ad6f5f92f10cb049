"""Kernels to test on: the installed ipykernel, and older ones with the marker matrix."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.matrix import INSTALLED, MORE, OLDEST, PYTHONS, Target, ipykernel, other_python
from tests.kernel.wire import Wire, running_kernel
from tests.tiers import runs_matrix

DRIVER = "from tests.kernel.driver import *"


def kernels() -> list[object]:
    """One parameter for each kernel; what runs on one kernel stays on one worker."""
    names = ["installed", *((OLDEST, *MORE, *(f"py{version}" for version in PYTHONS)) if runs_matrix() else ())]
    return [
        pytest.param(
            name,
            marks=[
                pytest.mark.xdist_group(f"kernel-{name}"),
                *([pytest.mark.matrix] if name != "installed" else []),
            ],
            id=name,
        )
        for name in names
    ]


def target_of(name: str) -> Target:
    """The kernel of a name that `kernels` gives; skips the test where its Python is not installed."""
    if name == "installed":
        return INSTALLED
    if not name.startswith("py"):
        return ipykernel(name)
    found = other_python(name.removeprefix("py"))
    if found is None:
        pytest.skip(f"Python {name.removeprefix('py')} is not installed here")
    return found


@pytest.fixture(scope="module", params=kernels())
def target(request: pytest.FixtureRequest) -> Target:
    return target_of(request.param)


@pytest.fixture(scope="module")
def shared_kernel(target: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(target, tmp_path_factory.mktemp("kernel")) as wire:
        wire.run(DRIVER)
        yield wire


@pytest.fixture
def kernel(shared_kernel: Wire) -> Wire:
    """A kernel that the tests of a module share, with the driver in it."""
    shared_kernel.run("forget()")
    return shared_kernel


@pytest.fixture
def fresh_kernel(target: Target, tmp_path: Path) -> Iterator[Wire]:
    """A kernel of its own, with nothing in it."""
    with running_kernel(target, tmp_path) as wire:
        yield wire
