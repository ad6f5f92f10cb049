"""docs/settings.md and docs/custom-tools.md say what is so."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.config.settings import RENAMED, TOOL_OPTIONS, ProjectContext, SessionLogging, Settings
from vibe_jupyter.testing import call, say

DOCS = Path(__file__).parents[2] / "docs"
SETTINGS = (DOCS / "settings.md").read_text(encoding="utf-8")
CUSTOM = (DOCS / "custom-tools.md").read_text(encoding="utf-8")


def test_every_key_is_named() -> None:
    keys = {*Settings.model_fields, *RENAMED, *ProjectContext.model_fields, *SessionLogging.model_fields}
    assert sorted(key for key in keys if f"`{key}`" not in SETTINGS) == []


@pytest.mark.parametrize("tool", TOOL_OPTIONS)
def test_every_option_of_a_tool_is_named_with_what_holds_without_it(tool: str) -> None:
    row = next(line for line in SETTINGS.splitlines() if line.startswith(f"| `[tools.{tool}]` |"))
    options = TOOL_OPTIONS[tool]()
    shown = {name: {True: "true", False: "false", (): "[]"}.get(value, str(value)) for name, value in options}
    assert re.findall(r"`(\w+) = ([^`]+)`", row) == list(shown.items())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("pages")) as session:
        yield session


@pytest.mark.xdist_group("app")
def test_the_examples_of_own_tools_work_as_they_are_written(session: Session) -> None:
    function, file = re.findall(r"```python\n(.*?)```", CUSTOM, re.DOTALL)
    (setting,) = re.findall(r"```toml\n(.*?)```", CUSTOM, re.DOTALL)
    config = session.folder / "vibe" / "config.toml"
    config.write_text(f"{config.read_text(encoding='utf-8')}\n{setting}", encoding="utf-8")
    (session.folder / "vibe" / "tools").mkdir()
    (session.folder / "vibe" / "tools" / "holidays.py").write_text(file, encoding="utf-8")
    session.run(function)
    session.model.will_reply(call("churn", month="2026-03", segment="small"), call("holidays", year=2026), say("Done."))
    session.run("%vibe --yes=holidays how many left?")
    assert session.model.requests[-1].tool_results == ["0.047", "FR-2026: 1 January, 14 July"]
    offered = {tool["function"]["name"]: tool["function"] for tool in session.model.requests[0].body["tools"]}
    assert offered["churn"]["description"] == "Share of customers who left in a month."
    assert offered["churn"]["parameters"]["properties"]["segment"] == {
        "type": "string",
        "default": "all",
        "description": 'Name of a customer segment, or "all".',
    }
    assert offered["holidays"]["description"] == "Public holidays of a year. Ask for one year at a time."
