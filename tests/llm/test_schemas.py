"""Schemas of tools as MCP servers publish them, and what is sent of them."""

import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from vibe_jupyter.llm.dialects.wire_parts import MAX_NODES, sanitise_schema

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node", "description": "where to begin"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}},
        }
    },
}


def prop(schema: Any, **options: bool) -> Any:
    """A property, as it is sent."""
    return sanitise_schema({"type": "object", "properties": {"x": schema}}, **options)["properties"]["x"]


def test_a_sound_schema_stays_as_it_is():
    sound = {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "d"},
            "n": {"type": ["integer", "null"], "minimum": 1},
        },
        "required": ["code"],
        "additionalProperties": False,
    }
    assert sanitise_schema(sound) == sound
    assert sanitise_schema(TREE) == TREE


def test_what_is_given_is_not_changed():
    given_schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "a", "format": "uri"}}}
    sanitise_schema(given_schema, inline=True)
    assert given_schema == {"type": "object", "properties": {"x": {"type": "string", "pattern": "a", "format": "uri"}}}


@pytest.mark.parametrize("pattern", ["[a-z]+", "^a", "a$", "^a\\$", "^(?=a)a$", "^(a)\\1$", "^\\bword$", "", 3])
def test_a_pattern_that_fails_a_server_is_said_in_words_instead(pattern):
    sent = prop({"type": "string", "pattern": pattern, "description": "a name"})
    assert "pattern" not in sent
    assert sent["description"] == ("a name" if pattern == 3 else f"a name (Must match {pattern})")


@pytest.mark.parametrize("pattern", ["^[a-z]{2,4}$", "^\\d+\\.\\d+$", "^$"])
def test_a_plain_pattern_stays(pattern):
    assert prop({"type": "string", "pattern": pattern}) == {"type": "string", "pattern": pattern}


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": [{"type": "string"}]}, {"type": "array", "items": {}}),
        (True, {}),
        (False, {}),
        (None, {}),
        ("string", {}),
        ({"type": "integer", "exclusiveMinimum": True, "minimum": 0}, {"type": "integer", "minimum": 0}),
        ({"anyOf": []}, {}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"$ref": "https://elsewhere.example/schema.json"}, {}),
        ({"$ref": "#/$defs/Missing", "description": "d"}, {"description": "d"}),
        ({"$schema": "x", "$id": "y", "examples": [1], "type": "string"}, {"type": "string"}),
        (
            {"type": "number", "default": math.inf, "maximum": math.nan, "minimum": 0.5},
            {"type": "number", "minimum": 0.5},
        ),
        (
            {"type": "array", "items": {"const": -math.inf}, "default": [{"a": math.inf}]},
            {"type": "array", "items": {}},
        ),
    ],
)
def test_what_servers_refuse_is_left_out(schema, sent):
    assert prop(schema) == sent


@pytest.mark.parametrize("top", [{}, {"type": "string"}, {"anyOf": [{"type": "object"}]}, {"$ref": "#/$defs/Gone"}])
def test_the_whole_is_always_an_object_with_properties(top):
    assert sanitise_schema(top) == {"type": "object", "properties": {}}


def test_a_definition_at_the_top_is_put_there():
    schema = {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    assert sanitise_schema(schema)["properties"] == {"x": {"type": "string"}}


def test_required_names_are_there_and_once():
    schema = {"type": "object", "properties": {"a": {}}, "required": ["a", "a", "b", 3]}
    assert sanitise_schema(schema)["required"] == ["a"]


def test_definitions_are_put_in_their_place_where_a_server_knows_none():
    sent = sanitise_schema(TREE, inline=True)
    assert "$defs" not in sent
    root = sent["properties"]["root"]
    assert root["description"] == "where to begin"
    assert root["properties"] == {"name": {"type": "string"}, "child": {"type": "object"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        {"type": ["string", "null"], "default": None},
        {"oneOf": [{"type": "null"}, {"type": "string"}], "default": None},
    ],
)
def test_this_or_null_is_this_where_a_server_knows_plain_types_only(schema):
    assert prop(schema, inline=True) == {"type": "string", "default": None}
    assert prop(schema) == schema


def test_a_definition_that_multiplies_ends():
    names = [f"D{number}" for number in range(30)]
    definitions = {
        name: {"type": "object", "properties": {"a": {"$ref": f"#/$defs/{after}"}, "b": {"$ref": f"#/$defs/{after}"}}}
        for name, after in zip(names, [*names[1:], names[-1]], strict=True)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/D0"}}, "$defs": definitions}
    assert str(sanitise_schema(schema, inline=True)).count("'properties'") <= MAX_NODES


def test_a_schema_nested_without_end_ends():
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    sanitise_schema({"type": "object", "properties": {"x": schema}})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["string", "object", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "$ref", "$defs", "required", "pattern", "format", "enum", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["type", "properties", "required", "$defs", "$ref", "anyOf"]), values),
    st.booleans(),
)
def test_any_value_becomes_a_schema_of_an_object(schema, inline):
    sent = sanitise_schema(schema, inline=inline)
    assert sent["type"] == "object"
    assert isinstance(sent["properties"], dict)
    assert set(sent.get("required", [])) <= set(sent["properties"])


def test_what_a_schema_allowed_is_still_allowed():
    rng = random.Random(3)
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "a"},
            "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            "tree": {"$ref": "#/$defs/Node"},
        },
        "required": ["name"],
        "$defs": TREE["$defs"],
    }
    before = Draft202012Validator(schema)
    loose = [Draft202012Validator(sanitise_schema(schema, inline=inline)) for inline in (False, True)]
    allowed = 0
    for _ in range(300):
        value = {
            "name": rng.choice(["abc", "x", 3]),
            "tags": rng.choice([[], ["a", 1], [None]]),
            "tree": rng.choice([{}, {"name": "n", "child": {"child": {}}}, {"name": 1}]),
        }
        if before.is_valid(value):
            allowed += 1
            assert all(validator.is_valid(value) for validator in loose)
    assert allowed > 20
