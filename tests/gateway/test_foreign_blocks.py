"""Documents, schemas, threads, and blocks of vendors' own tools in requests of Messages and Responses."""

import base64
from typing import Any

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway
from tests.tiers import further
from vibe_jupyter.testing import call

PDF = base64.b64encode(b"%PDF-1.4\n\xff").decode()
ASKED: dict[str, Any] = {"role": "user", "content": "hello"}
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "at": {"$ref": "#/$defs/at"}},
    "required": ["at", "city"],
    "additionalProperties": False,
    "$defs": {"at": {"type": "object", "properties": {}, "required": [], "additionalProperties": False}},
}


def sent_messages(gateway: Gateway, messages: list[Any], **fields: Any) -> list[Any]:
    """What a conversation of Messages becomes."""
    gateway.will("ok")
    found = gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": messages, **fields})
    assert found.status_code == 200, found.text
    return gateway.model.requests[-1].messages


def sent_items(gateway: Gateway, items: list[Any]) -> list[Any]:
    """What items of Responses become."""
    gateway.will("ok")
    found = gateway.client.post("/v1/responses", json={"input": items})
    assert found.status_code == 200, found.text
    return gateway.model.requests[-1].messages


def document(**source: Any) -> dict[str, Any]:
    return {"type": "document", "title": "Cities / 2026", "source": source}


@pytest.mark.requirement("gateway.translated.documents")
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"type": "base64", "media_type": "application/pdf", "data": PDF}, "File Cities - 2026.pdf, application/pdf"),
        ({"type": "text", "media_type": "text/plain", "data": "Bonn is small."}, "Bonn is small."),
        ({"type": "content", "content": [{"type": "text", "text": "Bonn is small."}]}, "Bonn is small."),
    ],
)
@pytest.mark.parametrize("place", ["question", "history", "result"])
def test_a_document_is_shown_as_a_file_is(gateway: Gateway, source: Any, shown: str, place: str) -> None:
    block = document(**source)
    used: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [block]}
    said: dict[str, list[Any]] = {
        "question": [{"role": "user", "content": [block]}],
        "history": [{"role": "user", "content": [block]}, {"role": "assistant", "content": "Yes."}, ASKED],
        "result": [ASKED, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}],
    }

    told = sent_messages(gateway, said[place])

    assert shown in told[0 if place != "result" else -1]["content"]
    assert told[-1]["role"] == ("tool" if place == "result" else "user")


@pytest.mark.requirement("gateway.translated.documents")
def test_an_uploaded_document_is_read_and_one_that_is_gone_does_not_end_the_conversation(gateway: Gateway) -> None:
    made = gateway.client.post(
        "/v1/files", files={"file": ("bonn.txt", b"Bonn is small.")}, data={"purpose": "user_data"}
    )
    block = document(type="file", file_id=made.json()["id"])
    said = [{"role": "user", "content": [block]}, {"role": "assistant", "content": "Yes."}, ASKED]
    assert "Bonn is small." in sent_messages(gateway, said)[0]["content"]

    gateway.client.delete(f"/v1/files/{made.json()['id']}")

    assert "cannot be read" in sent_messages(gateway, said)[0]["content"]
    found = gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": said[:1]})
    assert found.status_code == 404


FOREIGN: list[tuple[Any, str]] = [
    ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "Bonn"}}, "web_search; Bonn"),
    (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": [{"type": "web_search_result", "title": "Of Bonn", "url": "u", "encrypted_content": "zzzz"}],
        },
        "Of Bonn; u",
    ),
    (
        {"type": "search_result", "source": "s", "title": "Of Bonn", "content": [{"type": "text", "text": "small"}]},
        "Of Bonn, s]\nsmall",
    ),
    (document(type="url", url="http://127.0.0.1:9/x.pdf"), "Cities / 2026"),
    ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "[image]"),
    ({"type": "block_of_next_year", "text": "It rains."}, "It rains."),
]


@pytest.mark.requirement("gateway.translated.history")
@pytest.mark.parametrize(("block", "shown"), FOREIGN)
@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_foreign_block_of_the_history_is_a_line_of_text(gateway: Gateway, block: Any, shown: str, role: str) -> None:
    told = sent_messages(gateway, [ASKED, {"role": role, "content": [block]}, {"role": "user", "content": "more"}])

    assert shown in (text := "".join(one["content"] for one in told))
    assert "zzzz" not in text


@pytest.mark.requirement("gateway.translated.history")
def test_a_foreign_block_in_a_result_is_a_line_of_text(gateway: Gateway) -> None:
    used: dict[str, Any] = {"type": "tool_use", "id": "a", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "tool_reference", "tool_name": "grep"}]}
    said: list[Any] = [ASKED, {"role": "assistant", "content": [used]}, {"role": "user", "content": [result]}]

    assert sent_messages(gateway, said)[-1]["content"] == "[tool reference: grep]"


@pytest.mark.requirement("gateway.translated.history")
@pytest.mark.parametrize(
    ("item", "role", "shown"),
    [
        ({"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "Bonn"}}, "assistant", "Bonn"),
        ({"type": "tool_search_output", "tools": [{"name": "grep"}]}, "user", "grep"),
        further({"type": "image_generation_call", "id": "i", "result": "aGk="}, "assistant", "[image generation call]"),
        ({"type": "message", "role": "user", "content": [{"type": "input_audio", "data": "aGk="}]}, "user", "[input"),
    ],
)
def test_a_foreign_item_is_a_line_of_text(gateway: Gateway, item: Any, role: str, shown: str) -> None:
    told = sent_items(gateway, [item, {"role": "assistant", "content": "Yes."}, ASKED])

    assert told[0]["role"] == role
    assert shown in told[0]["content"]
    assert "aGk=" not in told[0]["content"]


@pytest.mark.requirement("gateway.translated.format")
@pytest.mark.parametrize(
    ("schema", "strict"), [(CLOSED, True), ({**CLOSED, "required": ["at"]}, False), ({"type": "object"}, False)]
)
@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_the_form_of_an_answer_becomes_a_response_format(
    gateway: Gateway, schema: Any, field: str, *, strict: bool
) -> None:
    form = {"type": "json_schema", "schema": schema}

    sent_messages(gateway, [ASKED], **{field: {"effort": "low", "format": form} if field == "output_config" else form})

    assert gateway.model.requests[-1].body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": schema, "strict": strict},
    }


@pytest.mark.requirement("gateway.translated.format")
def test_a_parsed_message_of_anthropics_sdk_has_its_type(gateway: Gateway) -> None:
    gateway.will('{"city": "Bonn"}')

    assert sdks.use("anthropic_parsed", gateway.server.url, TOKEN) == {"city": "Bonn"}
    assert gateway.model.requests[-1].body["response_format"]["json_schema"]["schema"]["required"] == ["city"]


@pytest.mark.requirement("gateway.translated.thread")
@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "id": "t"}])
def test_a_thread_is_refused_in_the_vendors_form(gateway: Gateway, thread: Any) -> None:
    found = gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": [ASKED], "thread": thread})

    assert found.status_code == 400
    assert found.json()["type"] == "error"
    error = found.json()["error"]
    assert (error["type"], error["details"]) == (
        "invalid_request_error",
        {"error_code": "thread_unsupported_request"},
    )


@pytest.mark.requirement("gateway.translated.thread")
def test_the_tool_runner_of_anthropic_goes_on_without_a_thread(gateway: Gateway) -> None:
    first = gateway.will(call("look_up", word="Bonn"), "It is small.")

    assert sdks.use("anthropic_tool_runner", gateway.server.url, TOKEN) == {"text": "It is small.", "asked": ["Bonn"]}
    asked, answered = gateway.model.requests[first - 1 :]
    assert [one["role"] for one in answered.messages] == ["user", "assistant", "tool"]
    assert answered.messages[:1] == asked.messages
