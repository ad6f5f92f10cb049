"""The public scripted model, as those who test their own tools use it."""

import contextlib
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from vibe_jupyter.testing import Call, Reply, ScriptedModel, Tokens, answer, call, hold, raw, say, status

WITHIN = 30.0
"""Seconds in which a program ends, on a busy machine."""


def post(url: str, *messages: dict[str, Any], path: str = "/chat/completions", **rest: Any) -> tuple[int, str]:
    """Status and body of a request."""
    body = {"model": "scripted", "messages": list(messages) or [{"role": "user", "content": "hi"}], **rest}
    asked = urllib.request.Request(url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def said(body: str) -> dict[str, Any]:
    """The message of a JSON answer."""
    return json.loads(body)["choices"][0]["message"]


def chunks(body: str) -> list[dict[str, Any]]:
    """The chunks of a stream that ends as it should."""
    lines = body.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def history(result: str = "2", arguments: str = "{}") -> list[dict[str, Any]]:
    """A conversation with one call and its result."""
    function = {"name": "run_code", "arguments": arguments}
    return [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "a", "name": "run_code", "content": result},
    ]


def test_replies_come_in_order_and_requests_are_kept():
    with ScriptedModel([say("one"), call("f", x=1)]) as model:
        assert said(post(model.url)[1])["content"] == "one"
        function = said(post(model.url)[1])["tool_calls"][0]["function"]
        assert (function["name"], json.loads(function["arguments"])) == ("f", {"x": 1})
        model.will_reply("three")
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        assert said(post(model.url, *history(), tools=tools)[1])["content"] == "three"
    last = model.requests[2]
    assert (last.last_user_text, last.tool_results, last.tools, last.stream) == ("add", ["2"], ["f"], False)
    assert last.headers["content-type"] == "application/json"


def test_a_function_sees_the_request_and_reacts_to_results():
    def react(request: Any) -> Reply:
        return f"It is {request.tool_results[-1]}." if request.tool_results else call("run_code", code="1 + 1")

    with ScriptedModel(react) as model:
        assert said(post(model.url)[1])["tool_calls"]
        assert said(post(model.url, *history("2"))[1])["content"] == "It is 2."


def test_a_stream_says_the_same_in_pieces_with_counts_when_asked():
    reply = answer("one two", [Call("f", '{"x": "a long enough text"}')], reasoning="hm", usage=Tokens(7, 3, 2))
    with ScriptedModel([reply, reply]) as model:
        parts = chunks(post(model.url, stream=True, stream_options={"include_usage": True})[1])
        whole = json.loads(post(model.url)[1])
    deltas = [part["choices"][0]["delta"] for part in parts if part["choices"]]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [delta["content"] for delta in deltas if delta.get("content")] == ["one ", "two"]
    assert "".join(piece["function"]["arguments"] for piece in calls) == '{"x": "a long enough text"}'
    assert len(calls) > 2
    assert parts[-1]["usage"] == whole["usage"]
    assert whole["usage"] == {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert whole["choices"][0]["finish_reason"] == "tool_calls"


def test_pieces_can_be_counted():
    with ScriptedModel([say("abcdefgh", pieces=3)]) as model:
        parts = chunks(post(model.url, stream=True)[1])
    assert [c for part in parts if (c := part["choices"][0]["delta"].get("content"))] == ["abc", "def", "gh"]


def test_a_script_that_is_used_up_says_so():
    with ScriptedModel(["one"]) as model:
        post(model.url)
        code, body = post(model.url)
    assert code == 500
    assert "no reply left: it was given 1" in body


def test_a_script_that_raises_says_so():
    def broken(request: Any) -> Reply:
        raise KeyError("frame")

    with ScriptedModel(broken) as model:
        code, body = post(model.url)
    assert code == 500
    assert "KeyError: 'frame'" in body


@pytest.mark.parametrize(
    ("messages", "complaint"),
    [
        (history()[:2], "have no result"),
        ([*history(), {"role": "tool", "tool_call_id": "b", "content": "x"}], "not the next to be answered"),
        (history(arguments="{"), "not a JSON object"),
        ([*history(), {"role": "assistant", "content": ""}], "an empty answer"),
        ([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}], "does not belong here"),
    ],
)
def test_a_strict_server_refuses_a_history_that_real_ones_refuse(messages, complaint):
    with ScriptedModel(["fine"]) as model:
        code, body = post(model.url, *messages)
        assert (code, complaint in body) == (400, True)
        assert post(model.url, *history())[0] == 200


def test_null_and_unknown_fields_are_refused_unless_it_is_lenient():
    with ScriptedModel(["fine"]) as strict, ScriptedModel(["fine"], strict=False) as lenient:
        assert post(strict.url, tools=None)[0] == 400
        assert post(strict.url, surprise=1)[0] == 400
        assert post(lenient.url, tools=None, surprise=1)[0] == 200


def test_a_wrong_key_and_a_wrong_path_are_refused():
    with ScriptedModel(["fine"], api_key="k") as model:
        assert post(model.url)[0] == 401
        assert post(model.url, path="/completions")[0] == 404


def test_its_name_is_listed():
    with (
        ScriptedModel(name="tour") as model,
        urllib.request.urlopen(f"{model.url}/models", timeout=10) as response,
    ):
        assert [entry["id"] for entry in json.load(response)["data"]] == ["tour"]


def test_status_and_raw_bytes_are_sent_as_they_are():
    with ScriptedModel(
        [status(429, "slow down", {"Retry-After": "3"}), raw([b"a", b"b"], content_type="text/html")]
    ) as m:
        assert post(m.url) == (429, "slow down")
        assert post(m.url) == (200, "ab")


def test_a_held_reply_goes_on_when_released():
    release = threading.Event()
    got: list[str] = []
    with ScriptedModel([hold(release, "wait ", after="go")]) as model:
        thread = threading.Thread(target=lambda: got.append(post(model.url)[1]))
        thread.start()
        assert model.wait_for_request(1).last_user_text == "hi"
        assert got == []
        release.set()
        thread.join(10)
    assert said(got[0])["content"] == "wait go"


def test_waiting_for_a_request_that_does_not_come_ends():
    with ScriptedModel() as model, pytest.raises(TimeoutError, match="0 of 1"):
        model.wait_for_request(1, timeout=0.05)


def test_stopping_leaves_no_thread_and_lets_held_replies_go():
    before = set(threading.enumerate())
    model = ScriptedModel([hold(threading.Event())]).start()
    url = model.url

    def asks_in_vain() -> None:
        with contextlib.suppress(OSError):
            post(url)

    client = threading.Thread(target=asks_in_vain)
    client.start()
    model.wait_for_request(1)
    model.stop()
    client.join(10)
    assert set(threading.enumerate()) == before
    with pytest.raises(urllib.error.URLError):
        post(url)
    model.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = model.url


def test_a_program_that_never_stops_its_model_ends_all_the_same() -> None:
    program = "from vibe_jupyter.testing import ScriptedModel; model = ScriptedModel().start(); print('over')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WITHIN, check=True)
    assert done.stdout == "over\n"
