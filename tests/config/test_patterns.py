"""Which names a list means."""

import pytest

from tests.config.conftest import Home
from vibe_jupyter.config.tables import is_chosen, matches_pattern
from vibe_jupyter.errors import ConfigError


@pytest.mark.requirement("config.pattern.exact")
def test_a_plain_name_means_itself_only() -> None:
    assert matches_pattern("default", "default")
    assert not matches_pattern("default", "default-2")
    assert not matches_pattern("default", "my-default")


@pytest.mark.requirement("config.pattern.glob")
def test_a_glob_means_all_that_fit() -> None:
    assert [name for name in ("test-1", "test-2", "Test-3", "best-1", "test") if matches_pattern("test-*", name)] == [
        "test-1",
        "test-2",
        "Test-3",
    ]


@pytest.mark.requirement("config.pattern.regex")
def test_a_regular_expression_means_whole_names_and_a_wrong_one_is_an_error_naming_the_key(home: Home) -> None:
    assert matches_pattern("re:^serena_.*$", "serena_find")
    assert matches_pattern("re:serena", "SERENA")
    assert not matches_pattern("re:serena", "serena_find")
    for key in ("enabled_tools", "disabled_tools", "enabled_agents", "disabled_skills"):
        home.user(f'\n{key} = ["ok", "re:("]\n')
        with pytest.raises(ConfigError, match=rf"config\.toml, at {key}\.1: 're:\(' is not a regular expression"):
            home.read()


def test_both_lists_apply() -> None:
    names = ["read_file", "read_cell", "bash", "mcp__files__read"]
    left = [name for name in names if is_chosen([name], enabled=("read_*", "re:mcp__.*"), disabled=("*cell",))]
    assert left == ["read_file", "mcp__files__read"]
    assert is_chosen(["mcp__files__read", "files_read"], enabled=("files_*",), disabled=())
    assert not is_chosen(["mcp__files__read", "files_read"], enabled=(), disabled=("files_read",))
    assert is_chosen(["anything"], enabled=(), disabled=())
