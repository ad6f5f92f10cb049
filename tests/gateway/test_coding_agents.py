"""Coding agents that others wrote, with the gateway as their model server: Claude Code and Codex, as npm has them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.gateway.conftest import TOKEN, Gateway, strict_gateway
from tests.gateway.test_recorded_clients import ADD
from tests.mcp_server.real_clients import Client
from vibe_jupyter.testing import Call, Strictness, answer, call

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("real clients"), pytest.mark.timeout(900)]

QUESTION = "Add 2 and 40."
_CODEX = """
model = "{model}"
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


def claude_code(gateway: Gateway, folder: Path, model: str) -> Callable[[str], str]:
    """Run Claude Code's print mode, which may use its shell."""
    names = {"ANTHROPIC_MODEL": model, "ANTHROPIC_DEFAULT_HAIKU_MODEL": model, "ANTHROPIC_API_KEY": TOKEN}
    claude = Client("claude", folder, ANTHROPIC_BASE_URL=gateway.server.url.removesuffix("/v1"), **names)
    return lambda question: claude.run("-p", question, "--allowedTools", "Bash")


def codex(gateway: Gateway, folder: Path, model: str) -> Callable[[str], str]:
    """Run Codex without its sandbox, which needs more than some containers allow."""
    (folder / ".codex").mkdir()
    (folder / ".codex" / "config.toml").write_text(_CODEX.format(url=gateway.server.url, model=model), encoding="utf-8")
    client = Client("codex", folder, VIBE_GATEWAY_TOKEN=TOKEN)
    options = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return lambda question: client.run("exec", *options, question)


CLIENTS = [
    pytest.param(claude_code, call("Bash", command="echo $((6 * 7))"), id="claude-code"),
    pytest.param(codex, call("exec_command", cmd="echo $((6 * 7))"), id="codex"),
]
Starter = Callable[[Gateway, Path, str], Callable[[str], str]]


@pytest.mark.parametrize(("start", "_own"), CLIENTS)
def test_it_answers_with_a_tool_of_the_gateway(gateway: Gateway, tmp_path: Path, start: Starter, _own: Call) -> None:
    first = gateway.will(call(ADD, a=2, b=40), "It is 42.")
    answers_by_a_tool_of_ours(gateway, start(gateway, tmp_path, "scripted")(QUESTION), first)


@pytest.fixture(scope="module", params=get_args(Strictness))
def strict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_home: Path
) -> Iterator[Gateway]:
    """A gateway before a model server of each strictness."""
    with strict_gateway(tmp_path_factory.mktemp("strict"), request.param) as gateway:
        yield gateway


@pytest.mark.requirement("gateway.translated.strict")
@pytest.mark.parametrize(("start", "own"), CLIENTS)
def test_a_job_with_tools_of_both_sides_ends_on_a_strict_model_server(
    strict: Gateway, tmp_path: Path, start: Starter, own: Call
) -> None:
    first = strict.will(call(ADD, a=2, b=40), answer("Now the shell.", [own]), "Both say 42.")
    assert "Both say 42." in start(strict, tmp_path, "strict")(QUESTION)
    last = strict.model.requests[first + 1]
    assert len(strict.model.requests) == first + 2
    assert [("42" in str(result)) for result in last.tool_results] == [True, True]
