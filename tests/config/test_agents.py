"""Agents in files: what a file says, which agents are left, and what a profile may and may not change."""

from pathlib import Path

import pytest

from tests.config.conftest import Home
from vibe_jupyter.app.agents import profile_files
from vibe_jupyter.app.deferred_tools import stored_specs
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.config import BUILT_IN_AGENTS, ProfileFile, Profiles, Settings, read_profile
from vibe_jupyter.config.agents import ProfileRules
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol import Level

WHOLE = """\
name = "reviewer"
display_name = "Code Reviewer"
description = "Reviews code"
safety = "safe"
agent_type = "subagent"
active_model = "local"
[tools.bash]
permission = "never"
"""


def profile_of(text: str, name: str = "x.toml") -> ProfileFile:
    return ProfileFile(Path("agents") / name, text)


def own_agent(settings: KernelSettings, name: str, text: str = "", folder: str = "agents") -> Path:
    path = Path(settings.environ["VIBE_HOME"]) / folder / f"{name}.toml"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def settings(home: Home, tmp_path: Path) -> KernelSettings:
    """Of a user and a project who have none yet."""
    (tmp_path / "project").mkdir()
    return KernelSettings(tmp_path / "project", home.environ)


@pytest.mark.requirement("agents.profile.fields")
def test_a_file_says_name_display_name_description_safety_type_and_overrides() -> None:
    profile = read_profile(profile_of(WHOLE))
    assert (profile.name, profile.display_name, profile.description) == ("reviewer", "Code Reviewer", "Reviews code")
    assert (profile.safety, profile.agent_type) == ("safe", "subagent")
    assert profile.overrides.plain() == {"active_model": "local", "tools": {"bash": {"permission": "never"}}}


@pytest.mark.requirement("agents.profile.type", "agents.profile.safety", "agents.files.name")
def test_what_a_file_leaves_out_is_neutral_an_agent_and_named_as_the_file_is() -> None:
    profile = read_profile(profile_of("", "quiet.one.toml"))
    assert (profile.name, profile.safety, profile.agent_type) == ("quiet.one", "neutral", "agent")
    assert read_profile(profile_of('name = "loud"', "quiet.toml")).name == "loud"
    assert read_profile(profile_of('agent_type = "subagent"')).is_subagent


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("safety = ", "is not TOML"),
        ('\nsafety = "harmless"', "x.toml, at safety: expected 'safe', 'neutral', 'destructive' or 'yolo'"),
        ('agent_type = "helper"', "x.toml, at agent_type: expected 'agent' or 'subagent'"),
        ('name = "a/b"', "x.toml, at name: expected a name, not a path"),
        ('max_turns = "many"', "x.toml, at max_turns: expected a whole number"),
        ('[tools.bash]\npermission = "sometimes"', "x.toml, at tools.bash.permission: expected 'always'"),
    ],
)
def test_a_broken_file_is_refused_with_its_name_and_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_profile(profile_of(text))
    assert str(Path("agents") / "x.toml") in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.requirement("config.key.enabled_agents")
@pytest.mark.parametrize(
    ("enabled", "disabled", "left"),
    [
        ((), (), ["default", "plan", "accept-edits", "auto-approve"]),
        (("default", "PLAN"), (), ["default", "plan"]),
        ((), ("auto-*",), ["default", "plan", "accept-edits"]),
        (("re:.*a.*",), ("plan",), ["default", "accept-edits", "auto-approve"]),
    ],
)
def test_both_lists_select_by_names_globs_and_expressions(
    enabled: tuple[str, ...], disabled: tuple[str, ...], left: list[str]
) -> None:
    profiles = Profiles(BUILT_IN_AGENTS, Settings(enabled_agents=enabled, disabled_agents=disabled))
    assert [one.name for one in profiles.main_agents()] == left
    for gone in {"default", "plan", "accept-edits", "auto-approve"}.difference(left):
        with pytest.raises(ConfigError, match=rf"The settings leave no agent '{gone}'.*There are: {', '.join(left)}"):
            profiles.main_agent(gone)


@pytest.mark.requirement("agents.select.subagent-refused")
def test_a_sub_agent_takes_no_prompt_and_an_agent_works_for_no_other(settings: KernelSettings) -> None:
    own_agent(settings, "digger", 'agent_type = "subagent"')
    for name in ("explore", "digger"):
        with pytest.raises(ConfigError, match=f"'{name}' is a sub-agent.*There are: default, plan"):
            settings.current(name)
    assert [one.name for one in settings.current().profiles.subagents()] == ["explore", "digger"]
    with pytest.raises(
        ConfigError, match=r"'plan' is not a sub-agent: .*recursive spawning\. There are: explore, digger"
    ):
        settings.current().profiles.subagent("plan")


def test_an_agent_of_mistral_vibe_3_is_ours_unless_there_is_one_of_that_name() -> None:
    profiles = Profiles(BUILT_IN_AGENTS, Settings())
    for name in ("ask", "smart-approve"):
        assert profiles.main_agent(name).name == "default"
    own = read_profile(profile_of('description = "mine"\n', "ask.toml"))
    assert Profiles([own, *BUILT_IN_AGENTS], Settings()).main_agent("ask") is own


def test_an_agent_that_explores_is_offered_what_reads_and_searches(settings: KernelSettings) -> None:
    current = settings.current()
    explorer = settings.under(current, current.profiles.subagent("explore"))
    offered = {spec.name for spec in stored_specs() if explorer.offers_tool(spec.name)}
    assert offered == {"read_file", "grep", "read_notebook", "inspect", "run_code"}
    assert explorer.settings.levels()["run_code"] == "sandbox"
    assert not explorer.offers_tool("mcp__any__tool")


def test_the_users_own_agents_come_before_built_in_ones_and_of_one_name_the_first_is_used(
    settings: KernelSettings, home: Home
) -> None:
    home.user('agent_paths = ["more", "one/single.toml", "absent"]')
    first = own_agent(settings, "reviewer", 'description = "the first"', "more")
    second = own_agent(settings, "reviewer", 'description = "the second"')
    own_agent(settings, "single", "", "one")
    own_agent(settings, "plan", 'safety = "neutral"')
    profiles = settings.current().profiles
    assert [one.name for one in profiles.main_agents()][:3] == ["default", "plan", "accept-edits"]
    assert {"reviewer", "single"} <= {one.name for one in profiles.main_agents()}
    assert profiles.main_agent("reviewer").path == first
    assert profiles.main_agent("plan").safety == "neutral"
    absent, twice = profiles.problems
    assert f"Cannot read {home.folder / 'absent'}" in absent
    assert twice == f"{second} is not used: {first} has an agent reviewer already."


def test_an_edit_of_a_file_counts_at_the_next_reading(settings: KernelSettings) -> None:
    path = own_agent(settings, "counting")
    for turns in (11, 12):
        path.write_text(f"max_turns = {turns}", encoding="utf-8")
        assert settings.current("counting").reading.settings.max_turns == turns
    path.unlink()
    with pytest.raises(ConfigError, match="There is no agent 'counting'"):
        settings.current("counting")


def test_a_profile_neither_allows_what_is_forbidden_nor_offers_what_is_not_enabled(
    settings: KernelSettings, home: Home
) -> None:
    home.user(
        'enabled_tools = ["read_*", "bash", "grep"]\ndisabled_tools = ["grep"]\n[tools.read_file]\npermission = "never"'
    )
    own_agent(
        settings,
        "wide",
        'enabled_tools = ["read_file", "run_code", "grep"]\n[tools.read]\npermission = "always"\n'
        '[tools.bash]\npermission = "always"',
    )
    reading = settings.current("wide").reading
    assert {spec.name for spec in stored_specs() if reading.leaves_tool(spec.name)} == {"read_file"}
    assert {spec.name for spec in stored_specs() if reading.offers_tool(spec.name)} == set()
    assert reading.settings.levels() == {"read_file": "never", "bash": "always"}
    assert settings.without_profile().levels() == {"read_file": "never"}


@pytest.mark.attack("untrusted folders", always=True)
def test_a_folders_agents_count_once_it_is_trusted_and_replace_no_built_in_one(settings: KernelSettings) -> None:
    folder = settings.project.folder
    (folder / ".vibe" / "agents").mkdir(parents=True)
    (folder / "more").mkdir()
    (folder / ".vibe" / "config.toml").write_text('agent_paths = ["more"]', encoding="utf-8")
    (folder / ".vibe" / "agents" / "theirs.toml").write_text(
        'safety = "yolo"\nbypass_tool_permissions = true\n[privacy]\nallow = ["*"]', encoding="utf-8"
    )
    (folder / ".vibe" / "agents" / "default.toml").write_text("bypass_tool_permissions = true", encoding="utf-8")
    (folder / "more" / "another.toml").write_text("", encoding="utf-8")
    question = settings.project.look().question
    assert question is not None
    assert "the agent theirs (yolo): bypass_tool_permissions = True" in question.brings
    assert "the agent another (neutral): no settings of its own" in question.brings
    assert not [line for line in question.brings if "privacy" in line]
    assert "theirs" not in settings.agent_names()
    settings.project.answer(question, trusted=True)
    assert {"theirs", "another"} <= set(settings.agent_names())
    theirs = settings.current("theirs")
    assert theirs.reading.settings.bypass_tool_permissions
    assert theirs.reading.settings.privacy.allow == ()
    (problem,) = theirs.profiles.problems
    assert "a folder cannot replace the built-in agent default" in problem
    assert not settings.settings().bypass_tool_permissions
    (folder / "more" / "another.toml").write_text("max_turns = 3", encoding="utf-8")
    assert "theirs" not in settings.agent_names()


def test_a_file_beside_a_folders_tools_is_no_agent(settings: KernelSettings) -> None:
    folder = settings.project.folder
    (folder / ".vibe").mkdir()
    (folder / "tools").mkdir()
    (folder / ".vibe" / "config.toml").write_text('tool_paths = ["tools"]', encoding="utf-8")
    (folder / "tools" / "ruff.toml").write_text("line-length = 100", encoding="utf-8")
    look = settings.project.look()
    assert profile_files(look, look.brought.files) == []


@pytest.mark.parametrize(
    ("callers", "own", "then"),
    [
        (None, None, None),
        (None, "always", None),
        (None, "ask", "ask"),
        (None, "never", "never"),
        ("always", None, "always"),
        ("always", "ask", "ask"),
        ("always", "always", "always"),
        ("ask", "always", "ask"),
        ("ask", "never", "never"),
        ("never", "always", "never"),
    ],
)
def test_an_agent_that_works_for_another_may_do_no_more_than_it(
    callers: Level | None, own: Level | None, then: Level | None
) -> None:
    def rules(level: Level | None) -> ProfileRules:
        return ProfileRules({} if level is None else {"bash": level})

    assert rules(own).within(rules(callers)) == rules(then)


def test_of_two_lists_of_tools_both_must_leave_a_tool() -> None:
    narrow, wide = ProfileRules(enabled=(("read_*",),)), ProfileRules(enabled=(("read_file", "bash"),))
    both = wide.within(narrow)
    assert [name for name in ("read_file", "read_notebook", "bash") if both.offers_tool((name,))] == ["read_file"]
    assert ProfileRules().within(narrow) == narrow
