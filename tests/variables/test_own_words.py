"""Classes that the user describes: by a registered function, or by `_ai_repr_` where it was allowed."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import vibe_jupyter
from vibe_jupyter.variables import own_words
from vibe_jupyter.variables.describe import describe_value, value_line
from vibe_jupyter.variables.own_words import allow_ai_repr, register

asked: list[str] = []


class Experiment:
    def __init__(self) -> None:
        self.runs = [3, 1]


class Better(Experiment):
    pass


class Speaking:
    def _ai_repr_(self, **options: Any) -> dict[str, str]:
        asked.append("sync")
        return {"text/html": "<b>no</b>", "text/plain": "three runs"}


class Waiting:
    async def _ai_repr_(self, **options: Any) -> tuple[dict[str, str], dict[str, str]]:
        asked.append("async")
        return {"text/markdown": "**three** runs"}, {}


class Failing:
    def _ai_repr_(self, **options: Any) -> Any:
        raise ValueError("not now")


NAMES = {cls: f"{__name__}.{cls.__name__}" for cls in (Experiment, Speaking, Waiting, Failing)}


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    asked.clear()
    yield
    for cls in NAMES:
        register(cls, None)
        register(NAMES[cls], None)
    allow_ai_repr(())


@pytest.mark.parametrize("cls", [Experiment, NAMES[Experiment]])
def test_a_registered_function_describes_its_class_and_those_made_from_it(cls: type | str) -> None:
    vibe_jupyter.describe.register(cls, lambda one: f"best {min(one.runs)}\nof {len(one.runs)}")

    assert value_line(Experiment()) == f"{NAMES[Experiment]} best 1"
    assert describe_value(Better()).body == "best 1\nof 2"

    register(cls, None)
    assert "runs=[3, 1]" in describe_value(Experiment()).body


def test_of_several_registered_functions_that_of_the_nearest_class_counts_and_then_the_latest() -> None:
    try:
        for number, key in enumerate((Experiment, NAMES[Experiment], Experiment, NAMES[Experiment])):
            register(key, lambda _, number=number: f"words {number}")
            assert value_line(Better()).endswith(f" words {number}")
        register(Better, lambda _: "better words")
        register(Experiment, lambda _: "words again")
        assert value_line(Better()).endswith(" better words")
        assert value_line(Experiment()).endswith(" words again")
    finally:
        register(Better, None)
    assert value_line(Better()).endswith(" words again")


def test_a_registered_function_that_fails_costs_nothing_but_its_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    plain = describe_value(Experiment())

    for broken in (lambda one: one.nothing, lambda one: 5, lambda one: {"image/png": "x"}, lambda one: ""):
        register(Experiment, broken)  # type: ignore[arg-type]
        assert describe_value(Experiment()) == plain


@pytest.mark.parametrize(("cls", "function"), [(5, str), (Experiment, "text")])
def test_what_cannot_be_registered_is_refused(cls: Any, function: Any) -> None:
    with pytest.raises(TypeError):
        register(cls, function)


def test_a_description_of_any_length_is_cut() -> None:
    register(Experiment, lambda one: "long " * 10_000)

    assert len(describe_value(Experiment()).body) <= 4_000
    assert value_line(Experiment()) == f"{NAMES[Experiment]} {'long ' * 40}"


def test_ai_repr_is_not_asked_unless_the_user_allowed_the_class() -> None:
    said = describe_value(Speaking())

    assert asked == []
    assert f'[variables] ai_repr = ["{NAMES[Speaking]}"]' in said.body


@pytest.mark.parametrize(("value", "text"), [(Speaking(), "three runs"), (Waiting(), "**three** runs")])
def test_ai_repr_of_an_allowed_class_is_asked_when_it_is_inspected(value: object, text: str) -> None:
    allow_ai_repr(NAMES.values())

    assert value_line(value) == f"<{NAMES[type(value)]}>"
    assert asked == []
    assert describe_value(value).body == text


def test_ai_repr_that_fails_gives_the_plain_description(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    allow_ai_repr(NAMES.values())

    assert describe_value(Failing()).body == ""
    assert len(caplog.records) == 1


def test_ai_repr_that_does_not_come_back_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import threading

    class Hanging:
        def _ai_repr_(self, **options: Any) -> Any:
            asked.append("hanging")
            free.wait(60)
            return "late"

    free = threading.Event()
    monkeypatch.setattr(own_words, "SECONDS", 0.05)
    caplog.set_level(logging.CRITICAL)
    name = describe_value(Hanging()).headline.strip("<>")
    allow_ai_repr([name])

    described = [describe_value(Hanging()) for _ in range(3)]
    free.set()

    assert asked == ["hanging"]
    assert {one.headline for one in described} == {f"<{name}>"}
