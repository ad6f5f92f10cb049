"""Everybody can use it: by the rules of axe, with the keyboard alone, and with a screen reader."""

import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.arming import armed
from tests.browser.classic import Classic
from tests.browser.conftest import VIEWPORT
from tests.browser.contrasts import CONTRASTS
from tests.browser.lab import Lab
from tests.browser.ready import wait_until
from tests.browser.server import LabServer
from tests.browser.stage import Stage, everything, messages
from tests.patience import patient
from tests.tiers import further
from tests.ui.runs import asked, finished, kept, resolved, said, transcript
from tests.ui.scenes import ANSWER, ENDS, SCENES, begin, looks
from vibe_jupyter.protocol import Event, Notice, TextDelta

pytestmark = pytest.mark.browser

LIGHT, DARK, HIGH_CONTRAST = "JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast"
MIN_CONTRAST = 4.5
"""To one, as WCAG AA wants it for words of usual size."""
RULES: dict[str, Any] = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    # What rank is right depends on the notebook's own headings above, and here there are none.
    "rules": {"heading-order": {"enabled": False}},
}
WITHOUT_COLORS = {"color-contrast": {"enabled": False}}
"""More rules: axe takes most of its time for what `pale_words` sees too."""
WAIT = patient(60.0)
"""Seconds an export may take."""

OPEN_ALL = "root => root.querySelectorAll('details').forEach(one => { one.open = true; })"
NEXT_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def violations(page: Page, selector: str, more_rules: dict[str, Any] | None = None) -> dict[str, list[str]]:
    """What axe finds there: rule to elements."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
        # JupyterLab's body has no height and hides what goes beyond it; axe would take the whole page for hidden.
        page.evaluate("() => { document.body.style.minHeight = '100vh'; }")
    page.evaluate(NEXT_FRAMES)
    found: dict[str, Any] = page.evaluate(
        "([selector, rules]) => axe.run(selector, { ...rules, resultTypes: ['violations'] })",
        [selector, {**RULES, "rules": {**RULES["rules"], **(more_rules or {})}}],
    )
    assert len(found["passes"]) > 8, "axe looked at nothing"
    return {
        one["id"]: [f"{node['html'][:160]} {node['failureSummary'][:300]}" for node in one["nodes"][:3]]
        for one in found["violations"]
    }


def looked(place: Locator, name: str, more_rules: dict[str, Any] | None = None) -> dict[str, Any]:
    """What axe and a look at the colours find in a place, everything in it open; empty where all is well."""
    place.evaluate(OPEN_ALL)
    place.evaluate("(root, name) => { (root.getRootNode().host ?? root).dataset.looked = name; }", name)
    return {**violations(place.page, f"[data-looked={name}]", more_rules), **pale_words(place)}


def pale_words(place: Locator) -> dict[str, float]:
    """Kinds of places with too little contrast, also on a shade, where axe does not look."""
    place.evaluate(OPEN_ALL)
    place.page.evaluate(NEXT_FRAMES)
    ratios: dict[str, float] = place.evaluate(CONTRASTS)
    assert len(ratios) > 8, "there are no words"
    return {where: ratio for where, ratio in ratios.items() if ratio < MIN_CONTRAST}


def show_everything(stage: Stage) -> None:
    """Every state of the view, and what is kept of every run."""
    stage.show_parts(everything({name: events for name, events in SCENES.items() if name != "steps-200"}))
    stage.keep(*(events for name, events in ENDS.items() if name != "steps-200"))
    # What waits behind a tab or a click is looked at too.
    stage.view.evaluate("""root => {
        root.querySelectorAll(".vibe-question, .vibe-deny, .vibe-button").forEach(one => { one.hidden = false; });
    }""")


def use_theme(lab: Lab, name: str) -> None:
    lab.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
    wait_until(
        lab.page,
        "name => document.body.dataset.jpThemeName === name && !document.getElementById('jupyterlab-splash')",
        arg=name,
    )


@pytest.fixture
def usual_look(lab: Lab) -> Iterator[None]:
    yield
    lab.page.emulate_media(forced_colors="none", color_scheme="light")
    use_theme(lab, LIGHT)


@pytest.fixture
def classic_stage(browser: Browser, server: LabServer) -> Iterator[Stage]:
    """The same in Notebook 7."""
    context = browser.new_context(viewport={"width": VIEWPORT["width"], "height": 20_000})
    # Notebook's server now and then refuses (403) the fonts of formulas; nothing here needs them.
    context.route("**/static/notebook/*.woff", lambda route: route.fulfill(status=200, body=b""))
    classic = Classic(context.new_page(), server)
    yield Stage(classic)
    classic.close()
    context.close()
    assert classic.own_complaints == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "themes",
    [
        pytest.param([(DARK, None), (DARK, "dark")], id="dark"),
        further([(LIGHT, "light"), (HIGH_CONTRAST, None)], id="others"),
    ],
)
def test_axe_finds_nothing_in_any_state_of_the_view_and_of_what_is_kept_whoever_sets_the_colours(
    stage: Stage, usual_look: None, themes: list[tuple[str, str | None]]
) -> None:
    show_everything(stage)
    assert looked(stage.view, "live", WITHOUT_COLORS) == {}
    assert looked(stage.kept, "kept", WITHOUT_COLORS) == {}
    # Colours are all that a theme changes, or a system that sets its own.
    for theme, scheme in themes:
        use_theme(stage.lab, theme)
        stage.lab.page.emulate_media(forced_colors="active" if scheme else "none", color_scheme=scheme or "light")
        assert pale_words(stage.view) == {}, (theme, scheme)
        assert pale_words(stage.kept) == {}, (theme, scheme)


@pytest.mark.matrix
@pytest.mark.timeout(180)
def test_axe_finds_nothing_in_notebook_7(classic_stage: Stage) -> None:
    show_everything(classic_stage)
    for theme in (LIGHT, DARK):
        use_theme(classic_stage.lab, theme)
        assert looked(classic_stage.view, "live") == {}, theme
        assert looked(classic_stage.kept, "kept") == {}, theme
    # Here axe would take the theme's colours for those of words that the system paints in its own.
    classic_stage.lab.page.emulate_media(forced_colors="active", color_scheme="dark")
    assert pale_words(classic_stage.view) == {}
    assert pale_words(classic_stage.kept) == {}


def test_axe_would_notice_a_pale_word_and_a_button_without_a_name(stage: Stage) -> None:
    stage.show(SCENES["card-code"])
    stage.view.evaluate(
        """root => {
            root.getRootNode().host.dataset.looked = "broken";
            root.querySelector(".vibe-why").style.color = "#ddd";
            [...root.querySelectorAll("button")].find((one) => one.textContent.includes("Allow once")).textContent = "";
        }"""
    )
    assert {"color-contrast", "button-name"} <= set(violations(stage.lab.page, "[data-looked=broken]"))


@pytest.mark.matrix
def test_axe_finds_nothing_in_a_notebook_that_nobody_trusts(lab: Lab) -> None:
    lab.open_file(kept_notebook(lab.server.folder))
    place = lab.output(0).locator(".jp-RenderedHTML")
    place.evaluate(OPEN_ALL)
    place.evaluate("root => { root.dataset.looked = 'untrusted'; }")
    assert violations(lab.page, "[data-looked=untrusted]") == {}


@pytest.mark.matrix
def test_axe_finds_nothing_in_the_page_that_nbconvert_makes(browser: Browser, tmp_path: Path) -> None:
    path = kept_notebook(tmp_path)
    command = [sys.executable, "-W", "ignore", "-m", "jupyter", "nbconvert", "--to", "html", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=WAIT)
    page = browser.new_page()
    try:
        page.route("http*://**", lambda route: route.abort())
        page.goto(path.with_suffix(".html").as_uri(), wait_until="domcontentloaded")
        page.evaluate(f"() => ({OPEN_ALL})(document)")
        assert violations(page, ".jp-RenderedHTML") == {}
    finally:
        page.close()


def kept_notebook(folder: Path) -> Path:
    """A notebook with what is left of all runs, signed by nobody."""
    html = "".join(kept(events)["text/html"] for events in ENDS.values())
    output = nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": "runs"})
    cell = nbformat.v4.new_code_cell("%%vibe\nlook", outputs=[output], execution_count=1)
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / f"{secrets.token_hex(4)}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": spec}), path)
    return path


FOCUSED = """root => {
    const one = root.getRootNode().activeElement;
    if (one === null || !root.contains(one)) return null;
    const style = getComputedStyle(one), box = one.getBoundingClientRect();
    const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    const all = [...root.querySelectorAll("*")];
    return {
        name: one.getAttribute("aria-label") ?? one.innerText.split("\\n")[0],
        place: all.indexOf(one), ring, seen: box.height > 0 && box.bottom <= innerHeight && box.top >= 0,
    };
}"""


def walk(view: Locator, page: Page) -> list[dict[str, Any]]:
    """Where Tab stops, from the beginning of the view to its end."""
    view.evaluate("root => { root.tabIndex = -1; root.focus(); }")
    stops: list[dict[str, Any]] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        stop = view.evaluate(FOCUSED)
        if stop is None:
            return stops
        stops.append(stop)
    raise AssertionError(f"Tab does not leave the view: {stops}")


def test_tab_stops_at_every_control_in_reading_order_and_shows_where_it_is(stage: Stage) -> None:
    stage.show(SCENES["card-long"])
    stops = walk(stage.view, stage.lab.page)
    assert [stop["name"] for stop in stops] == [
        "Inspected penguins",
        "Approval: Run code",
        "Code",
        "Allow once⏎",
        "Always allow",
        "EditE",
        "Deny…Esc",
        "Stop",
    ]
    assert [stop["place"] for stop in stops] == sorted(stop["place"] for stop in stops)
    assert [stop["name"] for stop in stops if not stop["ring"]] == []
    assert [stop["name"] for stop in stops if not stop["seen"]] == []


@pytest.mark.matrix
def test_what_does_not_scroll_is_no_stop(stage: Stage) -> None:
    stage.show(SCENES["card-code"])
    assert "Code" not in [stop["name"] for stop in walk(stage.view, stage.lab.page)]


def test_enter_on_folded_lines_of_a_diff_opens_them_and_approves_nothing(stage: Stage) -> None:
    stage.show(SCENES["card-diff"])
    fold = stage.view.locator(".vibe-same > summary").first
    fold.focus()
    stage.lab.page.keyboard.press("Enter")
    expect(stage.view.get_by_text("line_1 = load(1)")).to_be_visible()
    assert stage.heard() == []


def test_the_focus_is_never_lost_when_what_had_it_goes_away(stage: Stage) -> None:
    foot = stage.view.get_by_role("group", name="State of the run")
    stage.show(SCENES["card-code"])
    stage.view.get_by_role("button", name="Allow once").focus()
    # Denied elsewhere, as by ■ in the toolbar: the card is gone.
    card_id = next(part.id for part in transcript(SCENES["card-code"]).parts() if part.kind == "card")
    after = transcript([*SCENES["card-code"], resolved(allowed=False, by="interrupt")])
    html = next(part.html for part in after.parts() if part.id == card_id)
    stage.send({"type": "patches", "seq": 1, "patches": [{"id": card_id, "kind": "step", "html": html}]})
    expect(foot).to_be_focused()
    stage.view.get_by_role("button", name="Stop").focus()
    stage.lab.page.keyboard.press("Enter")
    expect(foot).to_be_focused()
    assert stage.heard() == [{"type": "interrupt"}]


@pytest.mark.matrix
def test_the_focus_stays_on_a_line_that_takes_in_the_next_call(stage: Stage) -> None:
    first = begin(*looks("a.py", "b.py")[:2])
    stage.show(first)
    stage.view.locator("summary", has_text="Read").focus()
    patches = [patch for event in looks("a.py", "b.py")[2:] for patch in transcript(first).apply(event)]
    stage.send({"type": "patches", "seq": 1, "patches": patches})
    expect(stage.view.locator("summary", has_text="Reading 2")).to_be_focused()


def tree(stage: Stage) -> list[tuple[str, str]]:
    """Role and name of what a screen reader finds in the view, in order."""
    session = stage.lab.page.context.new_cdp_session(stage.lab.page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    by_id = {node["nodeId"]: node for node in nodes}
    root = next(node for node in nodes if named(node) == ("region", "Vibe run"))
    found: list[tuple[str, str]] = []

    def visit(node: dict[str, Any]) -> None:
        if not node.get("ignored"):
            found.append(named(node))
        for child in node.get("childIds", ()):
            visit(by_id[child])

    visit(root)
    return found


def named(node: dict[str, Any]) -> tuple[str, str]:
    name = str(node.get("name", {}).get("value", ""))
    return str(node.get("role", {}).get("value", "")), re.sub(r"\s+", " ", name).strip()


def test_a_screen_reader_finds_the_card_and_its_buttons_by_name(stage: Stage) -> None:
    stage.show(SCENES["card-code"])
    found = tree(stage)
    assert ("group", "Approval: Run code") in found
    assert ("DisclosureTriangle", "Always allow") in found
    assert [name for role, name in found if role == "button"] == [
        "Allow once",
        "Edit",
        "Deny…",
        "Stop",
    ]


def test_enter_does_nothing_on_a_card_of_high_risk_and_space_on_its_red_button_runs_it(stage: Stage) -> None:
    stage.show(SCENES["card-high"])
    page, view = stage.lab.page, stage.view
    card = armed(view.locator("[data-vibe-approval]"))
    red = card.get_by_role("button", name="Delete 226 files and force-push")
    for place in (card, red):
        place.focus()
        page.keyboard.press("Enter")
    assert stage.heard() == []
    expect(card).to_have_attribute("data-readiness", "armed")
    page.keyboard.press("Space")
    expect(card).to_have_attribute("data-sent", "")
    (said,) = stage.heard()
    assert (said["type"], said["remember"]) == ("approve", "once")


@pytest.mark.matrix
def test_deny_turns_the_buttons_into_one_line_for_a_reason(stage: Stage) -> None:
    stage.show(SCENES["card-high"])
    page, card = stage.lab.page, stage.view.locator("[data-vibe-approval]")
    card.focus()
    page.keyboard.press("Escape")
    expect(card.locator("footer")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(card.get_by_role("button", name="Deny…")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("keep them")
    page.keyboard.press("Enter")
    (said,) = stage.heard()
    assert (said["type"], said["message"]) == ("reject", "keep them")


@pytest.mark.matrix
def test_escape_folds_the_menu_of_longer_permissions_and_denies_nothing(stage: Stage) -> None:
    stage.show(SCENES["card-code"])
    page, card = stage.lab.page, stage.view.locator("[data-vibe-approval]")
    summary = card.locator("summary", has_text="Always allow")
    summary.focus()
    page.keyboard.press("Enter")
    expect(card.get_by_role("button", name="Allow for this session")).to_be_visible()
    page.keyboard.press("Escape")
    expect(card.get_by_role("button", name="Allow for this session")).to_be_hidden()
    expect(card.locator(".vibe-deny")).to_be_hidden()
    assert stage.heard() == []


def test_a_screen_reader_hears_what_a_step_was_and_how_it_ended(stage: Stage) -> None:
    stage.show(SCENES["failed-step"])
    steps = [name for role, name in tree(stage) if role == "DisclosureTriangle"]
    assert steps == [
        "Inspected penguins 344 × 8, nulls in 5 columns 0.1 s",
        "Ran code fit a line per species KeyError: 'bill_len' 0.2 s",
    ]


@pytest.mark.matrix
def test_a_screen_reader_hears_which_lines_of_a_diff_are_new_and_which_are_gone(stage: Stage) -> None:
    stage.show(SCENES["card-cell-diff"])
    words = "".join(name for role, name in tree(stage) if role == "StaticText")  # marked words are texts of their own
    assert re.search(r'removed: *\["bill_len"\]\.mean\(\)', words)
    assert re.search(r'added: *\["bill_length_mm"\]', words)


SPOKEN = """() => {
    window.spoken = [];
    const note = records => {
        const places = new Set(records.map(record => {
            const at = record.target instanceof Element ? record.target : record.target.parentElement;
            return at?.closest("[aria-live], [role=status], [role=alert], [role=log]");
        }));
        places.delete(null); places.delete(undefined);
        for (const place of places) {
            const isOurs = !place.closest(".jp-Toolbar, .jp-StatusBar");
            if (isOurs && place.textContent) window.spoken.push(place.textContent);
        }
    };
    window.listener = new MutationObserver(note);
    window.listener.observe(document.body, { childList: true, characterData: true, subtree: true });
}"""


def test_only_what_matters_is_announced_while_text_streams(stage: Stage) -> None:
    page = stage.lab.page
    pieces: list[Event] = [TextDelta(word + " ") for word in (ANSWER * 3).split(" ")]
    assert len(pieces) > 200
    card = asked("spoken", approval_id="spoken")
    run: list[Event] = [
        *begin(*pieces),
        said(""),
        card,
        resolved("spoken", approval_id="spoken"),
        Notice(level="warning", text="The server is busy. Retrying in 8 s."),
        *pieces,
        said(""),
        finished(),
    ]
    stage.send({"type": "snapshot", "parts": []})
    page.evaluate(SPOKEN)
    stage.send(*messages(run, each=5))
    stage.send({"type": "over", "words": "Done"})
    wait_until(page, "() => window.spoken.some(words => words.includes('Done'))")
    spoken: list[str] = page.evaluate("() => { window.listener.disconnect(); return window.spoken; }")
    assert spoken == [
        "Approval: Run code. Runs code in this kernel. Waiting for you",
        "The server is busy. Retrying in 8 s.",
        "Vibe run: Done",
    ]
