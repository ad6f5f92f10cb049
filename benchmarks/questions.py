"""How often the user is asked while the agent explores: with copies and sandboxes, and without.

Thirty sessions (`questions.toml`) are replayed call by call in a real kernel, once with `explore = "sandbox"` and once
with `explore = "ask"`, as it was before. Each card is approved, and each is one question. Then once more with the
sandbox and nobody there to approve anything: what is changed then was changed unasked.

Run it with ``python benchmarks/questions.py``; with ``--dseval FOLDER``, a checkout of DSEval, its problem sets are the
sessions: each reference answer is a call, that keeps what it binds where its question asks for variables.
"""

import argparse
import hashlib
import itertools
import json
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from benchmarks.dseval_sessions import ProblemSet, problem_sets
from benchmarks.report import Row, report, size
from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage, prompt
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import Call, answer, call, say

SESSIONS: Final = Path(__file__).with_name("questions.toml")
PATIENCE: Final = 5
"""Times that a page waits for a card or an end."""
AIM: Final = 0.15
"""Of the questions that were asked without copies and sandboxes."""
FILES: Final = {
    "notes.md": "# Sales\n\nTODO: ask for the rates\nTODO: look at March\n",
    "src/clean.py": """import sys


def strip_names(names):
    return names.str.strip()


if __name__ == "__main__":
    print(len(open(sys.argv[1]).readlines()))
""",
    "tests/test_clean.py": "def test_strips():\n    assert ' a '.strip() == 'a'\n",
    "logs/app.log": "".join(f"2026-01-0{n} {'ERROR no rates' if n == 3 else 'INFO done'}\n" for n in range(1, 8)),
    "data/sales.csv": "month,city,price,pieces,amount\n"
    + "".join(
        f"{1 + n % 11},{'ABC'[n % 3]},{'' if n % 7 == 3 else 2 + n % 5},{1 + n % 4},{(2 + n % 5) * (1 + n % 4)}\n"
        for n in range(240)
    ),
}
ACTIVATED: Final = """
import os, sys
os.environ['PATH'] = os.pathsep.join([f'{sys.prefix}/bin', os.environ['PATH'].removeprefix(f'{sys.prefix}/bin:')])
"""
"""The kernel's environment is the one that commands use, too."""
VARIABLES: Final = """
import pandas as pd
sales = pd.read_csv('data/sales.csv')
cities = pd.DataFrame({'city': ['A', 'B', 'C'], 'people': [10, 20, 30]})
times = pd.date_range('2026-01-01', periods=200, freq='h')
sensors = pd.DataFrame({'time': times, 'sensor': ['a', 'b'] * 100, 'value': [n % 9 + n / 50 for n in range(200)]})
"""
FORGET: Final = """
_own = {'In', 'Out', 'get_ipython', 'exit', 'quit', 'open'}
for _name in [name for name in globals() if name[0] != '_' and name not in _own]:
    del globals()[_name]
"""
LOOK: Final = """
_text = lambda value: value.to_csv() if hasattr(value, 'iloc') and not isinstance(value, type) else str(value)
print({name: (type(value).__name__, __import__('hashlib').sha256(_text(value).encode()).hexdigest())
       for name, value in list(globals().items()) if name[0] != '_' and name not in ('In', 'Out')})
"""
"""Prints all that a session can change in the kernel."""
OTHERS: Final = ("connection.json", "ipython", "kernel.log", "vibe")
"""In the folder, but not of the project: of the kernel, and what the agent keeps of the conversation."""
Explore = Literal["sandbox", "ask"]


class Recorded(NamedTuple):
    """One session."""

    task: str
    calls: Sequence[Call]
    user_keeps: bool
    """Whether, where nobody can approve, the user runs the calls that are to keep something: later ones need it."""
    given: str
    """Code that ran before."""
    files: Mapping[str, str | Path]
    """What each file of the project holds, or a file or folder to copy."""


class Replayed(NamedTuple):
    """What came of it."""

    task: str
    calls: int
    keeps: int
    """Calls that are to keep what they bind, and ask as ever."""
    before: int
    """Questions without copies and sandboxes."""
    now: int
    failed: tuple[int, int]
    """Calls that raised, before and now: code that fails in a copy and not in the kernel would be no exploring."""
    unasked: bool
    """Whether anything was changed while nobody could approve."""


def own_sessions() -> Iterator[Recorded]:
    """Those of `questions.toml`."""
    for row in itertools.islice(tomllib.loads(SESSIONS.read_text(encoding="utf-8"))["session"], size(None, 1)):
        yield Recorded(row["task"], [_call(*one) for one in row["calls"]], False, f"{ACTIVATED}\n{VARIABLES}", FILES)


def dseval_sessions(folder: Path) -> Iterator[Recorded]:
    """Those of a checkout of DSEval; says which are left out."""
    for one in problem_sets(folder):
        if isinstance(one, ProblemSet):
            calls = [_call("keep" if step.keep else "look", step.code) for step in one.steps]
            yield Recorded(one.name, calls, True, one.given, {"inputs": one.data})
        else:
            print(f"left out: {one}")


def _call(kind: str, text: str) -> Call:
    match kind:
        case "look":
            return call("run_code", code=text)
        case "keep":
            return call("run_code", code=text, keep=True)
        case "shell":
            return call("bash", command=text)
        case "read":
            return call("read_file", path=text)
        case _:
            return call("grep", pattern=text)


def replay(session: Session, one: Recorded) -> Replayed:
    """One session in all three ways."""
    (before, failed_before), (now, failed) = (_questions(session, explore, one) for explore in ("ask", "sandbox"))
    keeps = len(list(filter(_keeps, one.calls)))
    return Replayed(one.task, len(one.calls), keeps, before, now, (failed_before, failed), _unasked(session, one))


def _unasked(session: Session, one: Recorded) -> bool:
    """Whether calls change anything where nobody can approve."""
    _begin(session, "sandbox", one)
    changed = False
    for keeps, calls in itertools.groupby(one.calls, lambda each: one.user_keeps and _keeps(each)):
        if keeps:
            for each in calls:  # whatever it raises
                session.wire.cell(session.wire.send(json.loads(each.arguments)["code"]))
            continue
        state = _state(session)
        session.model.will_reply(*(answer(calls=[each]) for each in calls), say("Done."))
        session.run(f"%%vibe\n{one.task}")
        changed = changed or _state(session) != state
    return changed


def _keeps(call: Call) -> bool:
    return bool(json.loads(call.arguments).get("keep"))


def _questions(session: Session, explore: Explore, one: Recorded) -> tuple[int, int]:
    """How many cards are approved until it is over, and how many calls raise."""
    _begin(session, explore, one)
    session.model.will_reply(*(answer(calls=[each]) for each in one.calls), say("Done."))
    page = _PatientPage(session.wire)
    asked = page.allow_all(prompt(page, f"%%vibe\n{one.task}"))
    told = session.model.requests[-1].tool_results
    assert len(told) == len(one.calls), told
    return asked, sum(result.startswith("error") for result in told)


class _PatientPage(ClickedPage):
    """Waits for code that computes, on a busy machine too."""

    def until(self, happened: Callable[[], bool], what: str) -> None:
        for left in reversed(range(PATIENCE)):
            try:
                return super().until(happened, what)
            except AssertionError:
                if not left:
                    raise
        return None


def _begin(session: Session, explore: Explore, one: Recorded) -> None:
    for name, content in one.files.items():
        place = session.folder / name
        place.parent.mkdir(exist_ok=True)
        if isinstance(content, Path):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(content, place)
        else:
            place.write_text(content, encoding="utf-8")
    session.wire.run(f"import os; os.environ['VIBE_SANDBOX__EXPLORE'] = {explore!r}\n{FORGET}\n{one.given}")
    session.run("%vibe reset")
    session.model.requests.clear()


def _state(session: Session) -> tuple[str, dict[str, str]]:
    """What a session can change: variables, and files of the project."""
    files = [place for top in session.folder.iterdir() if top.name not in OTHERS for place in (top, *top.rglob("*"))]
    hashes = {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in files if one.is_file()}
    return session.wire.run(LOOK).text, hashes


def main() -> int:
    """Replay all, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--dseval", type=Path, metavar="FOLDER", help="a checkout of DSEval, whose sessions are replayed"
    )
    given = parser.parse_args()
    if refusal := machine_refusal():
        print(f"No sandbox on this machine: {refusal}")
        return 1
    return _replay_all(dseval_sessions(given.dseval) if given.dseval else own_sessions(), apart=bool(given.dseval))


def _replay_all(sessions: Iterable[Recorded], *, apart: bool) -> int:
    """Print a line for each; 1 where the aim is missed.

    Args:
        sessions: replayed in one kernel.
        apart: whether calls that are to keep something are no part of the aim: their task is to change variables.
    """
    rows: list[Replayed] = []
    print(f"{'session':52}{'calls':>7}{'keep':>6}{'before':>8}{'now':>6}{'raise':>8}")
    with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder)) as session:
        for one in sessions:
            rows.append(replay(session, one))
            print(_line(rows[-1], "  CHANGED UNASKED" if rows[-1].unasked else ""), flush=True)
    made, keeps, before, now = (sum(values) for values in zip(*(row[1:5] for row in rows), strict=True))
    failed = tuple(map(sum, zip(*(row.failed for row in rows), strict=True)))
    changed = any(row.unasked for row in rows)
    whole = Replayed(f"{len(rows)} sessions", made, keeps, before, now, (failed[0], failed[1]), changed)
    print(_line(whole, f"  {now / before:.0%}; aim {AIM:.0%}"))
    if apart:
        before, now = before - keeps, now - keeps
        looks = whole._replace(task="without calls to keep", keeps=0, before=before, now=now)
        print(_line(looks, f"  {now / before:.0%}"))
    return report(
        [
            Row("questions, of those without copies and sandboxes", now / max(before, 1), AIM),
            Row("sessions in which something changed unasked", sum(row.unasked for row in rows), 0.5),
        ]
    )


def _line(row: Replayed, more: str) -> str:
    failed = f"{row.failed[0]}/{row.failed[1]}"
    return f"{row.task:52}{row.calls:>7}{row.keeps:>6}{row.before:>8}{row.now:>6}{failed:>8}{more}"


if __name__ == "__main__":
    sys.exit(main())
