"""What Claude Code and Codex send, reduced to its form, through the gateway to model servers that are strict."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway.conftest import Gateway, strict_gateway
from tests.llm.model_vendors import Vendors
from vibe_jupyter.testing import Call, Strictness, answer, call

RECORDED = Path(__file__).with_name("recorded")
ADD = "mcp__sample__add"
DIALECTS: dict[str, str] = {"mistral-fields": "mistral", "openai-fields": "openai", "one-system-message": "openai"}


class Recorded(NamedTuple):
    """A client that was recorded."""

    name: str
    path: str
    own: Call
    """A call of a tool of the client's."""
    conversation: str
    """The field of its requests that has the conversation."""
    offered: frozenset[str]
    """Names under which the model is offered its tools."""


CLAUDE = Recorded(
    "claude_code", "/v1/messages", call("Bash", command="ls | wc -l"), "messages", frozenset({"Bash", "Read"})
)
CODEX = Recorded(
    "codex",
    "/v1/responses",
    call("exec_command", cmd="ls | wc -l"),
    "input",
    frozenset({"exec_command", "apply_patch", "mcp__cities__count"}),
)


@pytest.fixture(scope="module")
def vendors() -> Iterator[Vendors]:
    with Vendors() as started:
        yield started


class Strict(NamedTuple):
    """A gateway, and the vendor whose API its model server has."""

    gateway: Gateway
    vendor: str


@pytest.fixture(scope="module", params=list(DIALECTS))
def strict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_home: Path
) -> Iterator[Strict]:
    """A gateway before a model server of each strictness."""
    strictness: Strictness = request.param
    with strict_gateway(tmp_path_factory.mktemp("strict"), strictness) as gateway:
        yield Strict(gateway, DIALECTS[strictness])


def said(client: Recorded, events: list[Any]) -> tuple[list[Any], str]:
    """What an answer adds to the conversation, and the id of the call of the client's tool."""
    if client is CODEX:
        ended = events[-1]
        assert ended.name == "response.completed", ended
        output = ended.data["response"]["output"]
        return output, "".join(item["call_id"] for item in output if item["type"] == "function_call")
    blocks: list[Any] = []
    for event in events:
        assert event.name != "error", event
        if event.name == "content_block_start":
            blocks.append(event.data["content_block"])
        if event.name == "content_block_delta":
            delta, block = event.data["delta"], blocks[-1]
            if delta["type"] == "input_json_delta":
                block["input"] = json.loads(delta["partial_json"])
            else:
                kind = delta["type"].removesuffix("_delta")
                block[kind] += delta[kind]
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return [{"role": "assistant", "content": blocks}], "".join(ids)


def play(gateway: Gateway, client: Recorded) -> list[Any]:
    """A job with a tool of the gateway and one of the client, and another question; what the client got each time."""
    text = (RECORDED / f"{client.name}.json").read_text(encoding="utf-8")
    first, *later = json.loads(text)
    gateway.will(call(ADD, a=2, b=40), answer("Now the files.", [client.own]), "42, and 7 files.", "No folders.")
    body, answers = first, [gateway.stream_at(client.path, first)]
    for step in later:
        added, call_id = said(client, answers[-1])
        then = json.loads(json.dumps(step["then"]).replace("$CALL", call_id))
        body = {**body, client.conversation: [*body[client.conversation], *added, *then]}
        answers.append(gateway.stream_at(client.path, body))
    said(client, answers[-1])
    return answers


@pytest.mark.requirement("gateway.translated.strict")
@pytest.mark.parametrize("client", [CLAUDE, CODEX], ids=lambda one: one.name)
def test_a_job_with_tools_of_both_sides_ends_on_a_strict_model_server(
    strict: Strict, vendors: Vendors, client: Recorded
) -> None:
    before = len(strict.gateway.model.requests)

    answers = play(strict.gateway, client)

    asked = strict.gateway.model.requests[before:]
    assert len(asked) == 4
    assert all(client.offered < set(one.tools) and ADD in one.tools for one in asked)
    assert "No folders." in json.dumps([event.data for event in answers[-1]])
    assert "42" in next(one["content"] for one in asked[2].messages if one["role"] == "tool")
    assert [wrong for one in asked for wrong in vendors.complaints(strict.vendor, one.body)] == []
