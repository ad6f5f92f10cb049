"""How often the user is asked while the agent explores: with copies and sandboxes, and without.

Thirty sessions (`questions.toml`) are replayed call by call in a real kernel, once with `explore = "sandbox"` and once
with `explore = "ask"`, as it was before. Each card is approved, and each is one question. Then once more with the
sandbox and nobody there to approve anything: what is changed then was changed unasked.

Run it with ``python benchmarks/questions.py``.
"""

import hashlib
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.test_agent import ClickedPage, prompt
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import Call, answer, call, say

SESSIONS: Final = Path(__file__).with_name("questions.toml")
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
LOOK: Final = """
print({name: type(value).__name__ for name, value in list(globals().items()) if name[0] != '_'},
      [one.to_csv() for one in (sales, cities, sensors)])
"""
"""Prints all that a session can change in the kernel."""
Explore = Literal["sandbox", "ask"]


class Replayed(NamedTuple):
    """One session."""

    task: str
    calls: int
    before: int
    """Questions without copies and sandboxes."""
    now: int
    unasked: bool
    """Whether anything was changed while nobody could approve."""


def sessions() -> list[tuple[str, list[Call]]]:
    """The task of each, and its calls."""
    rows = tomllib.loads(SESSIONS.read_text(encoding="utf-8"))["session"]
    return [(row["task"], [_call(*one) for one in row["calls"]]) for row in rows]


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


def replay(session: Session, task: str, calls: Sequence[Call]) -> Replayed:
    """One session in all three ways."""
    before, now = (_questions(session, explore, task, calls) for explore in ("ask", "sandbox"))
    _begin(session, "sandbox", calls)
    state = _state(session)
    session.run(f"%%vibe\n{task}")
    return Replayed(task, len(calls), before, now, _state(session) != state)


def _questions(session: Session, explore: Explore, task: str, calls: Sequence[Call]) -> int:
    """How many cards are approved until it is over."""
    _begin(session, explore, calls)
    page = ClickedPage(session.wire)
    asked = page.allow_all(prompt(page, f"%%vibe\n{task}"))
    told = session.model.requests[-1].tool_results
    assert len(told) == len(calls), told
    return asked


def _begin(session: Session, explore: Explore, calls: Sequence[Call]) -> None:
    for name, text in FILES.items():
        place = session.folder / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    session.wire.run(f"{ACTIVATED}\nos.environ['VIBE_SANDBOX__EXPLORE'] = {explore!r}\n{VARIABLES}")
    session.run("%vibe reset")
    session.model.requests.clear()
    session.model.will_reply(*(answer(calls=[one]) for one in calls), say("Done."))


def _state(session: Session) -> tuple[str, dict[str, str]]:
    """What a session can change: variables, and files of the project."""
    files = [place for place in session.folder.rglob("*") if place.is_file() and _is_of_project(place, session.folder)]
    return session.wire.run(LOOK).text, {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def _is_of_project(place: Path, folder: Path) -> bool:
    """Not what the agent keeps of the conversation, nor what the kernel does."""
    return place.relative_to(folder).parts[0] in {Path(name).parts[0] for name in (*FILES, "summary.csv")}


def main() -> int:
    """Replay all, and print."""
    if refusal := machine_refusal():
        print(f"No sandbox on this machine: {refusal}")
        return 0
    rows: list[Replayed] = []
    print(f"{'session':52}{'calls':>7}{'before':>8}{'now':>6}")
    with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder)) as session:
        for task, calls in sessions():
            row = replay(session, task, calls)
            rows.append(row)
            mark = "  CHANGED UNASKED" if row.unasked else ""
            print(f"{row.task:52}{row.calls:>7}{row.before:>8}{row.now:>6}{mark}", flush=True)
    made, before, now = (sum(values) for values in zip(*(row[1:4] for row in rows), strict=True))
    print(f"{'all':52}{made:>7}{before:>8}{now:>6}   {now / before:.0%}; aim {AIM:.0%}")
    return 0 if now <= AIM * before and not any(row.unasked for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
