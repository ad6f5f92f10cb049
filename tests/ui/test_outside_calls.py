"""Calls of outside tools: how far they are, the files and sounds they give, arguments to be edited as a whole."""

import json

import pytest
from pydantic import JsonValue

from tests.ui.dom import parse
from vibe_jupyter.protocol import (
    DOWNLOAD_MIME,
    WHOLE,
    ApprovalRequested,
    Download,
    Event,
    Headline,
    Preview,
    ToolCall,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    arguments_text,
)
from vibe_jupyter.ui.cards import card_html, editable_argument
from vibe_jupyter.ui.step import Milestones
from vibe_jupyter.ui.transcript import Transcript

CALLED = Headline(verb="Called", doing="Calling", asking="Call", target="measure", note="of lab")
STARTED = ToolStarted(call_id="c1", name="mcp__lab__measure", headline=CALLED)


def step(*events: Event) -> str:
    """The step as the live view shows it."""
    transcript = Transcript(lambda: 0.0)
    for event in (STARTED, *events):
        transcript.apply(event)
    return next(part.html for part in transcript.parts() if part.kind == "step")


def kept(*events: Event) -> str:
    transcript = Transcript(lambda: 0.0)
    for event in (STARTED, *events):
        transcript.apply(event)
    return str(transcript.so_far()["text/html"])


def at(done: float, total: float | None = 10.0, text: str = "") -> ToolProgress:
    return ToolProgress(call_id="c1", text=text, done=done, total=total)


def gave(*files: Download | dict[str, JsonValue]) -> ToolFinished:
    dumped: list[JsonValue] = [file.model_dump() if isinstance(file, Download) else file for file in files]
    return ToolFinished(
        call_id="c1", name="mcp__lab__measure", headline=CALLED, outcome="ok", display={DOWNLOAD_MIME: dumped}
    )


def test_a_bar_shows_how_far_a_call_is_and_words_say_the_same() -> None:
    html = step(at(1), at(3, text="warming <up>"))
    assert '<progress max="10" value="3" aria-hidden="true"></progress>3 of 10 · warming &lt;up&gt;' in html


def test_where_it_is_not_known_how_far_it_goes_there_are_words_alone() -> None:
    assert "<progress" not in step(at(3, None, "north"))
    assert "3 · north" in step(at(3, None, "north"))


@pytest.mark.parametrize(
    ("done", "total", "words", "value"),
    [(12.0, 10.0, "12 of 10", "10"), (0.25, 1.0, "0.25 of 1", "0.25"), (1e300, 1e301, "1e+300 of 1e+301", "1e+300")],
)
def test_odd_numbers_are_shown_as_they_are_and_the_bar_stays_a_bar(
    done: float, total: float, words: str, value: str
) -> None:
    assert f'value="{value}" aria-hidden="true"></progress>{words}' in step(at(done, total))


def test_a_call_that_has_ended_has_no_bar_and_what_it_printed_stays() -> None:
    events = (ToolProgress(call_id="c1", text="printed\n"), at(9), gave())
    assert "<progress" in step(*events[:2])
    assert "<progress" not in step(*events)
    assert "printed" in step(*events[:2])


def test_the_kept_form_of_a_running_call_has_words_and_no_bar() -> None:
    html = kept(at(3, text="warming up"))
    assert "3 of 10 · warming up" in html
    assert "<progress" not in html


def test_where_nothing_can_be_drawn_anew_each_tenth_is_told_once() -> None:
    milestones = Milestones()
    milestones.begin(STARTED)
    told = [milestones.line(at(done, 100.0, "north")) for done in range(101)]
    lines = [line for line in told if line]
    assert len(lines) == 10
    assert lines[0] == "Calling measure of lab · 10 of 100 · north"
    assert milestones.line(at(5, None)) == ""


def test_each_file_can_be_saved_and_a_sound_is_heard_in_the_live_view_alone() -> None:
    sound = Download(name="a.wav", data="UklGRg==", path="", media_type="audio/wav")
    report = Download(name="b.pdf", data="JVBERi0=", path="", media_type="application/pdf")
    live = parse(step(gave(sound, report)))
    assert [link.attributes["download"] for link in live.find("a")] == ["a.wav", "b.pdf"]
    (player,) = live.find("audio")
    assert player.attributes["src"] == "data:audio/wav;base64,UklGRg=="
    still = parse(kept(gave(sound, report)))
    assert [link.attributes["download"] for link in still.find("a")] == ["a.wav", "b.pdf"]
    assert still.find("audio") == []


@pytest.mark.parametrize(
    "file",
    [
        Download(name="x", data='UklG" onload="alert(1)', path="", media_type="audio/wav"),
        Download(name="x", data="UklGRg==", path="", media_type="text/html"),
        Download(name="x", data="UklGRg==", path="", media_type='audio/wav" autoplay onplay="alert(1)'),
    ],
)
def test_what_is_no_sound_is_not_played(file: Download) -> None:
    assert parse(step(gave(file))).find("audio") == []


def card(arguments: str, note: str = "") -> ApprovalRequested:
    text = arguments_text(json.loads(arguments))
    return ApprovalRequested(
        approval_id="a1",
        call=ToolCall(id="c1", name="mcp__lab__measure", arguments=arguments),
        headline=CALLED,
        preview=Preview(kind="code", text=text, language="json", edits=WHOLE, note=note),
        reason="calls an outside tool",
        resources=(),
        remember_as="mcp__lab__measure",
        digest="d",
    )


def test_all_arguments_can_be_edited_as_they_are_shown() -> None:
    asked = card('{"b":[1,2.0,{"x":null}],"a":"ü\\n"}')
    assert (
        editable_argument(asked)
        == '{\n  "b": [\n    1,\n    2.0,\n    {\n      "x": null\n    }\n  ],\n  "a": "ü\\n"\n}'
    )
    assert parse(card_html(asked)).find("textarea")


def test_arguments_with_hidden_characters_are_shown_and_not_edited() -> None:
    asked = card('{"a":"pay\\u202e"}')
    assert editable_argument(asked) is None
    assert "⟨U+202E⟩" in card_html(asked)


def test_what_a_server_says_of_its_tool_stands_on_the_card_beside_whose_it_is() -> None:
    html = card_html(card("{}", note="its server says it only reads"))
    assert '<span class="vibe-note">of lab</span><span class="vibe-note">its server says it only reads</span>' in html
