"""Forms of servers as questions, and the answers as values of their types."""

from typing import Any

import pytest

from vibe_jupyter.mcp.elicitation import AGREE, FIELDS_LIMIT, MESSAGE_LIMIT, SECRET_WARNING, ElicitationForm, FormError
from vibe_jupyter.protocol import Answered, Question


def form(message: str = "", required: tuple[str, ...] = (), **properties: Any) -> ElicitationForm:
    return ElicitationForm(message, {"type": "object", "properties": properties, "required": list(required)})


def answered(*answers: str | tuple[str, ...]) -> list[Answered]:
    """Words of their own as text, choices as a tuple."""
    return [
        Answered(question="", other=one) if isinstance(one, str) else Answered(question="", selected=one)
        for one in answers
    ]


def value_of(rules: dict[str, Any], answer: str | tuple[str, ...]) -> Any:
    """What the server is sent; fails where the answer is asked for again."""
    one = form(required=("it",), it=rules)
    one.take(answered(answer))
    assert one.complete, one.questions()[0].question
    return one.content.get("it")


def problem_of(rules: dict[str, Any], answer: str | tuple[str, ...]) -> str:
    """The word that comes with the question when it is asked again."""
    one = form(required=("it",), it=rules)
    one.take(answered(answer))
    assert not one.complete
    assert one.content == {}
    return one.questions()[0].question.split("\n")[0]


def test_the_first_question_begins_with_the_servers_message() -> None:
    (first, second) = form("Book a table?", name={"type": "string"}, guests={"type": "integer"}).questions()
    assert first.question.startswith("Book a table?\nname (text, optional)")
    assert second.question == "guests (a whole number, optional)"


@pytest.mark.parametrize(
    ("rules", "said", "value"),
    [
        ({"type": "string"}, "Ada", "Ada"),
        ({"type": "string", "format": "email"}, "ada@example.org", "ada@example.org"),
        ({"type": "string", "format": "uri"}, "https://example.org/a", "https://example.org/a"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T12:00:00Z", "2026-02-28T12:00:00Z"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "3", 3),
        ({"type": "number"}, "-2.5", -2.5),
        ({"type": "boolean"}, ("Yes",), True),
        ({"type": "boolean"}, "no", False),
        ({"type": "string", "enum": ["red", "green"]}, ("green",), "green"),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}, ("Green",), "g"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, "red", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, ("a", "c"), ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "An A"}]}}, ("An A",), ["a"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "b, a", ["b", "a"]),
    ],
)
def test_an_answer_becomes_a_value_of_the_fields_type(rules: Any, said: Any, value: Any) -> None:
    got = value_of(rules, said)
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("rules", "said", "problem"),
    [
        ({"type": "integer"}, "2.5", "“2.5” is no integer."),
        ({"type": "number"}, "many", "“many” is no number."),
        ({"type": "number"}, "nan", "nan is out of range."),
        ({"type": "integer", "minimum": 1}, "0", "0 is out of range."),
        ({"type": "integer"}, "9" * 5_000, f"“{'9' * 200}” is no integer."),
        ({"type": "string", "minLength": 3}, "ab", "The text has 2 characters; 3 to 10,000 are allowed."),
        ({"type": "string", "format": "email"}, "ada", "“ada” is not an e-mail address such as ada@example.org."),
        ({"type": "string", "format": "date"}, "2026-02-30", "“2026-02-30” is not a date (2026-01-31)."),
        ({"type": "string", "format": "uri"}, "not one", "“not one” is not an address such as https://example.org."),
        ({"type": "boolean"}, "perhaps", "Yes or no?"),
        ({"type": "string", "enum": ["red"]}, "blue", "“blue” is not one of the choices."),
        ({"type": "array", "minItems": 2, "items": {"enum": ["a", "b", "c"]}}, ("a",), "Choose 2 to 3 of them."),
        ({"type": "string"}, "", "This field is required."),
    ],
)
def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(rules: Any, said: Any, problem: str) -> None:
    assert problem_of(rules, said) == problem


def test_only_what_did_not_fit_is_asked_again() -> None:
    one = form(required=("age",), name={"type": "string"}, age={"type": "integer"})
    one.take(answered("Ada", "old"))
    assert [question.header for question in one.questions()] == ["age"]
    one.take(answered("36"))
    assert one.complete
    assert one.content == {"name": "Ada", "age": 36}


def test_what_is_left_out_takes_its_default_and_is_else_not_sent() -> None:
    one = form(
        name={"type": "string", "default": "Ada"}, loud={"type": "boolean", "default": False}, age={"type": "integer"}
    )
    texts = [question.question for question in one.questions()]
    assert texts == [
        "name (text, default: Ada)",
        "loud (one of these, default: No)",
        "age (a whole number, optional)",
    ]
    one.take(answered("", "", ""))
    assert one.complete
    assert one.content == {"name": "Ada", "loud": False}


def test_choices_are_told_apart_where_their_titles_are_the_same() -> None:
    rules = {"type": "string", "oneOf": [{"const": "a", "title": "Same"}, {"const": "b", "title": "Same"}]}
    (question,) = form(it=rules).questions()
    assert [option.label for option in question.options] == ["Same", "Same (b)"]
    assert value_of(rules, ("Same (b)",)) == "b"


@pytest.mark.parametrize(
    "one",
    [
        form(password={"type": "string"}),
        form(it={"type": "string", "title": "API key of the shop"}),
        form(it={"type": "string", "description": "your secret word"}),
        form("Type your access token", it={"type": "string"}),
    ],
)
def test_what_looks_like_a_password_or_key_is_asked_for_with_a_warning_alone(one: ElicitationForm) -> None:
    questions = one.questions()
    assert sum(SECRET_WARNING in question.question for question in questions) == 1


def test_an_ordinary_form_has_no_warning() -> None:
    asked: list[Question] = form("Which town?", town={"type": "string"}, keyboard={"type": "boolean"}).questions()
    assert not any("Careful" in question.question for question in asked)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"f{number}": {"type": "string"} for number in range(FIELDS_LIMIT + 1)}},
        {"properties": {"it": {"type": "object", "properties": {}}}},
        {"properties": {"it": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"it": {"type": "string", "enum": []}}},
        {"properties": {"it": "string"}},
        {"properties": []},
        {"required": 3},
    ],
)
def test_a_form_that_the_protocol_does_not_allow_is_not_shown(schema: dict[str, Any]) -> None:
    with pytest.raises(FormError):
        ElicitationForm("", schema)


def test_a_form_without_fields_asks_for_agreement() -> None:
    one = form("Delete it all?")
    (question,) = one.questions()
    assert [option.label for option in question.options] == [AGREE, "No"]
    assert not form("Delete it all?").take(answered(("No",)))
    assert one.take(answered((AGREE,)))
    assert one.complete
    assert one.content == {}


def test_long_words_of_a_server_are_cut() -> None:
    (question,) = form(
        "m" * 100_000, it={"type": "string", "title": "t" * 5_000, "description": "d" * 50_000}
    ).questions()
    assert len(question.question) < MESSAGE_LIMIT + 2_000
    assert len(question.header) <= 200


def test_a_pattern_of_the_server_is_never_run() -> None:
    assert value_of({"type": "string", "pattern": "(a+)+$"}, "a" * 40 + "b") == "a" * 40 + "b"
