"""Files: what is wrong in them is said with file, line and key; what we do not use is no fault."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.config.conftest import Home
from tests.drawn_values import PATIENT
from vibe_jupyter.config.toml_file import SettingNode, parse_toml
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
        ('\n\nmax_turns = "7"\n', "line 3: max_turns: expected a whole number"),
        ("transcript_times = 1\n", "line 1: transcript_times: expected true or false"),
        ('disabled_tools = "x"\n', "line 1: disabled_tools: expected a list in [ ]"),
        ('# one\n[[models]]\nname = "m"\n', "line 2: models.m.provider: it is required but missing"),
        (
            '[[models]]\nname = "m"\nprovider = "p"\ntemperature = 3\n',
            "line 4: models.m.temperature: expected 2 or less",
        ),
        ('[tools.bash]\ndefault_timeout = "5"\n', "line 2: tools.bash.default_timeout: expected a whole number"),
        ("[tools.bash]\ndefault_timeout = 0\n", "line 2: tools.bash.default_timeout: expected 1 or more"),
        ("tools.bash = 1\n", "line 1: tools.bash: expected a table"),
        ('system_prompt_id = "../../x"\n', "line 1: system_prompt_id: expected a name, not a path"),
        (
            '[[mcp_servers]]\nname = "s"\ntransport = "stdio"\n',
            "line 1: mcp_servers.s.command: it is required but missing",
        ),
        ('[[mcp_servers]]\nname = "s"\ncommand = "a \\"b"\n', "line 3: mcp_servers.s.command: No closing quotation"),
        (
            '[[mcp_servers]]\nurl = "http://a"\napi_key_format = "x"\n',
            "line 3: mcp_servers.0.api_key_format: expected {tok",
        ),
        ('[[mcp_servers]]\nname = "s"\ntransport = "stdio"\nargs = [1]\ncommand="x"\n', "line 4: mcp_servers.s.args.0"),
        ('name = "\\ud800"\n', "is not TOML"),
        (f"max_turns = {'1' * 5_000}\n", "is not TOML"),
        (f"a{'.a' * 60} = 1\n", "is nested too deeply"),
        (f"a{'.a' * 2_000} = 1\n", "is nested too deeply"),
    ],
)
def test_a_wrong_value_is_an_error_with_file_line_and_key(home: Home, text: str, words: str) -> None:
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


def test_an_unknown_key_is_told_with_its_line_and_the_nearest_one(home: Home) -> None:
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
        ", line 1: max_turn has no effect. Did you mean max_turns?",
        ", line 2: wholly_unknown has no effect.",
        ", line 3: api_key has no effect. Do not put keys into this file: put them into the environment, or into "
        ".env beside it.",
        ", line 7: providers.api_key_env has no effect. Did you mean api_key_env_var?",
        ", line 9: tools.bash.default_timout has no effect. Did you mean default_timeout?",
        ", line 10: there is no tool bahs. Did you mean [tools.bash]?",
        ", line 12: session_logging.enabeld has no effect. Did you mean enabled?",
        ", line 17: mcp_servers.heder has no effect. Did you mean headers?",
    ]
    assert "sk-secret" not in str(warnings)


def test_a_misspelt_tool_in_a_list_of_tools_is_named(home: Home) -> None:
    home.user(
        'disabled_tools = ["bsh", "Bash", "web*", "re:.*_cell", "my_own"]\n'
        'enabled_tools = [\n  "read_fil",\n  "read", "mcp__docs__search",\n]\n'
    )
    assert [text.removeprefix(str(home.file)) for text in home.read().warnings] == [
        ", line 1: there is no tool bsh. Did you mean bash?",
        ", line 2: there is no tool read_fil. Did you mean read_file?",
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
        f", line {line}: {key} belongs to the top of the file, before the first [table]; below [project_context] it is "
        "accepted anyway."
        for line, key in (
            (11, "include_commit_signature"),
            (12, "include_model_info"),
            (13, "include_prompt_detail"),
            (14, "include_project_context"),
        )
    ]
    assert reading.settings.include_project_context is False
    home.user('[project_context]\nactive_model = "x"\n[tools.bash]\nmax_turns = 3\n')
    assert [text.removeprefix(str(home.file)) for text in home.read().warnings] == [
        ", line 2: project_context.active_model has no effect. active_model belongs to the top of the file, before the "
        "first [table].",
        ", line 4: tools.bash.max_turns has no effect. max_turns belongs to the top of the file, before the first "
        "[table].",
    ]


KEYS = st.text("abcdef", min_size=1, max_size=3)
VALUES = st.sampled_from(
    [
        "1",
        '"#"',
        "'['",
        '"""\n[x]\n"""',
        "'''\na = 1\n'''",
        "[\n 1,\n # ]\n 2 ]",
        "{a = {b = 1}}",
        "[{x = 1}, {x = 2}]",
        "1979-05-27",
    ]
)


LINES = st.lists(st.tuples(KEYS, VALUES), max_size=4)


@PATIENT
@given(st.lists(st.tuples(st.sampled_from(["[{}]", "[[{}]]"]), LINES), max_size=5))
def test_every_key_knows_its_line(sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    text, expected = "", {}
    for number, (header, pairs) in enumerate(sections):
        name = f"s{number // 2}" if header == "[[{}]]" else f"t{number}"
        text += f"# a comment\n{header.format(name)}\n\n"
        written: set[str] = set()
        for key, value in pairs:
            if key not in written:
                written.add(key)
                expected[number, key] = text.count("\n") + 1
                text += f"{key} = {value}  # [not] a = header\n"
    tree = parse_toml(text, Path("config.toml"), "user")
    assert dict(lines_of(tree, sections)) == expected


def lines_of(
    tree: SettingNode, sections: list[tuple[str, list[tuple[str, str]]]]
) -> list[tuple[tuple[int, str], int | None]]:
    """The line of each key, by the number of its section."""
    seen: dict[str, int] = {}
    out: list[tuple[tuple[int, str], int | None]] = []
    for number, (header, _) in enumerate(sections):
        if header == "[[{}]]":
            name = f"s{number // 2}"
            table = tree.table[name].items[seen.get(name, 0)]
            seen[name] = seen.get(name, 0) + 1
        else:
            table = tree.table[f"t{number}"]
        out += [((number, key), node.origin.line) for key, node in table.table.items()]
    return out


def test_a_long_string_costs_no_more_than_reading_it_a_few_times(home: Home) -> None:
    home.user('text = """\n' + "]\n" * 200_000 + '"""\nmax_turns = "x"\n')
    with pytest.raises(ConfigError, match=r"config\.toml: max_turns: expected a whole number"):
        home.read()
