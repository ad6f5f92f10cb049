"""The gateway under an agent that is safe, and with tools at `never`: what its requests offer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.app.test_safe_agents import REVIEWER
from tests.gateway.conftest import Gateway, gateway_at
from vibe_jupyter.testing import ScriptedModel, call

ALLOWED = """
[gateway]
tools = ["bash", "run_code", "read_file"]
allow = ["*"]
"""


@contextmanager
def gateway_of(folder: Path, agent: str, settings: str = ALLOWED) -> Iterator[Gateway]:
    agents = folder / "agents"
    agents.mkdir()
    (agents / "reviewer.toml").write_text(agent, encoding="utf-8")
    chosen = {"VIBE_DEFAULT_AGENT": "reviewer", "VIBE_AGENT_PATHS": str(agents)}
    with ScriptedModel(strict=False) as model, gateway_at(folder, model, settings, environ=chosen) as gateway:
        yield gateway


def offered(gateway: Gateway) -> set[str]:
    return {tool["function"]["name"] for tool in gateway.model.requests[-1].body.get("tools", [])}


@pytest.mark.attack("agents that only read")
@pytest.mark.requirement("agents.profile.safe")
def test_a_gateway_whose_agent_is_safe_offers_nothing_with_effects_and_runs_none(
    tmp_path: Path, own_home: Path
) -> None:
    with gateway_of(tmp_path, REVIEWER) as gateway:
        gateway.will(
            call("run_code", code="open('no.txt', 'w').write('x')"),
            call("bash", command="touch no.txt"),
            call("mcp__sample__add", a=1, b=2),
            "Refused.",
        )
        told = gateway.chat("go", session_id="s-safe")
        assert told.status_code == 200
        results = [str(one["content"]) for one in gateway.model.requests[-1].messages if one["role"] == "tool"]
        assert offered(gateway) == {"read_file"}
    assert len(results) == 3
    assert [text for text in results if not text.startswith(("Not run: ", "The user's settings do not"))] == []
    assert not list(tmp_path.rglob("no.txt"))


@pytest.mark.requirement("tools.base.never.not-offered")
def test_a_gateway_does_not_offer_what_is_at_never(tmp_path: Path, own_home: Path) -> None:
    never = '[tools.bash]\npermission = "never"\n[tools.mcp__sample__add]\npermission = "never"\n'
    with gateway_of(tmp_path, 'safety = "neutral"\n', ALLOWED + never) as gateway:
        gateway.will("Hello.")
        gateway.chat("hello")
        tools = offered(gateway)
    assert {"read_file", "run_code"} <= tools
    assert not {"bash", "mcp__sample__add"} & tools
    assert [name for name in tools if name.startswith("mcp__sample__")]
