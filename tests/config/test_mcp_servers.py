"""`[[mcp_servers]]` and `.mcp.json`: what is declared, under which names, and what a server is given."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.conftest import Home
from vibe_jupyter import config
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp.declared import mcp_servers


def servers(home: Home, text: str) -> tuple[ToolServer, ...]:
    home.user(text)
    found = mcp_servers(home.read())
    assert found.problems == ()
    return tuple(one.written for one in found.servers)


def beside(home: Home, content: object, *, trusted: bool = True, user: str = "") -> config.SettingsReading:
    """The settings with a project's `.mcp.json`."""
    home.user(user)
    text = content if isinstance(content, str) else json.dumps({"mcpServers": content})
    path = home.folder.parent / "project" / ".mcp.json"
    return config.read_settings(home.environ, servers=config.ProjectFile(path, text, trusted))


def program(argv: tuple[str, ...], **more: Any) -> str:
    lines = [f"command = {json.dumps(list(argv))}", *(f"{key} = {json.dumps(value)}" for key, value in more.items())]
    return "\n".join(["[[mcp_servers]]", *lines, ""])


def test_every_key_of_a_program_and_of_an_address_is_taken(home: Home) -> None:
    found = servers(
        home,
        '[[mcp_servers]]\nname = "files"\ntransport = "stdio"\ncommand = "npx -y \'the server\'"\n'
        'args = ["--root", "."]\n'
        'env = {A = "b"}\ncwd = "/srv"\nprompt = "For files."\nstartup_timeout_sec = 3\ntool_timeout_sec = 4.5\n'
        'disabled = true\ndisabled_tools = ["write_*"]\nsampling = true\n'
        '[[mcp_servers]]\nname = "far"\ntransport = "streamable-http"\nurl = "https://a.example/mcp"\n'
        'headers = {X = "y"}\n',
    )
    assert found == (
        ToolServer(
            "files",
            ServerProgram(("npx", "-y", "the server", "--root", "."), {"A": "b"}, "/srv"),
            prompt="For files.",
            startup_timeout=3,
            tool_timeout=4.5,
            disabled=True,
            disabled_tools=("write_*",),
            sampling=True,
            origin=f"{home.file}, at mcp_servers.files",
        ),
        ToolServer(
            "far", ServerAddress("https://a.example/mcp", {"X": "y"}), origin=f"{home.file}, at mcp_servers.far"
        ),
    )


def test_what_is_not_said_has_the_defaults_of_the_manual_and_the_transport_follows_from_the_keys(home: Home) -> None:
    one, two = servers(home, 'mcp_servers = [{command = "a"}, {url = "http://127.0.0.1:8000"}]\n')
    assert (one.startup_timeout, one.tool_timeout, one.sampling, one.disabled) == (10, 60, False, False)
    assert one.at == ServerProgram(("a",))
    assert two.at == ServerAddress("http://127.0.0.1:8000")


@pytest.mark.requirement("mcp.transport.unknown")
def test_an_unknown_transport_is_reported_and_does_not_stop_the_other_servers(home: Home) -> None:
    home.user(
        '[[mcp_servers]]\nname = "a"\ntransport = "pigeon"\nurl = "http://x"\n'
        '[[mcp_servers]]\nname = "b"\ntransport = "sse"\nurl = "http://x"\n'
        '[[mcp_servers]]\nname = "c"\ntransport = "stdio"\ncommand = "c"\n'
    )
    reading = home.read()
    assert reading.warnings == ()
    found = mcp_servers(reading)
    assert [one.name for one in found.servers] == ["c"]
    assert found.problems == (
        f"{home.file}, at mcp_servers.a: the MCP server a is left out: it has the transport 'pigeon'; there is stdio, "
        "http and streamable-http.",
        f"{home.file}, at mcp_servers.b: the MCP server b is left out: it speaks the older transport sse, which is no "
        "longer used; most servers offer http under another address.",
    )


@pytest.mark.requirement("config.key.mcp_servers")
def test_servers_are_declared_and_a_repeated_name_is_an_error_that_names_it(home: Home) -> None:
    one, two = servers(home, f"{program(('a',), name='one')}{program(('b',), name='two')}")
    assert (one.name, two.name) == ("one", "two")
    home.user(f"{program(('a',), name='twice')}{program(('b',), name='twice')}")
    with pytest.raises(ConfigError, match=r"config\.toml: \[\[mcp_servers\]\] names 'twice' a second time"):
        home.read()


@pytest.mark.requirement("mcp.name.anonymous")
def test_a_server_without_a_name_gets_a_stable_one_of_its_host_or_its_command(home: Home) -> None:
    text = (
        program(("/usr/bin/my-server", "--x"))
        + program(("/usr/bin/my-server", "--y"))
        + '[[mcp_servers]]\nurl = "http://localhost:8000/mcp"\n[[mcp_servers]]\nurl = "https://a.example/mcp"\n'
        + '[[mcp_servers]]\nurl = "http://localhost:8000/other"\n'
    )
    names = [one.name for one in servers(home, text)]
    assert names[2:4] == ["localhost_8000", "a_example_443"]
    assert names[4].startswith("localhost_8000_")
    assert all(name.startswith("my-server_") for name in names[:2])
    assert len(set(names)) == 5
    moved = [one.name for one in servers(home, f"max_turns = 3\n{program(('z',), name='z')}{text}")]
    assert moved[1:] == names


def test_the_same_server_without_a_name_in_two_files_is_one(home: Home) -> None:
    home.user(program(("a", "b")))
    found = mcp_servers(home.read(project=program(("a", "b"))))
    assert len(found.servers) == 1
    assert found.problems == ()


def test_names_are_cleaned_and_two_that_become_one_are_told(home: Home) -> None:
    home.user(f"{program(('a',), name='my.server')}{program(('b',), name='my server')}{program(('c',), name='服务')}")
    found = mcp_servers(home.read())
    first, second = (one.name for one in found.servers)
    assert first == "my_server"
    assert second.startswith("server_")
    (problem,) = found.problems
    assert "at mcp_servers.my server: an MCP server is named my_server already, in" in problem


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('command = ""', "at mcp_servers.0.command: expected the name of a program"),
        ("command = []", "at mcp_servers.0.command: expected the name of a program"),
        ('command = "a"\nstartup_timeout_sec = 0', "mcp_servers.0.startup_timeout_sec: expected more than 0"),
        ('command = "a"\ntool_timeout_sec = inf', "mcp_servers.0.tool_timeout_sec: expected 86400 or less"),
        ('url = ""', "mcp_servers.0.url: expected some text"),
        ('command = "a"\ndisabled_tools = ["re:("]', "mcp_servers.0.disabled_tools.0: 're:('"),
        ('command = "a"\nenv = {A = 1}', "mcp_servers.0.env.A: expected text"),
    ],
)
def test_a_wrong_value_is_an_error_with_its_key(home: Home, entry: str, words: str) -> None:
    home.user(f"[[mcp_servers]]\n{entry}\n")
    with pytest.raises(ConfigError) as raised:
        home.read()
    assert words in str(raised.value)


def test_variables_are_filled_in_when_a_server_is_to_start_and_no_earlier(home: Home) -> None:
    home.user(
        '[[mcp_servers]]\nname = "a"\ncommand = "run"\nargs = ["${FOLDER:-/tmp}/x", "$PLAIN", "${NOT A NAME}"]\n'
        'env = {TOKEN = "${SECRET_TOKEN}", MODE = "x"}\ncwd = "${FOLDER:-/srv}"\n'
    )
    (one,) = mcp_servers(home.read()).servers
    assert "value-of-the-token" not in repr(one)
    assert one.variables == ("FOLDER", "SECRET_TOKEN")
    with pytest.raises(ConfigError, match=r"at mcp_servers\.a: the MCP server a: the variable SECRET_TOKEN is not set"):
        one.filled({})
    filled = one.filled({"SECRET_TOKEN": "value-of-the-token", "FOLDER": ""})
    assert filled.at == ServerProgram(
        ("run", "/tmp/x", "$PLAIN", "${NOT A NAME}"), {"TOKEN": "value-of-the-token", "MODE": "x"}, "/srv"
    )
    assert "value-of-the-token" not in repr(filled)
    assert one.secrets({"SECRET_TOKEN": "value-of-the-token"})["TOKEN for a"] == "value-of-the-token"
    assert "MODE for a" not in one.secrets({"SECRET_TOKEN": "value-of-the-token"})


def test_a_key_is_put_into_its_header_and_is_known_as_a_secret(home: Home) -> None:
    home.user('[[mcp_servers]]\nname = "f"\nurl = "https://a.example"\napi_key_env = "F_KEY"\n')
    reading = home.read()
    assert "F_KEY" in config.key_variables(reading.settings)
    (one,) = mcp_servers(reading).servers
    with pytest.raises(ConfigError, match="requires a key, and the variable F_KEY is not set"):
        one.filled(home.environ)
    known = {**home.environ, "F_KEY": "the-key-itself"}
    assert one.filled(known).at == ServerAddress("https://a.example", {"Authorization": "Bearer the-key-itself"})
    assert set(one.secrets(known).values()) == {"Bearer the-key-itself", "the-key-itself"}


@pytest.mark.parametrize(
    ("beside", "inside", "sent"),
    [
        ("", "api_key_env = 'IN'", {"Authorization": "Bearer inside"}),
        ("api_key_env = 'OUT'", "api_key_env = 'IN'", {"Authorization": "Bearer outside"}),
        ("api_key_env = 'OUT'", "api_key_header = 'X-Key'", {"X-Key": "Bearer outside"}),
        ("api_key_env = 'OUT'\napi_key_header = 'Authorization'", "api_key_header = 'X-Key'", None),
        (
            "api_key_format = '{token}'",
            "api_key_env = 'IN'\napi_key_format = 'Key {token}'",
            {"Authorization": "inside"},
        ),
        ("headers = {X = 'outside'}", "headers = {X = 'inside', Y = 'inside'}", {"X": "outside"}),
    ],
)
def test_a_key_beside_the_table_auth_counts_before_the_same_key_in_it(
    home: Home, beside: str, inside: str, sent: dict[str, str] | None
) -> None:
    home.user(f'[[mcp_servers]]\nname = "f"\nurl = "https://a.example"\n{beside}\n[mcp_servers.auth]\n{inside}\n')
    (one,) = mcp_servers(home.read()).servers
    filled = one.filled({"IN": "inside", "OUT": "outside"})
    assert filled.at == ServerAddress("https://a.example", sent or {"Authorization": "Bearer outside"})


@pytest.mark.parametrize("url", ["ftp://a", "file:///etc/passwd", "a.example", "http://"])
def test_an_address_that_is_none_is_told(home: Home, url: str) -> None:
    home.user(f'[[mcp_servers]]\nname = "f"\nurl = "{url}"\n')
    (one,) = mcp_servers(home.read()).servers
    with pytest.raises(ConfigError, match="requires a url with http or https"):
        one.filled({})


def test_a_file_as_other_programs_write_it_is_read(home: Home) -> None:
    reading = beside(
        home,
        {
            "local": {
                "command": "/opt/my programs/run",
                "args": ["--a b"],
                "env": {"K": "${K:-none}"},
                "type": "stdio",
            },
            "far": {"type": "http", "url": "https://${HOST:-a.example}/mcp", "headers": {"X": "${X:-1}"}},
            "url alone": {"url": "http://127.0.0.1:1"},
            "shape": {"type": "streamableHttp", "url": "http://127.0.0.1:2"},
            "off": {"command": "x", "disabled": True, "autoApprove": ["*"], "alwaysAllow": ["*"], "timeout": 1},
        },
    )
    assert reading.warnings == ()
    found = mcp_servers(reading)
    assert found.problems == ()
    assert [(one.name, one.of_project, one.written.disabled) for one in found.servers] == [
        ("local", True, False),
        ("far", True, False),
        ("url_alone", True, False),
        ("shape", True, False),
        ("off", True, True),
    ]
    local, far = (one.filled({}).at for one in found.servers[:2])
    assert local == ServerProgram(("/opt/my programs/run", "--a b"), {"K": "none"})
    assert far == ServerAddress("https://a.example/mcp", {"X": "1"})
    assert found.servers[0].written.origin == str(home.folder.parent / "project" / ".mcp.json")


def test_the_words_of_other_programs_are_understood_or_told(home: Home) -> None:
    entries = {
        "cursor": {"command": "run", "args": ["${workspaceFolder}/x"], "env": {"K": "${env:MY_KEY}"}},
        "slow": {"command": "run", "startup_timeout_sec": 60, "tool_timeout_sec": 120},
        "asks": {"command": "run", "env": {"K": "${input:key}"}},
    }
    found = mcp_servers(beside(home, json.dumps({"servers": entries}))).servers
    cursor, slow, asks = found
    assert cursor.variables == ("MY_KEY",)
    project = home.folder.parent / "project"
    assert cursor.filled({"MY_KEY": "k"}).at == ServerProgram(("run", f"{project}/x"), {"K": "k"})
    assert (slow.written.startup_timeout, slow.written.tool_timeout) == (60, 120)
    with pytest.raises(ConfigError, match=r"server asks: \$\{input:key\} is a variable of another program"):
        asks.filled({})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has no table mcpServers"),
        ({"a": 1, "b": {"command": "b"}}, "mcpServers.a: expected a table"),
        ({"a": {"command": 1}, "b": {"command": "b"}}, "mcpServers.a.command"),
        ({"a": {"args": []}, "b": {"command": "b"}}, "mcpServers.a.command: it is required but missing"),
    ],
)
def test_what_is_wrong_in_it_is_told_and_stops_nothing(home: Home, content: object, words: str) -> None:
    reading = beside(home, content, user="max_turns = 3\n")
    (warning,) = reading.warnings
    assert words in warning
    assert reading.settings.max_turns == 3
    assert [one.name for one in mcp_servers(reading).servers] == (["b"] if isinstance(content, dict) else [])


@pytest.mark.attack("untrusted folders", always=True)
def test_nothing_of_it_counts_until_the_folder_is_trusted(home: Home) -> None:
    reading = beside(home, {"a": {"command": "evil"}}, trusted=False)
    assert mcp_servers(reading).servers == ()
    (warning,) = reading.warnings
    assert ".mcp.json is not trusted; its servers are not used. %vibe trust shows them and asks." in warning
    file = config.ProjectFile(Path("/p/.mcp.json"), '{"mcpServers": {"a\\nb": {"command": "x"}}}', trusted=False)
    assert config.list_demanded_servers(file) == [
        ".mcp.json: 'mcp_servers.a\\nb.name' = 'a\\nb'",
        ".mcp.json: 'mcp_servers.a\\nb.command' = ['x']",
    ]


def test_a_projects_own_settings_win_over_it_and_it_over_the_persons(home: Home) -> None:
    home.user(f"{program(('mine',), name='a')}{program(('mine',), name='b')}{program(('mine',), name='c')}")
    path = home.folder.parent / "project"
    text = json.dumps({"mcpServers": {"b": {"command": "json"}, "c": {"command": "json"}}})
    reading = config.read_settings(
        home.environ,
        project=config.ProjectFile(path / ".vibe" / "config.toml", program(("toml",), name="c"), trusted=True),
        servers=config.ProjectFile(path / ".mcp.json", text, trusted=True),
    )
    found = {one.name: one.written.at for one in mcp_servers(reading).servers}
    assert found == {"a": ServerProgram(("mine",)), "b": ServerProgram(("json",)), "c": ServerProgram(("toml",))}


def test_folders_begin_where_their_file_belongs(home: Home) -> None:
    home.user(program(("a",), name="a", cwd="below"))
    reading = home.read(project=program(("b",), name="b", cwd="below"))
    project = home.folder.parent / "project"
    found = {one.name: one.written.at for one in mcp_servers(reading).servers}
    assert found == {
        "a": ServerProgram(("a",), cwd=str(home.folder / "below")),
        "b": ServerProgram(("b",), cwd=str(project / "below")),
    }
