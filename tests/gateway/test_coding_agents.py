"""Coding agents that others wrote, with the gateway as their model server: Claude Code and Codex, as npm has them."""

from pathlib import Path

import pytest

from tests.gateway.conftest import TOKEN, Gateway
from tests.mcp_server.real_clients import Client
from vibe_jupyter.testing import call

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("real clients"), pytest.mark.timeout(900)]

QUESTION = "Add 2 and 40."
_CODEX = """
model = "default"
model_provider = "gateway"
[model_providers.gateway]
name = "gateway"
base_url = "{url}"
env_key = "VIBE_GATEWAY_TOKEN"
wire_api = "responses"
"""


def answers_by_a_tool_of_ours(gateway: Gateway, said: str, first: int) -> None:
    """Two requests: with our tools beside the client's, then with the result of our call."""
    assert "It is 42." in said
    asked, answered = gateway.model.requests[first - 1 :]
    names = {tool["function"]["name"] for tool in asked.body["tools"]}
    assert "mcp__sample__add" in names
    assert not all(name.startswith("mcp__sample__") for name in names)
    assert "42" in answered.messages[-1]["content"]


def test_claude_code_answers_with_a_tool_of_the_gateway(gateway: Gateway, tmp_path: Path) -> None:
    first = gateway.will(call("mcp__sample__add", a=2, b=40), "It is 42.")
    url = gateway.server.url.removesuffix("/v1")
    names = {"ANTHROPIC_MODEL": "scripted", "ANTHROPIC_DEFAULT_HAIKU_MODEL": "scripted"}
    claude = Client("claude", tmp_path, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=TOKEN, **names)

    answers_by_a_tool_of_ours(gateway, claude.run("-p", QUESTION), first)


def test_codex_answers_with_a_tool_of_the_gateway(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(_CODEX.format(url=gateway.server.url), encoding="utf-8")
    first = gateway.will(call("mcp__sample__add", a=2, b=40), "It is 42.")
    codex = Client("codex", tmp_path, VIBE_GATEWAY_TOKEN=TOKEN)

    answers_by_a_tool_of_ours(gateway, codex.run("exec", "--skip-git-repo-check", QUESTION), first)
