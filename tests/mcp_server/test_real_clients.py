"""Clients that others wrote, at a served notebook: they start as often as they like and see our tools at once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.mcp_server.conftest import Served, serve
from tests.mcp_server.messages_server import DONE, Messages, serving
from tests.mcp_server.real_clients import Client, vibe_folder
from tests.mcp_server.test_calls import READS, WRITES
from vibe_jupyter.testing import ScriptedModel, call, say

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("real clients"), pytest.mark.timeout(900)]

STARTS = 40
NAME = "vibe-jupyter"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("served")) as session:
        yield session


@pytest.fixture
def served(session: Session) -> Iterator[Served]:
    session.wire.run("%vibe reset")
    session.wire.run("answer = 41")
    yield serve(session)
    session.wire.run("%vibe reset")


def entry(served: Served) -> dict[str, object]:
    """What `%vibe mcp serve` prints for the program that a client starts."""
    printed = json.JSONDecoder().raw_decode(served.said[served.said.index("{") :])[0]
    return printed["mcpServers"][NAME]


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def test_claude_code_starts_forty_times_at_the_address(served: Served, tmp_path: Path) -> None:
    claude = Client("claude", tmp_path, ANTHROPIC_BASE_URL="http://127.0.0.1:9", ANTHROPIC_API_KEY="none")
    header = f"Authorization: Bearer {served.token}"
    claude.run("mcp", "add", "--scope", "user", "--transport", "http", NAME, served.url, "--header", header)
    for start in range(STARTS):
        said = claude.run("mcp", "list")
        assert "Connected" in said, f"start {start + 1}: {said}"
        assert "Failed" not in said


def test_claude_code_starts_our_program(served: Served, tmp_path: Path) -> None:
    claude = Client("claude", tmp_path, ANTHROPIC_BASE_URL="http://127.0.0.1:9", ANTHROPIC_API_KEY="none")
    claude.run("mcp", "add-json", "--scope", "user", NAME, json.dumps({"type": "stdio", **entry(served)}))
    assert "Connected" in claude.run("mcp", "list")


@pytest.mark.parametrize("way", ["program", "address"])
def test_the_first_request_of_claude_code_has_our_tools(served: Served, tmp_path: Path, way: str) -> None:
    tool = f"mcp__{NAME}__inspect"
    headers = {"Authorization": f"Bearer {served.token}"}
    server = entry(served) if way == "program" else {"type": "http", "url": served.url, "headers": headers}
    write(tmp_path / "servers.json", {"mcpServers": {NAME: server}})
    with serving(Messages(tool)) as messages:
        claude = Client("claude", tmp_path, ANTHROPIC_BASE_URL=messages.url, ANTHROPIC_API_KEY="none")
        options = ("--mcp-config", "servers.json", "--strict-mcp-config", "--allowedTools", tool)
        assert DONE in claude.run("-p", "List the variables.", *options)
    ours = {name.removeprefix(f"mcp__{NAME}__") for name in messages.offered[0] if NAME in name}
    assert ours == READS | WRITES
    assert "answer: int 41" in messages.results[0]


def test_gemini_cli_connects(served: Served, tmp_path: Path) -> None:
    write(tmp_path / ".gemini" / "settings.json", {"mcpServers": {NAME: {**entry(served), "trust": True}}})
    assert f"✓ {NAME}" in Client("gemini", tmp_path, GEMINI_API_KEY="none").run("mcp", "list")


def test_opencode_connects(served: Served, tmp_path: Path) -> None:
    printed = entry(served)
    command = [printed["command"], *printed["args"]]  # type: ignore[misc]
    server = {"type": "local", "command": command, "environment": printed.get("env", {}), "enabled": True}
    write(tmp_path / "opencode.json", {"mcp": {NAME: server}})
    assert "connected" in Client("opencode", tmp_path).run("mcp", "list")


def test_the_inspector_lists_and_calls_our_tools(served: Served, tmp_path: Path) -> None:
    write(tmp_path / "servers.json", {"mcpServers": {NAME: {"type": "stdio", **entry(served)}}})
    inspector = Client("inspector", tmp_path)
    chosen = ("--cli", "--config", "servers.json", "--server", NAME)
    listed = json.loads(inspector.run(*chosen, "--method", "tools/list"))
    assert {tool["name"] for tool in listed["tools"]} == READS | WRITES
    said = inspector.run(*chosen, "--method", "tools/call", "--tool-name", "inspect")
    assert "answer: int 41" in said


def test_mistral_vibe_finds_our_tools(served: Served, tmp_path: Path) -> None:
    try:
        vibe_folder()
    except LookupError as reason:
        pytest.skip(str(reason))
    printed = entry(served)
    with ScriptedModel([call("search_tool_functions", query="inspect, read the notebook"), say(DONE)]) as model:
        config = f"""
            active_model = "scripted"
            enable_update_checks = false
            enable_telemetry = false
            [[providers]]
            name = "scripted"
            api_base = "{model.url}"
            api_key_env_var = "SCRIPTED_KEY"
            [[models]]
            name = "scripted-1"
            provider = "scripted"
            alias = "scripted"
            [[mcp_servers]]
            name = "{NAME}"
            transport = "stdio"
            command = {json.dumps(printed["command"])}
            args = {json.dumps(printed["args"])}
            env = {{ JUPYTER_RUNTIME_DIR = {json.dumps(printed["env"]["JUPYTER_RUNTIME_DIR"])} }}
        """
        home = tmp_path / ".vibe"
        home.mkdir()
        (home / "config.toml").write_text(config, encoding="utf-8")
        Client("vibe", tmp_path, SCRIPTED_KEY="none").run("-p", "List the variables.", "--output", "text")
        # It looks tools of servers up, and calls them by code in a sandbox of its own.
        found = str(model.requests[-1].messages[-1]["content"])
        assert "mcp_vibe_jupyter.inspect" in found, found
        assert "mcp_vibe_jupyter.read_notebook" in found, found
