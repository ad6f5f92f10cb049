"""What a user reads when a model server fails."""

import re
import socket
import ssl
import subprocess
import sys

import pytest
from pydantic import JsonValue

from tests.llm.support import client, failure_of, refusal_of, request
from vibe_jupyter.llm.connections import is_final, network_reason
from vibe_jupyter.llm.failures import HttpRefusal, is_overflow, is_passing
from vibe_jupyter.testing import ScriptedModel, raw, status

KEY = "sk-test-1234567890"

OVERFLOWS = [
    (
        400,
        {
            "error": {
                "code": "context_length_exceeded",
                "message": "This model's maximum context length is 8192 tokens.",
            }
        },
    ),
    (
        400,
        {"error": {"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}},
    ),
    (
        400,
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
        },
    ),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
    (400, {"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}),
    (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000", "error_type": "validation"}),
    (413, "<html>Request Entity Too Large</html>"),
]
WORDS = [
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
    "Input validation error: `inputs` must have less than 1000 tokens. Given: 5000",
    "Range of input length should be [1, 30720]",
    "Your request exceeded model token limit: 131072 (requested: 140000)",
    "The length of prompt_tokens (140000) must be less than max_seq_len (65536).",
    "Total tokens of the request exceed the model's max tokens",
    "Request body too large for gpt-4o model. Max size: 8000 tokens.",
    "Prompt length 9000 exceeds maximum prompt length 8192",
    "request (9000 tokens) exceeds the available context size (4096 tokens)",
    "Requested tokens (9000) exceed context window of 4096",
    "the prompt exceeds n_ctx (4096)",
    "输入超出模型最大长度",
    "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 32768 tokens "
    "and your request has 30000 input tokens (8192 > 32768 - 30000).",
    "max_tokens must be less than the context length minus the prompt",
]
OTHER_LIMITS = [
    "`max_completion_tokens` must be less than or equal to `8192`, less than the `context_window` for this model",
    "max_tokens (32768) exceeds the maximum of 8192 for this model",
    "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "messages.1.tool_calls.0.id: string too long",
    "Invalid 'messages[1].tool_calls[0].id': string too long. string_above_max_length",
    "Number of request tokens has exceeded your per-minute rate limit",
    "max_tokens=8192 cannot be greater than max_model_len=4096",
    "The token has exceeded its maximum age",
]


def test_a_long_conversation_is_recognised_in_many_words_and_other_limits_are_not():
    assert [text for text in WORDS if not is_overflow(HttpRefusal(400, text))] == []
    assert [text for text in OTHER_LIMITS if is_overflow(HttpRefusal(400, text))] == []


@pytest.mark.parametrize(("code", "body"), OVERFLOWS)
async def test_a_conversation_that_is_too_long_is_recognised(code, body):
    with ScriptedModel([status(code, body)]) as model:
        error = await refusal_of(model)
    assert (error.kind, error.status) == ("overflow", code)
    assert "%vibe reset" in str(error)


@pytest.mark.parametrize("body", [{"error": {"message": "max_tokens must be at least 1"}}, "Bad Request", ""])
async def test_other_refusals_are_not_taken_for_a_long_conversation(body):
    with ScriptedModel([status(400, body)]) as model:
        error = await refusal_of(model)
    assert (error.kind, error.status) == ("http", 400)


async def test_a_conversation_that_is_too_long_is_recognised_inside_a_stream():
    body = b'data: {"error":{"message":"This model has a maximum context length of 8 tokens"}}\n\n'
    with ScriptedModel([raw([body])]) as model:
        assert (await refusal_of(model)).kind == "overflow"


@pytest.mark.requirement("wire.errors.status")
async def test_a_wrong_key_is_named_by_its_provider_and_never_shown():
    asker = client()
    with ScriptedModel(["no"], api_key="another") as model:
        error, _ = await failure_of(asker, request(model.url, key=KEY))
        nothing, _ = await failure_of(asker, request(model.url))
        from_file = {"key_from": "MY_KEY in /home/me/.vibe/.env"}
        placed, _ = await failure_of(asker, request(model.url, key=KEY, server=from_file))
        await asker.close()
    port = model.requests[0].headers["host"]
    assert str(error) == (
        f"test ({port}) rejected the API key of provider 'test' (401): Incorrect API key provided. "
        "Check that key, or set another: %vibe setup"
    )
    where = "The key comes from MY_KEY in /home/me/.vibe/.env. Correct it there, or set another: %vibe setup"
    assert str(placed).endswith(where)
    assert "requires an API key" in str(nothing)
    assert (error.kind, error.status, nothing.kind) == ("auth", 401, "auth")


@pytest.mark.requirement("wire.errors.status")
async def test_an_unknown_model_is_named_with_the_address():
    with ScriptedModel([status(404, {"error": {"message": "no such model"}})]) as model:
        error = await refusal_of(model)
        url = model.url
    assert error.kind == "not_found"
    assert "'scripted'" in str(error)
    assert f"{url}/chat/completions" in str(error)
    assert "no such model" in str(error)


@pytest.mark.parametrize(("ending", "hinted"), [("/v1", False), ("", True), ("/openai/deployments/x", False)])
async def test_where_v1_is_missing_the_next_step_says_so(ending, hinted):
    asker = client()
    with ScriptedModel(lambda _: status(404)) as model:
        error, _ = await failure_of(asker, request(model.url.removesuffix("/v1") + ending))
        await asker.close()
    assert ("ends in /v1" in str(error)) is hinted


async def test_an_account_without_credit_is_told_as_such():
    with ScriptedModel([status(402, {"error": {"message": "Insufficient credits"}})]) as model:
        error = await refusal_of(model)
    assert error.kind == "http"
    assert "requires payment (402): Insufficient credits. Check the account there" in str(error)


async def test_a_server_that_stays_busy_is_told_with_the_wait_it_asks_for():
    busy = status(429, {"error": {"message": "slow down"}}, headers={"retry-after": "40"})
    with ScriptedModel([busy] * 3) as model:
        error = await refusal_of(model)
    assert error.kind == "rate_limit"
    assert "(429), even after 2 more attempts: slow down. It asks to wait 40 s; try again" in str(error)


async def test_a_password_or_a_query_in_the_address_is_not_shown():
    asker = client()
    with ScriptedModel([status(404)]) as model:
        base = model.url.replace("//", "//user:pa55@") + "?key=s3cret"
        error, _ = await failure_of(asker, request(base))
        await asker.close()
    assert error.kind == "not_found"
    assert not {"pa55", "s3cret"} & set(re.split(r"\W", str(error)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": [{"loc": ["body"], "msg": "field required"}, {"msg": "too long"}]}, "field required; too long"),
        ({"object": "error", "message": {"detail": [{"msg": "Input should be valid"}]}}, "Input should be valid"),
        ({"error": {"code": 7}}, '{"code": 7}'),
        ({"message": "Bad Request", "error": {"message": "too many tools"}}, "too many tools"),
        ({"detail": "see errors", "errors": ["a"], "msg": "no such model"}, "no such model"),
        ({"errors": ["a"], "detail": "see errors"}, "see errors"),
        ({"error": "", "message": None, "msg": "no such model"}, "no such model"),
        ({"errors": ["a", "b", "c", "d"]}, "a; b; c"),
        ({"errors": ["a", "b"]}, "a; b"),
        ("<html><head><style>x{}</style></head><body><h1>502</h1>\n<p>Bad</p></body></html>", "502 Bad"),
        ("plain\ttext\r\n\x1b[31mred\u202e", "plain text [31mred"),
        ("", ""),
        ("x" * 1000, "x" * 399 + "…"),
    ],
)
@pytest.mark.requirement("wire.errors.status")
async def test_the_words_of_the_server_are_found_cleaned_and_cut(body, words):
    with ScriptedModel([status(400, body)]) as model:
        assert (await refusal_of(model)).provider_message == words


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        ({"code": 429}, True),
        ({"code": "503", "status": 400}, True),
        ({"code": 400, "status": 503}, False),
        ({"code": None, "status": 408, "status_code": 400}, True),
        ({"code": 0, "status": 503}, False),
        ({"status_code": 500}, True),
        ({"status_code": 499}, False),
        ({"code": "overloaded_error", "status": 400}, True),
        ({"code": "bad_request", "type": "server_error"}, True),
        ({"status": "UNAVAILABLE"}, True),
        ({"type": "invalid_request_error", "code": "x"}, False),
        ({}, False),
        ("server_error", False),
    ],
)
def test_of_several_codes_of_an_error_the_first_says_whether_it_passes(error: JsonValue, *, passes: bool) -> None:
    assert is_passing(error) is passes


async def test_an_endless_error_body_is_cut():
    asker = client()
    with ScriptedModel([status(418, "y" * 1_000_000)]) as model:
        error, _ = await failure_of(asker, request(model.url))
        await asker.close()
    assert (error.status, len(error.provider_message)) == (418, 400)


@pytest.mark.parametrize("cause", [ConnectionRefusedError(), socket.gaierror(), ssl.SSLError(), ConnectionResetError()])
def test_the_reason_is_found_however_deep_it_is_wrapped(cause):
    outer = RuntimeError("All connection attempts failed")
    outer.__cause__ = OSError("several")
    outer.__cause__.__cause__ = ExceptionGroup("two", [OSError("x"), cause])
    assert network_reason(outer) == network_reason(cause) != str(outer)
    assert not is_final(outer)
    assert is_final(ssl.SSLCertVerificationError())


@pytest.mark.parametrize("module", ["vibe_jupyter.llm.client", "vibe_jupyter.testing"])
def test_importing_loads_no_http_library(module):
    code = f"import sys, {module}; print([n for n in ('httpx', 'certifi', 'anyio') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_scripted_model_needs_nothing_but_the_standard_library():
    code = "import sys, vibe_jupyter.testing; print([n for n in ('pydantic', 'IPython') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
