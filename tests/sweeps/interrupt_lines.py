"""■ at every line that a prompt executes on the main thread, from `%vibe` to its static output.

Each line is tried once where it is executed first; tries beyond that take later turns of a line.
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Cell
from vibe_jupyter.testing import ModelRequest, Reply, answer, call, say

COUNT = 3_000
IN_ONE_KERNEL = 250
"""A kernel that has run thousands of cells is slow by itself."""
ENDS_WITHIN = 10.0
"""Seconds that tell a hang."""
CODE = "import time\nif lines.current.pressed: time.sleep(60)\nx = 1\nx"
"""Goes on for long where the press before it was lost."""
AGAIN = "speak again"
PROMPT = "%%vibe --yes=run_code\nlook"
Line = tuple[str, int, int]


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    for how in ({"allow_stdin": False}, {"allow_stdin": True}):
        wanted = count // 2 if how["allow_stdin"] else count - count // 2
        with _warm_session(how) as session:
            lines = _lines(session, how, wanted, chosen)
        for first in range(0, len(lines), IN_ONE_KERNEL):
            with _warm_session(how) as session:
                for line in lines[first : first + IN_ONE_KERNEL]:
                    yield from _try(session, line, how)


@contextmanager
def _warm_session(how: dict[str, bool]) -> Iterator[Session]:
    """Run a kernel that has answered a prompt: what is imported only once is not among the lines."""
    with tempfile.TemporaryDirectory() as folder, running_session(INSTALLED, Path(folder), script=_reply) as session:
        session.wire.run("from tests.sweeps import line_injection as lines")
        session.wire.run("lines.current = lines.Injection(None)")
        session.wire.cell(session.wire.send(PROMPT, **how))
        yield session


def _lines(session: Session, how: dict[str, bool], count: int, chosen: random.Random) -> list[Line]:
    """Where to press: once at each line, then at later turns."""
    session.wire.run("%reload_ext vibe_jupyter")
    session.wire.run("lines.current.start()")
    session.wire.cell(session.wire.send(PROMPT, **how))
    lines = [
        tuple(line) for line in json.loads(session.wire.run("import json; print(json.dumps(lines.current.lines))").text)
    ]
    firsts = [line for line in lines if line[2] == 1]
    later = [line for line in lines if line[2] > 1]
    chosen.shuffle(firsts)
    return [*firsts, *chosen.choices(later, k=max(0, count - len(firsts)))][:count]


def _reply(request: ModelRequest) -> Reply:
    if request.last_user_text.endswith(AGAIN):
        return say("Here again.")
    return say("Seen.") if request.tool_results else answer("Looking.", [call("run_code", code=CODE)])


def _try(session: Session, line: Line, how: dict[str, bool]) -> Iterator[str]:
    wire = session.wire
    if line[0].startswith("app/"):
        wire.run("%reload_ext vibe_jupyter")  # the app is built again, in the prompt
    wire.run(f"lines.current = lines.Injection({line!r}); lines.current.start()")
    began = time.monotonic()
    cell = wire.cell(wire.send(PROMPT, **how))
    took = time.monotonic() - began
    wire.forget()
    pressed = wire.run("import sys; sys.settrace(None); print(lines.current.pressed)").text == "True\n"
    name = f"{line[0]}:{line[1]} turn {line[2]}, stdin {how['allow_stdin']}"
    if pressed:
        yield from (f"{name}: {what}" for what in _wrong(cell, took))
    yield from (f"{name}: then {what}" for what in _wrong_next(session))


def _wrong(cell: Cell, took: float) -> Iterator[str]:
    if took > ENDS_WITHIN:
        yield f"took {took:.1f} s"
    if not cell.error:
        yield "the press had no effect"
    if "vibe_jupyter/" in cell.error or "magics.py" in cell.error:
        yield f"a traceback of ours: {cell.error}"
    shown = [output["content"] for output in cell.outputs if "data" in output["content"]]
    if shown and "text/html" not in shown[-1]["data"]:
        yield f"no transcript, only {sorted(shown[-1]['data'])}"


def _wrong_next(session: Session) -> Iterator[str]:
    """What is wrong with the prompt that follows."""
    session.model.requests.clear()
    cell = session.wire.cell(session.wire.send(f"%vibe {AGAIN}", allow_stdin=False))
    if "Here again." not in str(cell.outputs):
        yield f"the next prompt failed: {cell.text} {cell.error}"
    asked = [request for request in session.model.requests if request.last_user_text.endswith(AGAIN)]
    if len(asked) != 1:
        yield f"{len(asked)} requests came"
    if "Run: none active" not in session.wire.run("%vibe status").text:
        yield "a run is open"
    session.wire.run("%vibe reset")
