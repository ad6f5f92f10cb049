"""Arguments are checked against a server's schema, which may be hostile, before the server is called."""

import time
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from vibe_jupyter.mcp.tool import arguments_model
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.notebook.tools.edit_cells import EditCellArgs
from vibe_jupyter.permissions.decide import argument_texts
from vibe_jupyter.tools.arguments import DEPTH, explain_errors, fit_value, usage_text

WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"$ref": "#/$defs/days"},
    },
    "required": ["location"],
    "additionalProperties": False,
    "$defs": {"days": {"type": "integer", "minimum": 1}},
}


def wrong(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """The report to the model; empty if the call goes on."""
    try:
        arguments_model(RemoteTool("weather", "", schema)).model_validate(arguments)
    except ValidationError as error:
        return explain_errors("weather", error, schema).partition(" weather takes ")[0]
    return ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "arguments: 'location' is a required property"),
        ({"location": 5}, "location: 5 is not of type 'string'"),
        ({"location": "Paris", "unit": "kelvin"}, "unit: 'kelvin' is not one of ['celsius', 'fahrenheit']"),
        ({"location": "Paris", "days": 0}, "days: 0 is less than the minimum of 1"),
        (
            {"location": "Paris", "to": 1},
            "arguments: Additional properties are not allowed ('to' was unexpected)",
        ),
        ({"location": "Paris", "unit": "celsius", "days": 3}, ""),
    ],
)
def test_what_does_not_fit_is_named_by_its_place(arguments: dict[str, Any], problem: str) -> None:
    told = f"Wrong arguments for weather: {problem}. Nothing was run." if problem else ""
    assert wrong(WEATHER, arguments) == told


def test_what_is_required_and_has_a_default_may_be_left_out() -> None:
    width = {"type": "object", "properties": {"px": {"type": "integer", "default": 80}}, "required": ["px"]}
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "kind": {"type": "string", "default": "png"}, "width": width},
        "required": ["path", "kind"],
    }
    assert wrong(schema, {"path": "a", "width": {}}) == ""
    assert "'path' is a required property" in wrong(schema, {"kind": "jpeg"})
    assert "5 is not of type 'string'" in wrong(schema, {"path": "a", "kind": 5})


def test_all_that_is_wrong_is_told_at_once_and_in_bounds() -> None:
    told = wrong(WEATHER, {"location": "x", "unit": "k" * 10_000, "days": "many"})
    assert "unit: 'kkk" in told
    assert "days: 'many' is not of type 'integer'" in told
    assert len(told) < 1_000


def test_the_older_draft_of_a_schema_is_known_too() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"pair": {"items": [{"type": "string"}, {"type": "integer"}]}},
    }
    assert wrong(schema, {"pair": ["a", "b"]}) == (
        "Wrong arguments for weather: pair.1: 'b' is not of type 'integer'. Nothing was run."
    )


LATTICE = {f"d{depth}": {"allOf": [{"$ref": f"#/$defs/d{depth + 1}"}] * 2} for depth in range(60)}


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"properties": {"a": {"pattern": "(x+)+$"}}}, id="a pattern without end"),
        pytest.param({"patternProperties": {"(a+)+$": {}}, "additionalProperties": False}, id="a pattern of names"),
        pytest.param({"$ref": "#/$defs/d0", "$defs": {**LATTICE, "d60": {}}}, id="two ways at each of 60 steps"),
        pytest.param({"properties": {"a": {"$ref": "#/properties/a"}}}, id="a circle"),
        pytest.param({"properties": {"a": {"$ref": "http://169.254.169.254/"}}}, id="an address"),
        pytest.param({"properties": {"a": {"$ref": "#/nowhere"}}}, id="nowhere"),
        pytest.param({"type": "bogus"}, id="no schema"),
        pytest.param({"properties": "bogus"}, id="properties that are none"),
        pytest.param({"$schema": "http://127.0.0.1:9/schema"}, id="an unknown draft"),
        pytest.param({"properties": {f"p{n}": {"description": "x" * 100} for n in range(1_000)}}, id="a huge one"),
    ],
)
def test_a_hostile_schema_costs_no_time_fetches_nothing_and_leaves_the_check_to_its_server(
    schema: dict[str, Any],
) -> None:
    model = arguments_model(RemoteTool("weather", "", schema))
    model.model_validate({})  # loads what checks, once
    began = time.process_time()
    given: dict[str, JsonValue] = {"a": "x" * 60 + "y", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!": 1}
    assert wrong(schema, given) == ""
    assert fit_value({**given, "b": [[[["null"]]]]}, schema, schema)
    assert len(usage_text("weather", schema)) < 1_000
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"oneOf": [{"pattern": "^x"}, {"pattern": "^y"}]}}},
        {"properties": {"a": {"not": {"pattern": "^y"}}}},
        {"properties": {"a": {"if": {"pattern": "^y"}, "then": {"type": "integer"}}}},
        {"patternProperties": {"^a": {}}, "additionalProperties": False},
    ],
)
def test_what_is_not_checked_never_makes_a_right_call_wrong(schema: dict[str, Any]) -> None:
    assert wrong(schema, {"a": "x1"}) == ""


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"location": "Paris", "unit": None, "days": "2"}, {"location": "Paris", "days": 2}),
        ({"location": "5", "days": "null"}, {"location": "5"}),
        ({"location": "[5]"}, {"location": "[5]"}),
    ],
)
def test_what_a_servers_schema_leaves_no_doubt_of_is_understood(sent: dict[str, Any], meant: dict[str, Any]) -> None:
    assert fit_value(sent, WEATHER, WEATHER) == meant
    assert wrong(WEATHER, meant) == ""


def test_values_are_understood_down_to_the_last_level_that_is_looked_at() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for levels in range(DEPTH + 2):
        found: JsonValue = fit_value(nested("7", levels), schema, schema)
        assert found == nested(7 if levels <= DEPTH else "7", levels), levels
        schema = {"type": "array", "items": schema}


def nested(value: JsonValue, levels: int) -> JsonValue:
    """In so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def test_lists_of_allowed_arguments_see_each_value_with_its_place() -> None:
    arguments = arguments_model(RemoteTool("t", "", {}))({"path": "/data", "deep": [{"n": 1}], "all": True})
    assert argument_texts(arguments) == ("path=/data", "deep.0.n=1", "all=true")


def test_a_check_of_a_tools_own_is_told_in_its_own_words() -> None:
    with pytest.raises(ValidationError) as raised:
        EditCellArgs.model_validate({"cell": "last"})

    told = explain_errors("edit_cell", raised.value, {})

    assert told.startswith("Wrong arguments for edit_cell: give either old_string and new_string, or source. Nothing")
