"""The real SDKs of vendors against the gateway: their own types validate what it answers."""

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import TOKEN, Gateway
from vibe_jupyter.testing import answer, call

ADD = call("mcp__sample__add", a=2, b=40)


@pytest.fixture(autouse=True)
def _adds(gateway: Gateway) -> None:
    gateway.will(answer("Let me see. ", [ADD]), "It is 42.")


def used(gateway: Gateway, steps: str) -> dict[str, object]:
    return sdks.use(steps, gateway.server.url, TOKEN)


@pytest.mark.requirement("gateway.api.auth.token", "gateway.api.clients.openai-sdk")
@pytest.mark.parametrize("vendor", ["openai", "mistral"])
def test_an_answer_with_a_call_of_ours_is_one_answer(gateway: Gateway, vendor: str) -> None:
    assert used(gateway, f"{vendor}_plain") == {"text": "It is 42.", "finish": "stop"}


@pytest.mark.requirement("gateway.api.clients.openai-sdk")
@pytest.mark.parametrize("vendor", ["openai", "mistral"])
def test_a_stream_with_a_call_of_ours_is_one_stream(gateway: Gateway, vendor: str) -> None:
    found = used(gateway, f"{vendor}_stream")

    assert found["text"] == "Let me see. It is 42."
    assert found["finishes"] == ["stop"]


def test_the_stream_helper_of_openai_ends_with_the_whole_message(gateway: Gateway) -> None:
    found = used(gateway, "openai_stream_helper")

    assert found == {"text": "Let me see. It is 42.", "finish": "stop", "last": "content.done"}
