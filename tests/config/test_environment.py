"""``VIBE_*`` variables: every key, nested ones too, each of its own kind."""

import pytest

from tests.config.conftest import Home
from vibe_jupyter.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("VIBE_ACTIVE_MODEL", "7", "active_model", "7"),
        ("VIBE_MAX_TURNS", "7", "max_turns", 7),
        ("VIBE_TRANSCRIPT_TIMES", "off", "transcript_times", False),
        ("VIBE_AUTO_APPROVE", "1", "bypass_tool_permissions", True),
        ("VIBE_ENABLED_TOOLS", '["a", "re:b,c"]', "enabled_tools", ("a", "re:b,c")),
        ("VIBE_DISABLED_TOOLS", "a, b", "disabled_tools", ("a", "b")),
    ],
)
def test_a_variable_sets_its_key(home: Home, name: str, text: str, key: str, value: object) -> None:
    home.environ[name] = text
    reading = home.read()
    assert getattr(reading.settings, key) == value
    assert reading.warnings == ()


def test_nested_keys_are_joined_by_two_underscores(home: Home) -> None:
    home.user('[tools.bash]\npermission = "always"\ndefault_timeout = 5\n')
    home.environ |= {
        "VIBE_TOOLS__BASH__PERMISSION": "ask",
        "VIBE_TOOLS__BASH__MAX_OUTPUT_BYTES": "1000",
        "VIBE_TOOLS__MINE__DEPTH": "3",
        "VIBE_SESSION_LOGGING__ENABLED": "no",
        "VIBE_PROJECT_CONTEXT__TIMEOUT_SECONDS": "0.5",
    }
    settings = home.read().settings
    assert settings.tools["bash"].permission == "ask"
    assert dict(settings.tools["bash"].options) == {"default_timeout": 5, "max_output_bytes": 1000}
    assert dict(settings.tools["mine"].options) == {"depth": 3}
    assert settings.session_logging.enabled is False
    assert settings.project_context.timeout_seconds == 0.5


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("VIBE_MAX_TURNS", "many", "expected a whole number"),
        ("VIBE_MAX_TURNS", "0", "expected 1 or more"),
        ("VIBE_TRANSCRIPT", "short", "expected 'full', 'summary' or 'none'"),
        ("VIBE_TOOLS__BASH__PERMISSION", "sometimes", "expected 'always', 'ask', 'sandbox' or 'never'"),
        ("VIBE_TOOLS__BASH__DEFAULT_TIMEOUT", "long", "expected a whole number"),
        ("VIBE_DISABLED_TOOLS", "re:(", "is not a regular expression"),
        ("VIBE_SYSTEM_PROMPT_ID", "../x", "expected a name, not a path"),
        ("VIBE_PROVIDERS", "[1]", "expected a table"),
    ],
)
def test_a_wrong_value_is_blamed_on_the_variable(home: Home, name: str, text: str, words: str) -> None:
    home.environ[name] = text
    home.user("max_turns = 5\n")
    with pytest.raises(ConfigError) as raised:
        home.read()
    assert name in str(raised.value)
    assert words in str(raised.value)
    assert "config.toml" not in str(raised.value)


def test_a_slip_is_told_and_what_belongs_to_others_is_not(home: Home) -> None:
    home.environ |= {"VIBE_MAX_TURN": "3", "VIBE_TEXTUAL_THEME": "x", "VIBE_SOMETHING_ELSE": "y", "VIBE_MODELS": ""}
    home.environ |= {"VIBE_TOOLS__BASH": "x", "VIBE_SESSION_LOGGING__ENABELD": "x"}
    assert home.read().warnings == (
        "The environment variable VIBE_MAX_TURN has no effect. Did you mean VIBE_MAX_TURNS?",
        "The environment variable VIBE_SESSION_LOGGING__ENABELD has no effect: session_logging has no such key.",
        "The environment variable VIBE_TOOLS__BASH has no effect: tools has no such key.",
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VIBE_PRIVACY_MODE", "VIBE_PRIVACY__MODE"),
        ("VIBE_SESSION_LOGGING_ENABLED", "VIBE_SESSION_LOGGING__ENABLED"),
        ("VIBE_SANDBOX_EXPLORE", "VIBE_SANDBOX__EXPLORE"),
        ("VIBE_TOOLS_BASH_PERMISSION", "VIBE_TOOLS__BASH__PERMISSION"),
        ("VIBE_TOOLS__READ_FILE_PERMISSION", "VIBE_TOOLS__READ_FILE__PERMISSION"),
    ],
)
def test_where_an_underscore_lacks_the_variable_that_is_meant_is_named(home: Home, name: str, meant: str) -> None:
    home.environ[name] = "never"
    assert home.read().warnings == (f"The environment variable {name} has no effect. Did you mean {meant}?",)


def test_a_tool_that_a_variable_misspells_is_told_as_one_in_a_file_is(home: Home) -> None:
    home.environ |= {"VIBE_TOOLS__BSH__PERMISSION": "never", "VIBE_DISABLED_TOOLS": "run_cod"}
    assert home.read().warnings == (
        "the variable VIBE_DISABLED_TOOLS: there is no tool run_cod. Did you mean run_code?",
        "the variable VIBE_TOOLS__BSH__PERMISSION: there is no tool bsh. Did you mean [tools.bash]?",
    )
