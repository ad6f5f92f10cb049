"""Data sets that are looked at in every way in the privacy mode `schema`: none of their values is in any request.

Each has values of its own, is bound under other names, shown and lost in errors by other code, and is there as cells,
variables and files.
"""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.app.conftest import running_session
from tests.app.planted_values import BINDS, FAILS, IMPORTS, SHOWS, PlantedValues, plant
from tests.kernel.matrix import WITH_PANDAS
from tests.notebook.page import Page
from vibe_jupyter.testing import Call, ScriptedModel, answer, call, say

COUNT = 200
MODE = '\n[privacy]\nmode = "schema"\n'
CALLS = 12
"""Made of each data set, all in one answer."""
_NAMES = 8
"""Variables that a data set is bound to."""


def sweep(count: int, seed: int) -> Iterator[str]:
    """A line for each data set of which a value was sent, or is in the journal."""
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, running_session(WITH_PANDAS, Path(folder)) as session:
        home = Path(folder, "vibe")
        with home.joinpath("config.toml").open("a", encoding="utf-8") as config:
            config.write(MODE)
        session.wire.run(IMPORTS)
        for number in range(count):
            data = plant(chosen, rows=chosen.randrange(2, 12))
            data.write(session.folder)
            session.model.requests.clear()
            _look(chosen, Page(session.wire), session.model)
            session.wire.run("%vibe reset")
            if len(session.model.requests) != 4:
                yield f"try {number}: {len(session.model.requests)} requests"
            if sent := data.sent(session.model.requests):
                yield f"try {number}: sent {sent}"
            if kept := _kept(data, home):
                yield f"try {number}: in the journal {kept}"


def _look(chosen: random.Random, page: Page, model: ScriptedModel) -> None:
    """The user binds, shows and fails; then a prompt in which the agent does, and one that is told what was done."""
    names = chosen.sample(list(BINDS), _NAMES)
    page.run("\n".join(BINDS[name] for name in names))
    page.run(chosen.choice(SHOWS[:-1]))
    page.run(chosen.choice(FAILS))
    mentions = " ".join(f"@{name}" for name in chosen.sample(names, 3))
    calls = [_call(chosen, page, names) for _ in range(CALLS)]
    model.will_reply(call("read_notebook"), answer(calls=calls), say("Done."), say("Seen."))
    page.run(f"%%vibe --yes=run_code,run_cells,insert_cell,bash\nlook at {mentions} @data.csv and @#2")
    page.run(chosen.choice(FAILS))
    page.run("%%vibe\nand now?")


def _call(chosen: random.Random, page: Page, names: list[str]) -> Call:
    code = chosen.choice((*SHOWS[:-1], *FAILS))
    first = page.cells[0].id
    return chosen.choice(
        [
            call("inspect", names=chosen.sample(names, 4)),
            call("inspect"),
            call("inspect", names=[f"{chosen.choice(names)}.{chosen.choice(('city', 'index', 'columns', 'values'))}"]),
            call("inspect", names=[f"{chosen.choice(names)}[{chosen.choice((0, -1))}]"]),
            call("run_code", code=code),
            call("run_code", code=code, keep=True),
            call("run_code", code=f"{BINDS[chosen.choice(names)]}\n{chosen.choice(names)}"),
            call("insert_cell", after=first, source=code, run=True),
            call("run_cells", cells=[chosen.choice(page.cells).id]),
            call("read_notebook", outputs=chosen.choice(("full", "images", "brief"))),
            call("read_file", path=chosen.choice(("data.csv", "notes.md", "data.json"))),
            call("grep", pattern=chosen.choice(("[0-9]", "@", "city"))),
            call(
                "bash", command=chosen.choice(("cat data.csv", "head -3 notes.md >&2", "wc data.json; cat data.json"))
            ),
        ]
    )


def _kept(data: PlantedValues, home: Path) -> list[str]:
    """Those in the journals of this data set, which are removed then."""
    journals = list(home.rglob("journal.jsonl"))
    found = [value for path in journals for value in data.in_text(path.read_text(encoding="utf-8"))]
    for path in journals:
        path.unlink()
    return found
