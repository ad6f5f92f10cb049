"""A thread swaps a folder, and a file in it, for links that lead out, while whole runs read, write, edit and search.

Scripted model, `prepare`, `decide`, `run`: nothing of the product is left out, and nothing in between asks whether a
place is inside. A saved permission lets writes and edits run unasked; what would ask then is denied, since nobody is
there.
"""

import asyncio
import ctypes
import gc
import itertools
import os
import random
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.agent.conftest import Bench
from tests.tools.conftest import snapshot
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import ApprovalRequested, Approve, Command, Event, MessageAdded, Reject, ToolFinished
from vibe_jupyter.testing import Call, ScriptedAnswer, ScriptedModel, answer, call, say
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.tools.contract import StaticToolset
from vibe_jupyter.tools.grep import GrepTool
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceTool
from vibe_jupyter.tools.write_file import WriteFileTool

COUNT = 10_000
"""Tool calls."""
AT_ONCE = 40
"""Calls of one run."""
WITHOUT_RIPGREP = 4
"""One run in so many searches in Python."""
MEANINGFUL = 500
"""Tries from which on the race must have been met, and calls must have come through."""
SECRET = "TOPSECRET outside"
_EDIT = "<<<<<<< SEARCH\nx = {}\n=======\nx = {}\n>>>>>>> REPLACE"
_EXCHANGE = 2
"""Flag of renameat2: both names change places, and at no moment is one missing."""
_HERE = -100
_DESCRIPTORS = "/proc/self/fd"
_STRAY = 5
"""Open descriptors more or less that are of other threads: a connection of the scripted model that is closing."""


def sweep(count: int, seed: int) -> Iterator[str]:
    """A line for each call that got out."""
    return race(count, seed, asks=False)


def race(count: int, seed: int, *, asks: bool) -> Iterator[str]:
    """The same with cards, each answered after a moment: what leads outside is refused, all else approved."""
    chance, came = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, ScriptedModel(_script(chance)) as model:
        tree, open_at_first = _Tree(Path(folder)), 0
        for number in itertools.count():
            if sum(came.values()) >= count:
                break
            before = tree.around()
            with tree.swapped(random.Random(seed + number)), _engine(python=number % WITHOUT_RIPGREP == 0):
                events = asyncio.run(_run(tree, model, chance, number, asks=asks))
            came.update(_came(event) for event in events if isinstance(event, ToolFinished))
            for event in events:
                if isinstance(event, MessageAdded | ToolFinished) and SECRET in event.model_dump_json():
                    yield f"run {number}: text from outside: {event.model_dump_json()[:300]}"
            if (after := tree.around()) != before:
                changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
                yield f"run {number}: written outside or into .git/hooks: {', '.join(changed)}"
            tree.renew()
            gc.collect()
            open_now = len(os.listdir(_DESCRIPTORS)) if os.path.isdir(_DESCRIPTORS) else 0
            open_at_first = open_at_first or open_now
            if open_now > open_at_first + _STRAY:
                yield f"run {number}: {open_now} descriptors are open, {open_at_first} after the first run"
    print(f"  of {sum(came.values())} calls: {dict(came)}", flush=True)
    if count >= MEANINGFUL and min(came["ok"], came["changed"], came["denied"]) < count // 200:
        yield f"the race was hardly met: {dict(came)}"


def _came(finished: ToolFinished) -> str:
    """What came of a call; "changed" where its place was another one between the decision and the run."""
    return "changed" if finished.outcome == "error" and "was changed" in finished.summary else finished.outcome


async def _run(tree: "_Tree", model: ScriptedModel, chance: random.Random, number: int, *, asks: bool) -> list[Event]:
    """One run to its end."""
    bench = Bench(tree.parent / "sessions" / str(number), model)
    bench.permissions.workspace = workspace = Workspace(tree.project)
    files = FileAccess(workspace)
    bench.tools = StaticToolset(
        [ReadFileTool(workspace), GrepTool(workspace), WriteFileTool(files), SearchReplaceTool(files)]
    )
    names = [spec.name for spec in bench.tools.specs()]
    bench.permissions.levels = dict.fromkeys(names, "ask") if asks else {}
    for name in names if not asks else ():
        bench.permissions.grant(name)
    moment = threading.Event()

    def decide(request: ApprovalRequested) -> Command:
        moment.wait(chance.uniform(0, 0.005))
        if request.remember_as is None:  # another place, or a protected one
            return Reject(approval_id=request.approval_id)
        return Approve(approval_id=request.approval_id)

    try:
        return await bench.ask("go", decide=decide if asks else None, terms=RunTerms(attended=asks))
    finally:
        await bench.client.close()
        bench.journal.close()


def _script(chance: random.Random) -> Any:
    """A model that makes many calls at once, and is content with the results."""

    def reply(request: ModelRequest) -> ScriptedAnswer:
        return say("Done.") if request.tool_results else answer(calls=[_call(chance) for _ in range(AT_ONCE)])

    return reply


def _call(chance: random.Random) -> Call:
    number, name = chance.randrange(10**9), chance.choice(("main.py", "deep/low.py"))
    match chance.choices(("read", "new", "overwrite", "edit", "grep"), (3, 3, 2, 2, 1))[0]:
        case "read":
            return call("read_file", path=f"src/{name}", offset=chance.randrange(2))
        case "new":
            return call("write_file", path=f"src/{chance.choice(('', 'made/'))}{number}.txt", content="new\n")
        case "overwrite":
            return call("write_file", path=f"src/{name}", content=f"x = {chance.randrange(3)}\n", overwrite=True)
        case "edit":
            block = _EDIT.format(chance.randrange(3), chance.randrange(3))
            return call("search_replace", file_path=f"src/{name}", content=block)
        case _:
            return call(
                "grep", pattern=chance.choice(("x", "outside")), path=chance.choice((".", "src", "src/main.py"))
            )


class _Tree:
    """A project, what lies around it, and the links that take the places of its folder and its file."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent.resolve()
        self.project, self.outside = self.parent / "proj", self.parent / "outside"
        self.hooks = self.project / ".git/hooks"
        for folder in (self.project / "src/deep", self.outside / "deep", self.hooks / "deep"):
            folder.mkdir(parents=True)
        for folder, text in ((self.outside, f"x = 1\n# {SECRET}\n"), (self.hooks, "x = 1\n")):  # hooks may be read
            for name in ("main.py", "deep/low.py"):
                (folder / name).write_text(text, encoding="utf-8")
        for name, target in (("out", self.outside), ("hooks", self.hooks)):
            (self.parent / name).symlink_to(target)
            (self.parent / f"{name}.py").symlink_to(target / "main.py")
        self.renew()

    def renew(self) -> None:
        """The project's own files as they were."""
        for name in ("main.py", "deep/low.py"):
            place = self.project / "src" / name
            place.unlink(missing_ok=True)
            place.write_text("x = 1\n", encoding="utf-8")

    def around(self) -> dict[str, object]:
        """All that no call may change or make."""
        hooks = {f".git/hooks/{name}": entry for name, entry in snapshot(self.hooks).items()}
        return {**snapshot(self.outside), **hooks}

    @contextmanager
    def swapped(self, chance: random.Random) -> Generator[None]:
        """A thread swaps as fast as it can, and leaves all as it was."""
        stop = threading.Event()
        pairs = [
            (self.project / "src", self.parent / chance.choice(("out", "hooks"))),
            (self.project / "src/main.py", self.parent / chance.choice(("out.py", "hooks.py"))),
        ]

        def swap() -> None:
            while not stop.is_set():
                one, other = chance.choice(pairs)
                _exchange(one, other)
                stop.wait(chance.choice((0, 0, 0.0005)))
                _exchange(one, other)
                stop.wait(chance.choice((0, 0, 0.0005)))

        swapper, interval = threading.Thread(target=swap), sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # so that they meet in the middle of a call
        swapper.start()
        try:
            yield
        finally:
            stop.set()
            swapper.join()
            sys.setswitchinterval(interval)


@contextmanager
def _engine(*, python: bool) -> Generator[None]:
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere" if python else f"{Path(sys.executable).parent}{os.pathsep}{path}"
    try:
        yield
    finally:
        os.environ["PATH"] = path


def _exchange(one: Path, other: Path) -> None:
    if sys.platform != "linux":  # three steps, between which a name is missing
        aside = other.with_name(f"{other.name}.aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
        return
    if ctypes.CDLL(None, use_errno=True).renameat2(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")
