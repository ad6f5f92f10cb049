"""A form of a server as questions to the person, and their answers as what it asked for.

The protocol allows flat forms of simple fields alone. Patterns are not checked: those of a stranger may take for ever.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from vibe_jupyter.protocol import Answered, Choice, Question
from vibe_jupyter.tools.mcp.form_fields import (
    LABEL_LIMIT,
    SECRET_WARNING,
    WORDS_LIMIT,
    Field,
    FieldValue,
    Kind,
    WrongAnswerError,
    looks_secret,
)

FIELDS_LIMIT: Final = 20
"""Fields of one form; a longer one is declined."""
MESSAGE_LIMIT: Final = 2_000
"""Characters of a server's message that are shown."""
AGREE: Final = "Yes"
"""Answers a form that has no fields."""

Schema = Mapping[str, Any]


class FormError(ValueError):
    """A form that cannot be shown; the text says why."""


class Form:
    """One form while it is filled in."""

    def __init__(self, message: str, schema: Schema) -> None:
        """Read the server's schema.

        Raises:
            FormError: it is larger or other than what the protocol allows.
        """
        self._message = _cut(message, MESSAGE_LIMIT)
        properties: object = schema.get("properties", {})
        required: object = schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
            raise FormError("the form is no object with properties")
        fields = cast("Mapping[str, object]", properties)
        if len(fields) > FIELDS_LIMIT:
            raise FormError(f"the form has {len(fields)} fields, more than {FIELDS_LIMIT}")
        wanted = cast("Sequence[object]", required)
        self._open = [_field(name, one, required=name in wanted) for name, one in fields.items()]
        self._is_empty = not self._open
        self._problems: dict[str, str] = {}
        self.content: dict[str, FieldValue] = {}
        """What was answered so far, by name."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to ask."""
        return not self._open and not self._is_empty

    def questions(self) -> list[Question]:
        """What is still to be asked."""
        asked = [one.question(self._problems.get(one.name, "")) for one in self._open]
        if self._is_empty:
            asked = [Question(question="Do you agree?", options=(Choice(label=AGREE), Choice(label="No")))]
        first = asked[0]
        is_warned = any(SECRET_WARNING in question.question for question in asked)
        warning = SECRET_WARNING if looks_secret(self._message) and not is_warned else ""
        words = "\n".join(filter(None, (self._message, warning, first.question)))
        return [first.model_copy(update={"question": words}), *asked[1:]]

    def take(self, answers: Sequence[Answered]) -> bool:
        """Take the answers to `questions`, in their order; False when the person said no to a form without fields.

        What does not fit stays to be asked again, with the reason.
        """
        if self._is_empty:
            self._is_empty = False
            return bool(answers) and answers[0].selected == (AGREE,)
        left: list[Field] = []
        given = dict(zip((one.name for one in self._open), answers, strict=False))
        for one in self._open:
            try:
                value = one.value(given.get(one.name, Answered(question=one.label)))
            except WrongAnswerError as error:
                self._problems[one.name] = str(error)
                left.append(one)
            else:
                if value is not None:
                    self.content[one.name] = value
        self._open = left
        return True


def _field(name: str, schema: object, *, required: bool) -> Field:
    if not isinstance(schema, Mapping):
        raise FormError(f"the field {name!r} is no schema")
    rules = cast("Schema", schema)
    kind, choices = _kind(name, rules)
    label = _cut(str(rules.get("title") or name), LABEL_LIMIT)
    one = Field(
        name=name,
        kind=kind,
        label=label,
        words=_cut(str(rules.get("description") or ""), WORDS_LIMIT),
        required=required,
        choices=choices,
        default=_default(rules.get("default")),
        rules=_numbers(rules),
    )
    return one


def _kind(name: str, rules: Schema) -> tuple[Kind, dict[str, str]]:
    match rules.get("type"):
        case "array":
            items = rules.get("items")
            return "choices", _choices(name, cast("Schema", items) if isinstance(items, Mapping) else {}, rules)
        case "boolean":
            return "boolean", {"Yes": "true", "No": "false"}
        case "number":
            return "number", {}
        case "integer":
            return "integer", {}
        case "string" | None if "enum" in rules or "oneOf" in rules or "anyOf" in rules:
            return "choice", _choices(name, rules, rules)
        case "string":
            return "string", {}
        case other:
            raise FormError(f"the field {name!r} is of type {str(other)[:LABEL_LIMIT]!r}, which a form cannot have")


def _choices(name: str, rules: Schema, outer: Schema) -> dict[str, str]:
    """What is sent by what is shown; two that look the same are told apart by what is sent."""
    titled = rules.get("oneOf") or rules.get("anyOf")
    pairs: list[tuple[str, str]] = []
    if isinstance(titled, list):
        for one in cast("list[object]", titled):
            if isinstance(one, Mapping) and "const" in one:
                entry = cast("Schema", one)
                pairs.append((str(entry.get("title") or entry["const"]), str(entry["const"])))
    elif isinstance(values := rules.get("enum"), list):
        sent = [str(value) for value in cast("list[object]", values)]
        names = outer.get("enumNames")
        shown = [str(one) for one in cast("list[object]", names)] if isinstance(names, list) else sent
        pairs = list(zip(shown if len(shown) == len(sent) else sent, sent, strict=True))
    if not pairs:
        raise FormError(f"the field {name!r} offers no choices")
    out: dict[str, str] = {}
    for label, value in pairs:
        cut = _cut(label, LABEL_LIMIT)
        out[cut if cut not in out else f"{cut} ({value[:LABEL_LIMIT]})"] = value
    return out


def _default(value: object) -> FieldValue | None:
    if isinstance(value, list):
        return [str(item) for item in cast("list[object]", value)]
    return value if isinstance(value, str | int | float | bool) else None


def _numbers(rules: Schema) -> dict[str, Any]:
    """The bounds that are what they should be, and the format."""
    bounds = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
    kept = {key: rules[key] for key in bounds if isinstance(rules.get(key), int | float)}
    return {**kept, "format": rules.get("format", "")}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
