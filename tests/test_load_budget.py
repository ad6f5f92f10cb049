"""What `%load_ext vibe_jupyter` costs, counted where time would lie: modules, not milliseconds."""

import gc
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import start_new_kernel

from tests.patience import patient
from tests.tiers import further
from vibe_jupyter.safe_imports import without_collections

ROOT = Path(__file__).parents[1]
MAX_NEW_MODULES = 40
FORBIDDEN = {
    "mcp",
    "httpx",
    "httpx2",
    "ipywidgets",
    "anywidget",
    "pydantic",
    "nbformat",
    "markdown_it",
    "nh3",
    "openai",
    "tree_sitter",
    "tree_sitter_bash",
}
KERNEL_WAIT = patient(60)  # seconds
VIEW_BYTES, EXTENSION_BYTES = 20_000, 60_000  # compressed

pytestmark = pytest.mark.xdist_group("load")

LOAD = """
import json, sys, threading
before, threads = set(sys.modules), threading.active_count()
events = []
sys.addaudithook(lambda name, args: events.append(name) if name in ("socket.connect", "subprocess.Popen") else None)
get_ipython().run_line_magic("load_ext", "vibe_jupyter")
print(json.dumps({
    "modules": sorted(set(sys.modules) - before),
    "threads": threading.active_count() - threads,
    "events": events,
    "magics": [kind for kind in ("line", "cell") if "vibe" in get_ipython().magics_manager.magics[kind]],
}))
"""


@pytest.fixture(scope="module")
def loaded() -> Iterator[dict[str, Any]]:
    """What one fresh kernel says about loading the extension."""
    manager, client = start_new_kernel(startup_timeout=KERNEL_WAIT, cwd=str(ROOT))
    try:
        yield json.loads(_printed(client, LOAD))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _printed(client: BlockingKernelClient, code: str) -> str:
    said: list[str] = []

    def listen(message: dict[str, Any]) -> None:
        content = message["content"]
        said.append(content.get("text", "") + "\n".join(content.get("traceback", ())))

    client.execute_interactive(code, allow_stdin=False, timeout=KERNEL_WAIT, output_hook=listen)
    return "".join(said)


@pytest.mark.requirement("project.extension.load")
def test_loading_registers_both_magics(loaded: dict[str, Any]) -> None:
    assert loaded["magics"] == ["line", "cell"]


@pytest.mark.requirement("project.extension.load")
def test_loading_imports_none_of_the_heavy_packages(loaded: dict[str, Any]) -> None:
    assert {name.partition(".")[0] for name in loaded["modules"]} & FORBIDDEN == set()


def test_loading_imports_few_modules(loaded: dict[str, Any]) -> None:
    assert "vibe_jupyter.magics" in loaded["modules"]
    assert len(loaded["modules"]) <= MAX_NEW_MODULES, loaded["modules"]


@pytest.mark.requirement("project.extension.load")
def test_loading_makes_no_request_and_starts_no_thread_and_no_process(loaded: dict[str, Any]) -> None:
    assert loaded["events"] == []
    assert loaded["threads"] == 0


def test_what_was_imported_at_once_is_not_walked_by_the_next_small_collection() -> None:
    gc.unfreeze()  # what tests/conftest.py froze: with frozen objects there is nothing to prove
    try:
        gc.collect(0)
        with without_collections():
            came = [[number] for number in range(100)]  # too few to start a collection
        assert gc.isenabled()
        assert not any(one is came for one in gc.get_objects(generation=0))
    finally:
        gc.freeze()


def test_what_the_user_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        with without_collections():
            pass
        assert gc.get_freeze_count() > 0  # not the same number: a frozen object may still come to its end
    finally:
        gc.unfreeze()


ONLY_FOR_SERVERS = {"mcp", "mcp_types", "httpx2", "jsonschema"}
RUN = """
import json, sys
from IPython.utils.capture import capture_output
from vibe_jupyter.testing import ScriptedModel, say
model = ScriptedModel()
model.__enter__()
model.will_reply(say("Hello."))
sys.modules.pop("jsonschema", None)
before = set(sys.modules)
get_ipython().run_cell_magic("vibe", f"--model one@{model.url}", "Hello")
modules = sorted(set(sys.modules) - before)
with capture_output() as listing:
    get_ipython().run_line_magic("vibe", "mcp")
declared = sum(f"many{number}" in listing.stdout for number in range(100))
print("\\n" + json.dumps({"asked": len(model.requests), "declared": declared, "modules": modules}))
model.__exit__(None, None, None)
"""


@pytest.mark.parametrize(
    "declared", [further(0, id="no server declared"), pytest.param(20, id="20 servers that are not accepted")]
)
def test_a_run_that_starts_no_mcp_server_imports_nothing_that_speaks_to_one(tmp_path: Path, declared: int) -> None:
    (tmp_path / "vibe").mkdir()
    entry = '[[mcp_servers]]\nname = "many{}"\ntransport = "stdio"\ncommand = "no-such-program"\n'
    settings = "".join(entry.format(number) for number in range(declared))
    (tmp_path / "vibe" / "config.toml").write_text(settings, encoding="utf-8")
    manager, client = start_new_kernel(startup_timeout=KERNEL_WAIT, cwd=str(tmp_path), env=os.environ | _home(tmp_path))
    try:
        _printed(client, LOAD)
        told = json.loads(_printed(client, RUN).splitlines()[-1])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

    assert told["asked"] == 1
    assert told["declared"] == declared
    assert {name.partition(".")[0] for name in told["modules"]} & ONLY_FOR_SERVERS == set()


def _home(folder: Path) -> dict[str, str]:
    return {"VIBE_HOME": str(folder / "vibe"), "PYTHONPATH": str(ROOT)}


IMPORT_ALL = """
import importlib, os, pkgutil, sys, threading

def audit(name, args):
    writes = name == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+") and args[0] != os.devnull
    if writes or name in ("socket.connect", "subprocess.Popen", "os.mkdir", "os.remove", "os.rename"):
        print(name, args)

import IPython, vibe_jupyter
# What other packages do when they are imported is not ours to judge.
for name in ("anywidget", "httpx", "ipykernel.ipkernel", "ipykernel.kernelapp", "IPython.core.interactiveshell"):
    importlib.import_module(name)
sys.addaudithook(audit)
names = [module.name for module in pkgutil.walk_packages(vibe_jupyter.__path__, "vibe_jupyter.")]
for name in names:
    importlib.import_module(name)
assert len(names) > 20 and threading.active_count() == 1
"""


def test_importing_every_module_says_and_does_nothing_even_without_a_home(tmp_path: Path) -> None:
    nowhere = tmp_path / "file" / "home"
    nowhere.parent.touch()
    homes = {name: str(nowhere) for name in os.environ if name.startswith(("JUPYTER_", "XDG_", "MPL"))}
    homes |= {"HOME": str(nowhere), "VIBE_HOME": str(nowhere / "vibe"), "IPYTHONDIR": str(nowhere / "ipython")}
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", IMPORT_ALL],
        cwd=ROOT,
        env=os.environ | homes,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


LATER = {
    *("mcp", "httpx2", "markdown_it", "nh3", "tree_sitter", "tree_sitter_bash", "nbformat", "openai", "ipywidgets"),
    *("anywidget", "tomlkit", "click", "rich", "jsonschema", "zmq", "jupyter_core", "difflib"),
    "pydantic.plugin._loader",
}
"""What no first request needs: the server's answer, a card or a command brings it; the last for plugins of models."""
MOST_OF_OURS = 165
"""Modules of ours that a first request may import."""
OF_THE_VIEW = {f"vibe_jupyter.ui{name}" for name in ("", ".front_end", ".run_output", ".text")}
"""What settings, the table of models and what a run leaves in its output use of it."""
LATER_OF_OURS = (
    *("vibe_jupyter.ui.", "vibe_jupyter.permissions.shell.", "vibe_jupyter.mcp.", "vibe_jupyter.mcp_server."),
    *("vibe_jupyter.config.tool_servers", "vibe_jupyter.permissions.kept_files", "vibe_jupyter.session.change_lines"),
    *("vibe_jupyter.variables.kept", "vibe_jupyter.variables.keeping"),
)
FIRST_REQUEST = """
import gc, json, sys
from IPython.core.interactiveshell import InteractiveShell
from vibe_jupyter.testing import ScriptedModel, say
shell, seen = InteractiveShell.instance(), []
with ScriptedModel([say("**All done.**")]) as model:
    shell.run_line_magic("load_ext", "vibe_jupyter")
    from vibe_jupyter.app import run_view
    run_view.OPEN_WITHIN = 60  # on a busy machine the request takes its time
    # Exactly here: the view is imported as soon as the request has left, in this same process.
    sys.addaudithook(lambda name, args: seen.append(sorted(sys.modules)) if name == "socket.connect" else None)
    shell.run_cell_magic("vibe", f"--model bench@{model.url}", "Hello")
print("\\n" + json.dumps({"modules": seen[0], "collects": gc.isenabled(), "requests": len(model.requests)}))
"""


def test_the_first_request_waits_for_nothing_that_only_its_answer_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=KERNEL_WAIT,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert "httpx" in said["modules"]
    assert LATER.intersection(said["modules"]) == set()
    assert {name for name in said["modules"] if name.startswith(LATER_OF_OURS)} <= OF_THE_VIEW
    ours = [name for name in said["modules"] if name.split(".")[0] == "vibe_jupyter" and ".testing" not in name]
    assert len(ours) <= MOST_OF_OURS, ours
    assert said["requests"] == 1
    assert "All done." in done.stdout
    assert said["collects"]


def test_the_slow_grammar_of_addresses_is_made_by_who_checks_one(tmp_path: Path) -> None:
    (tmp_path / "rfc3987_syntax.py").write_text(
        "print('made')\ndef is_valid_syntax(term, value):\n    return (term, value) == ('iri', 'https://bücher.example')\n"
    )
    check = (
        "from vibe_jupyter.safe_imports import defer_address_grammar\n"
        "defer_address_grammar()\n"
        "import rfc3987_syntax\n"
        "from rfc3987_syntax import is_valid_syntax\n"  # as jsonschema does
        "print('imported')\n"
        "print(*[is_valid_syntax('iri', value) for value in ('https://bücher.example', 'no')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT))), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:3] == ["imported", "made", "True False"]


OWN_MODEL = """
import sys
from vibe_jupyter.protocol import TextPart
TextPart(text="ours")
before = "pydantic.plugin._loader" in sys.modules
import pydantic
class Own(pydantic.BaseModel):
    number: int
print(before, sys.modules["pydantic.plugin._loader"].__file__ is not None)
"""


def test_models_of_ours_are_made_ready_without_plugins_and_the_users_with_them() -> None:
    done = subprocess.run([sys.executable, "-c", OWN_MODEL], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_what_the_page_loads_stays_small() -> None:
    package = ROOT / "vibe_jupyter"
    extension = [gzip.compress(file.read_bytes()) for file in (package / "labextension" / "static").glob("*.js")]
    assert len(gzip.compress((package / "ui" / "static" / "run-view.js").read_bytes())) < VIEW_BYTES
    assert sum(map(len, extension)) < EXTENSION_BYTES
