"""Agents whose file says `safety = "safe"`, and tools at `never`: what a model is offered, and what happens when it
calls something else all the same. A real kernel, a scripted model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Session, running_session
from tests.app.prompt_sessions import file, settings
from tests.kernel.matrix import INSTALLED
from tests.tiers import further
from vibe_jupyter.sandbox.availability import machine_refusal
from vibe_jupyter.testing import call, say

pytestmark = [
    pytest.mark.skipif(bool(machine_refusal()), reason="no sandbox on this machine"),
    pytest.mark.xdist_group("exploring"),
]
READS = {"read_notebook", "inspect", "read_file", "grep", "todo", "ask_user_question", "task", "skill"}
COMPUTES = READS | {"run_code"}
REVIEWER = """
name = "reviewer"
display_name = "Code Reviewer"
description = "Specialized agent for code reviews"
safety = "safe"

# Only allow read operations
[tools.read_file]
permission = "always"

[tools.grep]
permission = "always"

[tools.bash]
permission = "never"

[tools.write_file]
permission = "never"

[tools.search_replace]
permission = "never"
"""
"""As the specification of such files prints it."""
ALL = (
    "bash",
    "write_file",
    "search_replace",
    "edit_cell",
    "insert_cell",
    "run_cells",
    "run_code",
    "memory",
    "note_down",
)
SAFE = 'safety = "safe"\n'
FILES: dict[str, tuple[str, set[str]]] = {
    "reviewer": (REVIEWER, COMPUTES),
    "bare": (SAFE, COMPUTES),
    "bypass": (f"{SAFE}bypass_tool_permissions = true\n", COMPUTES),
    "former-bypass": (f"{SAFE}auto_approve = true\n", COMPUTES),
    "always": (SAFE + "".join(f'[tools.{name}]\npermission = "always"\n' for name in ALL), COMPUTES),
    "all-enabled": (f'{SAFE}enabled_tools = ["*"]\n', COMPUTES | {"exit_plan_mode"}),
    "effects-enabled": (f'{SAFE}enabled_tools = ["write_file", "bash", "run_cells", "read_file"]\n', {"read_file"}),
    "no-code": (f'{SAFE}[tools.run_code]\npermission = "never"\n', READS),
    "code-that-may-tell-too-much": (f'{SAFE}[tools.grep]\npermission = "never"\n', READS - {"grep"}),
    "code-alone": (f'{SAFE}enabled_tools = ["run_code", "read_file"]\n', {"read_file"}),
    "shell-in-sandbox": (f'{SAFE}[tools.bash]\npermission = "sandbox"\n', COMPUTES | {"bash"}),
    "lists": (f'{SAFE}[tools.bash]\nallowlist = ["touch"]\n[tools.write_file]\nallowlist = ["*"]\n', COMPUTES),
    "foreign-names": (f'{SAFE}[tools.edit]\npermission = "always"\n[tools.write]\npermission = "always"\n', COMPUTES),
    "disabled": (f'{SAFE}disabled_tools = ["task", "todo"]\n', COMPUTES - {"task", "todo"}),
}
SAMPLE = ("reviewer", "bypass", "shell-in-sandbox")
CASES = [name if name in SAMPLE else further(name) for name in FILES]
NOTE_DOWN = """
import vibe_jupyter
@vibe_jupyter.tool
def note_down(text: str) -> str:
    "Notes it."
    open('no.txt', 'w').write(text)
    return 'noted'
"""
CHANGES: list[Any] = [
    call("write_file", path="no.txt", content="x"),
    call("search_replace", file_path="kept.txt", content="<<<<<<< SEARCH\nkept\n=======\nno\n>>>>>>> REPLACE"),
    call("bash", command="touch no.txt"),
    call("bash", command="touch no.txt", background=True),
    call("run_code", code="open('no.txt', 'w').write('x')"),
    call("run_code", code="no = 1", keep=True),
    call("insert_cell", source="no = 1", run=True),
    call("delete_cells", cells=["#1"]),
    call("move_cells", cells=["#1"], after="end"),
    call("run_cells", cells=["#1"]),
    call("verify_notebook"),
    call("memory", operation="add", content="no"),
    call("checkpoint", action="restore", run=1),
    call("note_down", text="no"),
]


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("safe")) as session:
        session.wire.run("import os\nos.environ['VIBE_SANDBOX__EXPLORE'] = 'sandbox'")
        assert not session.wire.run(NOTE_DOWN).error
        yield session


def offered(session: Session, prompt: str) -> set[str]:
    session.model.will_reply(say("Hello."))
    session.run(prompt)
    return {tool["function"]["name"] for tool in session.model.requests[-1].body["tools"]}


def agent_file(session: Session, name: str, text: str) -> Any:
    return file(session.folder / "vibe" / "agents" / f"{name}.toml", text)


def nothing_happened(session: Session) -> None:
    assert not (session.folder / "no.txt").exists()
    assert (session.folder / "kept.txt").read_text(encoding="utf-8") == "kept\n"
    assert not list((session.folder / "vibe").glob("memory/*"))
    assert session.wire.run("print('no' in globals())").text == "False\n"


@pytest.mark.attack("agents that only read")
@pytest.mark.requirement("agents.profile.safe")
@pytest.mark.parametrize("name", CASES)
def test_an_agent_that_is_safe_is_offered_nothing_with_effects_and_nothing_allows_any(safe: Session, name: str) -> None:
    text, tools = FILES[name]
    (safe.folder / "kept.txt").write_text("kept\n", encoding="utf-8")
    with agent_file(safe, name, text):
        assert offered(safe, f"%vibe --agent={name} hello") - {"skill"} == tools - {"skill"}
        safe.model.will_reply(*CHANGES, say("Tried."))
        request = safe.wire.send(f"%%vibe --agent={name} --yes={','.join(ALL)}\nchange something")
        cell = safe.wire.cell(request)
    assert not cell.error
    answers = safe.model.requests[-1].tool_results[-len(CHANGES) :]
    refusals = ("Not run: ", "There is no tool", "The user's settings do not allow the tool")
    assert [answer for answer in answers if not answer.startswith(refusals)] == []
    nothing_happened(safe)


@pytest.mark.requirement("agents.profile.safe")
def test_a_safe_agent_computes_in_a_copy(safe: Session) -> None:
    with agent_file(safe, "reviewer", REVIEWER):
        safe.model.will_reply(call("run_code", code="kept = 1\n6 * 7"), say("42."))
        safe.run("%vibe --agent=reviewer compute")
    assert "in a copy of the kernel: nothing was changed\n42" in safe.model.requests[-1].tool_results[-1]
    assert safe.wire.run("print('kept' in globals())").text == "False\n"


@pytest.mark.attack("agents that only read")
@pytest.mark.requirement("agents.profile.safe")
@pytest.mark.parametrize("caller", ["default", "reader"])
def test_a_sub_agent_of_a_safe_agent_or_that_is_safe_has_no_effects(safe: Session, caller: str) -> None:
    (safe.folder / "kept.txt").write_text("kept\n", encoding="utf-8")
    always = "".join(f'[tools.{name}]\npermission = "always"\n' for name in ALL)
    kind = 'agent_type = "subagent"\n'
    text = f"{kind}{SAFE if caller == 'default' else ''}bypass_tool_permissions = true\n{always}"
    with agent_file(safe, "helper", text), agent_file(safe, "reader", SAFE):
        safe.model.will_reply(call("task", agent="helper", task="change it"), *CHANGES, say("Tried."), say("Done."))
        safe.run(f"%vibe --agent={caller} --yes=task,{','.join(ALL)} go")
    of_helper = safe.model.requests[-2]
    tools = {tool["function"]["name"] for tool in of_helper.body["tools"]}
    assert tools - {"skill"} == COMPUTES - {"ask_user_question", "task", "skill"}
    assert len(of_helper.tool_results) == len(CHANGES)
    nothing_happened(safe)


@pytest.mark.requirement("tools.base.never.not-offered")
@pytest.mark.parametrize(
    "where",
    ["settings", further("former name"), further("Vibe's name"), "agent file", further("project"), "variable"],
)
def test_a_tool_at_never_is_not_offered_and_a_call_of_it_is_refused_in_words(safe: Session, where: str) -> None:
    never = '[tools.{}]\npermission = "never"\n'
    name = {"former name": "run_cells", "Vibe's name": "search_replace"}.get(where, "write_file")
    written = {"former name": "run_cell", "Vibe's name": "edit"}.get(where, name)
    calls = {"run_cells": call("run_cells", cells=["#1"]), "search_replace": CHANGES[1], "write_file": CHANGES[0]}
    (safe.folder / "kept.txt").write_text("kept\n", encoding="utf-8")
    agent = "narrowed" if where == "agent file" else "default"
    project = safe.folder / ".vibe" / "config.toml"
    safe.run("%vibe agent default")

    def use() -> None:
        assert name not in offered(safe, f"%vibe --agent={agent} hello")
        safe.model.will_reply(calls[name], say("Refused."))
        safe.run(f"%vibe --agent={agent} --yes={name} go")

    match where:
        case "agent file":
            with agent_file(safe, "narrowed", never.format(written)):
                use()
        case "project":
            with file(project, never.format(written)):
                use()
        case "variable":
            safe.wire.run(f"os.environ['VIBE_TOOLS__{written.upper()}__PERMISSION'] = 'never'")
            use()
            safe.wire.run(f"del os.environ['VIBE_TOOLS__{written.upper()}__PERMISSION']")
        case _:
            with settings(safe, tables=never.format(written)):
                use()
    refusal = f"The user's settings do not allow the tool {name} (permission = never)."
    assert safe.model.requests[-1].tool_results[-1] == refusal
    assert name in offered(safe, "%vibe hello")
    nothing_happened(safe)


def test_a_tool_at_never_with_an_allowlist_is_offered_for_what_the_list_names(safe: Session) -> None:
    with settings(safe, tables='[tools.write_file]\npermission = "never"\nallowlist = ["docs/*"]\n'):
        assert "write_file" in offered(safe, "%vibe hello")
        safe.model.will_reply(call("write_file", path="docs/a.md", content="a"), CHANGES[0], say("Done."))
        safe.run("%vibe go")
    written, refused = safe.model.requests[-1].tool_results[-2:]
    assert Path(safe.folder / "docs" / "a.md").read_text(encoding="utf-8") == "a", written
    assert "permission = never" in refused
