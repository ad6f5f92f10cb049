"""No text of a model, a tool or a file becomes anything but text (docs/security.md, Cards)."""

import re
import unicodedata

import pytest

from tests.ui.corpus import Case, cases, shown
from tests.ui.dom import Element, parse
from vibe_jupyter.ui.icons import PATHS

TEXT_NAMES = """
a b blockquote br code del details div em h3 h4 h5 h6 hr i img li ol p pre s span strong summary table tbody td th thead
tr ul
"""
TEXT_ELEMENTS = set(TEXT_NAMES.split())
CARD_ELEMENTS = {"section", "header", "footer", "button", "kbd", "textarea", "input", "svg", "path"}
CARD_DATA = {"data-vibe-approval", "data-vibe-edits", "data-risk"}
ATTRIBUTES = {
    "a": {"href", "rel", "target", "style"},
    "pre": {"style", "data-kind", "data-digits"},
    "table": {"cellpadding", "dir"},
    "img": {"src", "alt", "width", "height", "style"},
    "svg": {"viewbox", "aria-hidden"},
    "path": {"d"},
    "ol": {"start", "dir"},
    "p": {"class", "dir", "style"},
    "td": {"align", "style"},
    "th": {"align", "style"},
    **{name: {"dir"} for name in ("h3", "h4", "h5", "h6", "blockquote", "ul")},
    "section": {"class", "role", "tabindex", "aria-label", "aria-description", *CARD_DATA},
    "button": {"class", "type", "data-vibe-action", "aria-keyshortcuts"},
    "kbd": {"aria-hidden"},
    "textarea": {"class", "hidden", "aria-label"},
    "input": {"class", "type", "aria-label", "placeholder"},
    "span": {
        "class",
        "style",
        "aria-hidden",
        "role",
        "aria-label",
        "data-vibe-clock",
        "data-vibe-running",
        "data-change",
        "data-n",
    },
    "details": {"class", "data-outcome", "style"},
    "div": {"class", "data-outcome", "data-state", "data-level", "data-digits", "role", "hidden", "style", "title"},
}
COMMON = {"class"}
STYLE = re.compile(r"(?:[a-z0-9:#;%. -]|rgba\([0-9,.]+\))+")
INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}

pytestmark = pytest.mark.xdist_group("hostile texts")
CASES = [pytest.param(case, id=case.id) for case in cases()]


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.requirement("ui.static.kept", "ui.stream.text")
@pytest.mark.parametrize("case", CASES)
def test_hostile_text_stays_text_wherever_it_is_shown(case: Case) -> None:
    for form in shown(case):
        for element in parse(form.html):
            check(element, f"{case.id}, {form.where}")


@pytest.mark.parametrize("case", CASES)
def test_what_must_stay_readable_does(case: Case) -> None:
    for form in shown(case):
        words = parse(form.html).text + form.plain
        assert case.keep in words, f"{case.id}, {form.where}: {words}"


@pytest.mark.parametrize("case", CASES)
def test_no_control_or_invisible_character_is_shown_raw(case: Case) -> None:
    for form in shown(case):
        raw = [one for one in form.html + form.plain if one not in "\n\t" and unicodedata.category(one) in INVISIBLE]
        assert raw == [], f"{case.id}, {form.where}"


def check(element: Element, where: str) -> None:
    """Nothing that runs, loads, navigates without a click, or imitates us."""
    if element.name == "#root":
        return
    assert element.name in TEXT_ELEMENTS | CARD_ELEMENTS, f"<{element.name}>, {where}"
    unknown = set(element.attributes) - ATTRIBUTES.get(element.name, set()) - COMMON
    assert unknown == set(), f"<{element.name} {unknown}>, {where}"
    for name in element.attributes.get("class", "").split():
        assert name.startswith("vibe-"), where
    assert STYLE.fullmatch(element.attributes.get("style", "color")), where
    if element.name == "a":
        assert re.match(r"(?i)(https?://|mailto:)", element.attributes["href"]), where
        assert element.attributes["rel"] == "noopener noreferrer", where
        assert element.attributes["target"] == "_blank", where
    if element.name == "path":
        assert element.attributes["d"] in PATHS.values(), where
    if element.name == "img":
        assert re.match(r"data:image/(png|jpeg|gif|webp);base64,", element.attributes["src"]), where
    if element.name in ("button", "section"):
        assert element.attributes["class"].split()[0] in ("vibe-button", "vibe-card"), where
