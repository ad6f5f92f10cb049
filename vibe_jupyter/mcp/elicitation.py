"""Elicitation: show a server's form or page on a question card and convert the answers to its schema.

The protocol allows only flat forms with simple fields. Patterns are not checked: a regular expression from an untrusted
server could take forever to match.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlsplit

from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import Answered, Choice, Question
from vibe_jupyter.tools.contract import AskPerson

if TYPE_CHECKING:
    from mcp_types import ElicitRequestParams, ElicitResult

ROUNDS: Final = 5  # times that a form is shown in all; it is shown again after invalid answers
ADDRESS_LIMIT: Final = 2_000  # characters of an address
OPENED: Final = "I opened it and am done"

FIELDS_LIMIT: Final = 20  # fields of one form; a longer form is declined
MESSAGE_LIMIT: Final = 2_000  # characters shown of a server's message
AGREE: Final = "Yes"  # label that accepts a form without fields

Schema = Mapping[str, Any]

Kind = Literal["string", "number", "integer", "boolean", "choice", "choices"]
FieldValue = str | int | float | bool | list[str]

LABEL_LIMIT: Final = 200  # characters of a title or a choice
WORDS_LIMIT: Final = 1_000  # characters of a description
CHOICES_LIMIT: Final = 60  # choices of one field; with more of them the answer is typed
TEXT_LIMIT: Final = 10_000  # characters of an answer
_SECRET: Final = re.compile(
    r"pass[\s_-]?(?:word|phrase|code)|passwor[dt]|secret|credential|token|api[\s_-]?key|private[\s_-]?key|access[\s_-]?key"
    r"|\bpin\b|\bcvv\b|\bcvc\b|\bssn\b|card[\s_-]?number|seed[\s_-]?phrase",
    re.IGNORECASE,
)
SECRET_WARNING: Final = (
    "Careful: this looks like a password or a key. A server is not meant to ask for one here, and what you type is "
    "kept in the conversation's log. Skip it unless you are sure."
)
_FORMATS: Final = {"email": "an e-mail address", "uri": "an address", "date": "a date", "date-time": "date and time"}
_SHAPES: Final = {"email": " such as ada@example.org", "uri": " such as https://example.org", "date": " (2026-01-31)"}
_YES: Final = ("yes", "y", "true", "1", "on")
_NO: Final = ("no", "n", "false", "0", "off")


async def answer_elicitation(server: str, params: "ElicitRequestParams", ask: AskPerson) -> "tuple[ElicitResult, str]":
    """Ask the user and return the response for the server and a line for its log.

    Args:
        server: the server's name, shown on the card.
        params: the elicitation request.
        ask: puts questions to the user.
    """
    asker = f"the server {server}"
    try:
        if params.mode == "url":
            return await _answer_page(params.message, params.url, asker, ask)
        return await _answer_form(params.message, params.requested_schema, asker, ask)
    except ToolError as nobody:
        return _elicit_result("decline"), f"declined: {nobody}"


async def _answer_form(
    message: str, schema: Mapping[str, Any], asker: str, ask: AskPerson
) -> "tuple[ElicitResult, str]":
    try:
        form = ElicitationForm(message, schema)
    except FormError as error:
        return _elicit_result("decline"), f"declined: {error}"
    for _ in range(ROUNDS):
        answers = await ask(form.questions(), asker)
        if answers is None or not form.take(answers):
            return _elicit_result("decline"), "you declined"
        if form.complete:
            return _elicit_result("accept", form.content), f"you answered: {', '.join(form.content) or 'agreed'}"
    return _elicit_result("cancel"), f"given up after {ROUNDS} answers that did not fit"


async def _answer_page(message: str, address: str, asker: str, ask: AskPerson) -> "tuple[ElicitResult, str]":
    """Show the host that a page belongs to. Nothing is opened or fetched."""
    host = host_of(address)
    if not host:
        return _elicit_result("decline"), "declined: no http(s) address with a host"
    question = Question(
        question=f"{message[:MESSAGE_LIMIT]}\nIt asks you to open a page at {host}. Open it only if you know it.",
        header="Page",
        options=(Choice(label=OPENED), Choice(label="No")),
        link=address,
    )
    answers = await ask([question], asker)
    if not _is_chosen(answers, OPENED):
        return _elicit_result("decline"), f"you declined to open the page at {host}"
    return _elicit_result("accept"), f"you agreed to open the page at {host}"


def host_of(address: str) -> str:
    """Return the host of an http(s) URL, IDNA-encoded and with its port, or "" if there is none."""
    if len(address) > ADDRESS_LIMIT or any(ord(letter) <= ord(" ") for letter in address):
        return ""
    try:
        parts = urlsplit(address)
        host = (parts.hostname or "").encode("idna").decode("ascii")
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return ""
    return f"{host}{port}" if parts.scheme in ("http", "https") and host else ""


def _is_chosen(answers: Sequence[Answered] | None, label: str) -> bool:
    return answers is not None and [one.selected for one in answers] == [(label,)]


def _elicit_result(
    action: Literal["accept", "decline", "cancel"], content: Mapping[str, FieldValue] | None = None
) -> "ElicitResult":
    from mcp_types import ElicitResult  # noqa: PLC0415 - already loaded: one of our servers is running

    return ElicitResult(action=action, content=None if content is None else dict(content))


class FormError(ValueError):
    """A form that can't be shown. The message is the reason."""


class ElicitationForm:
    """A form that is being filled in."""

    def __init__(self, message: str, schema: Schema) -> None:
        """Read the server's schema.

        Raises:
            FormError: the form is too large or not allowed by the protocol.
        """
        self._message = _cut_text(message, MESSAGE_LIMIT)
        properties: object = schema.get("properties", {})
        required: object = schema.get("required", [])
        if not isinstance(properties, Mapping) or not isinstance(required, Sequence):
            raise FormError("the form is not an object with properties")
        fields = cast("Mapping[str, object]", properties)
        if len(fields) > FIELDS_LIMIT:
            raise FormError(f"the form has {len(fields)} fields, more than {FIELDS_LIMIT}")
        wanted = cast("Sequence[object]", required)
        self._open = [_form_field(name, one, required=name in wanted) for name, one in fields.items()]
        self._is_empty = not self._open
        self._problems: dict[str, str] = {}
        self.content: dict[str, FieldValue] = {}  # answers so far, by field name

    @property
    def complete(self) -> bool:
        """True if every field has an answer."""
        return not self._open and not self._is_empty

    def questions(self) -> list[Question]:
        """Return the questions that are still open."""
        asked = [one.question(self._problems.get(one.name, "")) for one in self._open]
        if self._is_empty:
            asked = [Question(question="Do you agree?", options=(Choice(label=AGREE), Choice(label="No")))]
        first = asked[0]
        is_warned = any(SECRET_WARNING in question.question for question in asked)
        warning = SECRET_WARNING if looks_secret(self._message) and not is_warned else ""
        words = "\n".join(filter(None, (self._message, warning, first.question)))
        return [first.model_copy(update={"question": words}), *asked[1:]]

    def take(self, answers: Sequence[Answered]) -> bool:
        """Store the answers to `questions`, in order. Returns False if the user declined a form without fields.

        Fields with invalid answers are asked again, with the reason.
        """
        if self._is_empty:
            self._is_empty = False
            return bool(answers) and answers[0].selected == (AGREE,)
        left: list[FormField] = []
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


@dataclass(frozen=True)
class FormField:
    """A property of the form's schema."""

    name: str
    kind: Kind
    label: str
    words: str = ""
    required: bool = False
    choices: Mapping[str, str] = field(default_factory=dict[str, str])  # values to send, by label
    default: FieldValue | None = None
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the field's schema, for bounds and format

    @property
    def is_secret(self) -> bool:
        """True if the field seems to ask for a password or key."""
        return self.kind == "string" and looks_secret(f"{self.name} {self.label} {self.words}")

    def question(self, problem: str = "") -> Question:
        """Return the question for this field. `problem` explains why it is asked again."""
        lines = [problem, SECRET_WARNING if self.is_secret else "", f"{self.label} ({self._wanted_text()})", self.words]
        options = tuple(self.choices) if len(self.choices) <= CHOICES_LIMIT else ()
        return Question(
            question="\n".join(filter(None, lines)),
            header=self.label,
            options=tuple(Choice(label=label) for label in options),
            multi_select=self.kind == "choices",
        )

    def value(self, answer: Answered) -> FieldValue | None:
        """Convert an answer to a value, or None if nothing is sent for this field.

        Raises:
            WrongAnswerError: the answer is invalid.
        """
        chosen = [*answer.selected, *([answer.other.strip()] if answer.other.strip() else [])]
        if not chosen:
            if self.default is None and self.required:
                raise WrongAnswerError("This field is required.")
            return self.default
        match self.kind:
            case "choices":
                return self._parse_choices(chosen)
            case "choice":
                return self._parse_choice(chosen[0])
            case "boolean":
                return _boolean_value(chosen[0])
            case "integer" | "number":
                return self._parse_number(chosen[0])
            case "string":
                return self._parse_text(chosen[0])

    def _wanted_text(self) -> str:
        """Describe the expected format, and whether the field is optional."""
        low, high = self.rules.get("minimum"), self.rules.get("maximum")
        match self.kind:
            case "integer" | "number":
                span = " ".join([f"from {low}" if low is not None else "", f"to {high}" if high is not None else ""])
                kind = f"a {'whole ' if self.kind == 'integer' else ''}number {span}".strip()
            case "choices":
                kind = "any of these"
            case "choice" | "boolean":
                kind = "one of these"
            case "string":
                form = str(self.rules.get("format", ""))
                kind = _FORMATS.get(form, "text") + _SHAPES.get(form, "")
        default = "" if self.default is None else f"default: {self._shown_value(self.default)}"
        return ", ".join(filter(None, (kind, default or ("" if self.required else "optional"))))

    def _shown_value(self, value: FieldValue) -> str:
        if isinstance(value, list):
            return ", ".join(self._shown_value(item) for item in value) or "none of them"
        if isinstance(value, bool):
            return "Yes" if value else "No"
        labels = {sent: label for label, sent in self.choices.items()}
        return labels.get(str(value), str(value)[:LABEL_LIMIT])

    def _parse_choice(self, said: str) -> str:
        folded = said.casefold()
        for label, sent in self.choices.items():
            if folded in (label.casefold(), sent.casefold()):
                return sent
        raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is not one of the choices.")

    def _parse_choices(self, said: list[str]) -> list[str]:
        words = [word for one in said for word in ([one] if one in self.choices else one.split(","))]
        values = list(dict.fromkeys(self._parse_choice(word.strip()) for word in words if word.strip()))
        least, most = int(self.rules.get("minItems", 0)), int(self.rules.get("maxItems", len(self.choices)))
        if not least <= len(values) <= most:
            raise WrongAnswerError(f"Choose {least} to {most} of them.")
        return values

    def _parse_number(self, said: str) -> int | float:
        try:
            value = int(said) if self.kind == "integer" else float(said)
        except ValueError:
            raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is no {self.kind}.") from None
        low, high = self.rules.get("minimum", -math.inf), self.rules.get("maximum", math.inf)
        if not (math.isfinite(value) and low <= value <= high):
            raise WrongAnswerError(f"{said[:LABEL_LIMIT]} is out of range.")
        return value

    def _parse_text(self, said: str) -> str:
        least, most = int(self.rules.get("minLength", 0)), int(self.rules.get("maxLength", TEXT_LIMIT))
        if not least <= len(said) <= min(most, TEXT_LIMIT):
            raise WrongAnswerError(f"The text has {len(said):,} characters; {least:,} to {most:,} are allowed.")
        form = str(self.rules.get("format", ""))
        if form in _FORMATS and not _fits_format(said, form):
            raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is not {_FORMATS[form]}{_SHAPES.get(form, '')}.")
        return said


def _form_field(name: str, schema: object, *, required: bool) -> FormField:
    if not isinstance(schema, Mapping):
        raise FormError(f"the field {name!r} is not a schema")
    rules = cast("Schema", schema)
    kind, choices = _field_kind(name, rules)
    label = _cut_text(str(rules.get("title") or name), LABEL_LIMIT)
    one = FormField(
        name=name,
        kind=kind,
        label=label,
        words=_cut_text(str(rules.get("description") or ""), WORDS_LIMIT),
        required=required,
        choices=choices,
        default=_default_value(rules.get("default")),
        rules=_number_bounds(rules),
    )
    return one


def _field_kind(name: str, rules: Schema) -> tuple[Kind, dict[str, str]]:
    match rules.get("type"):
        case "array":
            items = rules.get("items")
            return "choices", _field_choices(name, cast("Schema", items) if isinstance(items, Mapping) else {}, rules)
        case "boolean":
            return "boolean", {"Yes": "true", "No": "false"}
        case "number":
            return "number", {}
        case "integer":
            return "integer", {}
        case "string" | None if "enum" in rules or "oneOf" in rules or "anyOf" in rules:
            return "choice", _field_choices(name, rules, rules)
        case "string":
            return "string", {}
        case other:
            raise FormError(f"the field {name!r} is of type {str(other)[:LABEL_LIMIT]!r}, which a form cannot have")


def _field_choices(name: str, rules: Schema, outer: Schema) -> dict[str, str]:
    """Return values by label. Duplicate labels get their value appended."""
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
        cut = _cut_text(label, LABEL_LIMIT)
        out[cut if cut not in out else f"{cut} ({value[:LABEL_LIMIT]})"] = value
    return out


def _default_value(value: object) -> FieldValue | None:
    if isinstance(value, list):
        return [str(item) for item in cast("list[object]", value)]
    return value if isinstance(value, str | int | float | bool) else None


def _number_bounds(rules: Schema) -> dict[str, Any]:
    """Return the numeric bounds, ignoring malformed ones, and the format."""
    bounds = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
    kept = {key: rules[key] for key in bounds if isinstance(rules.get(key), int | float)}
    return {**kept, "format": rules.get("format", "")}


def _cut_text(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def looks_secret(text: str) -> bool:
    """Return whether a text mentions passwords or keys."""
    return _SECRET.search(text) is not None


class WrongAnswerError(ValueError):
    """An invalid answer. The message describes a valid one."""


def _boolean_value(said: str) -> bool:
    folded = said.casefold()
    if folded in _YES or folded in _NO:
        return folded in _YES
    raise WrongAnswerError("Yes or no?")


def _fits_format(said: str, form: str) -> bool:
    try:
        match form:
            case "email":
                name, _, host = said.rpartition("@")
                return bool(name) and "." in host.strip(".") and not re.search(r"\s", said)
            case "uri":
                return bool(urlsplit(said).scheme) and not re.search(r"\s", said)
            case "date":
                date.fromisoformat(said)
            case _:
                datetime.fromisoformat(said)
    except ValueError:
        return False
    return True
