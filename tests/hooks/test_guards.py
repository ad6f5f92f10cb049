"""Restrictions of settings and of custom tools: a project's hooks, places, models, and keys nobody understands."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.conftest import CONFIG, Session
from tests.gateway.conftest import gateway_at
from tests.hooks.conftest import answering, hook, results
from tests.kernel.fork_server import program_command
from tests.patience import patient
from vibe_jupyter.config.narrowing import narrows_by_its_words
from vibe_jupyter.testing import ScriptedModel, call, say

WAIT = patient(60.0)
DENY = hook(answering({"decision": "deny", "reason": "no shell here"}), match="bash")
SECOND = '\n[[models]]\nname = "scripted-2"\nprovider = "scripted"\nalias = "second"\n'


@pytest.fixture
def settings(session: Session) -> Iterator[Path]:
    """The user's file, as it was afterwards."""
    path = session.folder / "vibe" / "config.toml"
    before = path.read_text(encoding="utf-8")
    yield path
    path.write_text(before, encoding="utf-8")


@pytest.fixture
def project(session: Session) -> Iterator[Path]:
    """The project's folder of settings; the decision on it is forgotten."""
    folder = session.folder / ".vibe"
    folder.mkdir()
    yield folder
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    session.run("%vibe trust forget")


def ask(folder: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "VIBE_HOME": str(folder / "vibe"), "IPYTHONDIR": str(folder / "ipython"), **more}
    return subprocess.run(
        [*program_command(), "ask", *arguments, "go"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
        cwd=folder,
    )


@pytest.mark.requirement("config.hooks.trust")
def test_a_projects_hooks_stop_an_unattended_run_until_its_folder_is_trusted(session: Session, project: Path) -> None:
    (project / "hooks.toml").write_text(DENY, encoding="utf-8")
    cell = session.wire.cell(session.wire.send("%vibe go", allow_stdin=False))
    assert session.model.requests == []
    assert "1 hook does not run, since the folder is not trusted: hooks.toml: before bash runs: printf" in cell.text
    assert "%vibe trust" in cell.text
    assert "VIBE_IGNORED_GUARDS=project_hooks" in cell.text
    request = session.wire.send("%vibe trust")
    view = session.view(request)
    card = view.card()
    assert "hooks.toml: before bash runs: printf" in view.wait_for("before bash runs")
    view.command(type="approve", approval_id=card)
    assert not session.wire.cell(request).error
    session.model.will_reply(call("bash", command="echo hi > made.txt"), say("Done."))
    session.run("%vibe --yes=bash go")
    assert "no shell here" in results(session)[-1]
    (project / "hooks.toml").write_text(DENY.replace("guard", "changed"), encoding="utf-8")
    session.model.requests.clear()
    assert session.wire.cell(session.wire.send("%vibe go", allow_stdin=False)).error
    assert session.model.requests == []


@pytest.mark.requirement("config.hooks.trust")
def test_somebody_who_says_no_is_told_which_hooks_do_not_run(session: Session, project: Path) -> None:
    (project / "hooks.toml").write_text(DENY, encoding="utf-8")
    session.model.will_reply(say("Hello."))
    request = session.wire.send("%vibe go")
    view = session.view(request)
    view.command(type="reject", approval_id=view.card(), message="")
    cell = session.wire.cell(request)
    assert not cell.error
    assert "1 hook does not run, since the folder is not trusted" in session.html(cell)


@pytest.mark.requirement("config.hooks.trust", "config.guards.unheeded")
def test_ask_stops_and_goes_on_where_the_guards_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "vibe").mkdir()
    (tmp_path / ".vibe").mkdir()
    (tmp_path / ".vibe" / "hooks.toml").write_text(DENY, encoding="utf-8")
    (tmp_path / ".vibe" / "config.toml").write_text("deny_network = true\nunknown = 3\n", encoding="utf-8")
    with ScriptedModel(["Done."]) as model:
        (tmp_path / "vibe" / "config.toml").write_text(CONFIG.format(url=model.url), encoding="utf-8")
        stopped = ask(tmp_path)
        assert (stopped.returncode, stopped.stdout, model.requests) == (2, "", [])
        assert f"{tmp_path}/.vibe/config.toml: deny_network would restrict the agent" in stopped.stderr
        assert "before bash runs" in stopped.stderr
        ignored = ask(tmp_path, VIBE_IGNORED_GUARDS="project_hooks,deny_network")
        assert (ignored.returncode, ignored.stdout) == (0, "Done.\n")


@pytest.mark.requirement("config.guards.unheeded")
def test_somebody_who_is_here_is_told_of_such_a_key_once(session: Session, settings: Path) -> None:
    settings.write_text(f"read_only = true\n{settings.read_text(encoding='utf-8')}", encoding="utf-8")
    told = []
    for _ in range(2):
        session.model.will_reply(say("Hello."))
        request = session.wire.send("%vibe go")
        session.view(request)
        told.append("read_only would restrict the agent" in session.html(session.wire.cell(request)))
    assert told == [True, False]
    cell = session.wire.cell(session.wire.send("%vibe go", allow_stdin=False))
    assert 'ignored_guards = ["read_only"]' in cell.text


NARROWING: dict[str, JsonValue] = {
    "deny_network": True, "read_only": True, "readOnly": True, "allowed_domains": ["a"], "max_files": 3,
    "blocked_commands": ["a"], "sandbox_mode": "strict", "only_reads": True, "require_confirmation": True,
    "allow_network": False, "enable_shell": False, "toolDenylist": ["a"], "restricted": True, "forbid_git": True,
    "disabled_servers": ["a"], "excluded_paths": ["a"],
}  # fmt: skip
HARMLESS: dict[str, JsonValue] = {
    "deny_network": False, "allow_network": True, "theme_colour": "red", "max_files": 0, "blocked_commands": [],
    "sandbox": "off", "font_size": 12, "unknown": 3, "note": "only a note", "enabled": True,
}  # fmt: skip


@pytest.mark.requirement("config.guards.unheeded")
def test_an_unknown_key_is_judged_by_its_words_and_its_value() -> None:
    assert [key for key, value in NARROWING.items() if not narrows_by_its_words(key, value)] == []
    assert [key for key, value in HARMLESS.items() if narrows_by_its_words(key, value)] == []


@pytest.mark.requirement("config.guards.outside")
@pytest.mark.attack("hooks")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "/etc/hostname"}),
        ("read_file", {"path": "../outside.txt"}),
        ("read_file", {"path": "link.txt"}),
        ("write_file", {"path": "/tmp/new-of-the-test.txt", "content": "x"}),
        ("grep", {"pattern": "x", "path": "/etc"}),
        ("bash", {"command": "cat /etc/hostname"}),
        ("bash", {"command": "true; echo x > ../new-of-the-test.txt"}),
        ("bash", {"command": "cd .. && ls"}),
        ("bash", {"command": "ls ~"}),
        ("bash", {"command": "cat link.txt"}),
        ("bash", {"command": "sed -n 1p --file=/etc/hostname"}),
    ],
)
def test_nothing_reaches_outside_where_the_settings_forbid_it(
    session: Session, settings: Path, tool: str, arguments: dict[str, str]
) -> None:
    settings.write_text(f'outside_workdir = "deny"\n{settings.read_text(encoding="utf-8")}', encoding="utf-8")
    (session.folder.parent / "outside.txt").write_text("outside\n", encoding="utf-8")
    if not (session.folder / "link.txt").is_symlink():
        (session.folder / "link.txt").symlink_to("../outside.txt")
    session.model.will_reply(call(tool, **arguments), say("Done."))
    request = session.wire.send(f"%vibe --yes={tool} go")
    cell = session.wire.cell(request)
    assert not cell.error
    assert 'outside_workdir = "deny"' in results(session)[-1]


@pytest.mark.requirement("config.guards.outside")
def test_no_project_takes_it_back_and_inside_all_goes_on(session: Session, settings: Path, project: Path) -> None:
    settings.write_text(f'outside_workdir = "deny"\n{settings.read_text(encoding="utf-8")}', encoding="utf-8")
    own = '[tools.bash]\noutside_workdir = "ask"\n[tools.read_file]\noutside_workdir = "ask"\n'
    (project / "config.toml").write_text(f'outside_workdir = "ask"\nmax_turns = 90\n{own}', encoding="utf-8")
    (session.folder / "inside.txt").write_text("inside\n", encoding="utf-8")
    session.model.will_reply(
        call("read_file", path="inside.txt"), call("read_file", path="/etc/hostname"), say("Done.")
    )
    request = session.wire.send("%vibe go")
    view = session.view(request)
    view.command(type="approve", approval_id=view.card())
    assert not session.wire.cell(request).error
    assert "inside" in results(session)[0]
    assert 'outside_workdir = "deny"' in results(session)[1]


@pytest.mark.requirement("config.guards.models")
def test_a_model_that_is_not_allowed_is_refused_wherever_it_is_chosen(session: Session, settings: Path) -> None:
    text = settings.read_text(encoding="utf-8")
    settings.write_text(f'allowed_models = ["scripted-1"]\n{text}{SECOND}', encoding="utf-8")
    agents = session.folder / "vibe" / "agents"
    agents.mkdir(exist_ok=True)
    (agents / "other.toml").write_text('active_model = "second"\n', encoding="utf-8")
    (agents / "below.toml").write_text('agent_type = "subagent"\nactive_model = "second"\n', encoding="utf-8")
    url = session.model.url
    lines = ("%vibe model second", "%vibe --model second go", "%vibe --agent other go", f"%vibe --model x@{url} go")
    for line in (*lines, "%vibe model tour"):
        cell = session.wire.cell(session.wire.send(line))
        assert "The settings do not allow the model" in cell.text, line
    assert session.model.requests == []
    session.model.will_reply(call("task", task="look", agent="below"), say("Done."))
    session.run("%vibe --yes=task go")
    assert "The settings do not allow the model 'second' (scripted-2)" in results(session)[-1]
    assert "second" not in session.wire.cell(session.wire.send("%vibe models")).text.replace("not allow", "")
    settings.write_text(f'allowed_models = ["nothing"]\n{text}', encoding="utf-8")
    cell = session.wire.cell(session.wire.send("%vibe go"))
    assert "allowed_models = [nothing]" in cell.text


@pytest.mark.requirement("config.guards.models", "config.hooks.everywhere", "config.guards.unheeded")
def test_the_gateway_holds_models_hooks_and_restrictions(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    extra = '\n[gateway]\ntools = ["bash"]\nallow = ["bash"]\n'
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path / "work", model, extra) as gateway:
        home = tmp_path / "work" / "home"
        text = (home / "config.toml").read_text(encoding="utf-8")
        (home / "hooks.toml").write_text(DENY, encoding="utf-8")
        gateway.server.agents._read_at = 0.0  # pyright: ignore[reportPrivateUsage] - the second for which they hold
        gateway.will(call("bash", command="echo hi > made.txt"), say("Done."))
        body = gateway.chat("go").json()
        assert "choices" in body, body
        assert body["choices"][0]["message"]["content"] == "Done."
        told = json.dumps(model.requests[-1].messages)
        assert "no shell here" in told
        (home / "hooks.toml").unlink()
        (home / "config.toml").write_text(f'allowed_models = ["other*"]\n{text}', encoding="utf-8")
        gateway.server.agents._read_at = 0.0  # pyright: ignore[reportPrivateUsage]
        refused = gateway.chat("go", model="scripted")
        assert refused.status_code == 404
        assert "The settings do not allow the model" in refused.text
        (home / "config.toml").write_text(f"deny_network = true\n{text}", encoding="utf-8")
        gateway.server.agents._read_at = 0.0  # pyright: ignore[reportPrivateUsage]
        stopped = gateway.chat("go")
        assert stopped.status_code >= 400
        assert "deny_network would restrict the agent" in stopped.text


TOOL = """
import time
from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, ToolPermission

class Args(BaseModel):
    want: str

class Checked(BaseTool[Args, BaseToolConfig, BaseToolState]):
    "Gives what it is told."

    def check_allowlist_denylist(self, args):
        if args.want == "raise":
            raise ValueError("no idea")
        known = {"never": ToolPermission.NEVER, "ask": ToolPermission.ASK, "always": ToolPermission.ALWAYS}
        return {**known}.get(args.want, args.want)

    async def run(self, args: Args):
        return "ran"
"""
CHECKS = {
    ("never", "--yes=checked"): "denies this call itself",
    ("raise", "--yes=checked"): "its own check failed: ValueError: no idea",
    ("odd", "--yes=checked"): "which is no permission",
    ("ask", "--yes=checked"): "nobody is here to approve it",
    ("always", ""): "nobody is here to approve it",
    ("always", "--yes=checked"): "ran",
}


@pytest.mark.requirement("config.guards.custom-check")
@pytest.mark.parametrize(("want", "options"), CHECKS)
def test_a_custom_tools_own_check_narrows(session: Session, want: str, options: str) -> None:
    tools = session.folder / "vibe" / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "checked.py").write_text(TOOL, encoding="utf-8")
    session.model.will_reply(call("checked", want=want), say("Done."))
    session.run(f"%vibe {options} go")
    assert CHECKS[want, options] in results(session)[-1]


@pytest.mark.requirement("config.guards.custom-check")
def test_later_releases_ask_resolve_permission(session: Session) -> None:
    tools = session.folder / "vibe" / "tools"
    tools.mkdir(exist_ok=True)
    later = TOOL.replace("Checked", "Later").replace("check_allowlist_denylist", "resolve_permission")
    given = "from vibe.core.tools.permissions import PermissionContext\n"
    later = later.replace(
        "return {**known}", 'return PermissionContext(permission="never", reason="not today")\n        return {**known}'
    )
    earlier = "    def check_allowlist_denylist(self, args):\n        return ToolPermission.ASK\n"
    both = later.replace("Later(", "Both(") + earlier
    for name, text in (("later", later), ("both", both)):
        (tools / f"{name}.py").write_text(given + text, encoding="utf-8")
        session.model.will_reply(call(name, want="x"), say("Done."))
        session.run(f"%vibe --yes={name} go")
        assert "denies this call itself: not today" in results(session)[-1]
