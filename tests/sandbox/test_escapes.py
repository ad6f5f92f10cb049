"""Nothing that code does in a copy of the kernel reaches anything outside the copy. Real kernels, real attempts."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import kernels, target_of
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Wire, running_kernel
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal, overlay_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
NAMES, OF_OVERLAY = (
    [row["name"] for row in tomllib.loads(Path(__file__).with_name(file).read_text())["escape"]]
    for file in ("escapes.toml", "overlay_escapes.toml")
)

POWERLESS = """
import ctypes, struct
from vibe_jupyter.sandbox.system_calls import capabilities, system_call
head, kept = struct.pack("II", 0x20080522, 0), struct.pack("6I", 1 << 31, 1 << 31, 0, 0, 0, 0)
_ = capabilities() and system_call("capset", ctypes.create_string_buffer(head), ctypes.create_string_buffer(kept))
"""
"""Of root's rights it keeps the one to be root in a namespace, too; others need none for being themselves."""

FEW = [*OF_OVERLAY, *(name if place % 10 == 0 else further(name) for place, name in enumerate(NAMES))]
"""What has files of its own is confined by the same steps as what has none, and some more."""


@pytest.fixture(scope="module", params=kernels())
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running_kernel(target_of(request.param), tmp_path_factory.mktemp("escapes")) as wire:
        wire.run("from tests.sandbox.escape_world import *")
        yield wire


@pytest.mark.parametrize("name", NAMES)
def test_no_attempt_gets_out_of_a_copy(kernel: Wire, name: str) -> None:
    told = json.loads(kernel.run(f"attempt({name!r})").text)
    assert not told["escaped"], told["said"]
    assert "NameError" not in told["said"], "an attempt that was not made"
    assert "SyntaxError" not in told["said"], "an attempt that was not made"


@pytest.mark.parametrize("name", FEW)
def test_no_attempt_gets_out_of_a_copy_that_has_files_of_its_own(kernel: Wire, name: str) -> None:
    try_with_files(kernel, name)


@pytest.fixture(scope="module")
def powerless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """A kernel that may mount something in a user namespace alone, and read no file of others."""
    with running_kernel(INSTALLED, tmp_path_factory.mktemp("powerless")) as wire:
        wire.run(POWERLESS)
        wire.run("from tests.sandbox.escape_world import *")
        yield wire


@pytest.mark.parametrize("name", FEW)
def test_no_attempt_gets_out_of_a_copy_in_a_user_namespace(powerless: Wire, name: str) -> None:
    try_with_files(powerless, name)


def try_with_files(kernel: Wire, name: str) -> None:
    if overlay_refusal():
        pytest.skip("no overlay on this machine")
    told = json.loads(kernel.run(f"attempt({name!r}, writes=True)").text)
    assert name in NAMES or told["said"] != "NOT EXPLORED", "an attempt that was not made"
    assert not told["escaped"], told["said"]
    assert told["disk"], told["said"]
    assert "NameError" not in told["said"], "an attempt that was not made"
    assert "SyntaxError" not in told["said"], "an attempt that was not made"
