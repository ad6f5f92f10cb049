"""Our own mistral.rs dialect as a client of the gateway: what one encodes, the other decodes."""

import asyncio
from pathlib import Path

import pytest

from tests.gateway.conftest import TOKEN, Gateway, gateway_at
from vibe_jupyter.llm.client import Item, LLMClient
from vibe_jupyter.llm.connections import FetchRequest
from vibe_jupyter.llm.hosted_events import HostedCall, HostedCallRequest, HostedSession
from vibe_jupyter.llm.request import Model, ModelReply, ModelRequestTerms, Server
from vibe_jupyter.protocol import TextPart, UserMessage
from vibe_jupyter.testing import ScriptedModel, call

ADD = "mcp__sample__add"
QUESTION = UserMessage(parts=(TextPart(text="add 2 and 40"),))


def model_of(gateway: Gateway) -> Model:
    server = Server(name="gateway", api_base=gateway.server.url, api_key=TOKEN, dialect="mistralrs")
    return Model(server=server, name="default", alias="gateway")


async def read(gateway: Gateway, *, stream: bool, allow: bool) -> list[Item]:
    """All that the dialect makes of one answer; what is asked meanwhile is allowed, or not."""
    client, model = LLMClient(user_agent="test"), model_of(gateway)
    items: list[Item] = []
    try:
        async for item in client.answer(ModelRequestTerms(model=model, messages=(QUESTION,), stream=stream)):
            items.append(item)
            if isinstance(item, HostedCallRequest):
                said = {"decision": "approve"} if allow else {"decision": "deny", "message": "not now"}
                found = await client.fetch(model, FetchRequest("POST", f"/agent/approvals/{item.id}", dict(said)))
                assert (found.status, found.json) == (200, {"status": "resolved"})
    finally:
        await client.close()
    return items


@pytest.mark.parametrize("allow", [True, False])
def test_calls_approvals_and_session_are_understood(tmp_path: Path, own_home: Path, *, allow: bool) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, settings="") as gateway:
        gateway.will(call(ADD, a=2, b=40), "Done.")

        items = asyncio.run(read(gateway, stream=True, allow=allow))

    reply = items[-1]
    assert isinstance(reply, ModelReply)
    assert reply.message.text == "Done."
    asked = [item for item in items if isinstance(item, HostedCallRequest)]
    assert [(item.round, item.kind, item.arguments) for item in asked] == [(1, "custom", {"a": 2, "b": 40})]
    calls = [item for item in items if isinstance(item, HostedCall)]
    assert [(item.name, item.phase, item.kind) for item in calls] == [
        *([(ADD, "calling", "custom")] if allow else []),
        (ADD, "complete", "custom"),
    ]
    assert any(isinstance(item, HostedSession) for item in items)
    result = model.requests[-1].messages[-1]["content"]
    assert ("42" if allow else "not now") in result


def test_a_whole_answer_is_understood(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=2, b=40), "Done.")

    items = asyncio.run(read(gateway, stream=False, allow=True))

    calls = [item for item in items if isinstance(item, HostedCall)]
    assert [(item.round, item.name, item.phase) for item in calls] == [(1, ADD, "complete")]
