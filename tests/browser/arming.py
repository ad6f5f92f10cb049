"""Cards as a user answers them: what would run is read to its end, the pointer moves, and the card is ready."""

import warnings

from playwright.sync_api import Locator, expect

READ = """node => {
    const boxes = node.closest(".vibe-card").querySelectorAll("pre, textarea");
    boxes.forEach(box => box.scrollTo(0, box.scrollHeight));
}"""
TAKEN = "button => !button.isConnected || 'sent' in button.closest('.vibe-card').dataset"
SEEN = "button => button.closest('.vibe-card')?.dataset.readiness !== 'hidden'"
"""A menu that was just opened may have pushed it out of view."""
REFUSED = "() => document.getElementById('vibe-announcer').textContent"
PRESSES = 3
"""Where something moved just then, a user presses again."""


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
    for _ in range(PRESSES):
        button.evaluate(READ)
        button.scroll_into_view_if_needed()
        page.wait_for_function(SEEN, arg=node)
        page.mouse.move(1, 1)
        page.mouse.move(2, 2)
        button.click()
        if node.evaluate(TAKEN):
            return
        warnings.warn(f"A press was refused: {page.evaluate(REFUSED)}", stacklevel=2)
    raise AssertionError(f"{PRESSES} presses were refused: {page.evaluate(REFUSED)}")
