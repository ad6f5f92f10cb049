"""Questions to the user: bounds, answers, and nobody there."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.protocol import Allow, Answered, Choice, Question, TextPart, ToolResult
from vibe_jupyter.tools.ask_user_question import AskUserQuestionArgs, AskUserQuestionTool
from vibe_jupyter.tools.contract import ToolContext

COLOUR = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "As before"}, {"label": "Blue"}],
}
SIZES = {"question": "Which sizes?", "options": [{"label": "S"}, {"label": "M"}, {"label": "L"}], "multi_select": True}


def args(*questions: object) -> AskUserQuestionArgs:
    return AskUserQuestionArgs.model_validate({"questions": list(questions)})


def text_of(result: ToolResult) -> str:
    part = result.parts[0]
    assert isinstance(part, TextPart)
    return part.text


def answering(answers: tuple[Answered, ...] | None, seen: list[Question]) -> ToolContext:
    async def ask(questions: Sequence[Question], asker: str) -> tuple[Answered, ...] | None:
        assert asker == ""
        seen.extend(questions)
        return answers

    return ToolContext(call_id="c", progress=lambda text: None, cancelled=lambda: False, ask=ask)


@pytest.mark.requirement(
    "tools.ask_user_question.result.fields",
    "tools.ask_user_question.args.multi",
)
async def test_each_question_gets_an_answer() -> None:
    seen: list[Question] = []
    answers = (
        Answered(question="Which colour?", selected=("Blue",)),
        Answered(question="Which sizes?", selected=("S", "L"), other="and XXL"),
    )
    result = await AskUserQuestionTool().run(args(COLOUR, SIZES), answering(answers, seen))
    assert text_of(result) == "cancelled: false\nWhich colour? Blue\nWhich sizes? S, L, and XXL"
    assert result.details == {
        "answers": [
            {"question": "Which colour?", "selected": ["Blue"], "other": ""},
            {"question": "Which sizes?", "selected": ["S", "L"], "other": "and XXL"},
        ],
        "cancelled": False,
    }
    assert seen[0] == Question(
        question="Which colour?",
        header="Colour",
        options=(Choice(label="Red", description="As before"), Choice(label="Blue")),
    )
    assert [question.multi_select for question in seen] == [False, True]


async def test_options_may_be_plain_texts() -> None:
    seen: list[Question] = []
    await AskUserQuestionTool().run(
        args({"question": "Which?", "options": ["Red", {"label": "Blue"}]}), answering((), seen)
    )
    assert seen[0].options == (Choice(label="Red"), Choice(label="Blue"))


@pytest.mark.requirement("tools.ask_user_question.result.cancelled")
async def test_an_unanswered_question_is_a_normal_result() -> None:
    result = await AskUserQuestionTool().run(args(COLOUR), answering(None, []))
    assert not result.is_error
    assert result.details == {"answers": [], "cancelled": True}
    assert text_of(result) == "cancelled: true"


@pytest.mark.requirement("tools.ask_user_question.args.bounds")
async def test_more_than_the_bounds_is_asked_with_a_warning() -> None:
    small = args(*[COLOUR] * 4)
    assert "warning" not in text_of(await AskUserQuestionTool().run(small, answering((), [])))
    wide = {**COLOUR, "header": "Thirteen long", "options": [{"label": str(number)} for number in range(5)]}
    result = await AskUserQuestionTool().run(args(*[wide] * 5), answering((), []))
    warnings = [line for line in text_of(result).splitlines() if line.startswith("warning: ")]
    assert warnings[0] == "warning: 5 questions at once; ask at most 4"
    assert "has 5 options; give 2 to 4" in warnings[1]
    assert "longer than 12 characters" in warnings[2]
    with pytest.raises(ValidationError):
        args()


async def test_where_nobody_answers_the_call_fails_with_a_reason(context: ToolContext) -> None:
    with pytest.raises(ToolError, match="Nobody is here to answer"):
        await AskUserQuestionTool().run(args(COLOUR), context)


@pytest.mark.requirement("tools.ask_user_question.permission.default")
def test_it_needs_no_approval(workspace: Workspace) -> None:
    decision = Permissions(workspace).decide(AskUserQuestionTool(), args(COLOUR), RunTerms(attended=False))
    assert isinstance(decision, Allow)
