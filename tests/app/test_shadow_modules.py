"""A folder with a module for each name that we, Python or a dependency import or try to import: none of them runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.conftest import CONFIG, Session, running_session
from tests.app.shadow_modules import plant, shadow_names
from tests.kernel.matrix import AS_USERS_START_IT
from tests.tiers import further
from vibe_jupyter.cli import COMMANDS as PROGRAM
from vibe_jupyter.commands.registry import COMMANDS
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.xdist_group("app"), pytest.mark.attack("shadow modules")]

ENOUGH = 330
"""Names at least."""
WAIT = 120
"""Seconds for one command of the program."""
CALLS = {
    "inspect": {},
    "todo": {"action": "read"},
    "memory": {"operation": "list"},
    "read_file": {"path": "data.csv"},
    "grep": {"pattern": "hello"},
    "write_file": {"path": "new.txt", "content": "a"},
    "search_replace": {"file_path": "NOTES.md", "content": "<<<<<<< SEARCH\nhello\n=======\nbye\n>>>>>>> REPLACE"},
    "checkpoint": {"action": "list"},
    "bash": {"command": "echo hello > made.txt"},
    "run_code": {"code": "import pandas\npandas.DataFrame({'a': [1]})"},
    "read_notebook": {},
    "insert_cell": {"source": "1 + 1", "run": True},
    "run_cells": {"cells": ["#1"]},
    "verify_notebook": {},
    "task": {"task": "look", "agent": "explore"},
    "skill": {"name": "find-leakage"},
}
ARGUMENTS = {
    "agent": ("plan", "default"),
    "mcp": ("", "add away https://127.0.0.1:9/mcp", "log away", "remove away"),
    "model": ("", "check"),
    "serve": ("", "start", "stop"),
}
"""Of commands that take words of their own; the others get those that may follow them."""
ON_A_THREAD = """\
import importlib, sys, threading
one = threading.Thread(target=importlib.import_module, args=("mine_two",))
one.start()
one.join()
print("mine_two" in sys.modules)"""
NOTEBOOK = ("x = 1", "%load_ext vibe_jupyter", "%vibe hi")
TYPED = {
    "ask": ("ask", "--yes", "run_code,bash", "-p", "hi"),
    "run": ("run", "one.ipynb", "-p", "hi"),
    "verify": ("verify", "one.ipynb"),
    "permission": ("permission", "bash", "ls"),
    "mcp": ("mcp",),
}
SERVED = """\
import os, signal, threading
threading.Timer(6, os.kill, (os.getpid(), signal.SIGINT)).start()
from vibe_jupyter.cli import main
main(["serve", "--port", "0"])"""


@dataclass
class Shadowed:
    session: Session
    marker: Path

    def ran(self) -> str:
        """Names and stacks of the modules of the folder that ran."""
        return self.marker.read_text(encoding="utf-8") if self.marker.exists() else ""


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shadowed]:
    """A kernel that has not imported the agent yet."""
    folder, marker = tmp_path_factory.mktemp("shadowed"), tmp_path_factory.mktemp("marker") / "ran"
    with running_session(AS_USERS_START_IT, folder) as session:
        (folder / "data.csv").write_text("a\n1\n", encoding="utf-8")
        (folder / "NOTES.md").write_text("hello\n", encoding="utf-8")
        session.run("import pandas")  # what the user imports comes from where it did
        assert plant(folder, marker) >= ENOUGH
        session.run("%reload_ext vibe_jupyter")
        yield Shadowed(session, marker)


@pytest.mark.requirement("config.trust.imports")
def test_a_prompt_and_every_tool_import_nothing_from_the_folder(shadowed: Shadowed) -> None:
    model = shadowed.session.model
    for name, arguments in CALLS.items():
        model.will_reply(call(name, **arguments), *([say("sub")] if name == "task" else []), say("done"))
        shadowed.session.wire.cell(shadowed.session.wire.send(f"%%vibe --yes={name}\ngo on", allow_stdin=False))
        assert not shadowed.ran(), name
    called = {one["function"]["name"] for one in model.requests[-1].body["tools"]}
    assert {"bash", "run_code", "write_file"} <= called


@pytest.mark.requirement("config.trust.imports")
@pytest.mark.parametrize("name", [further(one.name) if one.is_rare else one.name for one in COMMANDS])
def test_every_command_imports_nothing_from_the_folder(shadowed: Shadowed, name: str) -> None:
    following = next(one.following for one in COMMANDS if one.name == name)
    for words in ARGUMENTS.get(name, ("", *following)):
        shadowed.session.wire.cell(shadowed.session.wire.send(f"%vibe {name} {words}", allow_stdin=False))
        assert not shadowed.ran(), words


@pytest.mark.requirement("config.trust.imports")
def test_the_users_own_code_imports_what_is_in_the_folder_also_on_threads_and_for_the_agent(shadowed: Shadowed) -> None:
    session = shadowed.session
    for name in ("mine_one", "mine_two", "mine_three"):
        (session.folder / f"{name}.py").write_text(f"value = {name!r}\n", encoding="utf-8")
    assert session.run("import mine_one; print(mine_one.value)").text.strip() == "mine_one"
    threaded = (
        "import importlib, threading\none = threading.Thread(target=importlib.import_module, args=('mine_two',))\n"
    )
    assert (
        session.run(f"{threaded}one.start(); one.join()\nimport sys; print('mine_two' in sys.modules)").text == "True\n"
    )
    session.model.will_reply(call("run_code", code="import mine_three\nprint(mine_three.value)"), say("done"))
    session.run("%%vibe --yes=run_code\nimport it")
    assert "mine_three" in str(session.model.requests[-1].messages[-1]["content"])


@pytest.mark.requirement("config.trust.imports")
@pytest.mark.parametrize("command", ["ask", *(further(name) for name in PROGRAM if name != "ask")])
def test_every_command_of_the_program_imports_nothing_from_the_folder(tmp_path: Path, command: str) -> None:
    folder, home, marker = tmp_path / "work", tmp_path / "home", tmp_path / "ran"
    folder.mkdir()
    home.mkdir()
    cells = [
        {"cell_type": "code", "id": f"c{at}", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for at, source in enumerate(NOTEBOOK)
    ]
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "one.ipynb").write_text(json.dumps(whole), encoding="utf-8")
    assert plant(folder, marker) == len(shadow_names())
    words = TYPED.get(command, (command,))
    if command == "serve":
        # It ends as by Ctrl-C; `-P`, as the program itself has no folder of the user's on its path.
        program = [
            sys.executable,
            "-P",
            "-c",
            f"{SERVED}from vibe_jupyter.cli import main; main(['serve', '--port', '0'])",
        ]
    else:
        program = [str(Path(sys.executable).with_name("vibe-jupyter")), *words]
    with ScriptedModel([call("run_code", code="print(1)"), *[say("Hello.")] * 4]) as model:
        (home / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        ended = subprocess.run(
            program,
            cwd=folder,
            env={**os.environ, "VIBE_HOME": str(home), "PYTHONPATH": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
        assert not marker.exists(), marker.read_text(encoding="utf-8")
        assert "Traceback" not in ended.stderr
        assert command not in ("ask", "run") or model.requests, ended.stderr
