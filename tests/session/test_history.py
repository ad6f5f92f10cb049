"""What the model sees, whatever became of the process that wrote it down."""

from typing import Literal

import pytest

from tests.session.conftest import a_session, assistant, finished, result, started, user
from vibe_jupyter.protocol import (
    AssistantMessage,
    DurableEvent,
    HistoryEdit,
    HistoryRewritten,
    Message,
    MessageAdded,
    ReasoningPart,
    ToolMessage,
)
from vibe_jupyter.session.conversation import MAY_HAVE_RUN, NOT_STARTED, RESULT_LOST, check_history, fold_history


def messages(*events: MessageAdded) -> tuple[Message, ...]:
    return tuple(event.message for event in events)


def answers(*events: DurableEvent) -> list[tuple[str, str, bool]]:
    """Each result: which call, its text, whether it is an error."""
    return [
        (message.call_id, message.parts[0].text, message.is_error)
        for message in fold_history(events)
        if isinstance(message, ToolMessage)
    ]


def test_a_finished_run_folds_to_its_messages() -> None:
    added = [event for event in a_session() if isinstance(event, MessageAdded)]
    assert fold_history(a_session()) == messages(*added)
    check_history(fold_history(a_session()))


def test_cut_after_any_event_the_history_is_valid_and_grows_by_appending() -> None:
    run = a_session()
    next_run = (user("go on"), assistant("I see"))
    for length in range(len(run) + 1):
        resumed = fold_history((*run[:length], *next_run[:1]))
        check_history(resumed)
        assert fold_history((*run[:length], *next_run))[: len(resumed)] == resumed


def test_a_call_that_had_started_may_have_run() -> None:
    assert answers(user("w"), assistant("", "c1"), started("c1")) == [("c1", MAY_HAVE_RUN, True)]


def test_a_call_that_had_not_started_did_nothing() -> None:
    assert answers(user("w"), assistant("", "c1")) == [("c1", NOT_STARTED, True)]


def test_a_call_that_finished_without_a_result_says_so() -> None:
    assert answers(user("w"), assistant("", "c1"), started("c1"), finished("c1")) == [("c1", RESULT_LOST, True)]


def test_results_stand_in_call_order_whatever_order_they_came_in() -> None:
    events = (user("w"), assistant("", "c1", "c2", "c3"), result("c3", "three"), started("c2"), result("c1", "one"))
    assert answers(*events) == [("c1", "one", False), ("c2", MAY_HAVE_RUN, True), ("c3", "three", False)]
    check_history(fold_history(events))


def test_ids_that_come_again_in_a_later_message_are_other_calls() -> None:
    events = (
        *(user("w"), assistant("", "c1"), started("c1"), result("c1", "first")),
        *(assistant("", "c1"), result("c1", "second")),
        assistant("", "c1"),
    )
    assert answers(*events) == [("c1", "first", False), ("c1", "second", False), ("c1", NOT_STARTED, True)]


@pytest.mark.attack("saved files", always=True)
def test_a_result_that_comes_twice_or_too_late_or_for_no_call_is_left_out() -> None:
    events = (
        *(user("w"), result("c0", "stray"), assistant("", "c1"), result("c1", "kept"), result("c1", "again")),
        *(user("next"), result("c1", "late")),
    )
    assert answers(*events) == [("c1", "kept", False)]
    check_history(fold_history(events))


def test_an_answer_that_was_cut_off_is_not_sent_again() -> None:
    cut = assistant("half an ans").model_copy(update={"in_history": False})
    assert fold_history((user("w"), cut)) == messages(user("w"))


def test_an_answer_that_says_nothing_has_no_place() -> None:
    thought = AssistantMessage(parts=(ReasoningPart(text="hm"),), stop_reason="stop")
    assert fold_history((user("w"), MessageAdded(message=thought))) == messages(user("w"))


def rewritten(length: int, *edits: HistoryEdit, kind: Literal["shortened", "compacted"] = "shortened") -> DurableEvent:
    return HistoryRewritten(kind=kind, length=length, edits=edits, tokens_before=9, tokens_after=5)


def test_a_rewrite_takes_the_place_of_what_was_there_and_closes_open_calls_first() -> None:
    events = (user("a"), assistant("b"), user("c"), assistant("", "c1"), result("c1", "long"))
    short = result("c1", "l…").message
    assert fold_history((*events, rewritten(5, HistoryEdit(at=4, length=1, by=(short,))), user("d"))) == (
        *messages(*events[:4]),
        short,
        *messages(user("d")),
    )
    summary = messages(user("summary"))
    crashed = (*events[:4], rewritten(5, HistoryEdit(at=0, length=5, by=summary), kind="compacted"))
    assert fold_history(crashed) == summary


@pytest.mark.attack("saved files", always=True)
def test_a_rewrite_of_another_history_changes_nothing_unless_it_stands_for_all_of_it() -> None:
    events = (user("a"), assistant("b"))
    assert fold_history((*events, rewritten(3, HistoryEdit(at=2, length=1)))) == messages(*events)
    summary = messages(user("summary"))
    edit = HistoryEdit(at=0, length=3, by=summary)
    assert fold_history((*events, rewritten(3, edit, kind="compacted"))) == summary


@pytest.mark.parametrize(
    ("history", "why"),
    [
        (messages(user("w"), assistant("", "c1")), "ends before the results"),
        (messages(user("w"), assistant("", "c1"), user("x")), "comes before the results"),
        (messages(user("w"), result("c1", "1")), "answers 'c1', awaited in order: "),
        (messages(assistant("", "c1", "c2"), result("c2", "2"), result("c1", "1")), "answers 'c2'"),
        (messages(assistant("", "c1"), result("c1", "1"), result("c1", "1")), "answers 'c1'"),
        (messages(assistant("", "c1", "c1"), result("c1", "1"), result("c1", "1")), "two calls of one id"),
        (messages(assistant("")), "says nothing"),
    ],
)
def test_every_way_of_being_invalid_is_noticed(history: tuple[Message, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_history(history)
