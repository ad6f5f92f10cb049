"""Files of hooks, read in the forms of Mistral Vibe and of Claude Code."""

from pathlib import Path

import pytest

from tests.hooks.cases import CASES, TOOLS, FileCase
from vibe_jupyter.app.hooks import load_hooks
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.hooks.definition import Hook, HookForm

PLACES = {"hooks.toml": ".vibe/hooks.toml", "hooks.json": ".vibe/hooks.json", "settings.json": ".claude/settings.json"}


@pytest.mark.requirement("config.hooks.forms")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_file_selects_the_tools_that_do_what_its_own_do(tmp_path: Path, case: FileCase) -> None:
    files = {PLACES[case.file]: case.text.encode()}
    environ = {"VIBE_HOME": str(tmp_path / "none")}
    if case.wrong:
        with pytest.raises(ConfigError) as caught:
            load_hooks(tmp_path, files, environ, trusted=True)
        assert str(caught.value).startswith(str(tmp_path / PLACES[case.file]))
        assert case.wrong in str(caught.value)
        waiting = load_hooks(tmp_path, files, environ, trusted=False)
        assert waiting.is_unreadable
        return
    loaded = load_hooks(tmp_path, files, environ, trusted=True)
    for event, tools in case.judges.items():
        hooks = [hook for hook in loaded.hooks if hook.event == event]
        assert tuple(tool for tool in TOOLS if any(hook.matched_name(TOOLS[tool]) for hook in hooks)) == tools
    assert tuple(one.key for one in loaded.unheeded) == case.unheeded


@pytest.mark.requirement("config.hooks.forms")
@pytest.mark.parametrize(
    ("form", "match", "tool", "name"),
    [
        ("vibe", "*", "search_replace", "edit"),
        ("vibe", "search_replace", "search_replace", "search_replace"),
        ("vibe", "re:search_replace|edit", "search_replace", "edit"),
        ("vibe", "*", "mcp__git__push", "mcp__git__push"),
        ("vibe", "git_*", "mcp__git__push", "git_push"),
        ("claude", "*", "write_file", "Write"),
        ("claude", "write_file", "write_file", "write_file"),
        ("claude", "write_file|Write", "write_file", "Write"),
        ("claude", "Bash", "write_file", None),
    ],
)
def test_of_the_names_of_a_tool_that_a_match_selects_the_forms_own_is_named(
    form: HookForm, match: str, tool: str, name: str | None
) -> None:
    hook = Hook(name="one", event="pre_tool", command="true", form=form, source=Path("hooks.toml"), match=match)
    assert hook.matched_name(TOOLS[tool]) == name


@pytest.mark.requirement("config.hooks.forms")
def test_stop_is_for_the_main_agent_and_a_match_names_an_agent(tmp_path: Path) -> None:
    text = """
[[hooks]]
name = "main"
type = "post_agent"
match = "main"
command = "true"
[[hooks]]
name = "named"
type = "post_agent"
match = "expl*"
command = "true"
"""
    claude = (
        '{"hooks": {"Stop": [{"hooks": [{"command": "true"}]}], "SubagentStop": [{"hooks": [{"command": "true"}]}]}}'
    )
    files = {".vibe/hooks.toml": text.encode(), ".claude/settings.json": claude.encode()}
    hooks = load_hooks(tmp_path, files, {"VIBE_HOME": str(tmp_path / "none")}, trusted=True).hooks
    main = [hook.selects_agent("default", is_main=True) for hook in hooks]
    below = [hook.selects_agent("explore", is_main=False) for hook in hooks]
    assert (main, below) == ([True, False, True, False], [False, True, False, True])
