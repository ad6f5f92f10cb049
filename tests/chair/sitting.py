"""One round of all jobs: what each request carried, which facts the report told, what was done in the end."""

import importlib
import json
import os
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.chair.cases import Case, Names, Prompt
from tests.chair.cleaning import changed_table, messy_csv
from tests.chair.desk import CELL_TIMEOUT, MODEL_TIMEOUT, Desk
from tests.chair.expert import Expert, message_text, new_messages
from tests.chair.models import copied_code, failing_merge, four_panels, leaking_model, many_cells
from vibe_jupyter.testing import ModelRequest, ScriptedModel
from vibe_jupyter.testing.recording import RecordingModel

CASES = (messy_csv, leaking_model, failing_merge, four_panels, copied_code, changed_table, many_cells)
MODEL_KEY = "MODEL_KEY"
"""The variable with the key of the real server, if it takes one."""
TOKEN = 4
"""Characters of a token, by which all of this counts."""
BUDGETS = {"fixed": 3_000, "report": 1_500, "result": 8_000}
"""Tokens of system prompt and schemas, and of a report; characters of one result."""
_LIBRARIES = (
    "pandas",
    "pandas.api.typing",
    "numpy",
    "matplotlib.pyplot",
    "sklearn.model_selection",
    "sklearn.ensemble",
)
_WORDS = frozenset(
    [
        *("month", "score", "column", "index", "columns", "DataFrame", "year"),
        *("plot", "xlabel", "ylabel", "axis", "numeric_only", "ascending", "include"),
        *(part for name in _LIBRARIES for part in name.split(".")),
    ]
)
"""Of the libraries too: names of parameters, and what needs no import to be known."""
_REPORT = re.compile(r"<notebook>.*?</notebook>", re.DOTALL)


@dataclass
class Row:
    """What one job cost."""

    job: str
    about: str
    least: int
    requests: int = 0
    system: int = 0
    """Tokens."""
    schemas: int = 0
    report: int = 0
    results: int = 0
    largest: int = 0
    """Characters of the longest result."""
    images: int = 0
    facts: str = ""
    """How many of those needed were in the first request."""
    problem: str = ""
    """Why it is not done; empty where it is."""


def job_names() -> list[str]:
    """Of all cases, in their order."""
    return list(dict.fromkeys(prompt.job for make in CASES for prompt in make(Names(1)).prompts))


@dataclass
class Sitting:
    """All jobs once, with the names of one seed."""

    seed: int
    jobs: Sequence[str] | None = None
    model: str | None = None
    show: bool = False
    """Whether all that the model was sent and answered is printed."""
    rows: list[Row] = field(default_factory=list[Row])

    def do_all(self) -> None:
        """Do every case that has one of the jobs."""
        for make in CASES:
            case = make(Names(self.seed))
            if self.jobs is None or any(prompt.job in self.jobs for prompt in case.prompts):
                self.rows.extend(self._do_case(case))
        print(f"seed {self.seed}", table(self.rows), sep="\n", flush=True)

    def _do_case(self, case: Case) -> Iterator[Row]:
        expert = Expert(is_of_library)
        with tempfile.TemporaryDirectory() as place, self._listening(expert) as model:
            folder, home = Path(place, "work"), Path(place, "home")
            folder.mkdir()
            home.mkdir()
            for name, text in case.files.items():
                (folder / name).write_text(text, encoding="utf-8")
            name, url = model.name, model.url
            key = f'api_key_env_var = "{MODEL_KEY}"\n' if MODEL_KEY in os.environ else ""
            (home / "config.toml").write_text(
                f'active_model = "chair"\n[[providers]]\nname = "chair"\napi_base = "{url}"\n{key}'
                f'[[models]]\nname = "{name}"\nprovider = "chair"\nalias = "chair"\nsupports_images = true\n',
                encoding="utf-8",
            )
            os.environ["VIBE_HOME"] = str(home)
            with Desk(folder, case.cells, patience=CELL_TIMEOUT if self.model is None else MODEL_TIMEOUT) as desk:
                case.start(desk)
                for prompt in case.prompts:
                    yield self._do_prompt(desk, prompt, expert, model.requests)

    @contextmanager
    def _listening(self, expert: Expert) -> Generator[ScriptedModel | RecordingModel]:
        if self.model is None:
            with ScriptedModel(expert.reply, name="expert") as scripted:
                yield scripted
        else:
            name, _, url = self.model.partition("@")
            with RecordingModel(url, name=name) as recording:
                yield recording

    def _do_prompt(self, desk: Desk, prompt: Prompt, expert: Expert, requests: list[ModelRequest]) -> Row:
        try:
            prompt.before(desk)
        except ValueError as error:
            return Row(prompt.job, prompt.about, prompt.least, problem=f"the job before it was not done: {error}")
        expert.begin(prompt.script)
        first = len(requests)
        cell = desk.write(prompt.words if prompt.words.startswith("%vibe") else f"%%vibe\n{prompt.words}")
        desk.run(cell)
        row = _count_row(prompt, requests[first:])
        if self.show:
            print(*_conversation(prompt, requests[first:]), sep="\n", flush=True)
        row.problem = _problem(desk, prompt, cell, expert)
        return row


def _count_row(prompt: Prompt, requests: list[ModelRequest]) -> Row:
    row = Row(prompt.job, prompt.about, prompt.least, len(requests))
    if not requests:
        return row
    row.system = len(message_text(requests[0].messages[0])) // TOKEN
    row.schemas = len(json.dumps(requests[0].body.get("tools", []), separators=(",", ":"))) // TOKEN
    told = "\n".join(message_text(one) for one in requests[0].messages)
    asked = "\n".join(message_text(one) for one in new_messages(requests[0].messages) if one["role"] == "user")
    row.report = len("".join(_REPORT.findall(asked))) // TOKEN
    results = [message_text(one) for r in requests for one in new_messages(r.messages) if one["role"] == "tool"]
    row.results, row.largest = sum(map(len, results)) // TOKEN, max(map(len, results), default=0)
    row.images = sum(str(one.get("content")).count("data:image/") for r in requests for one in new_messages(r.messages))
    row.facts = f"{sum(fact in told for fact in prompt.facts)}/{len(prompt.facts)}"
    return row


def _conversation(prompt: Prompt, requests: Sequence[ModelRequest]) -> Iterator[str]:
    """What each request added, as text."""
    yield f"===== {prompt.job}: {prompt.about}"
    for number, request in enumerate(requests, 1):
        yield f"--- request {number} of {prompt.job}"
        before = request.messages[: -len(new_messages(request.messages))]
        if number > 1:
            yield json.dumps(before[-1].get("tool_calls", before[-1].get("content")), ensure_ascii=False)
        yield from (f"[{one['role']}] {message_text(one)}" for one in new_messages(request.messages))


def _problem(desk: Desk, prompt: Prompt, cell: str, expert: Expert) -> str:
    problems = [expert.failed, *(f"not told before: {word}" for word in expert.invented[:3])]
    expert.failed, expert.invented = "", []
    outputs = desk.outputs(cell) if cell in desk.document.order else []
    answer = "\n".join(str(output.get("data", {}).get("text/plain", output.get("text", ""))) for output in outputs)
    try:
        prompt.done(desk, answer)
    except (AssertionError, ValueError) as error:
        problems.append(f"not done: {str(error) or prompt.done.__name__}")
    return "; ".join(filter(None, problems))


def table(rows: Iterable[Row]) -> str:
    """The rows, and their sums."""
    rows = list(rows)
    lines = ["job  requests  system schemas  report results largest images facts  "]
    lines += [
        f"{row.job:4} {row.requests:3} of {row.least:2} {row.system:7} {row.schemas:7} {row.report:7} {row.results:7} "
        f"{row.largest:7} {row.images:6} {row.facts:>5}  {row.problem or 'done'}"
        for row in rows
    ]
    done = sum(not row.problem for row in rows)
    lines.append(f"{sum(row.requests for row in rows)} requests, {done} of {len(rows)} jobs done")
    return "\n".join(lines)


def worst_of(sittings: Sequence[Sitting]) -> bool:
    """Print the worst round of each figure; whether one of them is over its budget, or a job is not done."""
    rows = [row for sitting in sittings for row in sitting.rows]
    requests = max(sum(row.requests for row in sitting.rows) for sitting in sittings)
    least = sum(row.least for row in sittings[0].rows)
    figures = {
        "fixed": max((row.system + row.schemas for row in rows), default=0),
        "report": max((row.report for row in rows), default=0),
        "result": max((row.largest for row in rows), default=0),
    }
    undone = sum(bool(row.problem) for row in rows)
    over = [name for name, value in figures.items() if value > BUDGETS[name]]
    print(
        f"worst of {len(sittings)}: {requests} requests (least {least}), {undone} not done, "
        + ", ".join(f"{name} {value:,} of {BUDGETS[name]:,}" for name, value in figures.items())
    )
    return bool(over or undone or requests > least)


@cache
def is_of_library(word: str) -> bool:
    """Whether it is a name in a library that the jobs use."""
    return word in _WORDS or any(word in _words_of_library(name) for name in _LIBRARIES)  # imports no more than it must


@cache
def _words_of_library(name: str) -> frozenset[str]:
    words = set(name.split("."))
    module = importlib.import_module(name)
    for public in dir(module):
        words.add(public)
        if isinstance(getattr(module, public), type):
            words.update(dir(getattr(module, public)))
    return frozenset(words)
