"""The gateway before a real llama-server with a real model. What the model says is of no account, only its form."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import ALLOWED, Gateway, chat_body, chunks_of, gateway_at, read_events, text_of
from tests.gateway.test_recorded_clients import CLAUDE, CODEX, RECORDED, Recorded, said
from tests.llm.llama_server import KEY, ONE_SYSTEM, START, LlamaServer, started, why_left_out
from vibe_jupyter.testing import ScriptedModel

pytestmark = [pytest.mark.matrix, pytest.mark.xdist_group("llm")]

ADD = "mcp__sample__add"
ASKS = f"Call the tool {ADD} with 3"
SAME: dict[str, Any] = {"temperature": 0, "seed": 1, "max_tokens": 12}
"""With these the model always says the same."""
SETTINGS = """
[[providers]]
name = "llama"
api_base = "{url}"
api_key_env_var = "LLAMA_KEY"
[[models]]
name = "{name}"
alias = "llama"
provider = "llama"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    if reason := why_left_out():
        pytest.skip(reason)
    with started() as server:
        server.wait_until_loaded()
        yield server


@contextmanager
def gateway_before(server: LlamaServer, folder: Path) -> Iterator[Gateway]:
    model = server.model()
    settings = SETTINGS.format(url=model.server.api_base, name=model.name) + ALLOWED
    with ScriptedModel() as unused, gateway_at(folder, unused, settings, environ={"LLAMA_KEY": KEY}) as gateway:
        gateway.client.timeout = httpx.Timeout(START)
        yield gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path, server: LlamaServer) -> Iterator[Gateway]:
    with gateway_before(server, tmp_path_factory.mktemp("llama")) as gateway:
        yield gateway


def test_a_plain_stream_says_what_the_server_says(gateway: Gateway, server: LlamaServer) -> None:
    body = chat_body("Count to five.", stream=True, logprobs=True, **SAME)
    headers = {"authorization": f"Bearer {KEY}"}
    there = httpx.post(
        f"{server.model().server.api_base}/chat/completions", json=body, headers=headers, timeout=START
    ).content

    here = gateway.client.post("/v1/chat/completions", json={**body, "model": "llama", "mcp_mode": "off"}).content

    direct, relayed = chunks_of(read_events(there)), chunks_of(read_events(here))
    assert text_of(direct)
    assert [chunk["choices"] for chunk in relayed] == [chunk["choices"] for chunk in direct]
    assert [set(chunk) for chunk in relayed] == [set(chunk) for chunk in direct]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_was_asked_for_is_run_and_followed_up(gateway: Gateway, *, stream: bool) -> None:
    forced = {"type": "function", "function": {"name": ADD}}
    fields = {"model": "llama", "tool_choice": forced, "temperature": 0, "max_tokens": 64}
    if stream:
        events = gateway.stream(ASKS, agent_permission="auto", **fields)
        ends = [one["finish_reason"] for chunk in chunks_of(events) for one in chunk["choices"] if one["finish_reason"]]
        names = [event.data["tool_name"] for event in events if event.name == "agentic_tool_call_progress"]
        assert events[-1].data == "[DONE]"
    else:
        body = gateway.chat(ASKS, **fields).json()
        ends = [body["choices"][0]["finish_reason"]]
        names = [one["name"] for one in body["agentic_tool_calls"]]
    assert ADD in names
    assert len(ends) == 1


@pytest.mark.requirement("gateway.translated.strict")
@pytest.mark.parametrize(
    ("client", "forced"),
    [
        pytest.param(CLAUDE, {"type": "tool", "name": ADD}, id="claude-code"),
        pytest.param(CODEX, {"type": "function", "name": ADD}, id="codex"),
    ],
)
def test_what_coding_agents_send_suits_a_template_with_one_system_message_first(
    tmp_path: Path, own_home: Path, client: Recorded, forced: dict[str, str]
) -> None:
    if reason := why_left_out():
        pytest.skip(reason)
    recorded = (RECORDED / f"{client.name}.json").read_text(encoding="utf-8")
    first, *_ = json.loads(recorded.replace("Add 2 and 40, then count the files.", ASKS))
    limit = {"max_tokens" if client is CLAUDE else "max_output_tokens": 64}
    body = {**first, **limit, "model": "llama", "temperature": 0}
    with started(ONE_SYSTEM) as server:
        server.wait_until_loaded()
        with gateway_before(server, tmp_path) as gateway:
            called = gateway.stream_at(client.path, {**body, "tool_choice": forced})
            added, _ = said(client, called)
            more = [{"role": "user", "content": "And how many folders?"}]
            body = {**body, client.conversation: [*body[client.conversation], *added, *more]}
            said(client, gateway.stream_at(client.path, body))
    assert ADD in json.dumps([event.data for event in called])
