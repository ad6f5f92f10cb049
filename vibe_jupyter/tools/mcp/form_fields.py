"""One field of a form that a server asks to be filled in: as a question, and the answer as a value of its type."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from vibe_jupyter.protocol import Answered, Choice, Question

Kind = Literal["string", "number", "integer", "boolean", "choice", "choices"]
FieldValue = str | int | float | bool | list[str]

LABEL_LIMIT: Final = 200
"""Characters of a title, or of one choice."""
WORDS_LIMIT: Final = 1_000
"""Characters of a description."""
CHOICES_LIMIT: Final = 60
"""Choices of one field; where there are more, the answer is typed."""
TEXT_LIMIT: Final = 10_000
"""Characters of an answer."""
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


def looks_secret(text: str) -> bool:
    """Whether a text speaks of passwords or keys."""
    return _SECRET.search(text) is not None


class WrongAnswerError(ValueError):
    """An answer does not fit; the text says what would."""


@dataclass(frozen=True)
class Field:
    """One property of the server's schema."""

    name: str
    kind: Kind
    label: str
    words: str = ""
    required: bool = False
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the server is sent, by what the person reads."""
    default: FieldValue | None = None
    rules: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The schema itself, for bounds and format."""

    @property
    def is_secret(self) -> bool:
        """Whether it looks like a password or key."""
        return self.kind == "string" and looks_secret(f"{self.name} {self.label} {self.words}")

    def question(self, problem: str = "") -> Question:
        """What the person is asked; `problem` says why once more."""
        lines = [problem, SECRET_WARNING if self.is_secret else "", f"{self.label} ({self._wanted()})", self.words]
        options = tuple(self.choices) if len(self.choices) <= CHOICES_LIMIT else ()
        return Question(
            question="\n".join(filter(None, lines)),
            header=self.label,
            options=tuple(Choice(label=label) for label in options),
            multi_select=self.kind == "choices",
        )

    def value(self, answer: Answered) -> FieldValue | None:
        """The answer as a value; None where nothing is sent for this field.

        Raises:
            WrongAnswerError: it does not fit.
        """
        chosen = [*answer.selected, *([answer.other.strip()] if answer.other.strip() else [])]
        if not chosen:
            if self.default is None and self.required:
                raise WrongAnswerError("An answer is needed here.")
            return self.default
        match self.kind:
            case "choices":
                return self._several(chosen)
            case "choice":
                return self._choice(chosen[0])
            case "boolean":
                return _boolean(chosen[0])
            case "integer" | "number":
                return self._number(chosen[0])
            case "string":
                return self._text(chosen[0])

    def _wanted(self) -> str:
        """What an answer looks like, and whether one is needed."""
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
        default = "" if self.default is None else f"nothing given means {self._shown(self.default)}"
        return ", ".join(filter(None, (kind, default or ("" if self.required else "may be left out"))))

    def _shown(self, value: FieldValue) -> str:
        if isinstance(value, list):
            return ", ".join(self._shown(item) for item in value) or "none of them"
        if isinstance(value, bool):
            return "Yes" if value else "No"
        labels = {sent: label for label, sent in self.choices.items()}
        return labels.get(str(value), str(value)[:LABEL_LIMIT])

    def _choice(self, said: str) -> str:
        folded = said.casefold()
        for label, sent in self.choices.items():
            if folded in (label.casefold(), sent.casefold()):
                return sent
        raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is none of the choices.")

    def _several(self, said: list[str]) -> list[str]:
        words = [word for one in said for word in ([one] if one in self.choices else one.split(","))]
        values = list(dict.fromkeys(self._choice(word.strip()) for word in words if word.strip()))
        least, most = int(self.rules.get("minItems", 0)), int(self.rules.get("maxItems", len(self.choices)))
        if not least <= len(values) <= most:
            raise WrongAnswerError(f"Choose {least} to {most} of them.")
        return values

    def _number(self, said: str) -> int | float:
        try:
            value = int(said) if self.kind == "integer" else float(said)
        except ValueError:
            raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is no {self.kind}.") from None
        low, high = self.rules.get("minimum", -math.inf), self.rules.get("maximum", math.inf)
        if not (math.isfinite(value) and low <= value <= high):
            raise WrongAnswerError(f"{said[:LABEL_LIMIT]} is out of range.")
        return value

    def _text(self, said: str) -> str:
        least, most = int(self.rules.get("minLength", 0)), int(self.rules.get("maxLength", TEXT_LIMIT))
        if not least <= len(said) <= min(most, TEXT_LIMIT):
            raise WrongAnswerError(f"The text has {len(said):,} characters; {least:,} to {most:,} are wanted.")
        form = str(self.rules.get("format", ""))
        if form in _FORMATS and not _fits(said, form):
            raise WrongAnswerError(f"“{said[:LABEL_LIMIT]}” is not {_FORMATS[form]}{_SHAPES.get(form, '')}.")
        return said


def _boolean(said: str) -> bool:
    folded = said.casefold()
    if folded in _YES or folded in _NO:
        return folded in _YES
    raise WrongAnswerError("Yes or no?")


def _fits(said: str, form: str) -> bool:
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
