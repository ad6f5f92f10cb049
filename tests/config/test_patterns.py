"""Which names a list means."""

import pytest

from tests.config.conftest import Home
from vibe_jupyter.config.patterns import chosen, matches
from vibe_jupyter.errors import ConfigError


@pytest.mark.requirement("config.pattern.exact")
def test_a_plain_name_means_itself_only() -> None:
    assert matches("default", "default")
    assert not matches("default", "default-2")
    assert not matches("default", "my-default")


@pytest.mark.requirement("config.pattern.glob")
def test_a_glob_means_all_that_fit() -> None:
    assert [name for name in ("test-1", "test-2", "Test-3", "best-1", "test") if matches("test-*", name)] == [
        "test-1",
        "test-2",
        "Test-3",
    ]


@pytest.mark.requirement("config.pattern.regex")
def test_a_regular_expression_means_whole_names_and_a_wrong_one_is_an_error_naming_the_key(home: Home) -> None:
    assert matches("re:^serena_.*$", "serena_find")
    assert matches("re:serena", "SERENA")
    assert not matches("re:serena", "serena_find")
    for key in ("enabled_tools", "disabled_tools", "enabled_agents", "disabled_skills"):
        home.user(f'\n{key} = ["ok", "re:("]\n')
        with pytest.raises(ConfigError, match=rf"line 2: {key}\.1: 're:\(' is no regular expression"):
            home.read()


def test_both_lists_apply() -> None:
    names = ["read_file", "read_cell", "bash", "mcp__files__read"]
    left = [name for name in names if chosen([name], enabled=("read_*", "re:mcp__.*"), disabled=("*cell",))]
    assert left == ["read_file", "mcp__files__read"]
    assert chosen(["mcp__files__read", "files_read"], enabled=("files_*",), disabled=())
    assert not chosen(["mcp__files__read", "files_read"], enabled=(), disabled=("files_read",))
    assert chosen(["anything"], enabled=(), disabled=())
