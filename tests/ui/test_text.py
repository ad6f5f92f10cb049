"""Plain text made honest."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn_values import PATIENT
from vibe_jupyter.ui.text import (
    count_text,
    escape_hidden,
    has_hidden,
    one_line,
    output_text,
    readable_text,
    seconds_text,
    shorten_text,
)


@PATIENT
@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    left = {
        one
        for one in escape_hidden(text)
        if one not in "\n\t\u200d" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co")
    }
    assert left == set()


@PATIENT
@given(st.text())
def test_writing_out_is_done_once(text: str) -> None:
    assert escape_hidden(escape_hidden(text)) == escape_hidden(text)
    assert not has_hidden(escape_hidden(text))


@pytest.mark.parametrize(
    "text", ["naïve", "日本語", "👍🏽", "👨\u200d👩\u200d👧", "❤\ufe0f", "1\ufe0f⃣", "a\tb\nc", "ﷺ", "é"]
)
def test_what_people_write_stays(text: str) -> None:
    assert escape_hidden(text) == text


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f⟨U+FE0F⟩"),
        ("x\U000e0041", "x⟨U+E0041⟩"),
        ("x\U000e0100", "x⟨U+E0100⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("a\x00b\x7f\x9b", "a⟨U+0000⟩b⟨U+007F⟩⟨U+009B⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("rm \ue0b0\uf8ff", "rm ⟨U+E0B0⟩⟨U+F8FF⟩"),
        ("\U000f0000\U0010fffd", "⟨U+F0000⟩⟨U+10FFFD⟩"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "a⟨U+000D⟩b"),
        ("a\u2028b", "a⟨U+2028⟩b"),
    ],
)
def test_what_hides_is_written_out(text: str, shown: str) -> None:
    assert escape_hidden(text) == shown


@pytest.mark.attack("hostile texts", always=True)
def test_terminal_colours_go_and_other_sequences_are_written_out() -> None:
    assert readable_text("\x1b[1;31mred\x1b[0m \x1b[2Jgone") == "red ⟨U+001B⟩[2Jgone"


def test_a_progress_bar_becomes_lines() -> None:
    assert output_text("10%\r20%\r\n30%\r") == "10%\n20%\n30%\n"


def test_a_long_text_keeps_head_and_tail() -> None:
    text = shorten_text("a" * 500 + "b" * 500, 90)
    assert text == "a" * 60 + "\n… 910 characters left out …\n" + "b" * 30


def test_one_line_is_one_line() -> None:
    assert one_line(" a \n\n b\tc ") == "a b c"
    assert one_line("x" * 500, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (125, "2 min 5 s")]
)
def test_seconds_in_words(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (4_100, "4.1k"), (999_949, "999.9k"), (999_950, "1.0M")]
)
def test_counts_in_words(count: int, text: str) -> None:
    assert count_text(count) == text
