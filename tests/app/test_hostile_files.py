"""Files of an untrusted folder that are to stall a prompt: each costs at most a second of CPU more."""

from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from threading import Event

import psutil
import pytest

from tests.app.conftest import Session, running_session
from tests.app.hostile_files import HOSTILE
from tests.kernel.matrix import INSTALLED
from tests.tiers import further
from vibe_jupyter.testing import hold, say

pytestmark = [pytest.mark.xdist_group("app"), pytest.mark.attack("untrusted folders")]

MOST = 1.0
"""Seconds of CPU that a prompt takes more."""
SPENT = "import os; print(sum(os.times()[:4]))"
WATCHED = """
import os, sys
folder, unseen = os.getcwd(), False
def watch(event, args):
    global unseen
    if unseen and event in {"open", "os.scandir", "os.listdir"} and str(args[0]).startswith(folder):
        unseen = False
        print("reading", flush=True)
sys.addaudithook(watch)
"""
"""Makes a kernel print when the first file of its folder is read, each time that `unseen` is set."""
SAMPLE = (
    "key of 12,000 parts",
    "array of many lines",
    "400 agents of many lines",
    "settings are a pipe",
    "deep folders",
)
"""What `make test` tries."""
WORST = ("many servers", "400 agents of many lines", "key of 12,000 parts")
"""What takes the longest to read, as far as it is read."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("hostile")) as session:
        session.run(WATCHED)
        cost_of_prompt(session)
        yield session


def cost_of_prompt(session: Session) -> float:
    """Seconds of CPU of the first prompt of a conversation; it must be answered."""
    session.run("%vibe reset")
    session.model.will_reply(say("Hello."))
    began = float(session.run(SPENT).text)
    session.run("%vibe hi")
    return float(session.run(SPENT).text) - began


@pytest.mark.requirement("config.trust.interrupt")
@pytest.mark.parametrize("name", [WORST[0], *map(further, WORST[1:])])
def test_an_interrupt_while_hostile_files_are_read_ends_the_prompt(kernel: Session, name: str) -> None:
    process = psutil.Process(int(kernel.run("import os; print(os.getpid())").text))
    there, never = set(kernel.folder.iterdir()), Event()
    HOSTILE[name](kernel.folder)
    try:
        kernel.run("%vibe reset")
        kernel.model.will_reply(hold(never))
        request = kernel.wire.send("unseen = True\n%vibe hi", allow_stdin=False)
        kernel.wire.until_printed(request, "reading")
        kernel.wire.interrupt()
        began = cpu_of(process)
        assert "RunStopped" in kernel.wire.cell(request).error
        assert cpu_of(process) - began < MOST
    finally:
        never.set()
        for path in set(kernel.folder.iterdir()) - there:
            remove(path)


def cpu_of(process: psutil.Process) -> float:
    """Seconds of CPU of a kernel and of the programs that it started and that ended."""
    return sum(process.cpu_times()[:4])


@pytest.mark.requirement("config.trust.stall")
@pytest.mark.parametrize("name", [name if name in SAMPLE else further(name) for name in HOSTILE])
def test_no_file_of_an_untrusted_folder_stalls_a_prompt(kernel: Session, name: str) -> None:
    there = set(kernel.folder.iterdir())
    usual = cost_of_prompt(kernel)
    HOSTILE[name](kernel.folder)
    try:
        assert cost_of_prompt(kernel) - usual < MOST
    finally:
        for path in set(kernel.folder.iterdir()) - there:
            remove(path)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        rmtree(path)
    else:
        path.unlink()
