"""What is taken for the picture of a chart, and what is not."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_jupyter.files.images import MAX_BYTES
from vibe_jupyter.notebook import chart_pictures
from vibe_jupyter.notebook.chart_pictures import MAX_PICTURES, ChartDrawing, with_page_pictures

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def shown(**data: Any) -> dict[str, Any]:
    names = {"plotly": "application/vnd.plotly.v1+json", "html": "text/html", "png": "image/png"}
    mimes = {names.get(name, f"application/{name}"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": mimes, "metadata": {}}


CHART = shown(plotly={"data": [{"y": [1]}], "layout": {}})
VEGA = shown(**{"vnd.vegalite.v5+json": {"mark": "bar"}})
TEXT = {"output_type": "stream", "name": "stdout", "text": "Plotly.newPlot"}


async def pictured(outputs: list[Any], answer: object = DOT) -> tuple[list[bool], list[int]]:
    """Which outputs have a picture now, and the places that the page was asked for."""
    asked: list[int] = []

    async def page_gives(place: int) -> Any:
        asked.append(place)
        return answer

    seen = await with_page_pictures(outputs, page_gives)
    return ["image/png" in one.get("data", {}) for one in seen], asked


async def test_the_page_is_asked_for_charts_without_a_picture_alone() -> None:
    outputs = [TEXT, CHART, shown(plotly={}, png=DOT), shown(html="<table></table>"), VEGA]

    assert await pictured(outputs) == ([False, True, True, False, True], [1, 4])


async def test_the_script_of_bokeh_draws_into_the_output_before_it() -> None:
    script = {"javascript": "const docs_json = {}", "vnd.bokehjs_exec.v0+json": ""}

    assert await pictured([shown(html="<div></div>"), shown(**script)]) == ([False, True], [0])
    assert await pictured([shown(**script)]) == ([False], [])


@pytest.mark.parametrize("answer", [None, "", "PHN2Zz4=", DOT + "A" * 2 * MAX_BYTES])
async def test_what_is_no_png_or_too_large_is_left_out(answer: object) -> None:
    assert await pictured([CHART], answer) == ([False], [0])


async def test_of_many_charts_the_first_are_pictured() -> None:
    has, asked = await pictured([CHART] * (MAX_PICTURES + 2))

    assert has == [True] * MAX_PICTURES + [False] * 2
    assert asked == list(range(MAX_PICTURES))


async def test_a_page_that_does_not_answer_costs_the_picture_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart_pictures, "PAGE_WAIT", 0.2)

    async def page_gives(place: int) -> Any:
        return DOT if place == 0 else await asyncio.Event().wait()

    first, second = await with_page_pictures([CHART, CHART], page_gives)

    assert "image/png" in first["data"]  # type: ignore[operator]
    assert second == CHART


async def test_a_chart_that_nothing_here_draws_stays_what_it_is() -> None:
    outputs = (shown(html="<script>const docs_json = {}</script>"), TEXT, shown(html="Plotly."))

    assert await ChartDrawing().with_pictures(outputs) == outputs


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts what draws charts, or stands in its place, where Python finds it: a function and its body."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))))

    def install(package: str, function: str, body: str) -> None:
        source = f"import base64, time\n\ndef {function}(*given, **more):\n    {body}\n"
        (tmp_path / f"{package}.py").write_text(source, encoding="utf-8")

    return install


async def test_a_kind_of_chart_that_is_drawn_too_slowly_here_is_not_waited_for_again(
    install: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = f"return base64.b64decode({DOT!r})"
    install("kaleido", "calc_fig_sync", "time.sleep(600)")
    install("vl_convert", "vegalite_to_png", at_once)
    drawing = ChartDrawing()
    monkeypatch.setattr(chart_pictures, "DRAWING_WAIT", 0.5)
    assert await drawing.with_pictures([CHART]) == (CHART,)

    install("kaleido", "calc_fig_sync", at_once)
    monkeypatch.setattr(chart_pictures, "DRAWING_WAIT", 60.0)

    plotly, vega = await drawing.with_pictures([CHART, VEGA])
    assert plotly == CHART
    assert "image/png" in vega["data"]  # type: ignore[operator]
    (later,) = await ChartDrawing().with_pictures([CHART])
    assert "image/png" in later["data"]  # type: ignore[operator]
