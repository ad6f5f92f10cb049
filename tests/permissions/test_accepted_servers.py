"""Servers of tools are accepted as they are: their exact command, or their host."""

from dataclasses import replace
from pathlib import Path

import pytest

from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram, ToolServer
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.mcp.acceptance import AcceptedServers, ServerIdentity, server_identity

FOLDER = Path("/work")
PROGRAM = ServerProgram(("npx", "-y", "server one", "--root=."), {"B_TOKEN": "${GITHUB}", "A": "literal"})
SERVER = ToolServer("files", PROGRAM, origin="/home/me/.vibe/config.toml, at mcp_servers.files")
REMOTE = ToolServer(
    "far", ServerAddress("https://Me:pw@Example.org:8443/mcp?x=1", {"Authorization": "Bearer ${KEY}"}), origin="f"
)


def named(
    server: ToolServer, *, filled: ToolServer | None = None, folder: Path = FOLDER, variables: tuple[str, ...] = ()
) -> ServerIdentity:
    return server_identity(server, filled or server, variables=variables, folder=folder)


def at(**changes: object) -> ToolServer:
    return SERVER._replace(at=replace(PROGRAM, **changes))


def test_a_program_is_shown_with_its_exact_command_its_folder_and_the_names_of_its_variables() -> None:
    assert named(SERVER).shown == (
        "files runs npx -y 'server one' --root=.",
        "  in /work, with A, B_TOKEN from ${GITHUB}",
        "  from /home/me/.vibe/config.toml, at mcp_servers.files",
    )


@pytest.mark.attack("MCP servers", always=True)
@pytest.mark.parametrize(
    "changed",
    [
        at(argv=("npx", "-y", "server one", "--root=..")),
        at(argv=("npx", "-y", "server", "one", "--root=.")),
        at(env={"B_TOKEN": "${GITHUB}", "A": "literal", "C": ""}),
        at(env={"B_TOKEN": "${GITHUB}", "A": "other"}),
        at(cwd="below"),
    ],
)
def test_any_change_of_command_environment_or_folder_is_another_program(changed: ToolServer) -> None:
    assert named(changed).digest != named(SERVER).digest


def test_another_folder_is_another_program_and_another_key_or_name_is_not() -> None:
    first = named(SERVER).digest
    assert named(SERVER, folder=Path("/elsewhere")).digest != first
    absolute = at(cwd="/srv")
    assert named(absolute).digest == named(absolute, folder=Path("/elsewhere")).digest
    filled = at(env={"B_TOKEN": "secret-of-today", "A": "literal"})
    assert named(SERVER, filled=filled).digest == first
    assert named(SERVER._replace(name="other", origin="elsewhere", tool_timeout=1.0)).digest == first


@pytest.mark.attack("MCP servers", always=True)
def test_what_a_variable_puts_into_the_command_counts() -> None:
    written = at(argv=("run", "${WHAT}"))
    one, two = (named(written, filled=at(argv=("run", what))) for what in ("a", "b"))
    assert one.digest != two.digest
    assert one.shown[0] == two.shown[0] == "files runs run '${WHAT}'"
    assert one.shown[1] == "  which is now run a"


def test_a_key_in_a_command_is_not_shown() -> None:
    written = at(argv=("${TOOL}", "--token=${MY_TOKEN}"))
    filled = at(argv=("/tmp/it", "--token=k"))
    shown = named(written, filled=filled, variables=("TOOL", "MY_TOKEN")).shown
    assert shown[1] == "  which is now /tmp/it '--token=${MY_TOKEN}'"


@pytest.mark.attack("MCP servers", always=True)
def test_a_variable_that_changes_what_a_known_command_runs_is_shown_with_its_value() -> None:
    env = {
        "PATH": "./bin:/usr/bin",
        "LD_PRELOAD": "./x\n.so",
        "npm_config_registry": "https://x",
        "UV_TOKEN": "k",
        "A": "b",
    }
    shown = named(at(env=env)).shown
    assert shown[1:-1] == (
        "  in /work, with A, LD_PRELOAD, PATH, UV_TOKEN, npm_config_registry",
        "  LD_PRELOAD=./x\\n.so may change what it runs",
        "  PATH=./bin:/usr/bin may change what it runs",
        "  npm_config_registry=https://x may change what it runs",
    )


def test_the_host_that_a_variable_names_is_shown() -> None:
    written = REMOTE._replace(at=ServerAddress("https://${HOST:-evil.example}/mcp"))
    filled = REMOTE._replace(at=ServerAddress("https://evil.example/mcp"))
    assert "  which is now at https://evil.example" in named(written, filled=filled, variables=("HOST",)).shown


def test_a_remote_server_is_its_host_and_what_is_sent_to_it() -> None:
    filled = REMOTE._replace(at=ServerAddress("https://me:pw@example.org:8443/mcp?x=1", {"Authorization": "Bearer k"}))
    one = named(REMOTE, filled=filled, variables=("KEY",))
    assert one.shown[1:] == (
        "  which is now at https://example.org:8443",
        "  it is sent Authorization and the value of KEY",
        "  from f",
    )
    other_path = REMOTE._replace(at=ServerAddress("https://example.org:8443/other", {"authorization": "Bearer 2"}))
    assert named(REMOTE, filled=other_path, variables=("KEY",)).digest == one.digest
    assert named(REMOTE, filled=other_path, variables=("KEY", "OTHER")).digest != one.digest
    other_host = REMOTE._replace(at=ServerAddress("https://example.org:8444/mcp", {"Authorization": "Bearer k"}))
    assert named(REMOTE, filled=other_host, variables=("KEY",)).digest != one.digest


@pytest.mark.attack("MCP servers", always=True)
def test_nothing_in_a_command_can_hide_or_look_like_another_line() -> None:
    hostile = at(argv=("run", "a\n  in /safe", "\u202eabc", "\u200b"))
    (line, *_) = named(hostile).shown
    assert line == "files runs run 'a\\n  in /safe' '\\u202eabc' '\\u200b'"


def test_decisions_hold_for_what_was_shown_and_can_be_changed(tmp_path: Path) -> None:
    accepted = AcceptedServers(tmp_path / "home")
    one, two = named(SERVER), named(at(cwd="/other"))
    assert accepted.state(one) == "unknown"
    accepted.remember([one], accepted=True)
    accepted.remember([two], accepted=False)
    again = AcceptedServers(tmp_path / "home")
    assert (again.state(one), again.state(two)) == ("accepted", "refused")
    again.remember([one], accepted=False)
    assert accepted.state(one) == "refused"
    assert "files, 20" in accepted.path.read_text(encoding="utf-8")
    assert accepted.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.attack("saved files", always=True)
def test_a_file_that_is_none_of_ours_accepts_nothing(tmp_path: Path) -> None:
    accepted = AcceptedServers(tmp_path)
    accepted.path.parent.mkdir()
    accepted.path.write_text('{"accepted": [], "more": 1}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"Cannot read .*accepted\.json"):
        accepted.state(named(SERVER))
    with pytest.raises(ConfigError, match=r"Cannot read .*accepted\.json"):
        accepted.remember([named(SERVER)], accepted=True)
