"""Images of charts whose outputs have none, for models with vision: from the page, else rendered here."""

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
import tempfile
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.files.images import MAX_BYTES
from vibe_jupyter.import_guard import python_environment
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.process import ShellCommand, run_command

MAX_PICTURES: Final = 4  # charts of one result that get an image
PAGE_WAIT: Final = 3.0  # seconds for the page to send the images of one result
DRAWING_WAIT: Final = 8.0  # seconds for our processes to render the charts of one result
PNG_LIMIT: Final = MAX_BYTES * 4 // 3  # characters of an image
_PNG: Final = "iVBORw0KGgo"  # prefix of every PNG in base64
_BOKEH_SCRIPT: Final = "application/vnd.bokehjs_exec.v0+json"  # output whose script draws into the previous output

PageGives = Callable[[int], Awaitable[str | None]]  # takes the index of an output in its cell and returns a base64 PNG


async def with_page_pictures(outputs: Sequence[Output], page_gives: PageGives) -> tuple[Output, ...]:
    """Add the page's images to charts without one.

    Args:
        outputs: Outputs of one cell.
        page_gives: Requests an image from the page.
    """
    found: dict[int, str] = {}
    with contextlib.suppress(TimeoutError, NotebookError):
        async with asyncio.timeout(PAGE_WAIT):
            for at, data in _charts(outputs):
                place = at - (_BOKEH_SCRIPT in data and "text/html" not in data)
                if place >= 0 and (picture := await page_gives(place)) and _is_fit(picture):
                    found[at] = picture
    return _put_in(outputs, found)


class ChartDrawing:
    """Renders charts with vl-convert or kaleido, if installed, in subprocesses.

    A chart type that times out once isn't tried again, since each chart would cost the whole timeout for nothing.
    """

    def __init__(self) -> None:
        self._too_slow: set[str] = set()  # chart types, as named by `chart_spec`

    async def with_pictures(self, outputs: Sequence[Output]) -> tuple[Output, ...]:
        """Render an image for each chart without one."""
        found: dict[int, str] = {}
        kind = ""
        try:
            async with asyncio.timeout(DRAWING_WAIT):
                for at, data in _charts(outputs):
                    if (drawable := self._drawable(data)) is None:
                        continue
                    kind, spec = drawable
                    if picture := await _drawn_picture(kind, spec):
                        found[at] = picture
        except TimeoutError:
            if not found:  # otherwise the earlier charts used up most of the time
                self._too_slow.add(kind)
        except (OSError, ToolError):
            pass
        return _put_in(outputs, found)

    def _drawable(self, data: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Return type and specification of a chart, or None if no renderer is installed or it was too slow."""
        from vibe_jupyter.charts.outputs import chart_spec  # noqa: PLC0415 - most outputs are text
        from vibe_jupyter.charts.renderer import LIBRARIES  # noqa: PLC0415 - as above

        found = chart_spec(data)
        if found is None or found[0] in self._too_slow or not _is_installed(LIBRARIES[found[0]]):
            return None
        return found


def _charts(outputs: Iterable[Output]) -> list[tuple[int, Mapping[str, Any]]]:
    """Return charts without an image, with their indices."""
    bundles = [(at, cast("Mapping[str, Any]", one.get("data") or {})) for at, one in enumerate(outputs)]
    rich = [(at, data) for at, data in bundles if any(mime != "text/plain" for mime in data)]
    if not rich:
        return []
    with without_working_folder():
        from vibe_jupyter.charts.outputs import is_chart  # noqa: PLC0415 - most outputs are text

    wanting = [(at, data) for at, data in rich if not any(mime.startswith("image/") for mime in data)]
    return [(at, data) for at, data in wanting if is_chart(data)][:MAX_PICTURES]


def _put_in(outputs: Sequence[Output], found: Mapping[int, str]) -> tuple[Output, ...]:
    return tuple(
        {**one, "data": {**cast("dict[str, Any]", one["data"]), "image/png": found[at]}} if at in found else one
        for at, one in enumerate(outputs)
    )


def _is_fit(picture: str) -> bool:
    return len(picture) <= PNG_LIMIT and picture.startswith(_PNG)


async def _drawn_picture(kind: str, spec: Mapping[str, Any]) -> str | None:
    """Render a chart in a subprocess, or return None if that fails."""
    with tempfile.TemporaryDirectory(prefix="vibe-chart-") as folder:
        asked, drawn = Path(folder, "spec.json"), Path(folder, "picture.png")
        await asyncio.to_thread(asked.write_text, json.dumps({"kind": kind, "spec": spec}), "utf-8")
        # -P keeps the working directory off sys.path, so that user files can't shadow modules.
        command = ShellCommand(
            argv=(sys.executable, "-P", "-m", "vibe_jupyter.charts.renderer", str(asked), str(drawn)),
            folder=Path(folder),
            environment=python_environment(child_environment(os.environ)),
            timeout=2 * DRAWING_WAIT,  # the caller times out first
            output_limit=10_000,
        )
        await run_command(command, lambda text: None)
        picture = await asyncio.to_thread(_read_picture, drawn)
    return picture if _is_fit(picture) else None


def _read_picture(file: Path) -> str:
    """Read the image as base64, or return "" if it is missing or too large."""
    is_there = file.exists() and file.stat().st_size <= MAX_BYTES
    return b64encode(file.read_bytes()).decode("ascii") if is_there else ""


def _is_installed(package: str) -> bool:
    with without_working_folder():
        return importlib.util.find_spec(package) is not None
