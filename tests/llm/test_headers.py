"""Headers a user set for a provider."""

import pytest

from tests.llm.support import client, failure_of, message_of, request
from vibe_jupyter.testing import ScriptedModel, status

SECRET = "tok-0123456789"


@pytest.mark.requirement("agent.request.extra-headers", "agent.request.headers")
@pytest.mark.parametrize("dialect", ["openai", "mistral", "ollama"])
async def test_they_go_with_each_request_beside_ours(dialect):
    asker = client(affinity="session-7")
    server = {"dialect": dialect, "headers": {"X-Web-Search": "enabled", "api-key": SECRET}}
    with ScriptedModel([status(503), "a", "b"], api_key="sk-test") as model:
        for _ in range(2):
            await message_of(asker, request(model.url, key="sk-test", server=server))
        await asker.close()
    assert len(model.requests) == 3
    for one in model.requests:
        assert (one.headers["x-web-search"], one.headers["api-key"]) == ("enabled", SECRET)
        assert (one.headers["user-agent"], one.headers["x-affinity"]) == ("vibe-jupyter/test", "session-7")
        assert one.headers["authorization"] == "Bearer sk-test"


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({"User-Agent": "mine"}, None),
        ({"X-AFFINITY": "mine"}, None),
        ({"Host": "elsewhere"}, None),
        ({"Content-Length": "1"}, None),
        ({"Transfer-Encoding": "chunked"}, None),
        ({"authorization": "Basic abc"}, "sk-test"),
        ({"X-Bad": "a\r\nX-Other: b"}, None),
        ({"X Bad": "a"}, None),
        ({"X-Bad": "é"}, None),
        ({"": "a"}, None),
    ],
)
async def test_one_that_would_replace_ours_or_break_the_request_is_named_and_nothing_is_sent(headers, key):
    asker = client()
    with ScriptedModel(["never"]) as model:
        error, _ = await failure_of(asker, request(model.url, key=key, server={"headers": headers}))
        await asker.close()
    assert model.requests == []
    assert repr(next(iter(headers))) in str(error)
    assert "provider 'test'" in str(error)


async def test_an_authorization_of_ones_own_is_sent_where_there_is_no_key():
    asker = client()
    with ScriptedModel(["a"]) as model:
        await message_of(asker, request(model.url, server={"headers": {"Authorization": "Basic abcd"}}))
        await asker.close()
    assert model.requests[0].headers["authorization"] == "Basic abcd"


async def test_one_that_holds_a_key_is_guarded_and_hidden_like_the_key():
    asker = client()
    server = {"headers": {"api-key": SECRET}}
    error, _ = await failure_of(asker, request("http://model.example/v1", server=server))
    assert (error.kind, "header api-key" in str(error), SECRET in str(error)) == ("auth", True, False)
    with ScriptedModel([status(401, f"wrong: {SECRET}")]) as model:
        error, _ = await failure_of(asker, request(model.url, server=server))
        await asker.close()
    assert SECRET not in str(error) + error.provider_message
    assert "[redacted]" in error.provider_message
    assert SECRET not in repr(request("https://model.example/v1", server=server).model.server)


async def test_one_that_holds_no_key_goes_over_plain_http_too():
    asker = client()
    error, _ = await failure_of(asker, request("http://model.invalid/v1", server={"headers": {"X-Search": "on"}}))
    await asker.close()
    assert error.kind == "connection"


async def test_a_plain_word_in_a_header_stays_readable_in_errors():
    asker = client()
    server = {"headers": {"X-Auth-Mode": "internal", "X-Auth-Token": SECRET}}
    with ScriptedModel([status(401, f"internal error: no internal user for {SECRET}")]) as model:
        error, _ = await failure_of(asker, request(model.url, server=server))
        await asker.close()
    assert error.provider_message == "internal error: no internal user for [redacted]"
