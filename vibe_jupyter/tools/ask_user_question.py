"""The tool `ask_user_question`, for what only the user can know or decide."""

from collections.abc import Sequence
from typing import Final, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from vibe_jupyter.protocol import Answered, Choice, Headline, Preview, Question, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import UNLISTED, Tool, ToolContext

MAX_QUESTIONS: Final = 4
MIN_OPTIONS: Final = 2
MAX_OPTIONS: Final = 4
MAX_HEADER: Final = 12  # characters


class OptionArgs(BaseModel):
    """One choice."""

    model_config = ConfigDict(extra="forbid")

    label: str = Field(min_length=1)
    description: str = ""


class QuestionArgs(BaseModel):
    """One question."""

    model_config = ConfigDict(extra="forbid")

    question: str = Field(min_length=1)
    header: str = Field(default="", json_schema_extra=UNLISTED)
    """Label of at most `MAX_HEADER` characters."""
    options: list[OptionArgs] = Field(
        default=[],
        description=f"{MIN_OPTIONS} to {MAX_OPTIONS}; free text too.",
        json_schema_extra={"items": {"type": "string"}},
    )
    multi_select: bool = False

    @field_validator("options", mode="before")
    @classmethod
    def _label_texts(cls, options: object) -> object:
        if not isinstance(options, list):
            return options
        return [{"label": one} if isinstance(one, str) else one for one in cast("list[object]", options)]


class AskUserQuestionArgs(BaseModel):
    """Questions asked together."""

    model_config = ConfigDict(extra="forbid")

    questions: list[QuestionArgs] = Field(min_length=1)


class AskUserQuestionTool(Tool[AskUserQuestionArgs]):
    """Needs no approval: it only asks."""

    name = "ask_user_question"
    description = f"Ask the user 1 to {MAX_QUESTIONS} questions. Calls that need permission ask by themselves."
    level = "always"
    arguments = AskUserQuestionArgs
    without_values = "always"

    def headline(self, args: AskUserQuestionArgs) -> Headline:
        first = args.questions[0]
        more = f" and {len(args.questions) - 1} more" if len(args.questions) > 1 else ""
        return Headline(verb="Asked", doing="Asking", asking="Ask", target="", note=f"{first.question}{more}")

    def preview(self, args: AskUserQuestionArgs) -> Preview:
        return Preview(kind="text", text="\n".join(question.question for question in args.questions))

    def touches(self, args: AskUserQuestionArgs) -> Sequence[Resource]:
        return ()

    async def run(self, args: AskUserQuestionArgs, context: ToolContext) -> ToolResult:
        answers = await context.ask([_question_of_args(one) for one in args.questions], "")
        warnings = _size_warnings(args.questions)
        cancelled = answers is None
        lines = [f"cancelled: {'true' if cancelled else 'false'}"]
        lines += [f"{answer.question} {answer.words}" for answer in answers or ()]
        lines += [f"warning: {warning}" for warning in warnings]
        said = "; ".join(answer.words for answer in answers or ())
        return ToolResult(
            parts=(TextPart(text="\n".join(lines)),),
            summary="not answered" if cancelled else said,
            display={} if answers is None else {"text/plain": "\n".join(_answer_text(answer) for answer in answers)},
            details={"answers": [_answer_fields(answer) for answer in answers or ()], "cancelled": cancelled},
        )


def _question_of_args(args: QuestionArgs) -> Question:
    return Question(
        question=args.question,
        header=args.header,
        options=tuple(Choice(label=option.label, description=option.description) for option in args.options),
        multi_select=args.multi_select,
    )


def _size_warnings(questions: Sequence[QuestionArgs]) -> list[str]:
    """Return warnings about exceeded limits. The questions are shown all the same."""
    out: list[str] = []
    if len(questions) > MAX_QUESTIONS:
        out.append(f"{len(questions)} questions at once; ask at most {MAX_QUESTIONS}")
    for question in questions:
        if not MIN_OPTIONS <= len(question.options) <= MAX_OPTIONS:
            out.append(
                f"{question.question!r} has {len(question.options)} options; give {MIN_OPTIONS} to {MAX_OPTIONS}"
            )
        if len(question.header) > MAX_HEADER:
            out.append(f"the header {question.header!r} is longer than {MAX_HEADER} characters")
    return out


def _answer_fields(answer: Answered) -> dict[str, JsonValue]:
    return {"question": answer.question, "selected": list(answer.selected), "other": answer.other}


def _answer_text(answer: Answered) -> str:
    return f"{answer.question}\n  {answer.words}"
