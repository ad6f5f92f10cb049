"""Calls of one tool that only look, one right after the other, are one line; nothing else is."""

import pytest

from tests.ui.dom import Element, parse
from tests.ui.runs import STARTED, asked, code_finished, code_started, kept, resolved, said, transcript
from tests.ui.scenes import looks
from vibe_jupyter.protocol import Event, RunFinished, TextDelta, ToolCallDelta, Usage
from vibe_jupyter.ui.page import ViewPart
from vibe_jupyter.ui.step import GROUP_LIMIT, times_text


def steps(*events: Event) -> list[ViewPart]:
    return [part for part in transcript([STARTED, *events]).parts() if part.kind == "step"]


def line_of(part: ViewPart) -> str:
    root = parse(part.html)
    (line, *_) = root.find("summary") or root.find("div")
    spans = [one for one in line.children if isinstance(one, Element)]
    return " | ".join(span.text for span in spans if span.text)


def test_files_that_are_read_one_after_the_other_are_one_line() -> None:
    (part,) = steps(*looks("a.py", "b.py", "c.py"))
    assert line_of(part) == "Reading 3 | a.py, b.py, c.py"
    (part,) = steps(*looks("a.py", "b.py", "missing.py", "d.py")[:-1])
    assert line_of(part) == "Read 3 | a.py, b.py, missing.py · 1 failed | 0.3 s"


def test_each_of_them_keeps_its_own_line_inside() -> None:
    (part,) = steps(*looks("a.py", "missing.py", "c.py"))
    inner = parse(part.html).find("div", class_="vibe-detail")[0].find("summary")
    words = [" ".join(child.text for child in line.children if isinstance(child, Element)) for line in inner]
    assert words == [" Read a.py 80 lines 0.1 s", " Read missing.py No such file. 0.1 s"]
    assert "x = 1" in part.html


def test_the_second_call_takes_no_room_of_its_own() -> None:
    """The part of the first one becomes the line of both: nothing below it moves."""
    first, *_ = looks("a.py", "b.py")
    folded = transcript([STARTED, first])
    (place,) = [part.id for part in folded.parts() if part.kind == "step"]
    changed = [patch for event in looks("a.py", "b.py")[1:] for patch in folded.apply(event) if patch["id"] != "foot"]
    assert {patch["id"] for patch in changed} == {place}


def test_other_tools_words_and_code_stand_between() -> None:
    read, other = looks("a.py", "b.py")[:2], looks("x", "y", tool="grep")[:2]
    assert len(steps(*read, *other, *looks("c.py", "d.py")[:2])) == 3
    assert len(steps(*read, TextDelta("Now "), said("Now "), *looks("c.py", "d.py")[:2])) == 2
    code = [code_started("c1"), code_finished("c1"), code_started("c2"), code_finished("c2")]
    assert len(steps(*read, *code)) == 3


def test_what_was_asked_about_stays_a_line_of_its_own() -> None:
    first = looks("a.py", "b.py")
    ask = asked(
        "b.py", call={"id": "b.py", "name": "read_file", "arguments": "{}"}, preview={"kind": "text", "text": "x"}
    )
    assert len(steps(*first[:2], ask, resolved("b.py"), first[2])) == 2


def test_a_call_that_will_join_the_line_is_not_announced_below_it() -> None:
    read = looks("a.py", "b.py")[:2]
    assert len(steps(*read, ToolCallDelta(position=0, name="read_file", arguments="{"))) == 1
    assert len(steps(*read, ToolCallDelta(position=0, name="run_code", arguments="{"))) == 2


def test_a_line_does_not_grow_without_end() -> None:
    parts = steps(*looks(*(f"f{number}.py" for number in range(2 * GROUP_LIMIT + 1))))
    assert [line_of(part).split(" | ")[0] for part in parts] == [
        f"Read {GROUP_LIMIT}",
        f"Read {GROUP_LIMIT}",
        "Reading f40.py",
    ]
    assert "f3.py, …" in line_of(parts[0])


def test_what_is_kept_has_every_call() -> None:
    end = RunFinished(reason="stop", turns=1, seconds=1.0, usage=Usage())
    html = kept([STARTED, *looks("a.py", "b.py", "c.py", "d.py")[:-1], said("Fine."), end])["text/html"]
    assert parse(html).find("summary")[0].text == "3 steps  read 3  0.3 s"
    assert [name in html for name in ("a.py", "b.py", "c.py")] == [True] * 3


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("Read", "Read 2"),
        ("Searched for", "Searched 2 times"),
        ("Signed in to", "Signed in 2 times"),
        ("Ran code", "Ran code 2 times"),
    ],
)
def test_a_verb_is_counted_without_its_object(verb: str, words: str) -> None:
    assert times_text(verb, 2) == words
