"""Hostile texts in a real browser, as trusted output: nothing runs, nothing is fetched, what matters is readable."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.ui.corpus import cases, shown
from tests.ui.runs import kept, whole_run

ORIGIN = "http://notebook.test/lab/tree/"
"""Where the page says it is; no such server exists, every request is answered by the test."""
AT_ONCE = 20
"""Texts that are shown before the page is asked what became of them."""

# What a notebook does with trusted HTML: parse it, and run the scripts in it.
INSERT = """pieces => pieces.map(html => {
    const place = document.createElement("div");
    document.body.append(place);
    place.append(document.createRange().createContextualFragment(html));
    for (const details of place.querySelectorAll("details")) { details.open = true; }
    for (const one of place.querySelectorAll("[tabindex], a, button, input, textarea")) { one.focus(); }
    const words = [...place.querySelectorAll("textarea, img")].map(one => one.value ?? one.alt).join(" ");
    const text = place.innerText + words;
    place.hidden = true;  // else the page is laid out again with all that came before
    return text;
})"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.route("**/*", lambda route: route.fulfill(status=200, content_type="text/html", body="<!doctype html>"))
    page.goto(ORIGIN)
    yield page
    page.close()


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.browser
@pytest.mark.requirement("ui.static.kept", "ui.stream.text")
def test_no_hostile_text_runs_or_fetches_anything_as_trusted_output(page: Page) -> None:
    fetched: list[str] = []
    errors: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith("data:"):
            fetched.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    every = cases()
    for at in range(0, len(every), AT_ONCE):
        several = every[at : at + AT_ONCE]
        forms = [(case, form) for case in several for form in shown(case)]
        texts: list[str] = page.evaluate(INSERT, [form.html for _, form in forms])
        for (case, form), text in zip(forms, texts, strict=True):
            words = text + form.plain
            assert " ".join(case.keep.split()) in " ".join(words.split()), f"{case.id}, {form.where}"
        ids = [case.id for case in several]
        assert page.evaluate("window.__pwned") is None, ids
        assert fetched == [], ids
    # Whatever was going to load or run later has done so when frames and timers have gone round.
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 200)))")
    assert page.evaluate("window.__pwned") is None
    assert fetched == []
    assert errors == []
    assert page.url == ORIGIN


@pytest.mark.browser
def test_the_check_would_notice_a_text_that_runs_or_fetches(page: Page) -> None:
    with page.expect_request("**/evil.png"):
        page.evaluate(INSERT, ["<img src='/evil.png' onerror='window.__pwned = 1'><script>window.__pwned = 2</script>"])
    page.wait_for_function("window.__pwned", timeout=30_000)


@pytest.mark.browser
@pytest.mark.requirement("ui.static.kept")
def test_the_kept_form_opens_and_closes_without_script(browser: Browser) -> None:
    page = browser.new_context(java_script_enabled=False).new_page()
    page.set_content(kept(whole_run())["text/html"])
    output = page.get_by_text("slope 1.5", exact=True)
    assert not output.is_visible()
    page.get_by_text("2 steps").click()
    page.get_by_text("Ran code", exact=True).click()
    assert output.is_visible()
    assert page.get_by_text("The slope is").is_visible()
    page.close()
