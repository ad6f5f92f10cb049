"""How a request of Responses or Messages reaches the model server: its messages, its user, and what a refusal says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Gateway, gateway_at
from tests.tiers import further
from vibe_jupyter.gateway.fitted_request import arrange
from vibe_jupyter.llm.request import Server
from vibe_jupyter.testing import ScriptedModel, call, raw, status

ADD = "mcp__sample__add"
RUN = {"name": "run", "input_schema": {"type": "object"}}
BRIEF = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "hello"}
ANYWHERE = """
[[providers]]
name = "anywhere"
api_base = "{url}"
system_anywhere = true
[[models]]
name = "scripted"
alias = "anywhere"
provider = "anywhere"
[[providers]]
name = "mistral-like"
api_base = "{url}"
backend = "mistral"
[[models]]
name = "scripted"
alias = "mistral-like"
provider = "mistral-like"
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path) -> Iterator[Gateway]:
    """One with more providers than the usual."""
    with ScriptedModel(strict=False) as model:
        folder = tmp_path_factory.mktemp("gateway")
        with gateway_at(folder, model, ANYWHERE.format(url=model.url)) as gateway:
            yield gateway


def sent(gateway: Gateway, messages: list[Any], **fields: Any) -> list[Any]:
    """The messages that a conversation of Messages becomes."""
    gateway.will("ok")
    body = {"model": "default", "max_tokens": 100, "messages": messages, **fields}
    found = gateway.client.post("/v1/messages", json=body)
    assert found.status_code == 200, found.text
    return gateway.model.requests[-1].messages


def used(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": one, "name": "run", "input": {}} for one in ids],
    }


def results(*ids: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one, "content": one} for one in ids]}


@pytest.mark.requirement("gateway.translated.system")
def test_leading_system_texts_are_one_message_and_later_ones_marked_text_of_the_user(gateway: Gateway) -> None:
    said = [BRIEF, ASKED, {"role": "assistant", "content": "Hi."}, BRIEF, {"role": "user", "content": "more"}]

    assert sent(gateway, said, system="You help.") == [
        {"role": "system", "content": "You help.\n\nBe brief."},
        ASKED,
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "[system message]\nBe brief.\n[end of system message]\n\nmore"},
    ]


@pytest.mark.requirement("gateway.translated.system")
def test_system_texts_stay_where_they_are_at_a_provider_that_takes_them_anywhere(gateway: Gateway) -> None:
    said = [ASKED, BRIEF, {"role": "user", "content": "more"}]

    assert sent(gateway, said, model="anywhere") == said


@pytest.mark.requirement("gateway.translated.user")
@pytest.mark.parametrize(("length", "same"), [(64, True), (65, False), further(150, False)])
def test_a_long_user_is_sent_as_its_hash(gateway: Gateway, length: int, *, same: bool) -> None:
    name = "é" * length

    sent(gateway, [ASKED], metadata={"user_id": name})

    user = gateway.model.requests[-1].body["user"]
    assert (len(user), user == name) == (64, same)
    sent(gateway, [ASKED], metadata={"user_id": name})
    assert gateway.model.requests[-1].body["user"] == user


@pytest.mark.requirement("gateway.translated.order")
def test_results_stand_behind_their_calls_in_order_and_none_is_missing(gateway: Gateway) -> None:
    said = [ASKED, used("a", "b", "c"), BRIEF, results("c", "x", "a"), used("a"), {"role": "user", "content": "more"}]

    told = sent(gateway, said, tools=[RUN])

    assert [(one["role"], one.get("tool_call_id")) for one in told] == [
        ("user", None),
        ("assistant", None),
        *(("tool", one) for one in "abc"),
        ("user", None),
        ("assistant", None),
        ("tool", "a"),
        ("user", None),
    ]
    assert [one["content"] for one in told if one["role"] == "tool"] == ["a", "(no result)", "c", "(no result)"]
    assert "Be brief." in told[5]["content"]
    assert told[5]["content"].endswith("[result of an earlier tool call]\nx")


@pytest.mark.requirement("gateway.translated.order")
def test_an_answer_behind_calls_whose_results_were_cut_stays_behind_them(gateway: Gateway) -> None:
    final = {"role": "assistant", "content": "The final text."}
    said = [ASKED, used("a"), final, {"role": "user", "content": "more"}, used("b"), used("a"), results("a")]

    told = sent(gateway, said, tools=[RUN])

    assert [(one["role"], [call["id"] for call in one.get("tool_calls") or ()]) for one in told] == [
        ("user", []),
        ("assistant", ["a"]),
        ("tool", []),
        ("assistant", []),
        ("user", []),
        ("assistant", ["b"]),
        ("tool", []),
        ("assistant", ["a"]),
        ("tool", []),
    ]
    assert told[3] == final
    assert [one["content"] for one in told if one["role"] == "tool"] == ["(no result)", "(no result)", "a"]


@pytest.mark.requirement("gateway.translated.order")
def test_a_null_in_the_second_item_of_an_answer_keeps_what_the_first_has() -> None:
    made = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    first: dict[str, Any] = {"role": "assistant", "content": "I run it.", "tool_calls": [made]}
    second: dict[str, Any] = {"role": "assistant", "content": "Now.", "tool_calls": None}
    result: dict[str, Any] = {"role": "tool", "tool_call_id": "a", "content": "a"}

    told = arrange([ASKED, first, second, result], Server(name="", api_base="https://models.test/v1"))

    assert told == [ASKED, {**first, "content": "I run it.\n\nNow."}, result]


def test_mistrals_rules_hold_for_ids_turns_and_an_answer_that_is_begun(gateway: Gateway) -> None:
    said = [ASKED, used("toolu_1"), results("toolu_1"), {"role": "assistant", "content": "It"}]

    told = sent(gateway, [*said[:3], {"role": "user", "content": "more"}, said[3]], model="mistral-like", tools=[RUN])

    assert [one["role"] for one in told] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    made = told[1]["tool_calls"][0]["id"]
    assert (len(made), made.isalnum(), told[2]["tool_call_id"]) == (9, True, made)
    assert told[-1] == {"role": "assistant", "content": "It", "prefix": True}


REFUSALS: dict[str, Any] = {
    "mistral": {
        "object": "error",
        "message": {"detail": [{"loc": ["body", "odd"], "msg": "Extra inputs are not permitted", "input": 1}]},
    },
    "fastapi": {"detail": [{"loc": ["body", "odd"], "msg": "Extra inputs are not permitted"}]},
    "page": "<html><head><style>a{}</style><title>odd: Extra inputs are not permitted &amp; more</title></head></html>",
    "text": "odd: Extra inputs are not permitted",
    "error without message": {"error": {"code": 7, "detail": "odd: Extra inputs are not permitted"}},
    "error as text": {"error": "odd: Extra inputs are not permitted"},
}


@pytest.mark.requirement("gateway.translated.reason")
@pytest.mark.parametrize("form", sorted(REFUSALS))
def test_an_error_has_the_reason_of_the_model_server(gateway: Gateway, form: str) -> None:
    gateway.will(status(413, REFUSALS[form]))

    found = gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": [ASKED]})

    assert found.status_code == 413
    assert "odd: Extra inputs are not permitted" in found.json()["error"]["message"]


@pytest.mark.requirement("gateway.translated.reason")
def test_an_error_behind_calls_of_ours_has_the_reason_in_the_stream(gateway: Gateway) -> None:
    gateway.will(call(ADD, a=1, b=2), status(413, REFUSALS["mistral"]))

    events = gateway.stream_at("/v1/responses", {"input": "add"})

    assert events[-1].name == "response.failed"
    assert "odd: Extra inputs are not permitted" in events[-1].data["response"]["error"]["message"]


@pytest.mark.requirement("gateway.translated.learned")
@pytest.mark.parametrize(
    ("refusal", "gone"),
    [
        ({"detail": [{"loc": ["body", "user"], "msg": "Extra inputs are not permitted"}]}, "user"),
        ({"error": {"message": "Unrecognized request argument supplied: parallel_tool_calls"}}, "parallel_tool_calls"),
    ],
)
def test_what_a_model_does_not_know_is_left_out_from_then_on(
    tmp_path: Path, own_home: Path, refusal: Any, gone: str
) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        gateway.will(status(400, refusal))
        for _ in range(2):
            choice = {"type": "auto", "disable_parallel_tool_use": True}
            sent(gateway, [ASKED], metadata={"user_id": "me"}, tools=[RUN], tool_choice=choice)

    assert [gone in request.body for request in model.requests] == [True, False, False]


@pytest.mark.requirement("gateway.translated.learned")
def test_a_template_with_rules_of_mistrals_is_asked_by_them_from_then_on(tmp_path: Path, own_home: Path) -> None:
    refusal = {"error": {"code": 500, "message": "Conversation roles must alternate user/assistant/user/assistant"}}
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        gateway.will(status(500, refusal))
        said = [ASKED, used("a"), results("a"), {"role": "user", "content": "more"}]
        sent(gateway, said, tools=[RUN])
        sent(gateway, said, tools=[RUN])

    assert [request.messages[-2]["role"] for request in model.requests] == ["tool", "assistant", "assistant"]


def test_a_refusal_that_teaches_nothing_is_said_at_once(gateway: Gateway) -> None:
    before = len(gateway.model.requests)
    gateway.will(status(400, {"error": {"message": "Unsupported value for messages."}}), raw([]))

    found = gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": [ASKED]})

    assert found.json()["error"]["message"] == "Unsupported value for messages."
    assert len(gateway.model.requests) == before + 1
    gateway.client.post("/v1/messages", json={"max_tokens": 9, "messages": [ASKED]})


@pytest.mark.parametrize(
    ("refusal", "field", "value"),
    [
        ("Unsupported value: 'reasoning_effort' does not support 'xhigh'. Supported values are: 'low'.", "user", "u1"),
        ("Unexpected role 'user' after role 'tool' is not supported", "user", "u1"),
    ],
)
def test_a_refused_value_or_role_takes_no_field_from_later_requests(
    tmp_path: Path, own_home: Path, refusal: str, field: str, value: str
) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, ANYWHERE.format(url=model.url)) as gateway:
        body = {"model": "default", "input": "hello", field: value, "reasoning": {"effort": "low"}}
        gateway.will(*[status(400, refusal)] * 2)
        gateway.client.post("/v1/responses", json=body)
        gateway.model._replies.clear()
        gateway.will("ok")
        assert gateway.client.post("/v1/responses", json=body).status_code == 200
        latest = gateway.model.requests[-1].body
        assert (latest[field], latest["reasoning_effort"]) == (value, "low")


def test_a_template_with_rules_of_mistrals_keeps_the_fields_of_its_server(tmp_path: Path, own_home: Path) -> None:
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, ANYWHERE.format(url=model.url)) as gateway:
        gateway.will(status(400, "Conversation roles must alternate user/assistant/user/assistant/..."), "ok")
        body = {"model": "default", "max_tokens": 9, "messages": [ASKED], "stream": True}
        assert gateway.client.post("/v1/messages", json=body).status_code == 200
        assert gateway.model.requests[-1].body["stream_options"] == {"include_usage": True}


def test_a_result_stays_with_its_call_where_an_item_of_another_vendor_stands_between(gateway: Gateway) -> None:
    call_item = {"type": "function_call", "call_id": "a", "name": "run", "arguments": "{}"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "red fox"}}
    result = {"type": "function_call_output", "call_id": "a", "output": "REAL"}
    gateway.will("ok")
    asked = {"role": "user", "content": "go"}
    found = gateway.client.post("/v1/responses", json={"model": "default", "input": [asked, call_item, search, result]})
    assert found.status_code == 200, found.text
    messages = gateway.model.requests[-1].messages
    assert [one["content"] for one in messages if one["role"] == "tool"] == ["REAL"]


def test_a_choice_of_a_tool_that_is_left_out_is_the_models(gateway: Gateway) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    sent(gateway, [ASKED], tools=[search, RUN], tool_choice={"type": "tool", "name": "web_search"})
    assert gateway.model.requests[-1].body.get("tool_choice") in (None, "auto")
