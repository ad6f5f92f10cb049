"""The real SDKs of vendors against the gateway: their own types validate what it answers."""

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway
from tests.tiers import further
from vibe_jupyter.testing import answer, call

ADD = call("mcp__sample__add", a=2, b=40)


@pytest.fixture(autouse=True)
def _adds(gateway: Gateway) -> None:
    gateway.will(answer("Let me see. ", [ADD]), "It is 42.")


def used(gateway: Gateway, steps: str) -> dict[str, object]:
    return sdks.use(steps, gateway.server.url, TOKEN)


@pytest.mark.requirement("gateway.api.auth.token", "gateway.api.clients.openai-sdk")
@pytest.mark.parametrize("vendor", ["openai", further("mistral")])
def test_an_answer_with_a_call_of_ours_is_one_answer(gateway: Gateway, vendor: str) -> None:
    assert used(gateway, f"{vendor}_plain") == {"text": "It is 42.", "finish": "stop"}


@pytest.mark.requirement("gateway.api.clients.openai-sdk")
@pytest.mark.parametrize("vendor", ["openai", "mistral"])
def test_a_stream_with_a_call_of_ours_is_one_stream(gateway: Gateway, vendor: str) -> None:
    found = used(gateway, f"{vendor}_stream")

    assert found["text"] == "Let me see. It is 42."
    assert found["finishes"] == ["stop"]


@pytest.mark.matrix
def test_the_stream_helper_of_openai_ends_with_the_whole_message(gateway: Gateway) -> None:
    found = used(gateway, "openai_stream_helper")

    assert found == {"text": "Let me see. It is 42.", "finish": "stop", "last": "content.done"}


def test_a_response_shows_the_call_of_ours_and_another_goes_on_after_it(gateway: Gateway) -> None:
    gateway.will("42, as before.")

    assert used(gateway, "openai_responses") == {
        "text": "It is 42.",
        "status": "completed",
        "calls": [["sample", "add", "completed", True]],
        "counted": True,
        "again": "42, as before.",
        "after": True,
    }
    roles = [message["role"] for message in gateway.model.requests[-1].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]


def test_the_events_of_a_response_are_those_of_openai(gateway: Gateway) -> None:
    found = used(gateway, "openai_responses_stream")

    assert found["text"] == "Let me see. It is 42."
    assert found["numbered"]
    assert found["last"] == "ResponseCompletedEvent"


def test_the_responses_helper_of_openai_ends_with_all_items(gateway: Gateway) -> None:
    found = used(gateway, "openai_responses_helper")

    assert found == {
        "output": ["message", "mcp_call", "message"],
        "status": "completed",
        "text": "Let me see. It is 42.",
    }


def test_a_message_is_one_message_for_anthropics_sdk(gateway: Gateway) -> None:
    assert used(gateway, "anthropic_plain") == {"text": "It is 42.", "stop": "end_turn", "counted": True}


def test_the_events_of_a_message_are_those_of_anthropic(gateway: Gateway) -> None:
    kinds = sdks.use("anthropic_stream", gateway.server.url, TOKEN)

    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 2


@pytest.mark.matrix
def test_the_stream_helper_of_anthropic_ends_with_the_whole_message(gateway: Gateway) -> None:
    found = used(gateway, "anthropic_stream_helper")

    assert found == {"text": "Let me see. It is 42.", "stop": "end_turn", "counted": True}
