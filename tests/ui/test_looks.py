"""What is written into the HTML for the eye: directions, room for pictures, the last word of what runs."""

import pytest

from tests.ui.dom import Element, parse
from tests.ui.runs import STARTED, code_started, finished, kept, live, said
from tests.ui.scenes import ENDS, FILE_DIFF, picture
from vibe_jupyter.protocol import ToolProgress
from vibe_jupyter.ui.code import KEPT_CHANGES, KEPT_LEFT, KEPT_LINK, KEPT_RIGHT, KEPT_WORD

ARABIC = "طيور البطريق `bill`"


def answers(text: str) -> tuple[Element, Element]:
    """The same text in the live view and as it is kept."""
    return parse(live([STARTED, said(text)])), parse(kept([STARTED, said(text), finished()])["text/html"])


@pytest.mark.parametrize(
    ("text", "name"), [(ARABIC, "p"), (f"## {ARABIC}", "h4"), (f"- {ARABIC}", "ul"), (f"> {ARABIC}", "blockquote")]
)
def test_a_block_that_begins_from_the_right_is_set_from_there(text: str, name: str) -> None:
    for root in answers(text):
        assert root.find(name)[0].attributes["dir"] == "rtl"


def test_a_paragraph_that_is_kept_stands_right_where_jupyterlab_would_have_it_left() -> None:
    live_root, kept_root = answers(ARABIC)
    assert kept_root.find("p")[0].attributes["style"] == KEPT_RIGHT
    assert "style" not in live_root.find("p")[0].attributes


def test_one_foreign_word_does_not_turn_a_line_around() -> None:
    for root in answers("The word جنتو is Arabic."):
        assert "dir" not in root.find("p")[0].attributes


def test_numbers_of_a_table_stand_as_the_table_says() -> None:
    live_root, kept_root = answers("| a | b |\n|:--|--:|\n| x | 1 |")
    assert [cell.attributes.get("align") for cell in live_root.find("td")] == ["left", "right"]
    assert [cell.attributes["style"] for cell in kept_root.find("td")] == [KEPT_LEFT, KEPT_RIGHT]


def test_a_link_is_underlined_where_no_stylesheet_is() -> None:
    (link,) = answers("[a](https://a.example)")[1].find("a")
    assert link.attributes["style"] == KEPT_LINK


def test_the_page_leaves_room_for_a_picture_before_it_is_drawn() -> None:
    (image,) = answers(f"![a slope](data:image/png;base64,{picture(240, 120)})")[0].find("img")
    assert (image.attributes["width"], image.attributes["height"]) == ("240", "120")


@pytest.mark.parametrize("body", ["", "AAAA", picture()[:20], picture(30_000, 1)])
def test_a_picture_that_does_not_say_a_size_gets_no_room(body: str) -> None:
    images = answers(f"![x](data:image/png;base64,{body})")[0].find("img")
    assert all("width" not in image.attributes for image in images)


def test_a_running_step_shows_the_last_line_it_printed() -> None:
    lines = [ToolProgress(call_id="c1", text="epoch 1\nepoch 2: loss 0.4\n")]
    (came,) = parse(live([STARTED, code_started(), *lines])).find("span", class_="vibe-came")
    assert came.text == "epoch 2: loss 0.4"


def test_a_change_is_kept_with_its_signs_and_shown_once() -> None:
    root = parse(kept(ENDS["edited"])["text/html"])
    (change,) = [pre for pre in root.find("pre") if "+check(line_10)" in pre.text]
    assert "-line_10 = load(10)" in change.text
    assert "@@" not in change.text
    tints = {(span.attributes.get("style"), span.text[0]) for span in change.find("span") if span.text[0] in "+-"}
    assert tints == {(KEPT_CHANGES["add"], "+"), (KEPT_CHANGES["del"], "-")}
    marks = [span.text for span in change.find("span") if span.attributes.get("style") == KEPT_WORD]
    assert marks == ["  # as it was", ", cache=True"]
    assert FILE_DIFF.count("+check(line_10)") == 1
