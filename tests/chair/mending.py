"""Plays bad calls in a real notebook with its kernel: the bad call, then what a mender makes of the answer."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.chair.bad_calls import BadCall
from tests.chair.desk import Desk
from tests.chair.mender import Attempt, mend
from vibe_jupyter.testing import Call, ModelRequest, ScriptedAnswer, ScriptedModel, answer, say

MOST_CALLS = 3
"""Calls after the bad one that a mender may make."""
CONVERSATION = 10
"""Cases of one."""
_SHOWN = 400
"""Characters of a call and of an answer in a story."""
BASE = (
    'import pandas as pd\nflats = pd.DataFrame({"city": ["Bern", "Basel", "Chur"], "price": [1.5, 2.0, 3.25], '
    '"rooms": [1, 2, 3]})',
    'config = {"alpha": 0.1, "beta": 0.2}',
)
_CONFIG = """\
active_model = "mender"
[[providers]]
name = "mender"
api_base = "{url}"
[[models]]
name = "{name}"
provider = "mender"
alias = "mender"
"""


@dataclass
class Outcome:
    """What became of one bad call."""

    case: BadCall
    wants: str
    """Part of the result once the call is mended, its placeholders filled."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """The bad call, and those that the mender made."""
    offered: frozenset[str] = frozenset()
    """Tools in the requests."""

    @property
    def tool(self) -> str:
        """That was meant."""
        return self.case.tool or _bare_name(self.case.name)

    @property
    def was_refused(self) -> bool:
        """Whether the bad call failed at first."""
        return self.attempts[0].failed

    @property
    def is_mended(self) -> bool:
        """Whether the last call did what was meant."""
        last = self.attempts[-1]
        return last.failed == self.case.needs_user and _bare_name(last.name) == self.tool and self.wants in last.result

    @property
    def at_once(self) -> bool:
        """Whether the first call of the mender did it, or none was needed."""
        return self.is_mended and len(self.attempts) <= 2

    def story(self) -> str:
        """Calls and answers, for whoever mends the answer."""
        lines = [f"{one.name} {one.arguments[:_SHOWN]}\n  -> {one.result[:_SHOWN]}" for one in self.attempts]
        return f"{self.case.kind}, wanted {self.wants!r}:\n" + "\n".join(lines)


def _bare_name(name: str) -> str:
    return re.split(r"[.:/]", name)[-1].lower()


class MendingDesk:
    """One notebook, kernel and model for all cases; a conversation has several, each a run with cells of its own."""

    def __init__(self, folder: Path, home: Path) -> None:
        self._model = ScriptedModel(self._reply, name="mender").start()
        (home / "config.toml").write_text(_CONFIG.format(url=self._model.url, name=self._model.name), encoding="utf-8")
        self._home = home
        self._folder = folder
        self._desk = Desk(folder, BASE)
        self._desk.run_all()
        self._kept = list(self._desk.document.order)
        self._calls: Iterator[ScriptedAnswer] = iter(())
        self._seen: list[ModelRequest] = []
        self._played = 0

    def __enter__(self) -> Self:
        """The desk."""
        return self

    def __exit__(self, *_: object) -> None:
        """End kernel and model."""
        self._desk.__exit__(None, None, None)
        self._model.stop()

    def play(self, case: BadCall) -> Outcome:
        """Do one case."""
        desk = self._desk
        for cell in [one for one in desk.document.order if one not in self._kept]:
            desk.delete(cell)
        if self._played % CONVERSATION == 0:
            desk.delete(desk.run_line("%vibe reset"))
        self._played += 1
        for name, text in case.files.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        cells = [desk.write(source) for source in case.cells]
        desk.run(*cells)
        fill = _Placeholders(desk, cells).fill
        outcome = Outcome(case, fill(case.wants))
        self._calls = self._script(case, cells, fill, outcome)
        desk.ask_line("%%vibe --yes=memory\nGo on.")
        for name in case.files:
            (self._folder / name).unlink(missing_ok=True)
        return outcome

    def _reply(self, request: ModelRequest) -> ScriptedAnswer:
        self._seen.append(request)
        return next(self._calls, say("Done."))

    def _script(
        self, case: BadCall, cells: Sequence[str], fill: Callable[[str], str], outcome: Outcome
    ) -> Iterator[ScriptedAnswer]:
        for name, arguments in case.before:
            yield answer("", [Call(name, fill(arguments))])
        self._let_user_work(case, cells)
        name, arguments = case.name, fill(case.arguments)
        while True:
            yield answer("", [Call(name, arguments)])
            result = self._seen[-1].tool_results[-1]
            outcome.attempts.append(Attempt(name, arguments, result, self._last_failed()))
            outcome.offered = frozenset(self._seen[-1].tools)
            if outcome.is_mended or len(outcome.attempts) > MOST_CALLS:
                break
            following = mend(self._seen[-1].body["tools"], outcome.attempts)
            if following is None:
                break
            name, arguments = following
        yield say("Done.")

    def _let_user_work(self, case: BadCall, cells: Sequence[str]) -> None:
        document = self._desk.document
        for word, number, text in case.user:
            cell = cells[number - 1] if number else ""
            if word == "edit":
                self._desk.edit(cell, text)
            elif word == "delete":
                self._desk.delete(cell)
            elif word == "number":
                document.cell(cell)["execution_count"] = int(text)
            elif word == "down":
                moved = document.cell(cell)
                place = document.cells.index(moved)
                document.cells.remove(moved)
                document.cells.insert(place + 1, moved)
            elif word == "write":
                (next_file,) = case.files
                (self._folder / next_file).write_text(text, encoding="utf-8")

    def _last_failed(self) -> bool:
        """What the journal says of the last result."""
        journal = max(self._home.glob("**/journal.jsonl"), key=lambda path: path.stat().st_mtime_ns)
        for line in reversed(journal.read_text(encoding="utf-8").splitlines()):
            message = json.loads(line).get("event", {}).get("message", {})
            if message.get("role") == "tool":
                return bool(message["is_error"])
        raise AssertionError("no result was recorded")


class _Placeholders:
    """What stands for ids, places and numbers as they are when the case begins."""

    def __init__(self, desk: Desk, cells: Sequence[str]) -> None:
        self._values: dict[str, str] = {}
        for number, cell in enumerate(cells, 1):
            count = desk.document.cell(cell)["execution_count"]
            slip = cell[:2] + ("0" if cell[2] != "0" else "1") + cell[3:]
            self._values |= {
                f"$c{number}": cell,
                f"$w{number}": slip,
                f"$p{number}": f"#{desk.document.order.index(cell) + 1}",
                f"$n{number}": f"[{count}]",
            }

    def fill(self, text: str) -> str:
        for name, value in self._values.items():
            text = text.replace(name, value)
        return text
