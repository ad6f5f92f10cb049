"""Questions on a text prompt: a number chooses, anything else is the person's own answer."""

from collections.abc import Callable

from vibe_jupyter.protocol import Answer, Answered, Question, QuestionAsked
from vibe_jupyter.ui.text import one_line, readable

SKIP = "-"
"""The answer that answers nothing, and ends the asking."""


def converse(asked: QuestionAsked, read_line: Callable[[str], str], write: Callable[[str], None]) -> Answer:
    """Ask one after the other. Main thread.

    Raises:
        EOFError, NotImplementedError: nobody can answer.
    """
    answers: list[Answered] = []
    write(f"\n{heading(asked)}\n")
    for question in asked.questions:
        write(_shown(question))
        line = read_line(_prompt(question)).strip()
        if line == SKIP:
            return Answer(question_id=asked.question_id, answers=None)
        answers.append(understood(question, line))
    return Answer(question_id=asked.question_id, answers=tuple(answers))


def heading(asked: QuestionAsked) -> str:
    """Who wants to know."""
    return f"A question of {readable(one_line(asked.asker))}" if asked.asker else "The agent asks"


def understood(question: Question, line: str) -> Answered:
    """A line as an answer: numbers of options, one or, where that is allowed, several; else free text."""
    words = [word for word in line.replace(",", " ").split() if word]
    numbers = [int(word) for word in words if word.isdecimal() and 1 <= int(word) <= len(question.options)]
    fits = bool(words) and len(numbers) == len(words) and (question.multi_select or len(words) == 1)
    if not fits:
        return Answered(question=question.question, other=line)
    chosen = [option.label for number, option in enumerate(question.options, 1) if number in numbers]
    return Answered(question=question.question, selected=tuple(chosen))


def _shown(question: Question) -> str:
    head = "\n".join(readable(one_line(line)) for line in question.question.split("\n"))
    if question.link:
        head += f"\n  {readable(one_line(question.link, len(question.link)))}"
    options = [
        f"  {number}  {readable(one_line(option.label))}"
        + (f": {readable(one_line(option.description))}" if option.description else "")
        for number, option in enumerate(question.options, 1)
    ]
    return "\n".join([head, *options]) + "\n"


def _prompt(question: Question) -> str:
    if not question.options:
        return f"Your answer ({SKIP} for none): "
    numbers = "Numbers" if question.multi_select else "A number"
    return f"{numbers}, or your own words ({SKIP} for none): "
