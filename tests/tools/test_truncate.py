"""Long text keeps its beginning and its end."""

import pytest

from vibe_jupyter.files.truncation import RESULT_LIMIT, cut_line, head_and_tail


def test_text_within_the_limit_is_left_alone():
    text = "x" * RESULT_LIMIT

    assert head_and_tail(text) == text


def test_a_long_text_is_cut_on_line_borders_and_says_how_much_is_missing():
    lines = [f"line {number:05}\n" for number in range(2_000)]

    cut = head_and_tail("".join(lines), 400)

    assert cut.splitlines() == [
        *(line.rstrip() for line in lines[:14]),
        "[… 21,692 characters in 1,972 lines left out …]",
        *(line.rstrip() for line in lines[-14:]),
    ]


def test_text_without_line_ends_is_cut_all_the_same():
    cut = head_and_tail("a" * 500 + "b" * 500, 180)

    assert cut == "a" * 50 + "\n[… 900 characters left out …]\n" + "b" * 50


@pytest.mark.parametrize("limit", [0, 1, 10, 80, 81, 82, 83, 200, 999])
@pytest.mark.parametrize("text", ["x" * 1_000, "a\n" * 500, "\n" * 1_000, "x" * 999 + "\n", "\n" + "x" * 999])
def test_the_limit_is_never_exceeded(text: str, limit: int):
    cut = head_and_tail(text, limit)

    assert len(cut) <= limit
    assert limit < 82 or "left out" in cut


def test_a_long_line_says_how_much_more_there_is():
    assert cut_line("x" * 12, 10) == "x" * 10 + "… (2 more characters)"
    assert cut_line("x" * 10, 10) == "x" * 10
