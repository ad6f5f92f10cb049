"""The approval card: everything a call will do is on it, and only the answers that are offered."""

import difflib
import html
import json
import re
from html.parser import HTMLParser

import pytest

from tests.ui.dom import Element, parse
from tests.ui.runs import CODE, RAN, STARTED, asked, code_call, live
from vibe_jupyter.protocol import Effect, Event, Preview, Review, ToolCall
from vibe_jupyter.ui.cards import STILL_ASKED
from vibe_jupyter.ui.review_card import review_html


def card(*events: Event) -> Element:
    (section,) = parse(live([STARTED, *events])).find("section")
    return section


def actions(section: Element) -> list[str]:
    return [button.attributes["data-vibe-action"] for button in section.find("button")]


@pytest.mark.requirement("ui.approval.choices")
def test_the_card_offers_once_session_edit_and_deny_with_a_message() -> None:
    section = card(asked())
    assert actions(section) == ["approve", "approve-session", "edit", "deny", "deny-now"]
    assert section.find("div", class_="vibe-deny")[0].find("input", type="text") != []
    assert section.attributes["data-vibe-approval"] == "approval-c1"
    assert section.attributes["aria-label"] == "Approval: Run code"


def test_the_header_says_what_and_why() -> None:
    (header,) = card(asked()).find("header")
    assert [(one.name, one.text) for one in header if one.text and one is not header] == [
        ("b", "Run code"),
        ("span", "fit a line per species"),
        ("span", "Runs code in this kernel"),
    ]


def test_what_is_not_offered_has_no_button() -> None:
    preview = Preview(kind="command", text="ls -l")
    assert actions(card(asked(remember_as=None, preview=preview))) == ["approve", "deny", "deny-now"]


@pytest.mark.requirement("notebook.run_code.approval", "ui.approval.whole")
def test_a_session_grant_on_code_says_what_it_means() -> None:
    section = card(asked())
    assert "lets the agent run any code" in section.find("p", class_="vibe-hint")[0].text
    assert card(asked(remember_as=None)).find("p", class_="vibe-hint") == []


@pytest.mark.parametrize(
    ("granted", "words"),
    [
        ("bash: git log", "“For this session” allows git log"),
        ("edit_cell", f"“For this session” allows cell edits until the kernel restarts. {STILL_ASKED}"),
        (
            "edit_cell+move_cells",
            f"“For this session” allows cell edits and moving cells until the kernel restarts. {STILL_ASKED}",
        ),
        ("measure", f"“For this session” allows all calls of measure until the kernel restarts. {STILL_ASKED}"),
    ],
)
def test_a_session_grant_on_something_else_says_what_it_covers(granted: str, words: str) -> None:
    (hint,) = card(asked(resources=(), remember_as=granted)).find("p", class_="vibe-hint")
    assert hint.text == words


def test_what_may_be_kept_for_the_project_says_how_it_is_taken_back() -> None:
    section = card(asked(resources=(), remember_as="mkdir out", keepable=True))
    assert actions(section)[:3] == ["approve", "approve-session", "approve-project"]
    assert [hint.text for hint in section.find("p", class_="vibe-hint")] == [
        "“For this session” allows mkdir out",
        "“In this project” is saved until you revoke it: %vibe permissions.",
    ]


@pytest.mark.requirement("ui.approval.whole")
def test_the_whole_code_is_on_the_card_line_by_line() -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(500))
    section = card(asked(code=code))
    lines = section.find("span", class_="vibe-line")
    assert "".join(line.text for line in lines) == code + "\n"
    assert len(lines) == 500
    assert f"500 lines, {len(code):,} characters" in section.find("header")[0].text


def test_short_code_has_no_size() -> None:
    assert "lines" not in card(asked()).find("header")[0].text


def test_code_has_the_four_colours() -> None:
    colours = {
        (span.attributes["class"], span.text)
        for span in card(asked()).find("code")[0]
        if span.attributes.get("class", "").startswith("vibe-") and span.attributes["class"] != "vibe-line"
    }
    assert colours == {
        ("vibe-k", "from"),
        ("vibe-k", "import"),
        ("vibe-s", "'slope'"),
        ("vibe-m", "1.5"),
        ("vibe-c", "# mm, g"),
    }


Line = tuple[str | None, str | None, str]
"""What changed, the number, the text."""


def diff_lines(diff: str, **fields: str) -> list[Line]:
    lines = card(asked(preview=Preview(kind="diff", text=diff, **fields))).find("span", class_="vibe-line")
    return [(line.attributes.get("data-change"), numbers(line), line.text[:-1]) for line in lines]


def numbers(line: Element) -> str | None:
    """The old number and the new one, as they stand in their columns."""
    before, now = line.attributes.get("data-o"), line.attributes.get("data-n")
    return None if before is None and now is None else f"{before or '-'} {now or '-'}"


def test_a_diff_marks_its_lines_and_leaves_their_sign_to_the_view() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n y = 1\n-x = 1\n+x = 2\n@@ -9,2 +9,1 @@\n z = 1\n--- a comment"
    assert diff_lines(diff) == [
        ("name", None, "x"),
        ("same", "1 1", "y = 1"),
        ("del", "2 -", "x = 1"),
        ("add", "- 2", "x = 2"),
        ("gap", None, "6 unchanged lines"),
        ("same", "9 9", "z = 1"),
        ("del", "10 -", "-- a comment"),
    ]


def words_marked(diff: str) -> list[str]:
    return [span.text for span in card(asked(preview=Preview(kind="diff", text=diff))).find("span", class_="vibe-word")]


def test_words_that_changed_are_marked_in_lines_that_are_alike() -> None:
    diff = (
        '@@ -1,2 +1,3 @@\n-df = df.dropna(how="all")\n-return x\n+df = df.dropna(subset="all")\n+total = 1\n+return y'
    )
    assert words_marked(diff) == ["how", "x", "subset", "y"]


def test_lines_that_have_little_in_common_have_no_marks() -> None:
    assert words_marked("@@ -1 +1 @@\n-import numpy as np\n+total = sum(values)") == []
    assert words_marked("@@ -1 +1 @@\n-same\n+same") == []


def test_marks_stand_within_the_colours_of_the_code() -> None:
    preview = Preview(kind="diff", text="@@ -1 +1 @@\n-x = 'old text'\n+x = 'new text'", language="python")
    words = card(asked(preview=preview)).find("span", class_="vibe-word")
    assert [
        [(one.attributes["class"], one.text) for one in word.find("span") if one is not word] for word in words
    ] == [
        [("vibe-s", "old")],
        [("vibe-s", "new")],
    ]


EFFECTS = (
    Effect(part="cd `x`", text="Changes to the folder `x`", tag="Harmless", risk="low"),
    Effect(
        part="rm -rf y", text="Deletes 1 folder", detail="Runs <b>only</b> if …", tag="Can't be undone", risk="high"
    ),
)


def high_card(reason: str = "runs code in this kernel") -> Element:
    return card(asked(risk="high", effects=EFFECTS, allow="Delete 14 files", remember_as=None, reason=reason))


def test_a_card_of_high_risk_says_what_each_part_does_and_offers_deny_first() -> None:
    section = high_card()
    (rows,) = section.find("ul", class_="vibe-effects")
    assert [(row.attributes["data-risk"], [child.text for child in row.find("span")]) for row in rows.find("li")] == [
        ("low", ["Changes to the folder x", "Harmless"]),
        ("high", ["Deletes 1 folder", "Can't be undone", "Runs <b>only</b> if …"]),
    ]
    assert [code.text for code in rows.find("code", class_="vibe-part")] == ["cd `x`", "rm -rf y"]
    assert actions(section) == ["deny", "edit", "approve", "deny-now"]
    assert section.find("footer")[0].find("button")[-1].text == "Delete 14 files"
    assert section.find("kbd")[-1].text != "⏎"
    assert section.attributes["data-risk"] == "high"
    assert section.attributes["aria-description"] == "High risk"
    assert section.find("span", class_="vibe-why")[0].text == "Can't be undone"
    assert "can't be allowed in advance" in section.find("p", class_="vibe-hint")[0].text


def test_a_card_of_high_risk_keeps_what_else_there_is_to_say() -> None:
    reason = "Names outside the project: /x · the agent sent this call 2 times: your answer holds for each"
    assert high_card(reason=reason).find("span", class_="vibe-why")[0].text == reason


def test_all_that_a_trial_run_showed_is_on_the_card() -> None:
    shown = "; ".join(f"frame_{number}: 1,078 → 1,067 rows, column revenue added" for number in range(6))
    reason = f"Changes your notebook · runs code · in a trial run: {shown}"
    assert high_card(reason=reason).find("span", class_="vibe-why")[0].text == reason


def test_a_card_that_only_reads_is_one_line() -> None:
    section = card(asked(risk="low", preview=Preview(kind="text", text="Read /x.csv."), remember_as=None))
    assert section.attributes["class"] == "vibe-card vibe-row"
    tall = card(asked(risk="low", preview=Preview(kind="text", text="a\nb"), remember_as=None))
    assert tall.attributes["class"] == "vibe-card"


def test_longer_permissions_stand_in_a_menu_that_says_what_they_cover() -> None:
    (menu,) = card(asked(resources=(), remember_as="edit_cell", keepable=True)).find("details", class_="vibe-menu")
    assert menu.find("summary")[0].text == "Always allow"
    assert [button.text for button in menu.find("button")] == ["Allow for this session", "Allow in this project"]
    assert STILL_ASKED in menu.text


@pytest.mark.parametrize(
    ("preview", "arguments", "text"),
    [
        (Preview(kind="diff", text="@@ -1 +1 @@\n-a\n+b", edits="source"), {"source": "b"}, "b"),
        (
            Preview(kind="diff", text="@@ cell [3] @@\n-a", edits="*"),
            {"cells": ["3"]},
            '{\n  "cells": [\n    "3"\n  ]\n}',
        ),
    ],
)
def test_what_a_diff_comes_from_can_be_edited(preview: Preview, arguments: dict[str, object], text: str) -> None:
    call = ToolCall(id="c1", name="edit", arguments=json.dumps(arguments))
    (editor,) = card(asked(call=call, preview=preview)).find("textarea")
    assert editor.text == f"\n{text}"


def test_a_diff_without_numbers_is_still_one() -> None:
    assert diff_lines("@@ cell [3] @@\n-x = 1\n-@@ y\n@@ cell [4] @@\n-") == [
        ("gap", None, "cell [3]"),
        ("del", None, "x = 1"),
        ("del", None, "@@ y"),
        ("gap", None, "cell [4]"),
        ("del", None, ""),
    ]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("--- /dev/null\n+++ b/new.py", "new.py: a new file"),
        ("--- a/old.py\n+++ /dev/null", "old.py: deleted"),
        ("--- a/old.py\n+++ b/new.py", "old.py → new.py"),
        ("--- notes.md\t2026-01-01\n+++ notes.md\t2026-01-02", "notes.md"),
    ],
)
def test_a_file_that_comes_goes_or_moves_says_so(names: str, words: str) -> None:
    assert diff_lines(f"{names}\n@@ -0,0 +1 @@\n+x")[0] == ("name", None, words)


def test_no_line_of_a_text_is_taken_for_the_head_of_another_file() -> None:
    lines = diff_lines("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n--- a/y\n-@@ -1 +1 @@\n+++ b/y\n+@@ z")
    assert [line[0] for line in lines] == ["name", "del", "del", "add", "add"]
    assert [line[2] for line in lines[1:]] == ["-- a/y", "@@ -1 +1 @@", "++ b/y", "@@ z"]


def test_a_line_that_only_ends_differently_shows_it() -> None:
    assert [line[2] for line in diff_lines("@@ -1 +1 @@\n-x = 1\r\n+x = 1")] == ["x = 1⟨U+000D⟩", "x = 1"]


def test_unchanged_lines_far_from_a_change_are_folded_and_still_there() -> None:
    old = [f"x{number} = {number}" for number in range(40)]
    new = [*old[:20], "x20 = 0", *old[21:]]
    diff = "\n".join(list(difflib.unified_diff(old, new, n=40, lineterm=""))[2:])
    section = card(asked(preview=Preview(kind="diff", text=diff)))
    folds = section.find("details", class_="vibe-same")
    assert [fold.find("summary")[0].text for fold in folds] == ["17 unchanged lines", "16 unchanged lines"]
    assert [line[2] for line in diff_lines(diff) if line[0] != "add"] == old
    (counts,) = section.find("span", class_="vibe-size")
    assert (counts.text, counts.attributes["aria-label"]) == ("+1 −1", "1 line added, 1 removed")


@pytest.mark.parametrize(
    ("preview", "shown"),
    [
        (Preview(kind="diff", text="@@ -1,4 +1,4 @@\n same\n-old = 1\n+\n+new = 1\n+more = 1"), "new = 1"),
        (Preview(kind="diff", text="@@ -1,2 +1,1 @@\n same\n-old = 1\n-older = 1"), "old = 1"),
        (Preview(kind="diff", text="@@ -1 +1 @@\n same"), None),
        (Preview(kind="code", text="\n  \nx = 1\ny = 2"), "x = 1"),
    ],
)
def test_a_row_of_several_changes_shows_the_first_line_that_is_new_or_else_that_goes(
    preview: Preview, shown: str | None
) -> None:
    request = asked(preview=preview)
    said = {"headline": request.headline.model_copy(update={"note": ""}), "review": Review(id="r1", size=2)}
    row = parse(str(review_html([request.model_copy(update=said)] * 2)))
    found = [one.text for one in row.find("code")]
    assert shown in found if shown is not None else "same" not in found


@pytest.mark.parametrize(
    ("before", "between", "behind", "folded"),
    [
        (9, 12, 9, []),
        (10, 12, 9, [7]),
        (9, 13, 9, [7]),
        (9, 12, 10, [7]),
        (11, 14, 12, [8, 8, 9]),
        (0, 30, 0, [24]),
    ],
)
def test_seven_unchanged_lines_are_folded_where_three_beside_each_change_stay(
    before: int, between: int, behind: int, folded: list[int]
) -> None:
    lines = [*[" same"] * before, "+new", *[" same"] * between, "-old", *[" same"] * behind]
    section = card(asked(preview=Preview(kind="diff", text="\n".join(["@@ -1,9 +1,9 @@", *lines]))))
    summaries = [fold.find("summary")[0].text for fold in section.find("details", class_="vibe-same")]
    assert summaries == [f"{number} unchanged lines" for number in folded]


def test_a_diff_keeps_the_colours_of_its_language() -> None:
    section = card(asked(preview=Preview(kind="diff", text="@@ -1 +1 @@\n-x = 1\n+x = 'one'", language="python")))
    assert [span.text for span in section.find("span", class_="vibe-m")] == ["1"]
    assert [span.text for span in section.find("span", class_="vibe-s")] == ["'one'"]


def test_what_is_said_in_words_is_no_code() -> None:
    section = card(asked(preview=Preview(kind="text", text="Read <x>,\nall lines."), remember_as=None))
    (words,) = section.find("div", class_="vibe-words")
    assert words.text == "Read <x>,\nall lines."
    assert section.find("pre") == []


@pytest.mark.parametrize("kind", ["code", "command", "diff"])
def test_written_out_characters_stand_out_and_odd_blanks_are_written_out(kind: str) -> None:
    section = card(asked(preview=Preview.model_validate({"kind": kind, "text": "+rm\u00a0-r \u202ex"})))
    assert [span.text for span in section.find("span", class_="vibe-hidden")] == ["⟨U+00A0⟩", "⟨U+202E⟩"]


@pytest.mark.parametrize(
    "code", [CODE, "\n\nx = 1\n", "a < b & 'c' > \"d\"", "</textarea><b>", "x = 1\n\n\n", " \tx\n\t"]
)
def test_the_editor_holds_exactly_the_code(code: str) -> None:
    section = card(asked(code=code))
    (editor,) = section.find("textarea")
    # The first line end is the one the parser drops.
    assert editor.text == "\n" + code
    assert section.attributes["data-vibe-edits"] == "code"


def test_code_that_is_not_what_the_call_says_cannot_be_edited() -> None:
    other = ToolCall(id="c1", name="run_code", arguments=json.dumps({"code": "something else"}))
    assert card(asked(call=other)).find("textarea") == []
    assert "edit" not in actions(card(asked(call=other.model_copy(update={"arguments": "{broken"}))))


@pytest.mark.requirement("ui.approval.whole")
def test_hidden_characters_are_written_out_and_keep_the_editor_shut() -> None:
    code = "x = 'a\u202eb'\u200b"
    section = card(asked(code=code))
    assert section.find("pre")[0].text.strip() == "x = 'a⟨U+202E⟩b'⟨U+200B⟩"
    assert section.find("textarea") == []
    assert "hidden characters" in section.find("p", class_="vibe-hint")[0].text


@pytest.mark.requirement("ui.approval.whole")
@pytest.mark.parametrize("kind", ["code", "command", "diff", "text"])
def test_letters_that_imitate_others_stand_out_and_keep_the_editor_shut(kind: str) -> None:
    code = "+from p\u0430th import \uff45\uff56\uff41\uff4c  # Путь, ρ_0"
    preview = Preview.model_validate({"kind": kind, "text": code, "edits": "code"})
    section = card(asked(code=code, preview=preview))
    for shown in ("p⟨U+0430⟩th", "⟨U+FF45⟩⟨U+FF56⟩⟨U+FF41⟩⟨U+FF4C⟩", "# Путь, ρ_0"):
        assert shown in section.text
    assert section.find("textarea") == []
    assert "look-alike letters" in section.find("p", class_="vibe-hint")[0].text


@pytest.mark.requirement("ui.approval.whole")
def test_a_file_whose_name_imitates_another_is_marked_in_the_title() -> None:
    section = card(asked(headline=RAN.model_copy(update={"asking": "Write", "target": "re\u0430dme.md"})))
    assert section.find("b")[0].text == "Write re⟨U+0430⟩dme.md"
    assert "look-alike letters" in section.find("p", class_="vibe-hint")[0].text


def test_blanks_cannot_push_a_tail_out_of_sight() -> None:
    section = card(asked(preview=Preview(kind="command", text=f"ls{' ' * 500}; rm -rf ~")))
    assert section.find("pre")[0].text.strip() == "ls⟨500 blanks⟩; rm -rf ~"


def test_a_return_does_not_hide_the_line_before_it() -> None:
    section = card(asked(preview=Preview(kind="command", text="rm -rf ~\rls")))
    assert section.find("pre")[0].text.strip() == "rm -rf ~⟨U+000D⟩ls"


def test_words_of_the_model_cannot_break_out_of_the_header() -> None:
    headline = RAN.model_copy(update={"asking": "Run\n" * 200, "note": "<b>x</b>" * 200})
    (header,) = card(asked(headline=headline)).find("header")
    assert all(len(child.text) <= 170 for child in header if child is not header)
    assert "\n" not in header.text


def test_the_card_parses_the_same_for_a_lenient_reader() -> None:
    """A browser's parser and ours agree on what the attributes hold."""
    shown = live([STARTED, asked(call=code_call("c1"), approval_id='x" onclick="y')])

    class Reader(HTMLParser):
        ids: list[str | None] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.ids += [value for key, value in attrs if key == "data-vibe-approval"]
            assert not any(key.startswith("on") for key, _ in attrs)

    reader = Reader()
    reader.feed(shown)
    assert reader.ids == ['x" onclick="y']
    assert re.search(r"\sonclick=", html.unescape(re.sub(r'"[^"]*"', "", shown))) is None
