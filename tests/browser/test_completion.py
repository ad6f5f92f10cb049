"""Completion in a prompt, as JupyterLab asks the kernel and puts the answer into the cell."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab

pytestmark = pytest.mark.browser

LOAD, WISH = 0, 1


@pytest.fixture
def wish(lab: Lab) -> Locator:
    """A cell to type in, the extension loaded."""
    lab.open("%load_ext vibe_jupyter\npenguin_count, penguins = 344, [1, 2]", "")
    lab.run(LOAD)
    lab.wait_for_count_above(LOAD, None)
    editor = lab.cell(WISH).locator(".cm-content")
    editor.click()
    return editor


def test_an_at_sign_offers_what_fits_and_enter_takes_it(lab: Lab, wish: Locator) -> None:
    offered = lab.page.locator(".jp-Completer-item")
    wish.press_sequentially("%%vibe\nplot @")
    expect(offered.filter(has_text="penguins")).to_have_count(1)
    wish.press_sequentially("peng")
    expect(offered).to_have_count(2)
    assert [one.strip() for one in offered.locator(".jp-Completer-match").all_inner_texts()] == [
        "penguin_count",
        "penguins",
    ]
    wish.press("ArrowDown")
    expect(lab.page.locator(".jp-Completer-item.jp-mod-active")).to_contain_text("penguins")
    wish.press("Enter")
    expect(wish).to_have_text("%%vibeplot @penguins")


@pytest.mark.matrix
def test_a_sub_command_is_offered_alone(lab: Lab, wish: Locator) -> None:
    wish.press_sequentially("%vibe sta")
    wish.press("Tab")
    expect(lab.page.locator(".jp-Completer-item")).to_have_text(re.compile("status"))
    wish.press("Enter")
    expect(wish).to_have_text("%vibe status")
