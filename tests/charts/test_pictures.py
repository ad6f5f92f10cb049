"""What is taken for the picture of a chart, and what is not."""

import asyncio
from typing import Any

import pytest

from vibe_jupyter.files.images import MAX_BYTES
from vibe_jupyter.notebook import chart_pictures
from vibe_jupyter.notebook.chart_pictures import MAX_PICTURES, with_drawn_pictures, with_page_pictures

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def shown(**data: Any) -> dict[str, Any]:
    names = {"plotly": "application/vnd.plotly.v1+json", "html": "text/html", "png": "image/png"}
    mimes = {names.get(name, f"application/{name}"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": mimes, "metadata": {}}


CHART = shown(plotly={"data": [{"y": [1]}], "layout": {}})
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
    vega = {"vnd.vegalite.v5+json": {"mark": "bar"}}
    outputs = [TEXT, CHART, shown(plotly={}, png=DOT), shown(html="<table></table>"), shown(**vega)]

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

    assert await with_drawn_pictures(outputs) == outputs
