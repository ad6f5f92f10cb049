"""Nothing that code does in a copy of the kernel reaches anything outside the copy. Real kernels, real attempts."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import kernels, target_of
from tests.kernel.wire import Wire, running_kernel
from vibe_jupyter.sandbox.availability import machine_refusal

pytestmark = pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine")
NAMES = [row["name"] for row in tomllib.loads(Path(__file__).with_name("escapes.toml").read_text())["escape"]]


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
