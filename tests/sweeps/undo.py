"""Changes of variables, cells and files, each undone: what was there is there again, bit for bit.

What cannot be kept must be named before the code runs. Variables are changed in this process; cells and files by the
agent in a real kernel, whose page shows the notebook.
"""

import contextlib
import os
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.notebook.page import Page
from tests.variables.mutations import MUTATIONS, OTHERS, close_all, own_names, world
from tests.variables.value_text import texts
from vibe_jupyter.testing import Call, answer, call, say
from vibe_jupyter.variables.kept import KeptVariables

CELLS, FILES = 40, 40
"""Changes of each that are drawn."""
COUNT = len(MUTATIONS) + len(OTHERS) + CELLS + FILES
ALLOWED = "--yes=edit_cell,insert_cell,delete_cells,move_cells,write_file,search_replace"
_SOURCES = ("a = 1", "b = 'ü\\n'\n\n", "# c\n", "", "print('d')", "e = [\n    1,\n]")
_CONTENTS = (b"", b"x\r\n\xe4\r\n", b"one\ntwo\n", bytes(range(256)), b"last line without an end", b"\xef\xbb\xbfbom\n")


class _Try(NamedTuple):
    kind: str
    made: str
    """Code that makes what is changed, where that is not in the world."""
    code: str


def sweep(count: int, seed: int) -> Iterator[str]:
    """A line for each change that was not undone, and for each that cannot be and was not named."""
    chosen = random.Random(seed)
    tries = [
        *(_Try("kept", "", code) for code in MUTATIONS),
        *(_Try("named", made, code) for made, code in OTHERS.items()),
        *[_Try("cells", "", "")] * CELLS,
        *[_Try("files", "", "")] * FILES,
    ]
    chosen.shuffle(tries)
    tries = [tries[place % len(tries)] for place in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        yield from _variable_failures(tries, Path(folder))
    drawn = [one.kind for one in tries if one.kind in ("cells", "files")]
    if drawn:
        with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder)) as session:
            for number, kind in enumerate(drawn):
                change = _cell_failure if kind == "cells" else _file_failure
                if failure := change(chosen, session):
                    yield f"{kind} {number}: {failure}"


def _variable_failures(tries: list[_Try], folder: Path) -> Iterator[str]:
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in tries:
            if one.kind in ("kept", "named") and (failure := _variable_failure(one)):
                yield f"{one.code}: {failure}"


def _variable_failure(one: _Try) -> str:
    namespace: dict[str, Any] = world()
    exec(one.made, namespace)
    kept = KeptVariables(lambda: own_names(namespace), namespace)
    named, before, objects = kept.not_undone(one.code), texts(own_names(namespace)), dict(namespace)
    kept.before_code(one.code)
    exec(one.code, namespace)
    changed = kept.end_run()
    kept.restore()
    close_all(namespace)
    if one.kind == "named":
        return "" if one.made.split(" ")[0] in named else "not named"
    after = texts(own_names(namespace))
    other = sorted(name for name in {**before, **after} if before.get(name) != after.get(name))
    moved = [name for name, held in objects.items() if namespace.get(name) is not held]
    said = f"not restored {other}" if other else f"another object {moved}" if moved else ""
    return said or (f"named {named}" if named else "") or ("" if changed else "not said to be changed")


def _cell_failure(chosen: random.Random, session: Session) -> str:
    page = Page(session.wire, *chosen.sample(_SOURCES, 4))
    before = [(one.id, one.kind, one.source) for one in page.cells]
    ids = [one.id for one in page.cells]
    edit = call("edit_cell", cell=chosen.choice(ids), source=f"changed = {chosen.random()}")
    calls = [edit, *(_cell_call(chosen, ids) for _ in range(chosen.randrange(4)))]
    said = _undone(session, page, calls)
    after = [(one.id, one.kind, one.source) for one in page.cells if "%vibe" not in one.source]
    return "" if after == before and said else f"{calls} left {after}, was {before}"


def _cell_call(chosen: random.Random, ids: list[str]) -> Call:
    place = chosen.choice(("top", *ids))
    makers: list[Callable[[], Call]] = [
        lambda: call("edit_cell", cell=chosen.choice(ids), source=f"changed = {chosen.random()}"),
        lambda: call("insert_cell", after=place, source=f"new = {chosen.random()}"),
        lambda: call("insert_cell", after=place, source="# new", kind="markdown"),
        lambda: call("delete_cells", cells=chosen.sample(ids, chosen.randrange(1, 3))),
        lambda: call("move_cells", cells=[chosen.choice(ids)], after=place),
    ]
    return chosen.choice(makers)()


def _file_failure(chosen: random.Random, session: Session) -> str:
    folder = Path(tempfile.mkdtemp(dir=session.folder))
    for name in ("one.txt", "two.bin"):
        folder.joinpath(name).write_bytes(chosen.choice(_CONTENTS))
    os.chmod(folder / "two.bin", chosen.choice((0o600, 0o644, 0o755)))
    before = _files(folder)
    write = call("write_file", path=f"{folder.name}/one.txt", content=f"{chosen.random()}\n", overwrite=True)
    calls = [write, *(_file_call(chosen, folder.name) for _ in range(chosen.randrange(4)))]
    said = _undone(session, Page(session.wire, "a = 1"), calls)
    after = _files(folder)
    return "" if after == before and said else f"{calls} left {after}, was {before}"


def _file_call(chosen: random.Random, folder: str) -> Call:
    if chosen.random() < 0.3:
        return call("search_replace", file_path=f"{folder}/two.bin", old_string="two", new_string="2")
    name = chosen.choice(("one.txt", "two.bin", "new.csv", "deep/er/new.txt"))
    return call("write_file", path=f"{folder}/{name}", content=f"{chosen.random()}\n", overwrite=True)


def _files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What each file holds, and its mode."""
    found = [one for one in sorted(folder.rglob("*")) if one.is_file()]
    return {str(one.relative_to(folder)): (one.read_bytes(), one.stat().st_mode & 0o777) for one in found}


def _undone(session: Session, page: Page, calls: list[Call]) -> bool:
    """Have the agent make these calls and the user undo them; whether that undid something."""
    session.model.will_reply(call("read_notebook"), answer(calls=calls), say("Changed."))
    page.run(f"%%vibe {ALLOWED}\nchange it")
    said = page.run("%vibe undo").text
    session.wire.run("%vibe reset")
    return said.startswith("Undone: ")
