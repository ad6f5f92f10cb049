"""Which fragment belongs to which call, and what becomes of ids, names and arguments."""

import json
from typing import Any

import pytest

from tests.llm.support import read
from vibe_jupyter.llm.call_repairs import meant_name, read_arguments, unwrapped
from vibe_jupyter.llm.failures import BrokenAnswer
from vibe_jupyter.llm.json_text import parse_json_object
from vibe_jupyter.llm.request import AnswerLimits
from vibe_jupyter.protocol import AssistantMessage, ToolCall, ToolCallDelta


def fragment(name: Any = None, arguments: Any = None, **rest: Any) -> dict[str, Any]:
    """A piece of a call; what is None is left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**rest, "function": function}


def streamed(*fragments: dict[str, Any]) -> AssistantMessage:
    """The message of a stream with one fragment a chunk."""
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in fragments]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    _, message, _ = read(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks)
    assert isinstance(message, AssistantMessage)
    return message


def whole(*calls: dict[str, Any]) -> AssistantMessage:
    """The message of one JSON body."""
    body = {"choices": [{"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}]}
    _, message, _ = read([json.dumps(body).encode()], "application/json")
    assert isinstance(message, AssistantMessage)
    return message


def told(message: AssistantMessage) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call."""
    return [(call.id, call.name, call.arguments) for call in message.calls]


@pytest.mark.requirement("stream.calls.merge-index", "stream.calls.arguments-join", "wire.call.values")
def test_fragments_of_one_index_are_one_call_down_to_single_characters():
    text = '{"code": "print(\\"é\\")"}'
    message = streamed(fragment("f", "", index=0, id="a"), *(fragment(None, c, index=0) for c in text))
    assert message.calls == (ToolCall(id="a", name="f", arguments=text),)


@pytest.mark.requirement("stream.calls.interleaved")
def test_calls_that_alternate_by_index_stay_apart():
    message = streamed(
        fragment("f", '{"a"', index=0, id="a"),
        fragment("g", '{"b"', index=1, id="b"),
        fragment(None, ":1}", index=0),
        fragment(None, ":2}", index=1),
    )
    assert told(message) == [("a", "f", '{"a":1}'), ("b", "g", '{"b":2}')]


@pytest.mark.requirement("stream.calls.same-index-new-id")
def test_another_id_at_the_same_index_begins_a_call_and_the_first_id_goes_on_with_the_first():
    message = streamed(
        fragment("f", '{"a"', index=0, id="a"),
        fragment("g", "{}", index=0, id="b"),
        fragment(None, ":1}", index=0, id="a"),
    )
    assert told(message) == [("a", "f", '{"a":1}'), ("b", "g", "{}")]


@pytest.mark.requirement("stream.calls.no-index")
@pytest.mark.parametrize("index", [{}, {"index": None}, {"index": "0"}])
def test_without_an_index_the_id_decides_and_without_both_the_last_call_goes_on(index):
    message = streamed(
        fragment("f", '{"a"', id="a", **index),
        fragment("g", '{"b"', id="b", **index),
        fragment(None, ":2}", **index),
        fragment(None, ":1}", id="a", **index),
        fragment("h", "{}", **index),
    )
    assert told(message)[:2] == [("a", "f", '{"a":1}'), ("b", "g", '{"b":2}')]
    assert [call.name for call in message.calls] == ["f", "g", "h"]


@pytest.mark.requirement("stream.calls.name-repeat")
@pytest.mark.parametrize("names", [["write", "_file"], ["write_file", "write_file"], ["write_file", "", None]])
def test_name_fragments_are_joined_and_repeats_are_not(names):
    pieces = [fragment(name, "", index=0, id="a") for name in names]
    assert told(streamed(*pieces)) == [("a", "write_file", "{}")]


@pytest.mark.requirement("stream.calls.id-first", "openai.calls.shape")
@pytest.mark.parametrize("later", ["", None, "null"])
def test_a_later_empty_id_does_not_replace_the_first(later):
    message = streamed(fragment("f", "{", index=0, id="a"), fragment(None, "}", index=0, id=later))
    assert told(message) == [("a", "f", "{}")]


@pytest.mark.parametrize("missing", ["", None, "null"])
def test_missing_ids_are_made_and_repeated_ids_are_made_unique(missing):
    streams = streamed(fragment("f", "{}", index=0, id=missing), fragment("g", "{}", index=1, id=missing))
    bodies = whole(fragment("f", "{}", id="a"), fragment("g", "{}", id="a"))
    for message in (streams, bodies):
        ids = [call.id for call in message.calls]
        assert len(set(ids)) == 2
        assert all(call_id.isalnum() for call_id in ids)
        assert [call.name for call in message.calls] == ["f", "g"]


@pytest.mark.parametrize("again", ['{"a": 1}', '{ "a" : 1 }', {"a": 1}])
def test_a_call_that_comes_once_more_in_whatever_spelling_is_one_call(again):
    message = streamed(fragment("f", '{"a": 1}', index=0, id="a"), fragment("f", again, index=0, id="a"))
    assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [("f", {"a": 1})]


def test_arguments_that_grow_as_an_object_belong_to_one_call():
    message = streamed(fragment("f", {"a": 1}, index=0, id="a"), fragment("f", {"a": 1, "b": 2}, index=0, id="a"))
    assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [("f", {"a": 1, "b": 2})]


def test_an_id_that_comes_late_is_taken():
    assert told(streamed(fragment("f", "", index=0), fragment(None, "{}", index=0, id="a"))) == [("a", "f", "{}")]


@pytest.mark.requirement("wire.message.call-index")
def test_calls_of_a_whole_answer_keep_their_places_whatever_index_they_have():
    assert told(whole(fragment("f", "{}", id="a"), fragment("g", "{}", id="b"))) == [("a", "f", "{}"), ("b", "g", "{}")]
    same = whole(fragment("f", "{}", index=0), fragment("g", "{}", index=0))
    assert [call.name for call in same.calls] == ["f", "g"]


@pytest.mark.parametrize("arguments", ["", "  ", "null", None])
def test_blank_arguments_are_an_empty_object(arguments):
    assert told(streamed(fragment("f", arguments, index=0, id="a"))) == [("a", "f", "{}")]


def test_arguments_that_came_as_an_object_are_taken_as_they_are():
    call = streamed(fragment("f", {"x": "é", "y": [1]}, index=0, id="a")).calls[0]
    assert parse_json_object(call.arguments) == {"x": "é", "y": [1]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": ', "Expecting value"),
        ("[1]", "a list"),
        ('"x"', "a string"),
        ("3", "a number"),
        ("true", "a boolean"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": 1} x', "Extra data"),
        ("[" * 200_000, "nested too deep"),
    ],
)
def test_arguments_that_are_no_object_stay_as_they_are_with_a_reason(text, reason):
    call = streamed(fragment("f", text, index=0, id="a")).calls[0]
    assert call.arguments == text
    with pytest.raises(ValueError, match=reason):
        parse_json_object(call.arguments)


def test_an_empty_object_at_the_beginning_of_a_call_is_no_part_of_its_arguments():
    pieces = [fragment("f", {}, index=0, id="a"), fragment(None, '{"a":', index=0), fragment(None, "1}", index=0)]
    assert told(streamed(*pieces)) == [("a", "f", '{"a":1}')]
    assert told(streamed(fragment("f", {}, index=0, id="a"))) == [("a", "f", "{}")]


def test_a_fragment_that_says_nothing_is_no_call():
    message = streamed(fragment("f", "{}", index=0, id="a"), {"index": 1}, {"index": 2, "function": None})
    assert told(message) == [("a", "f", "{}")]


def test_deltas_of_a_call_name_its_place_and_join_to_its_arguments():
    chunks = [fragment("f", '{"a"', index=3, id="a"), fragment(None, ":1}", index=3)]
    body = "".join(f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [c]}}]})}\n\n" for c in chunks)
    deltas, *_ = read([body.encode()])
    assert deltas == [ToolCallDelta(0, "f", '{"a"'), ToolCallDelta(0, "f", ":1}")]


def test_more_calls_than_the_bound_end_the_answer():
    chunk = {"choices": [{"delta": {"tool_calls": [fragment("f", "{}", index=i) for i in range(129)]}}]}
    _, result, _ = read([f"data: {json.dumps(chunk)}\n\n".encode()])
    assert isinstance(result, BrokenAnswer)
    assert (result.kind, "128" in result.detail) == ("limit", True)


def test_more_text_than_the_bound_ends_the_answer():
    chunk = b'data: {"choices":[{"delta":{"content":"aaaaaaaaaa"}}]}\n\n'
    _, result, partial = read([chunk] * 20, limits=AnswerLimits(message=100))
    assert isinstance(result, BrokenAnswer)
    assert (result.kind, partial) == ("limit", "a" * 100)


OFFERED = ["run_code", "write_file"]


@pytest.mark.requirement("reply.repairs")
@pytest.mark.parametrize(
    "name",
    [
        "run_code</function>",
        "run_code<arg_key>",
        "[TOOL_CALLS]run_code",
        "run_code[ARGS]",
        "call:run_code",
        "tool_call>run_code",
        "functions_run_code",
        "namespace functions.run_code",
        "repo_browser.run_code",
        "container::run_code",
        "run_code_0",
    ],
)
def test_residue_around_a_name_is_removed(name):
    assert meant_name(name, OFFERED) == "run_code"


@pytest.mark.parametrize("name", ["run_code.write", "run", "other.run_codes", "a.b.run_code", "x__run_code"])
def test_another_name_is_none_of_ours(name):
    assert meant_name(name, OFFERED) is None


@pytest.mark.requirement("reply.repairs")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{code: "a: {b: 1}", x: 1}', id="keys without quotes"),
        pytest.param('{\u00a0"code":\u00a0"a: {b: 1}",\u00a0"x": 1}', id="other blanks"),
        pytest.param('json{"code": "a: {b: 1}", "x": 1}', id="a word of harmony"),
        pytest.param('to=functions.f <|constrain|>json<|message|>{"code": "a: {b: 1}", "x": 1}', id="harmony"),
        pytest.param("{“code”: “a: {b: 1}”, “x”: 1}", id="typographic quotes"),
        pytest.param('[{"code": "a: {b: 1}", "x": 1}]', id="a list of one"),
        pytest.param(json.dumps(json.dumps('{"code": "a: {b: 1}", "x": 1}')), id="text in text"),
    ],
)
def test_arguments_with_one_meaning_are_repaired(text):
    assert read_arguments(text).value == {"code": "a: {b: 1}", "x": 1}


@pytest.mark.requirement("reply.repairs")
def test_arguments_inside_of_arguments_are_unwrapped_unless_the_tool_has_such_ones():
    inner = {"code": "1"}
    for wrapped in ({"arguments": inner}, {"name": "run_code", "parameters": inner}, {"input": json.dumps(inner)}):
        assert unwrapped(wrapped, {"code"}) == inner
        assert unwrapped(wrapped, {"code", *wrapped}) is wrapped
        assert unwrapped({**wrapped, "x": 1}, {"code"}) == {**wrapped, "x": 1}
    assert unwrapped({"arguments": {"other": 1}}, {"code"}) == {"arguments": {"other": 1}}
