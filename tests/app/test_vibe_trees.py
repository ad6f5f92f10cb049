"""A folder `~/.vibe` of Mistral Vibe, taken as it is: settings, agents, skills, prompts, MCP servers and sessions.

The trees in `vibe_trees` were made by the packages' own code (`vibe_packages.py`), with names and ports changed, long
lists cut, and what nobody reads left out. In the matrix the packages make them anew.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.conftest import Session
from tests.app.vibe_packages import ANSWER, PROMPT, VERSIONS, make_tree
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import running_kernel
from vibe_jupyter import config
from vibe_jupyter.config.mcp_servers import McpHttp
from vibe_jupyter.testing import ScriptedModel, say

pytestmark = pytest.mark.xdist_group("vibe trees")

TREES = Path(__file__).with_name("vibe_trees")
SAVE_DIR = re.compile(r'(?m)^(save_dir = ")[^"]*')
SCRIPTED = re.compile(r'(name = "scripted"\napi_base = ")[^"]*')


@contextmanager
def kernel_with(tree: Path, folder: Path) -> Iterator[Session]:
    """A kernel whose user has this tree; the file names the scripted model and the folder of sessions of now."""
    home = folder / "vibe"
    shutil.copytree(tree, home)
    with ScriptedModel([]) as model, running_kernel(INSTALLED, folder) as wire:
        file = home / "config.toml"
        text, found = SCRIPTED.subn(rf"\g<1>{model.url}", file.read_text(encoding="utf-8"))
        assert found == 1
        file.write_text(SAVE_DIR.sub(rf"\g<1>{home}/logs/session", text), encoding="utf-8")
        wire.run("%load_ext vibe_jupyter")
        yield Session(wire, model, folder)


def check(tree: Path, folder: Path) -> None:
    """All parts of a tree count in a kernel, and no word is lost on any."""
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    reading = config.read_settings({"VIBE_HOME": str(tree)})
    assert reading.warnings == ()
    birds = reading.settings.mcp_servers[0]
    assert isinstance(birds, McpHttp)
    assert (birds.api_key_env, birds.api_key_header, birds.api_key_format) == ("BIRDS_KEY", "X-Key", "{token}")

    with kernel_with(tree, folder) as session:

        def run(line: str) -> str:
            """What a cell shows where nobody can answer, and so no server starts."""
            session.model.will_reply(say("Done."))
            cell = session.wire.cell(session.wire.send(line, allow_stdin=False))
            assert not cell.error
            return session.html(cell)

        shown = run("%vibe --agent=reviewer hello")
        assert "has no effect" not in shown
        assert "the MCP server birds requires a key, and the variable BIRDS_KEY is not set." in shown
        assert "The MCP server scales is not started" in shown
        asked = session.model.requests[-1]
        said = asked.messages[0]["content"]
        assert said.startswith("Be terse.\n\n")
        assert "Weigh birds in grams." in said
        assert "weigh-birds" in said
        assert "counter: Counts things" in said
        offered = {tool["function"]["name"] for tool in asked.body["tools"]}
        assert {"skill", "task"} <= offered
        assert offered.isdisjoint({"bash", "write_file"})  # its safety is "safe"
        assert "reviewer" in session.run("%vibe agent").text
        assert "weigh-birds" in session.run("%vibe skills").text

        session.run("%vibe reset")
        sessions = session.run("%vibe sessions all").text
        listed = re.search(rf"^ +(\w+) .* Mistral Vibe, birds +{re.escape(PROMPT)}$", sessions, re.MULTILINE)
        assert listed is not None
        assert "Continuing in a copy of Mistral Vibe's" in session.run(f"%vibe resume {listed[1]}").text
        run("%vibe and now?")
        sent = [str(message) for message in session.model.requests[-1].messages]
        for words in (PROMPT, "Gentoo,5076", "wc -l data.csv", ANSWER, "and now?"):
            assert any(words in message for message in sent)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.requirement("session.migration.vibe")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_tree_of_mistral_vibe_counts_whole_and_without_an_edit(version: str, tmp_path: Path) -> None:
    check(TREES / version, tmp_path)


@pytest.mark.matrix
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_tree_that_mistral_vibe_makes_now_counts_whole_and_without_an_edit(version: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    try:
        tree = make_tree(version, home)
    except LookupError as reason:
        pytest.skip(str(reason))
    check(tree, tmp_path)
