"""`%vibe fix`: the last error as a prompt."""

import re
from collections.abc import Iterator

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from vibe_jupyter.testing import say, status

FAILING = """\
import json
table = {'bill_length_mm': [39.1] * 1000}
def mean(column):
    values = table[column]
    return sum(values) / len(values)
mean('bill_len')"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("fix")) as session:
        yield session


def asked(session: Session, prompt: str) -> str:
    session.model.requests.clear()
    session.model.will_reply(say("Mended."))
    session.run(prompt)
    return session.model.requests[0].last_user_text


def test_before_any_error_there_is_nothing_to_fix_and_the_cell_says_so(session: Session) -> None:
    cell = session.wire.cell(session.wire.send("%vibe fix"))
    assert "There is no error to fix" in cell.text
    assert cell.error.startswith("RunFailed: ")
    assert "There is no error to fix" in session.wire.cell(session.wire.send("%vibe fix")).text
    assert session.model.requests == []


def test_the_last_error_goes_with_its_frames_and_what_was_involved(session: Session) -> None:
    failed = session.wire.cell(session.wire.send(FAILING))
    assert failed.error
    prompt = asked(session, "%vibe fix")
    assert "Find out why this failed" in prompt
    assert "KeyError: 'bill_len'" in prompt
    assert f"Cell In[{failed.count}] in mean, line 4:" in prompt
    assert "-> 4     values = table[column]" in prompt
    assert "-> 6 mean('bill_len')" in prompt
    assert "table" in prompt.split("-> 4", 1)[1].split("Cell In", 1)[0]
    assert len(prompt) < 8_000


def test_of_many_frames_the_last_are_shown_with_what_they_held(session: Session) -> None:
    code = "def down(n):\n    return 1 / n if n == 0 else down(n - 1)\ndown(20)"
    assert session.wire.cell(session.wire.send(code)).error
    prompt = asked(session, "%vibe fix")
    assert [int(n) for n in re.findall(r"^   n: int (\d+)$", prompt, re.M)] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert prompt.count("in down, line 2:") == 8
    assert "-> 3 down(20)" not in prompt


def test_a_fix_that_the_server_failed_is_asked_for_once_more_with_the_same_error(session: Session) -> None:
    session.wire.cell(session.wire.send("weights = [39.1]\nweights[7]"))
    for _ in range(2):
        session.model.will_reply(status(400, "the budget is used up"))
        failed = session.wire.cell(session.wire.send("%vibe fix"))
        assert failed.error.startswith("RunFailed: ")
    prompt = asked(session, "%vibe fix")
    assert "IndexError: list index out of range" in prompt
    assert "RunFailed" not in prompt.partition("<error>")[2]


def test_words_of_the_person_take_the_place_of_ours_and_library_frames_are_named(session: Session) -> None:
    session.wire.cell(session.wire.send("import json; json.loads('{')"))
    prompt = asked(session, "%%vibe fix\nexplain it only")
    assert prompt.rstrip().rpartition("<error>")[0].rstrip().endswith("explain it only")
    assert "JSONDecodeError" in prompt
    assert "in raw_decode" in prompt


def test_a_wish_that_begins_with_the_word_is_a_wish(session: Session) -> None:
    assert asked(session, "%vibe fix the plot").endswith("fix the plot")
