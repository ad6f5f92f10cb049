"""The live view: what each event changes on the page, and at what cost."""

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.dom import Element, parse
from tests.ui.runs import (
    CODE,
    STARTED,
    TABLE,
    asked,
    code_call,
    code_finished,
    code_started,
    finished,
    inspected,
    live,
    message,
    page,
    resolved,
    said,
    transcript,
    whole_run,
)
from vibe_jupyter.protocol import (
    AnswerAwaited,
    ApprovalResolved,
    AssistantMessage,
    Event,
    MessageAdded,
    Notice,
    Preview,
    ReasoningDelta,
    ReasoningPart,
    RequestSent,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolProgress,
    TurnStarted,
    Usage,
)
from vibe_jupyter.ui.front_end import RunRetention
from vibe_jupyter.ui.page import PatchOutbox, ViewPart, ViewPatch
from vibe_jupyter.ui.status_line import NOT_OVER_NOTE
from vibe_jupyter.ui.step import PROGRESS_LIMIT
from vibe_jupyter.ui.transcript import Transcript

ANSWER_SIZE = 60_000
"""Characters of the long answer."""
DELTAS = 4_000
"""Pieces it comes in."""
FLUSH = 10
"""Pieces between two messages to the page: 200 a second against 20."""
MARKED = 0.05
"""Share of the words that are bold, code or emphasis."""
MAX_PAYLOAD = 3.0
"""Characters sent for one of the answer."""


def parts_of(events: list[Event]) -> list[ViewPart]:
    return transcript(events).parts()


def step_of(events: list[Event]) -> Element:
    """The one step of a view."""
    (part,) = [part for part in parts_of(events) if part.kind == "step"]
    return parse(part.html)


def word(root: Element, class_: str) -> str:
    (one,) = root.find("span", class_=class_)
    return one.text


# ---- text ----


@pytest.mark.requirement("ui.stream.text")
def test_text_is_formatted_from_its_first_character() -> None:
    growing = parts_of([STARTED, TextDelta("It is **so"), TextDelta("me")])
    assert [part.kind for part in growing[:-1]] == ["tail"]
    assert parse(growing[0].html).find("strong")[0].text == "some"
    done = parts_of([STARTED, TextDelta("It is **some**.\n"), TextDelta("\nMo"), TextDelta("re")])
    assert [part.kind for part in done] == ["prose", "tail", "foot"]
    assert parse(done[1].html).text == "More"
    assert parse(done[0].html).find("strong")[0].text == "some"


def test_a_blank_line_inside_a_code_fence_does_not_end_the_block() -> None:
    parts = parts_of([STARTED, TextDelta("```python\nx = 1\n\ny = 2\n"), TextDelta("```\n\n")])
    assert [part.kind for part in parts] == ["prose", "foot"]
    assert parse(parts[0].html).find("pre")[0].text == "x = 1\n\ny = 2"


def test_a_list_that_spans_blank_lines_becomes_one_list_when_the_message_is_whole() -> None:
    text = "First:\n\n1. a\n\n2. b\n\nThen done."
    parts = parts_of([STARTED, *(TextDelta(one) for one in text), said(text)])
    root = parse("".join(part.html for part in parts))
    assert [len(one.find("li")) for one in root.find("ol")] == [2]
    assert [part.kind for part in parts] == ["prose", "prose", "prose", "foot"]


def test_a_link_named_at_the_end_works_at_the_beginning_when_the_message_is_whole() -> None:
    text = "See [the page][1].\n\nMore.\n\n[1]: https://a.example/x"
    parts = parts_of([STARTED, *(TextDelta(one) for one in text), said(text)])
    links = parse("".join(part.html for part in parts)).find("a")
    assert [link.attributes["href"] for link in links] == ["https://a.example/x"]


def test_blocks_that_stay_as_they_were_are_not_sent_again() -> None:
    text = "One.\n\nTwo.\n\nThree."
    folded = transcript([STARTED, TextDelta(text)])
    html = [patch for patch in folded.apply(said(text)) if "html" in patch and patch["kind"] != "foot"]
    assert [parse(patch["html"]).text.strip() for patch in html] == ["Three."]


def test_a_message_that_did_not_stream_is_shown_whole() -> None:
    assert "<p>Hello.</p>" in live([STARTED, said("Hello.")])


def test_a_message_that_differs_from_its_pieces_takes_their_place() -> None:
    parts = parts_of([STARTED, TextDelta("a\n\nb\n\nc"), said("other")])
    assert [parse(part.html).text.strip() for part in parts[:-1]] == ["other"]


def test_the_whole_message_looks_the_same_however_it_came() -> None:
    text = "# T\n\n- a\n\n  b\n\n> q\n\n| a |\n|---|\n| 1 |\n\n~~~\n\n~~~\n\n1. x\n\n   y\n\n$a$ [r]\n\n[r]: https://r.example/"
    whole = "".join(parse(part.html).text for part in parts_of([STARTED, said(text)])[:-1])
    shuffle = random.Random(7)
    for _ in range(50):
        cuts = sorted(shuffle.sample(range(1, len(text)), 12))
        pieces = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        parts = parts_of([STARTED, *map(TextDelta, pieces), said(text)])
        assert "".join(parse(part.html).text for part in parts[:-1]) == whole


@pytest.mark.parametrize(("first", "second"), [("a\x1b[3", "1mred\x1b[0m"), ("a\r", "\nred"), ("a\x1b", "[31mred")])
def test_a_colour_or_line_end_cut_in_two_is_no_escape(first: str, second: str) -> None:
    (tail, _) = parts_of([STARTED, TextDelta(first), TextDelta(second)])
    assert parse(tail.html).text.replace("\n", "") == "ared"


def test_a_cut_answer_keeps_its_text_and_says_so() -> None:
    events: list[Event] = [
        STARTED,
        TextDelta("Half an"),
        said("Half an", in_history=False),
        finished("error", error="Gone."),
    ]
    html = live(events)
    assert "Half an" in html
    assert "ended early" in html


def test_an_answer_without_its_message_is_cut() -> None:
    html = live([STARTED, TextDelta("Half *an*"), finished("interrupted")])
    assert "<em>an</em>" in html
    assert "ended early" in html


def test_an_answer_at_the_output_limit_says_so() -> None:
    assert "output limit" in live([STARTED, said("Long", stop_reason="length")])


def test_thinking_is_a_quiet_step_that_opens_to_the_thoughts() -> None:
    thinking: list[Event] = [STARTED, ReasoningDelta("Let me"), ReasoningDelta(" see")]
    assert word(step_of(thinking), "vibe-what") == "Thinking"
    spoken = AssistantMessage(parts=(ReasoningPart(text="Let me see"), TextPart(text="Yes.")), stop_reason="stop")
    events: list[Event] = [*thinking, TextDelta("Yes."), MessageAdded(message=spoken)]
    assert [part.kind for part in parts_of(events)] == ["step", "prose", "foot"]
    step = step_of(events)
    assert word(step, "vibe-what") == "Thought"
    assert word(step, "vibe-came") == "Let me see"
    assert step.find("pre", class_="vibe-output")[0].text == "Let me see"


@pytest.mark.requirement("ui.words")
@pytest.mark.parametrize(("seconds", "said"), [(3.6, "3.6 s"), (75, "1 min 15 s")])
def test_a_thought_says_how_long_it_took_without_the_time_of_the_answer(seconds: float, said: str) -> None:
    now = 0.0
    folded = Transcript(lambda: now)
    spoken = AssistantMessage(parts=(ReasoningPart(text="Let me see"), TextPart(text="Yes.")), stop_reason="stop")
    timed = [(0.0, ReasoningDelta("Let me")), (seconds, ReasoningDelta(" see")), (99.0, MessageAdded(message=spoken))]
    folded.apply(STARTED)
    for now, event in timed:  # noqa: B007 - the clock's
        folded.apply(event)
    assert word(parse(folded.parts()[0].html), "vibe-time") == said
    folded.apply(finished())
    assert said in str(folded.bundle()["text/html"])
    untimed = Transcript(lambda: now, keep=RunRetention(times=False))
    for now, event in [(0.0, STARTED), *timed, (99.0, finished())]:  # noqa: B007
        untimed.apply(event)
    assert said not in str(untimed.bundle()["text/html"])


def test_thoughts_the_server_keeps_to_itself_leave_no_step() -> None:
    assert [part.kind for part in parts_of([STARTED, ReasoningDelta("x"), said("Yes.")])] == ["prose", "foot"]


def test_a_call_being_written_is_one_quiet_line_until_it_is_whole() -> None:
    writing: list[Event] = [STARTED, ToolCallDelta(0, "run_code", '{"co'), ToolCallDelta(0, "run_code", 'de": "x"}')]
    assert word(step_of(writing), "vibe-what") == "Writing code"
    assert [part.kind for part in parts_of([*writing, said("", code_call())])] == ["foot"]


# ---- steps ----


@pytest.mark.requirement("ui.stream.tool-cards")
def test_a_step_names_verb_target_outcome_and_seconds_and_opens_to_code_and_output() -> None:
    step = step_of([STARTED, code_started(), code_finished()])
    assert step.find("details", data_outcome="ok") != []
    assert word(step, "vibe-what") == "Ran code fit a line per species"
    assert word(step, "vibe-came") == "1 line"
    assert word(step, "vibe-time") == "0.2 s"
    assert step.find("pre", class_="vibe-code")[0].text.strip() == CODE
    assert step.find("pre", class_="vibe-output")[0].text == "slope 1.5"


def test_what_a_sub_agent_does_stands_below_the_call_it_works_for_in_the_order_it_was_done() -> None:
    folded = transcript([STARTED])
    shown = folded.parts()
    began = [code_started("a"), code_started("b"), code_started("b/1"), *inspected("a/1"), *inspected("b/2")]
    for event in [*began, *inspected("b/3"), asked("a/2"), code_finished("b/1"), code_finished("a"), code_started("c")]:
        shown = page(message(folded.apply(event)), shown)
        assert shown == folded.parts()
    assert [part.kind for part in shown] == ["step", "step", "card", "step", "step", "step", "step", "foot"]
    looks = [part.html.split('"')[1] for part in shown if part.kind == "step"]
    inner = "vibe-step vibe-nested"
    assert looks == ["vibe-step", inner, "vibe-step", inner, "vibe-step vibe-group vibe-nested", "vibe-step"]


def test_a_step_without_detail_does_not_open() -> None:
    started, _ = inspected()
    step = step_of([STARTED, started])
    assert step.find("details") == []
    assert word(step, "vibe-what") == "Inspecting penguins"


def test_a_preview_in_words_does_not_repeat_the_line() -> None:
    started = code_started().model_copy(update={"preview": Preview(kind="text", text="Read a.csv and send it.")})
    assert step_of([STARTED, started]).find("details") == []


def test_a_running_step_shows_what_was_printed_so_far() -> None:
    progress = [ToolProgress(call_id="c1", text=f"line {number}\n") for number in range(3)]
    step = step_of([STARTED, code_started(), *progress])
    assert step.find("details", data_outcome="running") != []
    assert step.find("pre", class_="vibe-output")[0].text == "line 0\nline 1\nline 2"


@pytest.mark.parametrize("over", [-1, 0, 1, PROGRESS_LIMIT])
def test_of_long_output_of_a_running_step_the_end_is_shown(over: int) -> None:
    size = PROGRESS_LIMIT // 2
    pieces = ["begin" + "a" * (size - 5), "b" * (size + over - 3) + "end"]
    step = step_of([STARTED, code_started(), *(ToolProgress(call_id="c1", text=one) for one in pieces)])
    assert step.find("pre", class_="vibe-output")[0].text == "".join(pieces)[-PROGRESS_LIMIT:]


@pytest.mark.requirement("ui.approval.trial.late")
@pytest.mark.parametrize("late", [{"text": "printed in the try"}, {"text": "half", "done": 1.0, "total": 2.0}])
def test_a_card_stays_where_its_call_is_said_to_go_on(late: dict[str, object]) -> None:
    tried = code_started().model_copy(update={"trial": True})
    progress = ToolProgress.model_validate({"call_id": "c1", **late})
    shown = live([STARTED, tried, progress, asked(), progress])
    assert parse(shown).find("section", class_="vibe-card") != []
    allowed = live([STARTED, tried, asked(), progress, resolved(), code_started()])
    assert "printed in the try" not in allowed


def test_code_that_the_display_repeats_is_shown_once() -> None:
    display = {"text/x-python": CODE, "text/plain": "1"}
    step = step_of([STARTED, code_started(), code_finished(output="", display=display)])
    assert len(step.find("pre", class_="vibe-code")) == 1


def test_a_table_is_drawn_as_one() -> None:
    step = step_of([STARTED, *inspected()])
    cells = [[cell.text for cell in row if cell.name in ("td", "th")] for row in step.find("tr")]
    assert cells == [list(TABLE.columns), *map(list, TABLE.rows)]


def test_a_long_output_is_cut_in_the_middle_and_says_so() -> None:
    output = f"begin\n{'x' * 100_000}\nend"
    (shown,) = step_of([STARTED, code_started(), code_finished(output=output)]).find("pre", class_="vibe-output")
    assert len(shown.text) < 21_000
    assert shown.text.startswith("begin")
    assert shown.text.endswith("end")
    assert "characters left out" in shown.text


@pytest.mark.requirement("ui.theme.light-dark")
@pytest.mark.parametrize(
    ("outcome", "summary", "said"),
    [
        ("error", "KeyError: 'x'", "KeyError: 'x'"),
        ("error", "", "failed"),
        ("denied", "not now", "denied · not now"),
        ("interrupted", "", "interrupted"),
        ("interrupted", "interrupted", "interrupted"),
    ],
)
def test_an_outcome_that_is_no_success_is_said_in_words(outcome: str, summary: str, said: str) -> None:
    step = step_of([STARTED, code_finished(outcome=outcome, summary=summary, output="")])
    assert word(step, "vibe-came") == said
    assert step.find("div", data_outcome=outcome) != []


def test_a_call_that_never_ran_has_no_seconds() -> None:
    step = step_of([STARTED, code_finished(outcome="denied", seconds=0.0)])
    assert word(step, "vibe-time") == ""


def test_two_messages_may_use_the_same_call_id() -> None:
    one: list[Event] = [said("", code_call("0"), stop_reason="tool_calls"), code_started("0"), code_finished("0")]
    assert [part.kind for part in parts_of([STARTED, *one, *one])] == ["step", "step", "foot"]


# ---- approvals ----


def test_the_card_gives_way_to_the_step_in_its_place() -> None:
    events: list[Event] = [STARTED, asked("c1"), Notice(level="info", text="meanwhile")]
    kinds = [[part.kind for part in parts_of(events)]]
    kinds.append([part.kind for part in parts_of([*events, resolved()])])
    assert kinds == [["card", "notice", "foot"], ["step", "notice", "foot"]]


@pytest.mark.requirement("ui.approval.whole")
def test_code_edited_by_the_person_is_what_the_step_shows() -> None:
    arguments = json.dumps({"code": "print('mine')"})
    step = step_of(
        [STARTED, asked(), resolved(arguments=arguments), code_started(code="print('mine')"), code_finished()]
    )
    assert step.find("pre", class_="vibe-code")[0].text.strip() == "print('mine')"
    assert word(step, "vibe-came") == "edited by you · 1 line"


def test_a_denial_shows_the_persons_words() -> None:
    step = step_of([STARTED, asked(), resolved(allowed=False, message="use the other file")])
    assert word(step, "vibe-came") == "denied · use the other file"


def test_a_denial_without_a_person_says_so() -> None:
    step = step_of([STARTED, asked(), resolved(allowed=False, by="nobody")])
    assert word(step, "vibe-came") == "denied · non-interactive session"


@pytest.mark.requirement("reply.written.calls")
def test_the_tooltip_of_the_foot_counts_calls_that_came_in_another_way() -> None:
    def answered(*marks: str) -> MessageAdded:
        calls = (ToolCall(id=str(n), name="bash", arguments="{}", mark=mark) for n, mark in enumerate(marks))
        return MessageAdded(message=AssistantMessage(parts=tuple(calls), stop_reason="tool_calls"))

    odd = [answered("written as text", ""), answered("repaired: name", "repaired: line ends", "written as text")]
    foot = parse(parts_of([STARTED, *odd])[-1].html)
    tip = foot.find("div", data_state="working")[0].attributes["title"]
    assert tip == "Model server: api.mistral.ai; 2 calls written as text; 2 calls repaired"


@pytest.mark.requirement("ui.footer.usage")
def test_the_foot_says_how_the_run_stands() -> None:
    def foot(*events: Event) -> Element:
        return parse(parts_of([STARTED, *events])[-1].html)

    working = foot(TurnStarted(turn=3))
    assert [one.text for one in working.find("span")] == [
        "Working",
        "0 s",
        "devstral-2",
        "turn 3",
        "",
    ]
    assert working.find("div", data_state="working")[0].attributes["title"] == "Model server: api.mistral.ai"
    waiting = foot(TurnStarted(turn=3), asked())
    assert waiting.find("div", data_state="waiting")[0].find("span")[0].text == "Waiting for you"
    assert waiting.find("button", data_vibe_action="stop") != []
    assert foot(asked(), resolved()).find("div", data_state="working") != []
    done = foot(finished())
    facts = [one.text for one in done.find("span")]
    assert facts == [
        "Done",
        "21 s",
        "devstral-2",
        "2 turns",
        "6.3k tokens in, 5.1k cached, 900 out",
        "",
    ]
    assert done.find("button") == []


def test_a_page_loaded_anew_is_told_the_seconds_as_they_are_now() -> None:
    now = 100.0
    shown = Transcript(lambda: now)
    assert [part.kind for part in shown.parts()] == ["foot"]
    shown.apply(STARTED)
    now = 175.5
    foot = parse(shown.parts()[-1].html)
    assert foot.find("span", class_="vibe-clock")[0].attributes["data-vibe-clock"] == "75.5"
    shown.apply(finished(seconds=80.0))
    now = 900.0
    assert "1 min 20 s" in parse(shown.parts()[-1].html).text


def test_a_page_hears_of_the_foot_only_when_it_says_something_new() -> None:
    shown = transcript([STARTED, TurnStarted(turn=1)])
    assert shown.apply(RequestSent()) == []
    assert [patch["id"] for patch in shown.apply(TurnStarted(turn=2))] == ["foot"]


@pytest.mark.requirement("view.foot.silence")
def test_the_foot_says_what_it_waits_for_and_how_long_the_server_was_silent() -> None:
    now = 100.0
    shown = Transcript(lambda: now)
    for event in (STARTED, TurnStarted(turn=1), RequestSent()):
        shown.apply(event)
    assert shown.apply(AnswerAwaited(has_begun=False, seconds=5.0, limit=600.0))[-1]["id"] == "foot"
    assert "Waiting for the model's first word" in shown.foot_line
    assert "silent for 5.0 s, gives up after 600 s" in shown.foot_line
    now = 109.0
    foot = parse(shown.parts()[-1].html)
    silence = foot.find("span", class_="vibe-silence")[0]
    assert silence.text == "silent for 14 s, gives up after 600 s"
    assert silence.find("span")[-1].attributes["data-vibe-running"] == "14.0"
    patches = shown.apply(TextDelta("Hello"))
    assert "Working" in next(patch.get("html", "") for patch in patches if patch["id"] == "foot")
    shown.apply(AnswerAwaited(has_begun=True, seconds=5.0, limit=None))
    foot = parse(shown.parts()[-1].html)
    assert "Waiting for more of the answer" in foot.text
    assert "gives up" not in foot.text
    shown.apply(ReasoningDelta("hm"))
    assert "vibe-silence" not in shown.parts()[-1].html


def test_the_foot_names_a_price_only_where_it_is_known() -> None:
    assert "$0.004" in parse(live([STARTED, finished(cost=0.004)])).text
    assert "$" not in live([STARTED, finished()])


def test_tokens_add_up_while_the_run_goes_on() -> None:
    usage = Usage(prompt_tokens=2_000, completion_tokens=50)
    spoken = AssistantMessage(parts=(TextPart(text="x"),), stop_reason="stop", usage=usage)
    assert "4.1k tokens" in live([STARTED, MessageAdded(message=spoken), MessageAdded(message=spoken)])


@pytest.mark.parametrize(
    ("reason", "state", "words"),
    [
        ("stop", "done", "Done"),
        ("length", "stopped", "Truncated (token limit)"),
        ("turn_limit", "stopped", "Stopped at the turn limit"),
        ("interrupted", "stopped", "Stopped"),
        ("refused", "failed", "Refused"),
        ("error", "failed", "Failed"),
    ],
)
def test_every_end_has_its_state_and_word(reason: str, state: str, words: str) -> None:
    foot = parse(parts_of([STARTED, finished(reason)])[-1].html)
    assert foot.find("div", data_state=state)[0].find("span", class_="vibe-state")[0].text == words


def test_a_run_ended_by_denials_names_them_and_no_filter_of_a_server() -> None:
    assert "denied repeatedly" in live([STARTED, finished("refused")])


def test_an_error_says_what_happened_in_bold_and_then_the_next_step() -> None:
    error = "The model server refused the key (401). Set a new one in `MISTRAL_API_KEY`, then run this cell again."
    (part,) = [part for part in parts_of([STARTED, finished("error", error=error)]) if part.kind == "error"]
    box = parse(part.html)
    assert box.find("b")[0].text == "The model server refused the key (401)."
    assert box.find("code")[0].text == "MISTRAL_API_KEY"
    assert box.find("div", role="alert")[0].text == error.replace("`", "")


def test_a_call_cut_off_while_its_card_waited_is_not_said_to_have_run() -> None:
    resolved = ApprovalResolved(approval_id="approval-c1", call_id="c1", allowed=False, by="interrupt")
    ended = code_finished("c1", "interrupted", seconds=0)
    html = live([STARTED, asked("c1"), resolved, ended, finished("interrupted")])
    assert "Run code" in html
    assert "Ran code" not in html


def test_a_call_refused_for_its_arguments_is_not_said_to_have_run() -> None:
    html = live([STARTED, code_finished("c1", "error", output="", summary="Wrong arguments", seconds=0)])
    assert "Run code" in html
    assert "Ran code" not in html


def test_what_was_open_at_the_end_was_interrupted() -> None:
    root = parse(live([STARTED, code_started("c1"), asked("c2"), finished("interrupted")]))
    assert [one.attributes["data-outcome"] for one in root.find("details")] == ["interrupted", "interrupted"]
    assert root.find("section") == []


# ---- patches ----

_IDS = st.sampled_from(["c0", "c1"])
_TEXTS = st.text(alphabet="ab`*-1.| \n\r\x1b[31m#~$\\\u202e", max_size=12)
_EVENTS = st.one_of(
    st.builds(TextDelta, _TEXTS),
    st.builds(ReasoningDelta, _TEXTS),
    st.builds(ToolCallDelta, st.just(0), st.sampled_from(["", "run_code", "grep"]), st.just("x")),
    st.builds(said, _TEXTS.filter(bool), in_history=st.booleans()),
    st.builds(asked, _IDS),
    st.builds(resolved, _IDS, allowed=st.booleans(), message=_TEXTS),
    st.builds(code_started, _IDS),
    st.builds(ToolProgress, call_id=_IDS, text=_TEXTS),
    st.builds(code_finished, _IDS, st.sampled_from(["ok", "error", "denied", "interrupted"]), _TEXTS),
    st.builds(Notice, level=st.sampled_from(["info", "warning"]), text=_TEXTS),
    st.builds(TurnStarted, turn=st.integers(1, 9)),
    st.builds(finished, st.sampled_from(["stop", "error", "interrupted"])),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(_EVENTS, max_size=30), st.integers(0, 30))
def test_a_page_that_applies_every_patch_shows_the_parts(events: list[Event], loaded: int) -> None:
    folded = Transcript(lambda: 0.0)
    patches: list[ViewPatch] = []
    snapshot: list[ViewPart] = []
    later: list[ViewPatch] = []
    for number, event in enumerate([STARTED, *events]):
        if number == loaded:
            snapshot = folded.parts()
        new = folded.apply(event)
        patches += new
        later += new if number >= loaded else []
    assert page(patches) == folded.parts()
    assert page(later, snapshot) == folded.parts() or loaded > len(events)
    assert page(message(patches)) == folded.parts()


@settings(max_examples=70, deadline=None)
@given(st.lists(_TEXTS, max_size=20))
def test_an_answer_ends_the_same_streamed_and_whole(pieces: list[str]) -> None:
    text = "".join(pieces)
    streamed = parts_of([STARTED, *map(TextDelta, pieces), *([said(text)] if text else [])])
    whole = parts_of([STARTED, *([said(text)] if text else [])])
    assert _inner(streamed) == _inner(whole)


def _inner(parts: list[ViewPart]) -> str:
    """The prose without the elements that hold its pieces."""
    opening, closing = '<div class="vibe-prose">', "</div>"
    return "".join(part.html.removeprefix(opening).removesuffix(closing) for part in parts if part.kind == "prose")


def _long_answer(kind: str) -> str:
    shuffle = random.Random(11)
    plain = [
        "the",
        "mean",
        "length",
        "of",
        "a",
        "bill",
        "is",
        "above",
        "43.9",
        "mm",
        "in",
        "each",
        "of",
        "these",
        "years",
    ]
    marked = ["**mean**", "`bill_length_mm`", "_every_"]
    blocks: list[str] = []
    while sum(map(len, blocks)) < ANSWER_SIZE:
        line = " ".join(shuffle.choice(marked if shuffle.random() < MARKED else plain) for _ in range(60)) + "."
        code = "```python\nfor name, g in df.groupby('species'):\n    print(name, 1.5)  # mm\n\nprint('done')\n```"
        table = "| a | b |\n|---|---|\n" + "\n".join(f"| {row} | {row * 3} |" for row in range(8))
        choices = {"mixed": [*[line] * 6, code, table, f"- {line}\n- {line}"], "loose list": [f"- {line}"]}
        blocks.append(shuffle.choice(choices[kind]))
    return "\n\n".join(blocks)[:ANSWER_SIZE]


def _size(patches: list[ViewPatch]) -> int:
    return len(json.dumps(patches, ensure_ascii=False))


@pytest.mark.parametrize("kind", ["mixed", "loose list"])
def test_a_long_answer_costs_the_page_at_most_three_times_its_text(kind: str) -> None:
    text = _long_answer(kind)
    edges = [round(number * len(text) / DELTAS) for number in range(DELTAS + 1)]
    pieces = [text[begin:end] for begin, end in pairwise(edges)]
    folded = transcript([STARTED])
    sent = 0
    outbox = PatchOutbox()
    for number, piece in enumerate(pieces, 1):
        outbox.add(folded.apply(TextDelta(piece)))
        if number % FLUSH == 0:
            sent += _size(outbox.take())
    sent += _size(message(folded.apply(said(text)), outbox))
    assert sent / len(text) <= MAX_PAYLOAD, f"{sent / len(text):.2f} times the text"


def test_the_whole_run_ends_as_steps_and_an_answer() -> None:
    kinds = [part.kind for part in parts_of(whole_run())]
    assert kinds == ["prose", "step", "step", "prose", "foot"]
    assert transcript(whole_run()).answer_text.startswith("**Gentoo bills")


def test_the_foot_names_an_agent_that_is_not_the_usual_one() -> None:
    assert "agent" not in live([STARTED])
    assert "agent plan" in live([STARTED.model_copy(update={"agent": "plan"})])


def test_the_foot_has_a_bar_for_the_context_with_the_figure_beside_it() -> None:
    (foot,) = parse(parts_of([STARTED, TurnStarted(turn=1, context=0.14)])[-1].html).find("span", class_="vibe-context")
    assert foot.text == "14% context"
    (bar,) = foot.find("progress")
    assert (bar.attributes["value"], bar.attributes["aria-hidden"]) == ("0.14", "true")
    assert parse(parts_of([STARTED, TurnStarted(turn=1)])[-1].html).find("progress") == []


def test_no_step_in_the_document_says_that_it_goes_on() -> None:
    running = transcript([STARTED, asked(), resolved(), code_started()])
    assert "Running code" in "".join(part.html for part in running.parts())
    assert "Ran code fit a line per species  not finished" in parse(str(running.held()["text/html"])).text
    waiting = transcript([STARTED, asked()])
    assert "Run code fit a line per species  not run" in parse(str(waiting.held()["text/html"])).text


@pytest.mark.requirement("ui.static.not-run")
def test_a_step_that_never_ran_is_not_counted_as_done() -> None:
    def tally(*events: Event) -> str:
        html = parse(str(transcript([STARTED, *inspected(), *events]).held()["text/html"])).text
        return next(line for line in html.splitlines() if "2 steps" in line)

    assert "1 not run" in tally(asked())
    assert "ran code" not in tally(asked())
    assert "1 not finished" in tally(asked(), resolved(), code_started())
    assert "1 not run" in tally(asked(), finished("interrupted"))


def test_a_run_that_is_not_over_in_the_document_says_how_to_go_on_and_no_other_does() -> None:
    folded = transcript([STARTED, *inspected()])
    assert NOT_OVER_NOTE in parse(str(folded.held()["text/html"])).text
    folded.apply(finished("interrupted"))
    html = str(folded.bundle()["text/html"])
    assert NOT_OVER_NOTE not in html
    assert "○ Stopped" in parse(html).text
