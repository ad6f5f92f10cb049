"""Icons: one for each kind of step, the same live and kept, unseen by screen readers, pictures as their paths."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import vibe_jupyter
from scripts.icon_pictures import LEVELS, drawn_levels, levels_of
from tests.ui.dom import parse
from tests.ui.runs import STARTED, asked, code_finished, code_started, finished, inspected, kept, live, resolved
from tests.ui.scenes import SCENES
from vibe_jupyter.protocol import Event
from vibe_jupyter.ui.icons import PATHS, SIDE, kept_icon, tool_icon

SPECS = Path(vibe_jupyter.__file__).with_name("app") / "tool_specs.json"
DIFFERENCE = 0.05
"""Share of a picture's ink that may differ: browsers smooth edges in their own ways."""
ENDS: dict[str, list[Event]] = {
    "failed": [code_started(), code_finished("c1", "error", summary="KeyError: 'x'")],
    "denied": [asked(), resolved(allowed=False), code_finished("c1", "denied", summary="")],
    "stop": [code_started(), code_finished("c1", "interrupted")],
}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def icons_of(html: str) -> list[str]:
    """Names of the icons in the live view, in the order of the page, without that of the button that stops the run."""
    names = {path: name for name, path in PATHS.items()}
    root = parse(html)
    on_buttons = [path for button in root.find("button") for path in button]
    return [names[path.attributes["d"]] for path in root.find("path") if not any(path is one for one in on_buttons)]


def test_every_built_in_tool_has_an_icon_of_its_kind() -> None:
    names = [spec["name"] for spec in json.loads(SPECS.read_text("utf-8"))]
    assert [name for name in names if tool_icon(name) in ("tool", "server")] == []
    assert tool_icon("mcp__arxiv__search_papers") == "server"
    assert tool_icon("weather_of") == "tool"


def test_a_step_shows_the_icon_of_what_it_does_live_and_kept() -> None:
    events = [STARTED, *inspected(), code_started(), code_finished()]
    assert icons_of(live(events)) == ["inspect", "run"]
    html = str(kept([*events, finished()])["text/html"])
    assert [html.count(kept_icon(name)) for name in ("steps", "inspect", "run")] == [1, 1, 1]


@pytest.mark.parametrize("end", ENDS)
def test_a_step_that_did_not_succeed_shows_how_it_ended(end: str) -> None:
    events = [STARTED, *ENDS[end]]
    assert icons_of(live(events)) == [end]
    assert kept_icon(end) in str(kept([*events, finished()])["text/html"])


def test_no_screen_reader_is_told_of_an_icon() -> None:
    for scene, events in SCENES.items():
        assert {svg.attributes.get("aria-hidden") for svg in parse(live(events)).find("svg")} <= {"true"}, scene
    images = parse(str(kept([STARTED, *inspected(), finished()])["text/html"])).find("img")
    assert [image.attributes["alt"] for image in images] == [""]
    assert [image.attributes["width"] for image in images] == [str(SIDE)]


@pytest.mark.browser
@pytest.mark.matrix
def test_the_pictures_are_of_the_paths_as_they_are(page: Page) -> None:
    for name, path in PATHS.items():
        source = parse(kept_icon(name)).find("img")[0].attributes["src"]
        shown, drawn = levels_of(source.partition(",")[2]), drawn_levels(page, path)
        assert sum(drawn) > 20 * LEVELS, name
        differ = sum(abs(one - other) for one, other in zip(shown, drawn, strict=True))
        assert differ <= DIFFERENCE * sum(drawn), f"{name}: run scripts/icon_pictures.py"
