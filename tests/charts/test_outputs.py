"""Charts in the outputs of cells: the model reads what they show, and not the page's scripts."""

import json
from typing import Any

import pytest

from tests.charts.recipes import LIBRARIES, RECIPES
from vibe_jupyter.charts import CHART_LIMIT
from vibe_jupyter.charts.outputs import output_chart
from vibe_jupyter.notebook.tools.cell_report import output_text
from vibe_jupyter.variables.describe import describe_value

pytestmark = pytest.mark.xdist_group("libraries")


def outputs_of(library: str, chart: Any) -> list[dict[str, Any]]:
    """The forms in which a notebook gets the chart."""
    if library == "plotly":
        return [
            {"application/vnd.plotly.v1+json": json.loads(chart.to_json()), "text/html": "<div></div>"},
            {"text/html": chart.to_html(include_plotlyjs="cdn")},
        ]
    if library == "altair":
        return [
            {"application/vnd.vegalite.v6+json": chart.to_dict(), "text/plain": "<VegaLite 6 object>"},
            {"text/html": chart.to_html(), "text/plain": "alt.Chart(...)"},
        ]
    from bokeh.embed import components
    from bokeh.embed.notebook import notebook_content

    script, div = components(chart)
    return [
        {"application/javascript": notebook_content(chart)[0], "application/vnd.bokehjs_exec.v0+json": ""},
        {"text/html": script + div},
    ]


@pytest.mark.parametrize("library", ["plotly", "altair", "bokeh"])
@pytest.mark.parametrize("name", ["irises", "fruit counts", "life expectancy"])
def test_an_output_says_of_a_chart_what_its_variable_says(name: str, library: str) -> None:
    chart = LIBRARIES[library](RECIPES[name])
    known = describe_value(chart).body

    for data in outputs_of(library, chart):
        said = output_text([{"output_type": "display_data", "data": json.loads(json.dumps(data)), "metadata": {}}])
        assert said == known
        assert len(said) <= CHART_LIMIT


def test_a_page_without_a_chart_stays_what_it_was() -> None:
    page = {"text/html": "<table><tr><td>1</td></tr></table>", "text/plain": "<Styler>"}

    assert output_chart(page) == ""
    assert output_text([{"output_type": "display_data", "data": page, "metadata": {}}]) == "<Styler>"


@pytest.mark.parametrize(
    "data",
    [
        {"application/vnd.plotly.v1+json": {"data": 5, "layout": []}},
        {"application/vnd.plotly.v1+json": {"data": [{"type": "scatter", "y": {"dtype": "f8", "bdata": "!!"}}]}},
        {"application/vnd.plotly.v1+json": {"data": [None, [], {"x": {}, "y": "text"}]}},
        {"application/vnd.vegalite.v5+json": {"mark": 3, "encoding": {"x": [], "y": {"aggregate": "argmax"}}}},
        {"application/vnd.vegalite.v5+json": {"layer": [{"layer": "x"}], "data": {"values": [1, None, {"a": {}}]}}},
        {"text/html": '<script>const docs_json = {"a": {"roots": [{"id": 1}]}}</script>'},
        {"text/html": "<script>const docs_json = {broken</script>"},
        {"text/html": 'Plotly.newPlot("x", [{"y": [1'},
        {"text/html": "vega.github.io/schema/vega-lite })({ })({" + "})({" * 1_000},
    ],
)
def test_a_chart_that_is_broken_costs_nothing_but_its_text(data: dict[str, Any]) -> None:
    assert len(output_chart(data)) <= CHART_LIMIT
    assert isinstance(output_text([{"output_type": "display_data", "data": data, "metadata": {}}]), str)


def test_a_long_chart_is_cut_where_the_least_is_lost() -> None:
    traces = [
        {"type": "scatter", "mode": "lines", "name": f"series number {at}", "y": [at, at + 1]} for at in range(100)
    ]

    text = output_chart({"application/vnd.plotly.v1+json": {"data": traces, "layout": {"title": {"text": "Many"}}}})

    assert len(text) <= CHART_LIMIT
    assert text.startswith('plotly "Many" line; x 0 … 1; y 0 … 100; 100 series, n=200: series number 0, ')
    assert "min 0 in series number 0, max 100 in series number 99" in text
