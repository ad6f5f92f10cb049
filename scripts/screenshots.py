"""`make screenshots`: the pictures of README, retaken from a real JupyterLab in a real browser.

Runs the quickstart with the tour model and clicks on each card. Leaves ``docs/images/*.png``.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

from tests.browser.arming import armed, press
from tests.browser.chromium import chromium
from tests.browser.lab import Lab
from tests.browser.server import LabServer, lab_server

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1040, 960  # pixels of the page
SCALE = 2
"""Pixels of the picture for one of the page."""
SETUP_CELLS = (1, 3, 4, 6)
RUN_CELL = 7
"""The quickstart's `%%vibe` cell, counted from 0."""


def main() -> int:
    """Take every picture in both themes."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, lab_server(Path(home)) as server, chromium() as browser:
        shutil.copytree(ROOT / "notebooks" / "data", server.folder / "data")
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE)
        lab = Lab(context.new_page(), server)
        for theme in ("light", "dark"):
            _take(lab, server, theme)
    return 0


def _take(lab: Lab, server: LabServer, theme: Literal["light", "dark"]) -> None:
    path = server.folder / f"quickstart-{theme}.ipynb"
    shutil.copy(ROOT / "notebooks" / "quickstart.ipynb", path)
    lab.show(path)
    lab.theme(theme)
    lab.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    for position in SETUP_CELLS:
        lab.run(position)
        lab.wait_until_idle()
    lab.run(RUN_CELL)
    output = lab.output(RUN_CELL)
    for card in ("Edit", "Run code", "Insert"):
        ready = armed(output.get_by_role("group", name=card))
        if card == "Edit":
            lab.cell(RUN_CELL).scroll_into_view_if_needed()
            _picture(lab, f"card-{theme}")
        press(ready.get_by_role("button", name="Allow once"))
    output.get_by_text("Done", exact=True).wait_for()
    lab.output(RUN_CELL + 1).locator("img").wait_for()
    lab.cell(RUN_CELL).scroll_into_view_if_needed()
    _picture(lab, f"done-{theme}")
    lab.close()


def _picture(lab: Lab, name: str) -> None:
    target = IMAGES / f"{name}.png"
    lab.page.screenshot(path=target)
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
