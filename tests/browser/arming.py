"""Cards as a user answers them: what would run is read to its end, the pointer moves, and the card is ready."""

from playwright.sync_api import Locator, expect

from tests.browser.ready import wait_until

READ = """node => {
    const boxes = node.closest(".vibe-card").querySelectorAll("pre, textarea");
    boxes.forEach(box => box.scrollTo(0, box.scrollHeight));
}"""
TAKEN = "button => !button.isConnected || 'sent' in button.closest('.vibe-card').dataset"
ARMED = """button => {
    window.dispatchEvent(new Event("scroll"));
    const { left, top, width, height } = button.getBoundingClientRect();
    const rests = button.topBefore === top;
    button.topBefore = top;
    if (!rests || button.closest(".vibe-card")?.dataset.readiness !== "armed") return null;
    const [x, y] = [left + width / 2, top + height / 2];
    return button.contains(button.getRootNode().elementFromPoint(x, y)) ? [x, y] : null;
}"""
"""Where a press approves, once two looks found the button in the same place: a menu that was just opened, or a cell
above, moves the card, which finds out only with the next event."""
REFUSED = "() => document.getElementById('vibe-announcer').textContent"


def armed(card: Locator) -> Locator:
    """The same card, once a press approves it."""
    card.evaluate(READ)
    card.locator("footer").scroll_into_view_if_needed()
    card.page.mouse.move(1, 1)
    card.page.mouse.move(2, 2)
    expect(card).to_have_attribute("data-readiness", "armed")
    return card


def longer(card: Locator) -> Locator:
    """The button that allows more than this once, its menu opened."""
    card.locator("summary", has_text="Always allow").click()
    return card.get_by_role("button", name="Allow for this session")


def press(button: Locator) -> None:
    """Click on a button that approves, where it stands.

    Playwright's click would wait for it to be enabled before it scrolls there, and scroll once more where something
    passes over it: then the other buttons of the card may be out of view, and the card refuses.
    """
    page = button.page
    node = button.element_handle()
    button.evaluate(READ)
    button.scroll_into_view_if_needed()
    page.mouse.move(1, 1)
    page.mouse.move(2, 2)
    x, y = wait_until(page, ARMED, arg=node).json_value()
    page.mouse.click(x, y)
    assert node.evaluate(TAKEN), f"the press was refused: {page.evaluate(REFUSED)}"
