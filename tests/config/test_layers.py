"""Layers: which wins, and how they are made one."""

import math

import pytest

from tests.config.conftest import Home
from vibe_jupyter import config
from vibe_jupyter.config.toml_file import SettingNode
from vibe_jupyter.config.validation import validate_settings
from vibe_jupyter.errors import ConfigError


def turns_from(home: Home, node: SettingNode) -> tuple[object, str]:
    found = node.table["max_turns"]
    return found.value, str(found.origin)


@pytest.mark.requirement("config.layers.order")
def test_each_layer_wins_over_the_ones_below(home: Home) -> None:
    assert home.read().settings.max_turns == 50
    home.user("\nmax_turns = 10\n")
    reading = home.read()
    assert turns_from(home, reading.tree) == (10, f"{home.file}, at max_turns")
    project = "max_turns = 11"
    reading = home.read(project=project)
    path = home.folder.parent / "project" / ".vibe" / "config.toml"
    assert turns_from(home, reading.tree) == (11, f"{path}, at max_turns")
    profile = 'name = "x"\nmax_turns = 12'
    assert turns_from(home, home.read(project=project, profile=profile).tree)[0] == 12
    home.environ["VIBE_MAX_TURNS"] = "13"
    reading = home.read(project=project, profile=profile)
    assert turns_from(home, reading.tree) == (13, "the variable VIBE_MAX_TURNS")
    reading = home.read(project=project, profile=profile, max_turns=14)
    assert turns_from(home, reading.tree) == (14, "the magic's options")
    assert reading.settings.max_turns == 14


@pytest.mark.requirement("config.layers.merge")
def test_scalars_replace_tables_merge_lists_join_and_named_entries_unite(home: Home) -> None:
    home.user(
        'active_model = "mine"\n'
        'enabled_tools = ["grep", "bash"]\n'
        "[[providers]]\n"
        'name = "mistral"\napi_base = "https://mine.example.org/v1"\n'
        "[[models]]\n"
        'name = "m"\nprovider = "mistral"\nalias = "mine"\n'
        "[tools.bash]\n"
        'permission = "always"\nallowlist = ["a"]\ndefault_timeout = 5\n'
        "[[mcp_servers]]\n"
        'name = "one"\ntransport = "http"\nurl = "http://127.0.0.1:1"\n'
    )
    settings = home.read(
        project=(
            'active_model = "theirs"\n'
            'enabled_tools = ["bash", "todo"]\n'
            "[[providers]]\n"
            'name = "theirs"\napi_base = "https://theirs.example.org/v1"\n'
            "[[models]]\n"
            'name = "t"\nprovider = "theirs"\nalias = "theirs"\n'
            "[tools.bash]\n"
            'permission = "ask"\nallowlist = ["b", "a"]\n'
            "[[mcp_servers]]\n"
            'name = "one"\ntransport = "http"\nurl = "http://127.0.0.1:2"\n'
            "[[mcp_servers]]\n"
            'name = "two"\ntransport = "stdio"\ncommand = ["x"]\n'
        )
    ).settings
    assert settings.active_model == "theirs"
    assert settings.enabled_tools == ("grep", "bash", "todo")
    assert [entry.name for entry in settings.providers] == ["theirs", "mistral", "llamacpp"]
    assert [entry.api_base for entry in settings.providers][1] == "https://mine.example.org/v1"
    assert settings.model_names() == ("theirs", "mine", "devstral-2", "devstral-small", "local")
    bash = settings.tools["bash"]
    assert (bash.permission, bash.allowlist, dict(bash.options)) == ("ask", ("a", "b"), {"default_timeout": 5})
    assert [(server.name, getattr(server, "url", "")) for server in settings.mcp_servers] == [
        ("one", "http://127.0.0.1:2"),
        ("two", ""),
    ]


def test_an_entry_takes_the_place_of_the_whole_one_below_so_no_key_meets_another_address(home: Home) -> None:
    home.environ["MISTRAL_API_KEY"] = "the-persons-own-key"
    home.user('[[providers]]\nname = "mistral"\napi_base = "https://other.example.org/v1"\n')
    model = config.choose_model(home.read().settings, "devstral-2", home.environ)
    assert model.server.host == "other.example.org"
    assert model.server.api_key is None


@pytest.mark.requirement("models.time.settings")
@pytest.mark.parametrize("name", ["devstral-2", "some@http://127.0.0.1:9/v1", "some@mistral"])
def test_the_time_limits_of_vibes_settings_hold_for_every_model(home: Home, name: str) -> None:
    home.environ["MISTRAL_API_KEY"] = "k"
    assert config.choose_model(home.read().settings, name, home.environ).server.begin_wait is None
    home.user("api_timeout = 720.0\napi_stream_idle_timeout = 0\n")
    server = config.choose_model(home.read().settings, name, home.environ).server
    assert (server.begin_wait, server.idle_wait) == (720.0, math.inf)
    home.user("api_timeout = -1\n")
    with pytest.raises(ConfigError, match="api_timeout"):
        home.read()


@pytest.mark.requirement("config.models.alias")
def test_a_model_is_chosen_by_alias_or_name_and_an_alias_first(home: Home) -> None:
    home.user(
        'active_model = "b"\n'
        '[[models]]\nname = "b"\nprovider = "llamacpp"\nalias = "first"\n'
        '[[models]]\nname = "c"\nprovider = "llamacpp"\nalias = "b"\n'
    )
    settings = home.read().settings
    assert config.choose_model(settings, settings.active_model, home.environ).name == "c"
    assert config.choose_model(settings, "first", home.environ).name == "b"
    assert config.choose_model(settings, "c", home.environ).alias == "b"
    home.user(
        '[[models]]\nname = "a"\nprovider = "llamacpp"\nalias = "same"\n'
        '[[models]]\nname = "b"\nprovider = "llamacpp"\nalias = "same"\n'
    )
    with pytest.raises(ConfigError, match=r"config\.toml: \[\[models\]\] names 'same' a second time"):
        home.read()


@pytest.mark.parametrize("key", ["providers", "mcp_servers"])
def test_a_repeated_name_is_an_error_that_names_it(home: Home, key: str) -> None:
    home.user(f'[[{key}]]\nname = "twice"\n[[{key}]]\nname = "twice"\n')
    with pytest.raises(ConfigError, match=rf"\[\[{key}\]\] names 'twice' a second time"):
        home.read()


def test_tools_may_be_called_as_later_versions_call_them(home: Home) -> None:
    home.user('enabled_tools = ["edit"]\n[tools.read]\npermission = "ask"\n[tools.edit]\npermission = "never"\n')
    settings = home.read().settings
    assert settings.levels() == {"read_file": "ask", "search_replace": "never"}
    assert settings.offers_tool("search_replace")
    assert not settings.offers_tool("read_file")


def test_what_was_set_for_tools_that_became_one_holds_for_it_and_the_strictest_permission_wins(home: Home) -> None:
    home.user('[tools.list_variables]\npermission = "never"\n[tools.inspect_variable]\npermission = "ask"\n')
    reading = home.read()
    assert (reading.settings.levels(), reading.warnings) == ({"inspect": "never"}, ())
    home.user('disabled_tools = ["inspect_variable"]\n[tools.inspect_variable]\npermission = "ask"\n')
    assert home.read().settings.levels() == {"inspect": "ask"}
    assert not home.read().settings.offers_tool("inspect")


def test_tools_may_be_called_as_earlier_versions_called_them(home: Home) -> None:
    home.user(
        'enabled_tools = ["read_cell", "run_cell"]\n[tools.read_output]\npermission = "never"\n'
        '[tools.read_cell]\npermission = "ask"\n[tools.run_cell]\npermission = "always"\n'
    )
    reading = home.read()
    assert reading.settings.levels() == {"read_notebook": "never", "run_cells": "always"}
    assert reading.settings.offers_tool("read_notebook")
    assert reading.settings.offers_tool("run_cells")
    assert not reading.settings.offers_tool("edit_cell")
    assert reading.warnings == ()
    home.user('[tools.read_cell]\npermission = "ask"\n[tools.read_notebook]\npermission = "always"\n')
    assert home.read().settings.levels() == {"read_notebook": "always"}


def test_an_older_name_of_a_key_is_taken(home: Home) -> None:
    home.user("auto_approve = true\n")
    reading = home.read()
    assert reading.settings.bypass_tool_permissions
    assert reading.warnings == ()


def test_keys_may_stand_in_the_persons_env_file_and_the_environment_wins(home: Home) -> None:
    (home.folder / ".env").write_text(
        "# keys\nexport MISTRAL_API_KEY='from the file'\nVIBE_MAX_TURNS=9\nVIBE_HOME=/elsewhere\nOTHER=$HOME\n",
        encoding="utf-8",
    )
    assert config.effective_environment(home.environ)["OTHER"] == "$HOME"
    assert config.effective_environment(home.environ)["VIBE_HOME"] == str(home.folder)
    settings = home.read().settings
    assert settings.max_turns == 9
    assert config.choose_model(settings, "devstral-2", home.environ).server.api_key == "from the file"
    home.environ["MISTRAL_API_KEY"] = "from outside"
    assert config.choose_model(settings, "devstral-2", home.environ).server.api_key == "from outside"
    home.environ["MISTRAL_API_KEY"] = ""
    assert config.choose_model(settings, "devstral-2", home.environ).server.api_key == "from the file"


def test_a_line_of_the_env_file_that_sets_nothing_is_named_once_and_never_shown(
    home: Home, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    file = home.folder / ".env"
    file.write_text("GOOD=1\nMISTRAL_API_KEY: planted\n\nOTHER='planted\n", encoding="utf-8")
    file.chmod(0o600)
    said = "it is no NAME=VALUE, and sets nothing."
    assert home.read().warnings == (f"{file}, line 2: {said}", f"{file}, line 4: {said}")
    assert config.effective_environment(home.environ)["GOOD"] == "1"
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_what_holds_where_nothing_is_set_passes_the_checks_it_is_spared(home: Home) -> None:
    reading = home.read()
    assert reading.settings == validate_settings(reading.tree)
