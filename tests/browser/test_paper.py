"""What is left of a run on paper: the page nbconvert makes, printed by a browser."""

import io
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.contrasts import CONTRASTS
from tests.browser.cut import CUT
from tests.patience import patient
from tests.tiers import further
from tests.ui.runs import kept
from tests.ui.scenes import ENDS

if TYPE_CHECKING:
    from pypdf import PdfReader

pytestmark = pytest.mark.browser

MIN_CONTRAST = 4.5
"""To one."""
PAPER = ViewportSize(width=794, height=1123)
"""A4 in CSS pixels."""
EXPORT_WAIT = patient(60.0)
"""Seconds nbconvert may take."""
FRONT_ENDS = Path(__file__).parents[2] / "docs" / "front-ends.md"
ALWAYS = (
    "The file is changed.",
    "What the penguins weigh",
    "Torgersen, Biscoe and Dream",
    "The model server refused",
    "344 × 8",
)
INSIDE = ("check(line_10)", "line_10 = load(10, cache=True)", "bill_length_mm", "KeyError: 'bill_len'")
"""Words of the answers, and of what closed steps hold."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page nbconvert makes of what is left of all runs."""
    folder = tmp_path_factory.mktemp("paper")
    html = "".join(kept(events)["text/html"] for events in ENDS.values())
    output = nbformat.v4.new_output("display_data", data={"text/html": html, "text/plain": "runs"})
    cell = nbformat.v4.new_code_cell("%%vibe\nlook", outputs=[output], execution_count=1)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "runs.ipynb")
    command = [sys.executable, "-W", "ignore", "-m", "jupyter", "nbconvert", "--to", "html", "runs.ipynb"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=EXPORT_WAIT)
    return folder / "runs.html"


@pytest.fixture
def paper(browser: Browser, exported: Path) -> Iterator[Page]:
    """That page, as wide as paper; nothing is loaded from elsewhere."""
    page = browser.new_page(viewport=PAPER)
    page.route("http*://**", lambda route: route.abort())
    page.goto(exported.as_uri(), wait_until="domcontentloaded")
    yield page
    page.close()


def printed(page: Page) -> "PdfReader":
    from pypdf import PdfReader

    return PdfReader(io.BytesIO(page.pdf(format="A4")))


def letters(text: str) -> str:
    """A text without its blanks, which a PDF has at line ends too, and each letter by itself where a font joins two."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


@pytest.mark.matrix
@pytest.mark.parametrize("opened", [True, further(False)])
def test_on_paper_nothing_is_cut_off_and_steps_are_as_the_reader_left_them(paper: Page, opened: bool) -> None:
    if opened:
        paper.evaluate(opening_line())
    paper.emulate_media(media="print")
    place = paper.locator(".jp-RenderedHTML").first
    expect(place.get_by_text("The file is changed.")).to_be_visible()
    assert place.get_by_text("check(line_10)").is_visible() is opened
    assert place.evaluate(CUT) == []
    ratios: dict[str, float] = place.evaluate(CONTRASTS)
    assert {where: ratio for where, ratio in ratios.items() if ratio < MIN_CONTRAST} == {}


@pytest.mark.matrix
def test_what_a_browser_prints_is_whole_and_can_be_searched(paper: Page) -> None:
    closed = printed(paper)
    paper.evaluate(opening_line())
    opened = printed(paper)
    few, all_words = (letters("".join(page.extract_text() for page in pdf.pages)) for pdf in (closed, opened))
    assert [words for words in ALWAYS if letters(words) not in few] == []
    assert [words for words in (*ALWAYS, *INSIDE) if letters(words) not in all_words] == []
    assert letters("check(line_10)") not in few
    assert len(opened.pages) > len(closed.pages)


def opening_line() -> str:
    """What the documentation says to give the console to open all steps."""
    (line,) = re.findall(r"^```js\n(.+)\n```$", FRONT_ENDS.read_text(encoding="utf-8"), re.MULTILINE)
    return f"() => {{ {line} }}"
