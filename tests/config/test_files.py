"""Files: what is wrong in them is said with file and key; what we do not use is no fault."""

import pytest

from tests.config.conftest import Home
from vibe_jupyter.errors import ConfigError

SEED_EXAMPLE = """\
active_model = "devstral-2"
textual_theme = "terminal"

# Project context settings
[project_context]
max_chars = 30000
max_depth = 4
max_files = 500

# Include all context
include_commit_signature = true
include_model_info = true
include_prompt_detail = true
include_project_context = false
"""


@pytest.mark.requirement("config.format.toml-error")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("active_model = \n", "is not TOML: Invalid value (at line 1, column 16)"),
        ('\n\nmax_turns = "7"\n', "config.toml, at max_turns: expected a whole number"),
        ("transcript_times = 1\n", "config.toml, at transcript_times: expected true or false"),
        ('disabled_tools = "x"\n', "config.toml, at disabled_tools: expected a list in [ ]"),
        ('# one\n[[models]]\nname = "m"\n', "config.toml, at models.m: provider is required but missing"),
        (
            '[[models]]\nname = "m"\nprovider = "p"\ntemperature = 3\n',
            "config.toml, at models.m.temperature: expected 2 or less",
        ),
        (
            '[tools.bash]\ndefault_timeout = "5"\n',
            ", at tools.bash.default_timeout: expected a whole number",
        ),
        ("[tools.bash]\ndefault_timeout = 0\n", "config.toml, at tools.bash.default_timeout: expected 1 or more"),
        ("tools.bash = 1\n", "config.toml, at tools.bash: expected a table"),
        ('system_prompt_id = "../../x"\n', "config.toml, at system_prompt_id: expected a name, not a path"),
        (
            '[[mcp_servers]]\nname = "s"\ntransport = "stdio"\n',
            "config.toml, at mcp_servers.s: command is required but missing",
        ),
        (
            '[[mcp_servers]]\nname = "s"\ncommand = "a \\"b"\n',
            ", at mcp_servers.s.command: No closing quotation",
        ),
        (
            '[[mcp_servers]]\nurl = "http://a"\napi_key_format = "x"\n',
            "config.toml, at mcp_servers.0.api_key_format: expected {tok",
        ),
        (
            '[[mcp_servers]]\nname = "s"\ntransport = "stdio"\nargs = [1]\ncommand="x"\n',
            ", at mcp_servers.s.args.0",
        ),
        ('[tools.edit]\npermission = "x"\n', "config.toml, at tools.edit.permission: expected 'always'"),
        ('auto_approve = "x"\n', "config.toml, at auto_approve: expected true or false"),
        ('[tools."a\\u001b[1m"]\npermission = 1\n', "config.toml, at tools.'a\\x1b[1m'.permission: expected"),
        ('[tools."a.b"]\npermission = 1\n', "config.toml, at tools.'a.b'.permission: expected"),
        ('[tools.""]\npermission = 1\n', "config.toml, at tools.''.permission: expected"),
        (f"tools.mine.most = {2**63}\n", "config.toml, at tools.mine.most: the number is larger than"),
        ('name = "\\ud800"\n', "is not TOML"),
        (f"max_turns = {'1' * 5_000}\n", "is not TOML"),
        (f"a{'.a' * 60} = 1\n", "is nested too deeply"),
        (f"a{'.a' * 2_000} = 1\n", "is nested too deeply"),
    ],
)
def test_a_wrong_value_is_an_error_with_file_and_key_as_written(home: Home, text: str, words: str) -> None:
    home.user(text)
    with pytest.raises(ConfigError) as raised:
        home.read()
    assert str(raised.value).startswith(str(home.file))
    assert words in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(home: Home) -> None:
    home.file.write_bytes(b"max_turns = 5 # \xff\n")
    with pytest.raises(ConfigError, match=r"Cannot read .*config\.toml"):
        home.read()
    home.file.unlink()
    home.file.mkdir()
    with pytest.raises(ConfigError, match=r"Cannot read .*config\.toml"):
        home.read()


def test_a_file_of_an_editor_that_marks_its_encoding_is_read(home: Home) -> None:
    home.file.write_bytes(b"\xef\xbb\xbfmax_turns = 5\r\n")
    assert home.read().settings.max_turns == 5


def test_an_unknown_key_is_told_with_its_table_and_the_nearest_one(home: Home) -> None:
    home.user(
        "max_turn = 3\n"
        "wholly_unknown = 1\n"
        'api_key = "sk-secret"\n'
        '[[providers]]\nname = "p"\napi_base = "http://127.0.0.1:1"\napi_key_env = "X"\n'
        "[tools.bash]\ndefault_timout = 3\n"
        "[tools.bahs]\n"
        "[session_logging]\nenabeld = true\n"
        '[[mcp_servers]]\nname = "s"\ntransport = "http"\nurl = "http://127.0.0.1:2"\nheder = 1\n'
    )
    warnings = home.read().warnings
    assert [text.removeprefix(str(home.file)) for text in warnings] == [
        ", at max_turn: it has no effect. Did you mean max_turns?",
        ", at wholly_unknown: it has no effect.",
        ", at api_key: it has no effect. Do not put keys into this file: put them into the environment, or into .env "
        "beside it.",
        ", at providers.p.api_key_env: it has no effect. Did you mean api_key_env_var?",
        ", at tools.bash.default_timout: it has no effect. Did you mean default_timeout?",
        ", at tools.bahs: there is no tool bahs. Did you mean [tools.bash]?",
        ", at session_logging.enabeld: it has no effect. Did you mean enabled?",
        ", at mcp_servers.s.heder: it has no effect. Did you mean headers?",
    ]
    assert "sk-secret" not in str(warnings)


def test_a_misspelt_tool_in_a_list_of_tools_is_named(home: Home) -> None:
    home.user(
        'disabled_tools = ["bsh", "Bash", "web*", "re:.*_cell", "my_own"]\n'
        'enabled_tools = [\n  "read_fil",\n  "read", "mcp__docs__search",\n]\n'
    )
    assert [text.removeprefix(str(home.file)) for text in home.read().warnings] == [
        ", at disabled_tools.0: there is no tool bsh. Did you mean bash?",
        ", at enabled_tools.0: there is no tool read_fil. Did you mean read_file?",
    ]


@pytest.mark.requirement("config.key.textual_theme")
def test_keys_of_mistral_vibe_that_mean_nothing_here_are_no_reason_for_a_word(home: Home) -> None:
    home.user(
        'textual_theme = "terminal"\ntheme = "dark"\nvim_keybindings = true\nenable_telemetry = false\n'
        "[experiments]\nenable = true\n"
        '[tools.bash]\nsensitive_patterns = ["sudo"]\n'
        "[tools.web_fetch]\nmax_timeout = 3\n[tools.my_own]\nanything = 1\n"
    )
    assert home.read().warnings == ()


@pytest.mark.requirement("config.misplaced.keys")
def test_keys_below_a_table_that_belong_to_the_top_are_reported_with_the_right_place(home: Home) -> None:
    home.user(SEED_EXAMPLE)
    reading = home.read()
    assert [text.removeprefix(str(home.file)) for text in reading.warnings] == [
        f": {key} belongs to the top of the file, before the first [table]; below [project_context] it is accepted "
        "anyway."
        for key in (
            "include_commit_signature",
            "include_model_info",
            "include_prompt_detail",
            "include_project_context",
        )
    ]
    assert reading.settings.include_project_context is False
    home.user('[project_context]\nactive_model = "x"\n[tools.bash]\nmax_turns = 3\n')
    assert [text.removeprefix(str(home.file)) for text in home.read().warnings] == [
        ", at project_context.active_model: it has no effect. active_model belongs to the top of the file, before the "
        "first [table].",
        ", at tools.bash.max_turns: it has no effect. max_turns belongs to the top of the file, before the first "
        "[table].",
    ]
