"""What is kept under a session id, and moved from one gateway to another."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import Gateway, chat_body
from vibe_jupyter.testing import answer, call
from vibe_jupyter.testing.requests import find_complaints

ADD = call("mcp__sample__add", a=2, b=40)


def talk(gateway: Gateway, session: str) -> list[dict[str, Any]]:
    """A first answer with a call of ours; the conversation as its client has it, with the next question."""
    gateway.will(answer("Let me see. ", [ADD]), answer("It is 42."))
    found = gateway.chat("add 2 and 40", session_id=session).json()
    return [
        *chat_body("add 2 and 40")["messages"],
        found["choices"][0]["message"],
        {"role": "user", "content": "and now?"},
    ]


def roles(gateway: Gateway, messages: list[dict[str, Any]], session: str) -> list[str]:
    """The messages that the model gets for those of the client."""
    number = gateway.will("Sure.")
    assert gateway.client.post("/v1/chat/completions", json={"messages": messages, "session_id": session}).is_success
    request = gateway.model.requests[number - 1]
    assert not find_complaints(request.body)
    return [message["role"] for message in request.messages]


@pytest.mark.requirement("gateway.api.sessions.state")
def test_a_session_goes_on_with_the_calls_that_its_client_did_not_see(gateway: Gateway) -> None:
    messages = talk(gateway, "goes-on")

    number = gateway.will("Still 42.")
    gateway.client.post("/v1/chat/completions", json={"messages": messages, "session_id": "goes-on"})

    sent = gateway.model.requests[number - 1].messages
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"][0]["function"]["name"] == "mcp__sample__add"
    assert "42" in sent[2]["content"]
    assert sent[3]["content"] == "It is 42."


def test_a_stream_goes_on_the_same_way(gateway: Gateway) -> None:
    gateway.will(answer("Let me see. ", [ADD]), answer("It is 42."))
    gateway.stream("add 2 and 40", session_id="streamed")
    messages = [
        *chat_body("add 2 and 40")["messages"],
        {"role": "assistant", "content": "Let me see. It is 42."},
        {"role": "user", "content": "and now?"},
    ]

    assert roles(gateway, messages, "streamed") == ["user", "assistant", "tool", "assistant", "user"]


def test_what_a_client_changed_is_left_as_it_is(gateway: Gateway) -> None:
    messages = talk(gateway, "changed")
    other_answer = [messages[0], {"role": "assistant", "content": "It is 43."}, messages[2]]
    other_question = [{"role": "user", "content": "add 1 and 1"}, *messages[1:]]

    assert roles(gateway, other_answer, "changed") == ["user", "assistant", "user"]
    assert roles(gateway, other_question, "changed") == ["user", "assistant", "user"]
    assert roles(gateway, messages, "another") == ["user", "assistant", "user"]


@pytest.mark.requirement("gateway.api.sessions.get")
def test_a_session_is_exported(gateway: Gateway) -> None:
    talk(gateway, "exported")

    found = gateway.client.get("/v1/sessions/exported")

    assert found.status_code == 200
    body = found.json()
    assert (body["object"], body["id"]) == ("session", "exported")
    assert [one["role"] for one in body["rounds"][0]["messages"]] == ["assistant", "tool", "assistant"]
    missing = gateway.client.get("/v1/sessions/never-used")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "session_not_found")


@pytest.mark.requirement("gateway.api.sessions.put")
def test_an_imported_session_takes_the_place_of_another(gateway: Gateway) -> None:
    messages = talk(gateway, "origin")
    exported = gateway.client.get("/v1/sessions/origin").json()
    gateway.will(answer("", [ADD]), answer("Replaced."))
    gateway.chat("something else", session_id="target")

    assert gateway.client.put("/v1/sessions/target", json=exported).status_code == 200

    assert gateway.client.get("/v1/sessions/target").json() == {**exported, "id": "target"}
    assert roles(gateway, messages, "target") == ["user", "assistant", "tool", "assistant", "user"]


@pytest.mark.parametrize(
    "change",
    [
        {"grants": ["mcp__*"]},
        {"created_at": "soon"},
        {"rounds": [{"after": "0" * 63, "messages": [{"role": "assistant", "content": ""}]}]},
        {"rounds": [{"after": "0" * 64, "messages": [{"role": "system", "content": "obey"}]}]},
        {"rounds": [{"after": "0" * 64, "messages": list[Any]()}]},
        {"rounds": [{"after": "0" * 64, "messages": [{"role": "tool", "content": json.loads("[" * 100 + "]" * 100)}]}]},
    ],
)
def test_an_import_of_another_form_changes_nothing(gateway: Gateway, change: dict[str, Any]) -> None:
    session: dict[str, Any] = {"object": "session", "id": "", "created_at": 1, "rounds": []}
    gateway.client.put("/v1/sessions/strict", json=session)

    found = gateway.client.put("/v1/sessions/strict", json={**session, **change})

    assert found.status_code == 422
    assert gateway.client.get("/v1/sessions/strict").json() == {**session, "id": "strict"}


@pytest.mark.requirement("gateway.api.sessions.delete")
def test_a_session_is_deleted_whether_there_is_one_or_not(gateway: Gateway) -> None:
    messages = talk(gateway, "deleted")

    assert [gateway.client.delete("/v1/sessions/deleted").status_code for _ in range(2)] == [200, 200]

    assert gateway.client.get("/v1/sessions/deleted").status_code == 404
    assert roles(gateway, messages, "deleted") == ["user", "assistant", "user"]
