"""Cards as a user answers them: what would run is read to its end, the pointer moves, and the card is ready."""

from playwright.sync_api import Locator, expect

from tests.browser.ready import wait_until

READ = """node => {
    const boxes = node.closest(".vibe-card").querySelectorAll("pre, textarea");
    boxes.forEach(box => box.scrollTo(0, box.scrollHeight));
}"""
TAKEN = "button => !button.isConnected || 'sent' in button.closest('.vibe-card').dataset"
ARMED = """async button => {
    const { top } = button.getBoundingClientRect();
    await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    window.dispatchEvent(new Event("scroll"));
    return button.getBoundingClientRect().top === top && button.closest(".vibe-card")?.dataset.readiness === "armed";
}"""
"""Whether a press approves, and the page has come to rest: a menu that was just opened, or a cell above, moves the
card, which finds out only with the next event."""
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
    """Click on a button that approves. Playwright alone would wait for it to be enabled before it scrolls there."""
    page = button.page
    node = button.element_handle()
    button.evaluate(READ)
    button.scroll_into_view_if_needed()
    page.mouse.move(1, 1)
    page.mouse.move(2, 2)
    wait_until(page, ARMED, arg=node)
    button.click()
    assert node.evaluate(TAKEN), f"the press was refused: {page.evaluate(REFUSED)}"
