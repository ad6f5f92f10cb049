"""Charts of Plotly, from the figure's dictionary of traces and layout."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from vibe_jupyter.charts import Axis, Chart, Panel, Series, series_by_category
from vibe_jupyter.charts.columns import (
    NOTHING,
    DataColumn,
    column_of,
    joined_column,
    list_of,
    mapping_of,
    number_column,
    sampled_column,
    value_text,
)

_KINDS: Final[Mapping[str, str]] = {"scattergl": "scatter", "scatterpolar": "polar", "histogram2d": "2D histogram"}
_TAG: Final = re.compile(r"<[^<>]{0,80}>")
_GRIDS: Final = ("heatmap", "contour", "surface", "heatmapgl", "image")
_ERRORS: Final = ("error_x", "error_y")
_SPANS: Final = tuple([one, other] for one in (int, float) for other in (int, float))
_NEAR: Final = 1e-3  # maximum distance of a title from the center of its panel, as a fraction of the page
_MOST_TRACES: Final = 200
_ARRAYS: Final = ("x", "y", "z", "values", "labels", "locations", "lat", "lon", "r", "theta", "a", "b", "open", "close")


def plotly_chart(figure: Mapping[str, Any]) -> Chart:
    """Read a chart from a figure's JSON."""
    layout = mapping_of(figure.get("layout"))
    traces = [_with_columns(mapping_of(trace)) for trace in list_of(figure.get("data"))[:_MOST_TRACES]]
    placed: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for trace in traces:
        placed.setdefault(_place_of(trace), []).append(trace)
    panels = [_panel(place, shown, layout) for place, shown in placed.items()]
    return Chart("plotly", panels, _text_of(layout.get("title")))


def _with_columns(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parse x and y, which both the axes and the series need."""
    return {**trace, **{key: sampled_column(trace, key) for key in ("x", "y") if key in trace}}


def _place_of(trace: Mapping[str, Any]) -> tuple[str, str]:
    """Return the axes, or the kind of subplot, that a trace is drawn in."""
    for key in ("scene", "geo", "polar", "subplot", "domain"):
        if key in trace and key != "domain":
            return key, str(trace[key])
    return str(trace.get("xaxis") or "x"), str(trace.get("yaxis") or "y")


def _panel(place: tuple[str, str], traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> Panel:
    series = [one for trace in traces for one in _series_of(trace)]
    title = _title_above(place, layout)
    if traces[0].get("type") in ("pie", "funnelarea", "sunburst", "treemap", "icicle"):
        columns = joined_column(one.x for one in series), joined_column(one.y for one in series)
        return Panel([Axis("labels", "", columns[0]), Axis("values", "", columns[1])], series, title)
    names = _axis_names(traces[0])
    axes = [_axis_of(name, place, layout, [_channel(trace, key) for trace in traces]) for name, key in names]
    return Panel([*axes, *_color_axes(traces, layout)], series, title)


def _title_above(place: tuple[str, str], layout: Mapping[str, Any]) -> str:
    """Return the annotation above the center of a panel, which is how Plotly draws subplot titles."""
    spans = [
        list_of(mapping_of(layout.get(f"{name}axis{which.removeprefix(name)}")).get("domain"))
        for name, which in zip("xy", place, strict=True)
    ]
    if any(list(map(type, span)) not in _SPANS for span in spans):
        return ""
    (left, right), (_, top) = spans
    for note in map(mapping_of, list_of(layout.get("annotations"))[:_MOST_TRACES]):
        x, y = note.get("x"), note.get("y")
        if note.get("xref") != "paper" or type(x) not in (int, float) or type(y) not in (int, float):
            continue
        if abs(x - (left + right) / 2) < _NEAR and abs(y - top) < _NEAR and note.get("showarrow") is False:
            return _text_of(note)
    return ""


def _axis_names(trace: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "r" in trace or "theta" in trace:
        return [("r", "r"), ("theta", "theta")]
    if "lat" in trace:
        return [("lat", "lat"), ("lon", "lon")]
    if "locations" in trace:
        return [("locations", "locations"), ("color", "z")]
    return [("x", "x"), ("y", "y"), *([("z", "z")] if "z" in trace else [])]


def _axis_of(name: str, place: tuple[str, str], layout: Mapping[str, Any], columns: Iterable[DataColumn]) -> Axis:
    if place[0] == "scene":
        spec = mapping_of(mapping_of(layout.get(place[1])).get(f"{name}axis"))
    else:
        which = place[1] if name == "y" else place[0]
        spec = mapping_of(layout.get(f"{name}axis{which.removeprefix(name)}") if name in ("x", "y") else None)
    unit = str(spec.get("ticksuffix") or spec.get("tickprefix") or "").strip()
    notes = [str(spec["type"]) if spec.get("type") == "log" else "", f"ticks in {unit}" if unit else ""]
    return Axis(name, _text_of(spec.get("title")), joined_column(columns), ", ".join(filter(None, notes)))


def _channel(trace: Mapping[str, Any], key: str) -> DataColumn:
    kind = trace.get("type", "scatter")
    if key == "z" and kind != "scatter3d":
        return _grid_column(trace.get("z"))
    column = sampled_column(trace, key)
    if column.values or key not in ("x", "y"):
        return column
    if key == "y" and kind == "candlestick":
        return joined_column(sampled_column(trace, name) for name in ("low", "high"))
    other = sampled_column(trace, "y" if key == "x" else "x")
    if kind in ("scatter", "bar", "scattergl") and other.values:
        if places := list_of(trace.get("_places")):
            return column_of(places, other.count)
        start, step = trace.get(f"{key}0", 0), trace.get(f"d{key}", 1)
        if type(start) in (int, float) and type(step) in (int, float):
            return number_column(start + step * place for place in range(len(other.values)))
    return column


def _grid_column(rows: object) -> DataColumn:
    """Flatten a grid's values row by row."""
    if mapping_of(rows):
        return column_of(rows)
    found = list_of(rows)
    if found and type(found[0]) in (list, dict):
        return joined_column(column_of(row) for row in found[:2_000])
    return column_of(found)


def _series_of(trace: Mapping[str, Any]) -> list[Series]:
    kind = str(trace.get("type") or "scatter")
    name = _text_of(trace.get("name"))
    if "labels" in trace or "values" in trace:
        return [Series(kind, name, sampled_column(trace, "labels"), sampled_column(trace, "values"))]
    if kind in _GRIDS:
        grid = _grid_column(trace.get("z"))
        return [Series(kind, name, NOTHING, grid, _grid_note(trace))]
    x, y = _series_columns(trace, kind)
    shown = _kind_text(kind, trace)
    if kind in ("box", "violin") and x.kind == "text" and len(x.values) == len(y.values):
        return series_by_category(shown, name, x, y)
    has_errors = any(mapping_of(trace.get(key)).get("visible", True) and trace.get(key) for key in _ERRORS)
    notes = ["error bars" if has_errors else "", _bins_note(trace) if kind == "histogram" else ""]
    return [Series(shown, name, x, y, ", ".join(filter(None, notes)))]


def _bins_note(trace: Mapping[str, Any]) -> str:
    size: Any = mapping_of(trace.get("xbins")).get("size")
    return f"bins of {value_text(float(size))}" if type(size) in (int, float) else ""


def _series_columns(trace: Mapping[str, Any], kind: str) -> tuple[DataColumn, DataColumn]:
    if "locations" in trace:
        return sampled_column(trace, "locations"), sampled_column(trace, "z")
    if "r" in trace:
        return sampled_column(trace, "theta"), sampled_column(trace, "r")
    if "lat" in trace:
        return sampled_column(trace, "lon"), sampled_column(trace, "lat")
    if kind == "candlestick" or kind == "ohlc":
        return sampled_column(trace, "x"), sampled_column(trace, "close")
    if kind in ("box", "violin", "histogram"):
        x, y = sampled_column(trace, "x"), sampled_column(trace, "y")
        return (y, x) if trace.get("orientation") == "h" and kind != "histogram" else (x, y)
    x, y = _channel(trace, "x"), _channel(trace, "y")
    return (y, x) if trace.get("orientation") == "h" else (x, y)


def _grid_note(trace: Mapping[str, Any]) -> str:
    shape = mapping_of(trace.get("z")).get("shape")
    if type(shape) is str:
        return f"{shape.replace(', ', ' × ')} cells"
    rows = list_of(trace.get("z"))
    return f"{len(rows)} × {len(column_of(rows[0]).values)} cells" if rows else ""


def _kind_text(kind: str, trace: Mapping[str, Any]) -> str:
    if kind in ("scatter", "scattergl", "scatter3d", "scatterpolar"):
        mode, filled = str(trace.get("mode") or ""), trace.get("fill", trace.get("stackgroup")) not in (None, "none")
        shape = "area" if filled else "line" if "lines" in mode and "markers" not in mode else "line with markers"
        known = "scatter" if mode == "markers" or (not mode and not filled) else shape
        return {"scatter3d": f"3D {known}", "scatterpolar": f"polar {known}"}.get(kind, known)
    if trace.get("orientation") == "h":
        return f"horizontal {kind}"
    return _KINDS.get(kind, kind)


def _color_axes(traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> list[Axis]:
    """Return axes for marker colors and sizes that show data."""
    axes: list[Axis] = []
    for channel in ("color", "size"):
        columns = [column_of(mapping_of(trace.get("marker")).get(channel)) for trace in traces]
        column = joined_column(one for one in columns if one.kind == "number" and one.count > 1)
        if column.values:
            bar = mapping_of(mapping_of(layout.get("coloraxis")).get("colorbar"))
            axes.append(Axis(channel, _text_of(bar.get("title")) if channel == "color" else "", column))
    return axes


def _text_of(value: object) -> str:
    """Return a title, given as text or mapping, without markup."""
    text = mapping_of(value).get("text", value)
    return _TAG.sub(" ", text).strip() if type(text) is str else ""
