"""`%vibe config`: every value with its origin, and no secret among them."""

from tests.config.conftest import Home
from vibe_jupyter.config.listing import list_places, list_settings


def rows(home: Home) -> dict[str, tuple[str, str]]:
    """Key to value and origin."""
    text = list_settings(home.read(), home.environ)
    found = [line.partition(" = ") for line in text.splitlines() if not line.startswith("!")]
    return {key: (rest.rpartition("  # ")[0].strip(), rest.rpartition("  # ")[2]) for key, _, rest in found}


def test_each_value_says_where_it_was_set(home: Home) -> None:
    home.user('active_model = "mine"\n\n[tools.bash]\npermission = "ask"\n[session_logging]\nenabled = false\n')
    home.environ |= {"VIBE_MAX_TURNS": "7", "VIBE_DISABLED_TOOLS": "grep"}
    listed = rows(home)
    assert listed["active_model"] == ('"mine"', str(home.file))
    assert listed["tools.bash.permission"] == ('"ask"', str(home.file))
    assert listed["session_logging.enabled"] == ("false", str(home.file))
    assert listed["session_logging.session_prefix"] == ('"session"', "default")
    assert listed["max_turns"] == ("7", "the variable VIBE_MAX_TURNS")
    assert listed["disabled_tools"] == ('["grep"]', "the variable VIBE_DISABLED_TOOLS")
    assert listed["tools.bash.default_timeout"] == ("300", "default")
    assert listed["models.devstral-2.name"] == ('"mistral-vibe-cli-latest"', "default")
    assert listed["transcript"] == ('"full"', "default")


def test_a_joined_list_names_all_its_origins(home: Home) -> None:
    home.user('disabled_tools = ["a"]\n')
    home.environ["VIBE_DISABLED_TOOLS"] = "b"
    assert rows(home)["disabled_tools"] == ('["a", "b"]', f"{home.file} and the variable VIBE_DISABLED_TOOLS")


def test_what_is_wrong_stands_at_the_end(home: Home) -> None:
    home.user("max_turn = 3\n")
    last = list_settings(home.read(), home.environ).splitlines()[-1]
    assert last == f"! {home.file}, at max_turn: it has no effect. Did you mean max_turns?"


def test_no_secret_is_among_them(home: Home) -> None:
    home.user(
        '[[providers]]\nname = "p"\napi_base = "https://me:pw1234@example.org/v1"\napi_key_env_var = "P_KEY"\n'
        '[[mcp_servers]]\nname = "s"\ntransport = "stdio"\ncommand = "x --api-key secret-1 -v"\n'
        'args = ["--token=secret-2", "--depth=3"]\nenv = {A = "secret-3"}\n'
        '[[mcp_servers]]\nname = "h"\ntransport = "http"\nurl = "http://127.0.0.1:1/value-of-p-key"\n'
        'headers = {Authorization = "Bearer secret-4"}\n'
        '[tools.mine]\napi_token = "secret-5"\n'
    )
    home.environ["P_KEY"] = "value-of-p-key"
    text = list_settings(home.read(), home.environ)
    for secret in ("pw1234", "secret-", "value-of-p-key"):
        assert secret not in text
    assert 'providers.p.api_key_env_var = "P_KEY" (set)' in text
    assert "--depth=3" in text


def test_the_places_are_named(home: Home) -> None:
    text = list_places(home.environ, "/project")
    assert [line.partition("  # ")[0] for line in text.splitlines()] == [
        f"{home.folder}/config.toml",
        f"{home.folder}/.env",
        f"{home.folder}/hooks.toml",
        "/project/.vibe/config.toml",
        "/project/.vibe/hooks.toml",
        "/project/.mcp.json",
    ]
