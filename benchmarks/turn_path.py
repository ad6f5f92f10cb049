"""How much of the package one warm turn crosses: files and calls, on all threads of a real kernel.

Counted with `sys.setprofile`, from IPython's ``pre_run_cell`` to its ``post_run_cell``: each call of a function, and
each time a generator or coroutine goes on. A warm turn is the third of its kind in one kernel. Time says little on a
busy machine; this says the same each time, but for a few calls that depend on how the threads met. Python before 3.12
counts a comprehension as a call.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.report import Row, report, size
from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.files.file_stamps import SETTLED
from vibe_jupyter.testing import call, say

WARM_UP: Final = size(2, 1)  # turns
ROUNDS: Final = size(5, 1)  # turns that are counted
ROWS_OF_DETAIL: Final = 40
PLAIN: Final = "plain answer"
CODE: Final = "run_code with a click"
AIMS: Final[dict[str, tuple[int, int | None]]] = {PLAIN: (70, 1_700), CODE: (80, None)}
"""Files and calls at most; None where there is no aim."""

COUNT = """
import sys, threading, types
from collections import Counter
from pathlib import Path
import vibe_jupyter

class TurnCount:
    root = str(Path(vibe_jupyter.__file__).parent) + "/"

    def __init__(self):
        self.cells, self.seen, self.last = 0, Counter(), Counter()

    def begin(self, *_):
        if not self.cells:
            self.last, self.seen = self.seen, Counter()
        self.cells += 1  # `run_code` runs a cell in the cell

    def end(self, *_):
        self.cells = max(0, self.cells - 1)

    def profile(self, frame, event, _):
        if self.cells and event == "call" and frame.f_code.co_filename.startswith(self.root):
            self.seen[frame.f_code.co_filename[len(self.root):], frame.f_code.co_qualname] += 1

count = TurnCount()
shell.events.register("pre_run_cell", count.begin)
shell.events.register("post_run_cell", count.end)
threading.setprofile(count.profile)
sys.setprofile(count.profile)
sys.modules["turn_count"] = types.SimpleNamespace(last=lambda: [[*key, times] for key, times in count.last.items()])
"""
BEGIN = f"exec({COUNT!r}, {{'shell': get_ipython()}})"
"""Leaves no name in the user's namespace: a turn looks at what is in it."""
SAY = "print(__import__('json').dumps(__import__('turn_count').last()))"


@dataclass(frozen=True)
class TurnPath:
    """What one turn crossed."""

    calls_by_function: Counter[tuple[str, str]]

    @property
    def files(self) -> int:
        """Files with a function that was called."""
        return len({file for file, _ in self.calls_by_function})

    @property
    def calls(self) -> int:
        """Calls of functions of the package."""
        return self.calls_by_function.total()


def main() -> int:
    """Print the table; 1 where an aim is missed."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", action="store_true", help="also list the files with their calls")
    options.add_argument("--functions", action="store_true", help="also list the functions that are called most")
    given = options.parse_args()
    os.environ["VIBE_SANDBOX__EXPLORE"] = "ask"  # else the code needs no click
    with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder)) as session:
        session.wire.run(BEGIN)
        time.sleep(SETTLED / 1e9)  # a file that was just written is read again for so long
        paths = {PLAIN: _least([_plain_turn(session) for _ in range(WARM_UP + ROUNDS)])}
        paths[CODE] = _least([_code_turn(session) for _ in range(WARM_UP + ROUNDS)])
    for name, path in paths.items():
        _print_detail(name, path, files=given.files, functions=given.functions)
    rows = [
        row
        for name, path in paths.items()
        for row in (
            Row(f"one warm turn, {name}: files", path.files, AIMS[name][0]),
            Row(f"one warm turn, {name}: calls", path.calls, AIMS[name][1]),
        )
    ]
    return report(rows)


def _print_detail(name: str, path: TurnPath, *, files: bool, functions: bool) -> None:
    if files:
        by_file: Counter[str] = Counter()
        for (file, _), times in path.calls_by_function.items():
            by_file[file] += times
        print(
            f"\n{name}: calls of each file", *(f"{times:>6}  {file}" for file, times in by_file.most_common()), sep="\n"
        )
    if functions:
        most = path.calls_by_function.most_common(ROWS_OF_DETAIL)
        print(
            f"\n{name}: calls of each function", *(f"{times:>6}  {file}: {it}" for (file, it), times in most), sep="\n"
        )


def _least(paths: list[TurnPath]) -> TurnPath:
    """The warm turn with the fewest calls: what others have more came of how the threads met."""
    return min(paths[WARM_UP:], key=lambda path: path.calls)


def _plain_turn(session: Session) -> TurnPath:
    session.model.will_reply(say("The answer is 42."))
    request = session.wire.send("%%vibe\nWhat is the answer?")
    session.view(request)
    return _path_of(session, request)


def _code_turn(session: Session) -> TurnPath:
    session.model.will_reply(call("run_code", code="answer = 6 * 7\nanswer"), say("It is 42."))
    request = session.wire.send("%%vibe\nCompute it.")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card())
    return _path_of(session, request)


def _path_of(session: Session, request: str) -> TurnPath:
    cell = session.wire.cell(request)
    if cell.error or "42" not in session.html(cell):
        raise SystemExit(f"The turn failed: {cell.error or cell.text or session.html(cell)}")
    said: list[tuple[str, str, int]] = json.loads(session.wire.run(SAY).text)
    return TurnPath(Counter({(file, function): times for file, function, times in said}))


if __name__ == "__main__":
    sys.exit(main())
