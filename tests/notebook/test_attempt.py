"""A press of ■ at the edges of an execution."""

from vibe_jupyter.kernel.execution import ExecutionAttempt


def test_a_press_just_before_the_code_begins_keeps_it_from_beginning() -> None:
    attempt, began = ExecutionAttempt(None), []
    attempt.on_sigint(lambda: None)
    attempt.run(lambda: began.append("code"))
    assert (began, attempt.status()) == ([], "interrupted")
