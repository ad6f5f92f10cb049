"""Agents in a kernel: what each may do, switching among them, and the way from a plan to its work."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Session
from tests.app.prompt_sessions import file, settings
from tests.app.test_completion import Tab
from vibe_jupyter.app.agents import AcceptedPlan
from vibe_jupyter.permissions.folder_trust import TrustedFolders, scan_folder
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")

ASKS = "nobody is here to approve it"
"""What a call that would ask is answered with where nobody is."""
READING = {"read_notebook", "inspect", "read_file", "grep"}
REMINDER = "you may only read"


@pytest.fixture(autouse=True)
def _default_agent(session: Session) -> Iterator[None]:
    yield
    session.run("%vibe agent default")


def use(session: Session, agent: str, *calls: Any) -> list[str]:
    """Have the model make these calls in one cell of an agent; what it was answered."""
    session.model.will_reply(*calls, say("Done."))
    session.run(f"%vibe --agent={agent} go")
    return session.model.requests[-1].tool_results[-len(calls) :]


def offered(session: Session, agent: str | None = None) -> set[str]:
    """The tools in the next request."""
    session.model.will_reply(say("Hello."))
    session.run(f"%vibe --agent={agent} hello" if agent else "%vibe hello")
    return {tool["function"]["name"] for tool in session.model.requests[-1].body["tools"]}


@contextmanager
def agent_file(session: Session, name: str, text: str) -> Iterator[Path]:
    path = session.folder / "vibe" / "agents" / f"{name}.toml"
    with file(path, text):
        yield path


def test_the_agent_of_the_page_that_changes_nothing_has_no_tool_that_does(session: Session) -> None:
    page = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    assert "changes nothing" in text
    with agent_file(session, "reviewer", text):
        assert offered(session, "reviewer") == READING | {"todo"}


@pytest.mark.requirement("agents.builtin.default")
def test_the_agent_default_asks_before_what_has_effects(session: Session) -> None:
    (session.folder / "read.txt").write_text("forty-two", encoding="utf-8")
    read, *answers = use(
        session,
        "default",
        call("read_file", path="read.txt"),
        call("write_file", path="no.txt", content="x"),
        call("bash", command="touch no.txt"),
        call("run_code", code="no = 1"),
        call("insert_cell", source="no = 2"),
    )
    assert "forty-two" in read
    assert [answer for answer in answers if ASKS not in answer] == []
    assert not (session.folder / "no.txt").exists()


@pytest.mark.requirement("agents.builtin.plan", "middleware.plan.reminder")
def test_the_agent_plan_reads_unasked_changes_nothing_and_is_reminded_until_it_is_left(session: Session) -> None:
    (session.folder / "read.txt").write_text("forty-two", encoding="utf-8")
    session.run("%vibe agent plan")
    assert offered(session) == READING | {"todo", "ask_user_question", "exit_plan_mode", "skill", "task"}
    session.model.will_reply(
        call("read_file", path="read.txt"),
        call("write_file", path="no.txt", content="x"),
        call("bash", command="touch no.txt"),
        call("run_code", code="no = 1"),
        call("insert_cell", source="no = 2"),
        say("Done."),
    )
    session.run("%vibe --yes=write_file,bash,run_code,insert_cell go")
    read, *answers = session.model.requests[-1].tool_results
    assert "forty-two" in read
    assert len(answers) == 4
    assert [answer for answer in answers if "There is no tool" not in answer] == []
    assert not (session.folder / "no.txt").exists()
    assert session.run("'no' in globals()").text.strip() in ("False", "")
    texts = [message["content"] for message in session.model.requests[-1].messages if message["role"] == "user"]
    assert [REMINDER in text for text in texts] == [True, True]
    session.run("%vibe agent default")
    offered(session)
    assert offered(session) > READING
    *_, left, later = [one["content"] for one in session.model.requests[-1].messages if one["role"] == "user"]
    assert "You no longer only plan. The agent default is active" in left
    assert REMINDER not in left + later
    assert "no longer" not in later


@pytest.mark.requirement("agents.builtin.accept-edits")
def test_the_agent_accept_edits_edits_files_unasked_and_asks_before_it_runs_anything(session: Session) -> None:
    use(
        session,
        "accept-edits",
        call("write_file", path="made.txt", content="one\n"),
        call("search_replace", file_path="made.txt", content="<<<<<<< SEARCH\none\n=======\ntwo\n>>>>>>> REPLACE"),
    )
    assert (session.folder / "made.txt").read_text(encoding="utf-8") == "two\n"
    answers = use(
        session,
        "accept-edits",
        call("bash", command="touch no.txt"),
        call("run_code", code="no = 1"),
        call("insert_cell", source="no = 2", run=True),
    )
    answers += use(
        session,
        "accept-edits",
        call("write_file", path="Makefile", content="all:"),
        call("write_file", path="../no.txt", content="x"),
    )
    assert [answer for answer in answers if ASKS not in answer] == []
    assert not (session.folder / "Makefile").exists()


@pytest.mark.requirement("agents.builtin.auto-approve")
def test_the_agent_auto_approve_asks_for_nothing_but_what_is_protected_or_forbidden(session: Session) -> None:
    code, command, written = use(
        session,
        "auto-approve",
        call("run_code", code="print(6 * 7)"),
        call("bash", command="touch made-by-bash.txt"),
        call("write_file", path="made.md", content="x"),
    )
    assert "42" in code
    assert (session.folder / "made-by-bash.txt").exists(), command
    assert (session.folder / "made.md").exists(), written
    denied = '[tools.bash]\ndenylist = ["touch"]\n[tools.run_code]\npermission = "never"'
    with settings(session, tables=denied):
        protected, listed, never = use(
            session,
            "auto-approve",
            call("write_file", path=".vibe/config.toml", content=""),
            call("bash", command="touch no.txt"),
            call("run_code", code="no = 1"),
        )
    assert ASKS in protected
    assert "touch" in listed
    assert "permission = never" in never
    assert not (session.folder / "no.txt").exists()
    session.model.will_reply(*(call("read_file", path="made.md", offset=turn) for turn in range(50)))
    stopped = session.run("%vibe --agent=auto-approve go on and on")
    assert "limit of 50 turns" in session.html(stopped)


@pytest.mark.requirement("agent.switch.mid-conversation", "agents.profile.safety", "agents.select.subagent-refused")
def test_another_agent_goes_on_with_the_conversation_and_its_counts_under_its_own_rules(session: Session) -> None:
    assert "run_code" in offered(session)
    counted = session.run("%vibe status").text
    assert "Agent: default (neutral)" in counted
    assert session.run("%vibe agent plan").text.startswith("Agent: plan (safe): only reads")
    status = session.run("%vibe status").text
    assert "Agent: plan (safe)" in status
    (tokens,) = [line for line in counted.splitlines() if line.startswith("Conversation:")]
    assert tokens in status
    before = session.model.requests[-1].messages
    assert "run_code" not in offered(session)
    assert (
        session.model.requests[-1].messages[1 : len(before)] == before[1:]
    )  # behind the system prompt, which tells of tools
    session.run("%vibe agent auto-approve")
    (answer,) = use(session, "default", call("run_code", code="no = 1"))
    assert ASKS in answer  # --agent is for one cell
    session.model.will_reply(call("run_code", code="print('un' + 'asked')"), say("Done."))
    session.run("%vibe go")
    assert "unasked" in session.model.requests[-1].tool_results[-1]
    listed = session.run("%vibe agent").text.splitlines()
    assert [line.split()[:2] for line in listed[:4]] == [
        ["default", "neutral"],
        ["plan", "safe"],
        ["accept-edits", "destructive"],
        ["●", "auto-approve"],
    ]
    assert listed[3].split()[2] == "yolo"
    assert "sub-agent" in listed[4]
    assert "'explore' is a sub-agent" in session.run("%vibe agent explore").text
    assert "'explore' is a sub-agent" in session.run("%vibe --agent explore hello").text
    assert "● auto-approve" in session.run("%vibe agent").text


@pytest.mark.requirement("magics.option.agent")
def test_an_unknown_agent_lists_the_known_ones_and_tab_completes_them(session: Session) -> None:
    known = "There are: default, plan, accept-edits, auto-approve."
    assert f"There is no agent 'nope'. {known}" in session.run("%%vibe --agent nope\nhello").text
    assert session.model.requests == []
    assert "plan" not in session.run("%vibe status").text
    assert "run_code" not in offered(session, "plan")
    assert "run_code" in offered(session)
    tab = Tab(session)
    assert tab("%vibe agent a") == ["accept-edits", "auto-approve"]
    assert tab("%%vibe --agent p") == ["plan"]
    assert "plan" not in tab("%vibe agent plan ")


@pytest.mark.attack("forged decisions", always=True)
def test_code_of_a_run_cannot_choose_an_agent(session: Session) -> None:
    session.model.will_reply(
        call("run_code", code="get_ipython().run_line_magic('vibe', 'agent auto-approve')"), say("Done.")
    )
    session.run("%vibe --yes=run_code go")
    assert "A run is active in this kernel" in session.model.requests[-1].tool_results[-1]
    assert "Agent: default" in session.run("%vibe status").text


@pytest.mark.requirement("agents.files.tools", "permission.config.by-agent")
def test_a_reviewer_reads_and_searches_and_can_change_nothing(session: Session) -> None:
    (session.folder / "code.py").write_text("answer = 42\n", encoding="utf-8")
    reviewer = (
        'safety = "safe"\n[tools.read_file]\npermission = "always"\n[tools.grep]\npermission = "always"\n'
        '[tools.bash]\npermission = "never"\n[tools.write_file]\npermission = "never"\n'
        '[tools.search_replace]\npermission = "never"\n'
    )
    general = '[tools.bash]\npermission = "always"\nallowlist = ["touch"]\n[tools.read_file]\npermission = "ask"'
    calls = (
        call("read_file", path="code.py"),
        call("grep", pattern="answer"),
        call("bash", command="touch no.txt"),
        call("write_file", path="no.txt", content="x"),
        call("search_replace", file_path="code.py", content="<<<<<<< SEARCH\n42\n=======\n43\n>>>>>>> REPLACE"),
    )
    others = (
        call("run_code", code="open('no.txt', 'w').write('x')"),
        call("insert_cell", source="no = 1", run=True),
        call("memory", operation="add", content="no"),
    )
    with settings(session, tables=general), agent_file(session, "reviewer", reviewer):
        read, found, *refused = use(session, "reviewer", *calls)
        changes = use(session, "reviewer", *others)
        asks, *_ = use(session, "default", call("read_file", path="code.py"))
    assert "answer = 42" in read
    assert "code.py" in found
    assert [answer for answer in refused if "permission = never" not in answer] == []
    assert [answer for answer in changes if not answer.startswith(("Not run: ", "There is no tool"))] == []
    assert ASKS in asks
    assert not (session.folder / "no.txt").exists()
    assert (session.folder / "code.py").read_text(encoding="utf-8") == "answer = 42\n"


@pytest.mark.requirement("agents.files.overrides", "agents.disabled-tools.kept")
def test_keys_of_an_agent_hold_while_it_is_active_and_disabled_tools_stay_disabled(session: Session) -> None:
    fast = (
        'active_model = "fast"\ndisabled_tools = ["todo"]\n[[models]]\nname = "fast-1"\nprovider = "scripted"\n'
        'alias = "fast"\n'
    )
    with settings(session, 'disabled_tools = ["grep"]'), agent_file(session, "quick", fast):
        assert {"grep", "todo"} & offered(session) == {"todo"}
        assert session.model.requests[-1].body["model"] == "scripted-1"
        for agent in ("default", "plan", "accept-edits", "auto-approve", "quick"):
            assert "grep" not in offered(session, agent)
        assert "todo" not in offered(session, "quick")
        assert session.model.requests[-1].body["model"] == "fast-1"
        session.run("%vibe agent quick")
        assert "Model: fast at" in session.run("%vibe status").text
        assert 'active_model = "fast"' in session.run("%vibe config").text
        session.run("%vibe agent default")
        assert "todo" in offered(session)
        assert session.model.requests[-1].body["model"] == "scripted-1"


@pytest.mark.requirement("agents.files.invalid")
def test_a_broken_file_is_reported_with_its_name_and_the_other_agents_are_there(session: Session) -> None:
    with agent_file(session, "broken", 'safety = "harmless"') as path, agent_file(session, "whole", ""):
        session.model.will_reply(say("Hello."))
        shown = session.html(session.run("%vibe --agent=whole hello"))
        listed = session.run("%vibe agent").text
        unknown = session.run("%vibe agent broken").text
    for text in (shown, listed, unknown):
        assert f"{path}, at safety: expected" in text.replace("&#x27;", "'")
    assert "whole" in listed


@pytest.mark.requirement("agents.files.places")
def test_agents_come_from_the_users_folder_a_trusted_folder_and_named_paths(session: Session) -> None:
    theirs, elsewhere = session.folder / ".vibe" / "agents" / "theirs.toml", session.folder / "elsewhere"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('description = "of the folder"', encoding="utf-8")
    elsewhere.mkdir()
    (elsewhere / "named.toml").write_text("", encoding="utf-8")
    trusted = TrustedFolders(session.folder / "vibe")
    folder = session.folder.resolve()
    try:
        with agent_file(session, "mine", ""), settings(session, f'agent_paths = ["{elsewhere}"]'):
            assert "There is no agent 'theirs'" in session.run("%vibe agent theirs").text
            trusted.remember(folder, scan_folder(folder).digest, trusted=True)
            for name in ("mine", "theirs", "named"):
                assert f"Agent: {name} (neutral)" in session.run(f"%vibe agent {name}").text
                assert "run_code" in offered(session)
    finally:
        theirs.unlink()
        trusted.forget(folder)
        (session.folder / ".vibe" / "agents").rmdir()
        (session.folder / ".vibe").rmdir()


def plan(session: Session, *replies: Any, line: str = "%vibe plan it") -> str:
    session.model.will_reply(*replies)
    return session.wire.send(line)


def test_an_accepted_plan_is_carried_out_by_the_agent_that_was_chosen(session: Session) -> None:
    session.run("%vibe agent plan")
    steps = "# Goal\n- [ ] write the file"
    request = plan(
        session,
        call("exit_plan_mode", plan=steps),
        call("exit_plan_mode", plan=f"{steps}\n- [ ] check it"),
        call("write_file", path="planned.txt", content="x"),
        say("Done."),
    )
    view = session.view(request)
    first = view.question()
    view.wait_for("accept-edits")
    view.command(type="answer", question_id=first, answers=[{"question": "", "selected": [], "other": "and check it"}])
    second = view.question(after=first)
    chosen = {"question": "", "selected": ["accept-edits"], "other": ""}
    view.command(type="answer", question_id=second, answers=[chosen])
    assert not session.wire.cell(request).error
    assert (session.folder / "planned.txt").exists()
    (file,) = (session.folder / "vibe" / "plans").iterdir()
    assert file.read_text(encoding="utf-8") == f"{steps}\n- [ ] check it"
    no, yes = [one["content"] for one in session.model.requests[-2].messages if one["role"] == "tool"]
    assert no.startswith(f"plan: {file}\naccepted: no. The user says: and check it")
    assert yes == f"plan: {file}\naccepted: yes; the agent accept-edits carries it out"
    carried = [one["content"] for one in session.model.requests[-2].messages if one["role"] == "user"][-1]
    assert carried.endswith(AcceptedPlan("accept-edits").prompt)
    assert "The agent accept-edits is active" in carried
    assert "Agent: accept-edits" in session.run("%vibe status").text


def test_a_plan_that_nobody_can_accept_is_kept_and_changes_no_agent(session: Session) -> None:
    (answer,) = use(session, "plan", call("exit_plan_mode", plan="# Later"))
    kept = answer.partition("plan: ")[2].partition("\n")[0]
    assert Path(kept).read_text(encoding="utf-8") == "# Later"
    assert "accepted: not yet. Nobody is here to answer" in answer
    assert "Agent: default" in session.run("%vibe status").text


@pytest.mark.requirement("config.workdir.visible")
def test_the_folder_a_kernel_works_in_bounds_the_file_tools_and_is_shown(session: Session) -> None:
    inner = session.folder / "inner"
    inner.mkdir()
    (inner / "read.txt").write_text("forty-two", encoding="utf-8")
    session.run("import os; os.chdir('inner')\n%reload_ext vibe_jupyter")
    try:
        assert f"Folder: {inner.resolve()}" in session.run("%vibe status").text.splitlines()
        read, written, outside = use(
            session,
            "accept-edits",
            call("read_file", path="read.txt"),
            call("write_file", path="written.txt", content="x"),
            call("write_file", path="../outside.txt", content="x"),
        )
    finally:
        session.run("os.chdir('..')\n%reload_ext vibe_jupyter")
    assert "forty-two" in read
    assert (inner / "written.txt").exists(), written
    assert f"writes outside the project: {session.folder.resolve() / 'outside.txt'}" in outside
    assert f"Folder: {session.folder.resolve()}" in session.run("%vibe status").text.splitlines()


@pytest.mark.requirement("config.dynamic.reread")
def test_what_is_changed_in_settings_and_agents_counts_at_the_next_prompt(session: Session) -> None:
    (session.folder / "read.txt").write_text("forty-two", encoding="utf-8")
    with agent_file(session, "changing", 'disabled_tools = ["todo"]') as path:
        assert "todo" not in offered(session, "changing")
        path.write_text('disabled_tools = ["grep"]', encoding="utf-8")
        assert {"todo", "grep"} & offered(session, "changing") == {"todo"}
        for key, asks in (("", False), ('permission = "ask"', True), ('permission = "always"', False)):
            with settings(session, tables=f"[tools.read_file]\n{key}"):
                (answer,) = use(session, "changing", call("read_file", path="read.txt"))
                assert (ASKS in answer) == asks
    assert "There is no agent 'changing'" in session.run("%vibe --agent=changing hello").text


@pytest.mark.requirement("prompts.base.per-agent")
def test_the_base_prompt_is_that_of_the_agent_while_it_is_active(session: Session) -> None:
    def base() -> str:
        offered(session)
        return session.model.requests[-1].messages[0]["content"]

    prompt = session.folder / "vibe" / "prompts" / "pirate.md"
    prompt.parent.mkdir(exist_ok=True)
    prompt.write_text("You are a pirate.", encoding="utf-8")
    with agent_file(session, "pirate", 'system_prompt_id = "pirate"\n'):
        session.run("%vibe reset")
        assert (before := base()).startswith("You are the agent inside")
        session.run("%vibe agent pirate")
        assert base().startswith("You are a pirate.\n\nEnd the message")
        session.run("%vibe agent default")
        assert base() == before
        offered(session, "pirate")
        assert session.model.requests[-1].messages[0]["content"].startswith("You are a pirate.\n\n")
        assert base() == before
    prompt.unlink()


def test_the_instructions_of_an_agent_follow_the_base_prompt_while_it_is_active(session: Session) -> None:
    def said(agent: str) -> str:
        offered(session, agent)
        return session.model.requests[-1].messages[0]["content"]

    with agent_file(session, "careful", 'instructions = "Count twice."\n'):
        session.run("%vibe reset")
        before = said("default")
        assert "Count twice." not in before
        assert said("careful") == before.replace("\n\nEnd the message", "\n\nCount twice.\n\nEnd the message", 1)
        assert said("default") == before
