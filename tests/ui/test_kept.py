"""What the notebook keeps: plain structure that reads anywhere, and a short plain text."""

import re

import pytest

from tests.tiers import further
from tests.ui.dom import Element, parse
from tests.ui.runs import (
    CODE,
    STARTED,
    asked,
    code_finished,
    code_started,
    finished,
    inspected,
    kept,
    resolved,
    said,
    transcript,
    whole_run,
)
from vibe_jupyter.protocol import Event, Notice, ReasoningDelta, TextDelta
from vibe_jupyter.ui.front_end import RunRetention
from vibe_jupyter.ui.static_html import KEPT_LIMIT, PLAIN_LIMIT

MIN_CONTRAST = 4.0
"""To one; what a colour that must do on white and on #111 can reach is 4.3. So words have none, only the dot has."""


def root_of(events: list[Event]) -> Element:
    return parse(kept(events)["text/html"])


@pytest.mark.requirement("ui.static.kept")
def test_the_kept_form_holds_the_answer_the_steps_the_code_and_its_output() -> None:
    root = root_of(whole_run())
    fold = root.find("details")[0]
    assert fold.find("summary")[0].text == "2 steps  inspected 1 · ran code  0.3 s"
    assert [pre.text for pre in fold.find("pre")] == [CODE, "slope 1.5"]
    assert [cell.text for cell in fold.find("th")] == ["column", "type", "nulls"]
    assert "I will look at the data first." in fold.text
    assert "Gentoo" not in fold.text
    assert root.find("strong")[0].text.startswith("Gentoo bills")
    foot = "● Done · 21 s · devstral-2 · 2 turns · 6.3k tokens in, 5.1k cached, 900 out"
    assert root.text.endswith(foot)


def test_the_summary_of_a_run_holds_the_last_of_its_answers_alone() -> None:
    shown = transcript(whole_run(), RunRetention(form="summary")).bundle()["text/html"]
    assert "Gentoo bills" in shown
    assert "I will look at the data first." not in shown
    assert "2 steps" in shown


@pytest.mark.requirement("ui.static.kept")
def test_the_kept_form_needs_nothing_and_holds_no_live_buttons() -> None:
    events = [
        STARTED,
        asked(),
        *whole_run()[1:-1],
        Notice(level="warning", text="x"),
        finished("error", error="No. Way."),
    ]
    root = root_of(events)
    for element in root:
        assert element.name not in ("button", "input", "textarea", "script", "style", "link", "section"), element.name
        assert set(element.attributes) <= {
            "style",
            "href",
            "rel",
            "target",
            "src",
            "alt",
            "start",
            "align",
            "cellpadding",
            "dir",
            "width",
            "height",
        }
        assert not re.search(r"var\(|inherit|url\(", element.attributes.get("style", ""))


def test_one_step_is_not_folded_twice() -> None:
    root = root_of([STARTED, *inspected(), said("Fine."), finished()])
    (details,) = root.find("details")
    assert details.find("summary")[0].text == "Inspected penguins  344 × 8, nulls in 5 columns  0.1 s"


def test_the_fold_counts_what_was_done_and_what_was_not() -> None:
    events: list[Event] = [STARTED]
    for number in range(3):
        events += [code_started(f"r{number}"), code_finished(f"r{number}")]
    events += [*inspected("i"), code_started("e"), code_finished("e", "error", summary="KeyError: 'x'")]
    events += [asked("d"), resolved("d", allowed=False, message="no"), code_finished("d", "denied", summary="")]
    events += [code_started("x"), code_finished("x", "interrupted"), finished("interrupted")]
    summary = root_of(events).find("summary")[0].text
    assert summary == "7 steps  ran code 4 times (1 failed) · inspected 1 · 1 denied · 1 interrupted  1.1 s"


def test_a_call_that_failed_is_not_told_as_if_it_had_worked() -> None:
    events = [STARTED, *inspected(), code_started("e"), code_finished("e", "error", summary="KeyError"), finished()]
    assert root_of(events).find("summary")[0].text == "2 steps  inspected 1 · ran code (failed)  0.3 s"


def test_calls_refused_for_their_arguments_are_not_counted_as_run() -> None:
    refused = [code_finished(f"c{n}", "error", "", summary="refused", seconds=0) for n in (1, 2)]
    root = root_of([STARTED, *refused, code_finished("c3"), finished()])
    assert root.find("summary")[0].text == "3 steps  ran code · 2 failed  0.2 s"


def test_a_thought_is_kept_but_is_no_step() -> None:
    assert root_of([STARTED, ReasoningDelta("x"), *inspected(), said("Fine."), finished()]).find("details") != []
    assert "1 step" in kept([STARTED, *inspected(), said("Fine."), finished()])["text/plain"]


def test_an_error_stands_out_with_its_next_step() -> None:
    root = root_of([STARTED, finished("error", error="The server refused the key (401). Set `MISTRAL_API_KEY`.")])
    assert root.find("b")[0].text == "The server refused the key (401)."
    assert root.find("code")[0].text == "MISTRAL_API_KEY"
    assert "Failed" in root.text


@pytest.mark.parametrize("reason", ["interrupted", "error"])
def test_a_cut_answer_is_kept_and_marked(reason: str) -> None:
    bundle = kept([STARTED, TextDelta("The mean is"), said("The mean is", in_history=False), finished(reason)])
    assert "The mean is" in bundle["text/html"]
    assert "ended early" in bundle["text/html"]
    assert "The mean is" in bundle["text/plain"]
    assert "ended early" in bundle["text/plain"]


def test_a_turn_limit_says_once_how_to_go_on() -> None:
    notice = Notice(level="warning", text="Stopped at the limit of 2 turns. Give --max-turns more.")
    html = str(kept([STARTED, *inspected(), notice, finished("turn_limit")])["text/html"])
    assert html.count("--max-turns") == 1


def test_formulas_that_only_draw_are_left_to_the_notebook_and_money_is_not() -> None:
    html = kept(
        [STARTED, said(r"It costs $5 to $6, and $\frac{a_1}{b}$, and $\href{https://x.example}{y}$."), finished()]
    )
    assert r"<span>\(\frac{a_1}{b}\)</span>" in html["text/html"]
    assert "<span>$</span>5 to <span>$</span>6" in html["text/html"]
    assert r"<code>$\href{https://x.example}{y}$</code>" in html["text/html"]


@pytest.mark.requirement("ui.static.kept")
def test_the_same_run_is_kept_as_the_same_bytes() -> None:
    assert kept(whole_run()) == kept(whole_run())


@pytest.mark.parametrize("steps", [1, 60, further(1_000)])
def test_the_kept_form_stays_small_whatever_was_printed(steps: int) -> None:
    events: list[Event] = [STARTED]
    for number in range(steps):
        code = f"print({number})\n" * (30 if steps > 1 else 2_000)
        events += [
            said(f"Now {number}."),
            code_started(f"c{number}", code),
            code_finished(f"c{number}", output="<&>" * 4_000),
        ]
    events += [said("Word & word. " * 20_000), finished()]
    bundle = kept(events)
    assert len(bundle["text/html"]) <= KEPT_LIMIT
    assert len(bundle["text/plain"]) <= PLAIN_LIMIT + 500
    root = parse(bundle["text/html"])
    assert "characters left out" in root.text
    assert f"{steps:,} step" in root.text or steps == 1


def test_a_run_without_an_end_does_not_say_that_it_works() -> None:
    bundle = transcript([STARTED, code_started()]).bundle()
    assert str(bundle["text/plain"]).startswith("Stopped")
    assert "Working" in str(transcript([STARTED, code_started()]).so_far()["text/html"])


def test_plain_text_is_the_answer_and_one_line() -> None:
    assert kept(whole_run())["text/plain"].split("\n\n") == [
        "**Gentoo bills are as long as Chinstraps'.** The slope is `1.5`.",
        "Done · 2 steps · 21 s · devstral-2 · api.mistral.ai · 2 turns · 6.3k tokens in, 5.1k cached, 900 out",
    ]


@pytest.mark.requirement("ui.theme.light-dark")
def test_every_colour_reads_on_white_and_on_dark() -> None:
    events = [*whole_run()[:-1], Notice(level="warning", text="x"), finished("error", error="No.")]
    html = "".join(kept([*events[:-1], finished(reason)])["text/html"] for reason in ("stop", "error", "interrupted"))
    html += kept([STARTED, said("[a](https://a.example)"), finished()])["text/html"]
    colours = set(re.findall(r"[\";]color:#([0-9a-f]{6})", html))
    assert len(colours) >= 2
    for colour in colours:
        for ground in ("ffffff", "111111"):
            assert contrast(colour, ground) >= MIN_CONTRAST, f"#{colour} on #{ground}"


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
