"""Text of a chart in a cell's output, from the data that the page draws."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from vibe_jupyter.charts import Chart
from vibe_jupyter.charts.bokeh_charts import bokeh_document
from vibe_jupyter.charts.plotly_charts import plotly_chart
from vibe_jupyter.charts.text import chart_text
from vibe_jupyter.charts.vega_charts import vega_lite_chart

logger = logging.getLogger(__name__)

_PLOTLY: Final = "application/vnd.plotly.v1+json"
_VEGA_LITE: Final = re.compile(r"application/vnd\.vegalite\.v\d+(\.\d+)?\+json")
_VEGA: Final = re.compile(r"application/vnd\.vega(lite)?\.v\d+(\.\d+)?\+json")
_SIGNS: Final = ("docs_json", "Plotly.", "vega.github.io/schema/vega")  # markers of scripts that draw a chart
_SOURCES: Final = ("application/javascript", "text/html")
_BOKEH_DATA: Final = re.compile(r"(?:const|var|let)\s+docs_json\s*=\s*")
_PLOTLY_CALL: Final = re.compile(r"Plotly\.(?:newPlot|react)\(\s*[\"'][^\"']{1,80}[\"']\s*,\s*")
_VEGA_CALL: Final = re.compile(r"\}\)\(\s*(?=\{)|(?:const|var|let)\s+spec\s*=\s*(?=\{)")
_SCHEMA: Final = "vega.github.io/schema/vega-lite"
_MOST_HTML: Final = 20_000_000
_MOST_CALLS: Final = 20


def output_chart(data: Mapping[str, Any]) -> str:
    """Describe the chart in an output's MIME bundle, or return "" if there is none or its format is unknown."""
    try:
        chart = _chart_of(data)
        return chart_text(chart) if chart is not None and chart.panels else ""
    except Exception:  # a chart that can't be read must not cost the output
        logger.warning("A chart in an output could not be described.", exc_info=True)
        return ""


def is_chart(data: Mapping[str, Any]) -> bool:
    """Return whether a page would draw a chart for this output, by a quick check."""
    if _PLOTLY in data or any(map(_VEGA.fullmatch, data)):
        return True
    sources = [_joined_text(data.get(mime)) for mime in _SOURCES]
    return any(sign in source for source in sources if len(source) <= _MOST_HTML for sign in _SIGNS)


def chart_spec(data: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the chart type, ``plotly`` or ``vega-lite``, and its specification, or None."""
    if type(figure := data.get(_PLOTLY)) is dict:
        return "plotly", cast("dict[str, Any]", figure)
    for mime, spec in data.items():
        if _VEGA_LITE.fullmatch(mime) and type(spec) is dict:
            return "vega-lite", cast("dict[str, Any]", spec)
    source = _joined_text(data.get("text/html"))
    if len(source) > _MOST_HTML:
        return None
    figure = _plotly_in(source)
    if figure is not None:
        return "plotly", figure
    spec = _vega_lite_in(source)
    return ("vega-lite", spec) if spec is not None else None


def _chart_of(data: Mapping[str, Any]) -> Chart | None:
    if type(figure := data.get(_PLOTLY)) is dict:
        return plotly_chart(cast("dict[str, Any]", figure))
    for mime, spec in data.items():
        if _VEGA_LITE.fullmatch(mime) and type(spec) is dict:
            return vega_lite_chart(cast("dict[str, Any]", spec))
    for mime in _SOURCES:
        source = _joined_text(data.get(mime))
        if source and len(source) <= _MOST_HTML and (chart := _chart_in_source(source, data)) is not None:
            return chart
    return None


def _chart_in_source(source: str, data: Mapping[str, Any]) -> Chart | None:
    if "docs_json" in source:
        for document in _documents(source):
            return bokeh_document(document, "holoviews" if any("holoviews" in mime for mime in data) else "bokeh")
    if (figure := _plotly_in(source)) is not None:
        return plotly_chart(figure)
    spec = _vega_lite_in(source)
    return vega_lite_chart(spec) if spec is not None else None


def _plotly_in(source: str) -> dict[str, Any] | None:
    if "Plotly." not in source or (call := _PLOTLY_CALL.search(source)) is None:
        return None
    traces, end = _read_json(source, call.end())
    layout, _ = _read_json(source, end)
    return {"data": traces, "layout": layout} if type(traces) is list else None


def _vega_lite_in(source: str) -> dict[str, Any] | None:
    if _SCHEMA in source:
        for call in _first_calls(source):
            spec, _ = _read_json(source, call.end())
            if type(spec) is dict and _SCHEMA in str(cast("dict[str, Any]", spec).get("$schema")):
                return cast("dict[str, Any]", spec)
    return None


def _first_calls(source: str) -> Iterator[re.Match[str]]:
    for count, call in enumerate(_VEGA_CALL.finditer(source)):
        if count >= _MOST_CALLS:
            return
        yield call


def _documents(source: str) -> Iterator[Mapping[str, Any]]:
    for found in _BOKEH_DATA.finditer(source):
        documents, _ = _read_json(source, found.end())
        if type(documents) is str:
            documents = json.loads(documents)
        if type(documents) is dict:
            yield from (one for one in cast("dict[str, Any]", documents).values() if type(one) is dict)


def _read_json(source: str, start: int) -> tuple[object, int]:
    """Parse the JSON value at `start`, and return it with the index after it; None if there is none."""
    while start < len(source) and source[start] in " \t\r\n,":
        start += 1
    quoted = source.startswith("'", start)
    try:
        if quoted:
            end = source.index("'", start + 1)
            return source[start + 1 : end], end + 1
        return json.JSONDecoder().raw_decode(source, start)
    except ValueError:
        return None, start


def _joined_text(value: object) -> str:
    if type(value) is list:
        return "".join(part for part in cast("list[object]", value) if type(part) is str)
    return value if type(value) is str else ""
