"""`make screenshots`: the pictures of README and its animation, retaken from a real JupyterLab in a real browser.

Runs the quickstart with the tour model and clicks on each card. Leaves ``docs/images/*.png`` and ``run.webp``.
"""

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

from PIL import Image

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
SHORT_ERRORS: Final = "%xmode Minimal\n"
"""Else a traceback shows where this computer keeps its packages."""
PLAYS: Final = 3
"""How often the animation plays before it stands still: who reads on is not disturbed for long."""


class Animation:
    """Pictures of a page, one after the other."""

    def __init__(self) -> None:
        self._frames: list[Image.Image] = []
        self._times: list[int] = []

    def add(self, lab: Lab, seconds: float) -> None:
        """Show the page as it stands for so many seconds."""
        picture = lab.page.screenshot(scale="css")
        self._frames.append(Image.open(io.BytesIO(picture)).convert("RGB"))
        self._times.append(round(seconds * 1000))

    def save(self, path: Path) -> None:
        """Leave it as WebP, without loss."""
        first, *rest = self._frames
        first.save(path, save_all=True, append_images=rest, duration=self._times, loop=PLAYS, lossless=True)


def main() -> int:
    """Take every picture in both themes."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, lab_server(Path(home)) as server, chromium() as browser:
        shutil.copytree(ROOT / "notebooks" / "data", server.folder / "data")
        context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE)
        lab = Lab(context.new_page(), server)
        for theme in ("light", "dark"):
            shown = Animation()
            _take(lab, server, theme, shown)
            if theme == "light":
                shown.save(IMAGES / "run.webp")
                print("docs/images/run.webp")
    return 0


def _take(lab: Lab, server: LabServer, theme: Literal["light", "dark"], shown: Animation) -> None:
    path = server.folder / f"quickstart-{theme}.ipynb"
    notebook = json.loads((ROOT / "notebooks" / "quickstart.ipynb").read_text("utf-8"))
    notebook["cells"][SETUP_CELLS[0]]["source"].insert(0, SHORT_ERRORS)
    path.write_text(json.dumps(notebook), encoding="utf-8")
    lab.show(path)
    lab.theme(theme)
    lab.page.evaluate("window.jupyterapp.shell.collapseLeft()")
    for position in SETUP_CELLS:
        lab.run(position)
        lab.wait_until_idle()
    lab.cell(RUN_CELL).scroll_into_view_if_needed()
    shown.add(lab, 2.0)
    lab.run(RUN_CELL)
    output = lab.output(RUN_CELL)
    for card in ("Edit", "Insert"):
        ready = armed(output.get_by_role("group", name=card))
        lab.cell(RUN_CELL).scroll_into_view_if_needed()
        shown.add(lab, 2.5)
        if card == "Edit":
            _picture(lab, f"card-{theme}")
        press(ready.get_by_role("button", name="Allow once"))
    output.get_by_text("Done", exact=True).wait_for()
    lab.output(RUN_CELL + 1).locator("img").wait_for()
    lab.cell(RUN_CELL).scroll_into_view_if_needed()
    shown.add(lab, 4.0)
    _picture(lab, f"done-{theme}")
    lab.output(RUN_CELL + 1).scroll_into_view_if_needed()
    shown.add(lab, 3.0)
    lab.close()


def _picture(lab: Lab, name: str) -> None:
    target = IMAGES / f"{name}.png"
    lab.page.screenshot(path=target)
    print(target.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(main())
