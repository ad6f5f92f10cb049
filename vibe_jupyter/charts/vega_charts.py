"""Charts of Altair and other Vega-Lite libraries, from their specification.

Sums, means and counts are computed as the page would. Other transformations are named, and their results are unknown.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from vibe_jupyter.charts import Axis, Chart, Panel, Series
from vibe_jupyter.charts.columns import (
    NOTHING,
    DataColumn,
    column_of,
    joined_column,
    list_of,
    mapping_of,
    median_of,
    value_text,
)

Rows = list[Mapping[str, Any]]

_CHANNELS: Final = (
    "x",
    "y",
    "theta",
    "radius",
    "longitude",
    "latitude",
    "color",
    "size",
    "shape",
    "row",
    "column",
    "facet",
)
_GROUPS: Final = ("color", "shape", "detail", "strokeDash", "xOffset", "yOffset", "fill", "stroke")
_SHORTHAND: Final = re.compile(
    r"(?:(?P<aggregate>\w+)\((?P<inner>[^()]*)\)|(?P<field>[^()]*?))(?::(?P<type>[A-Za-z]+))?"
)
_MARKS: Final[Mapping[str, str]] = {
    "point": "scatter",
    "circle": "scatter",
    "square": "scatter",
    "arc": "pie",
    "boxplot": "box",
}
_FACETS: Final = ("row", "column", "facet")
_MOST_PANELS: Final = 20
_MOST_ROWS: Final = 200_000
_MOST_SERIES: Final = 60
# Aggregate functions of a group of values.
_FIGURES: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
    "average": lambda values: math.fsum(values) / len(values),
    "min": min,
    "max": max,
    "median": lambda values: median_of(DataColumn(tuple(values), "number")) or 0.0,
}


def vega_lite_chart(spec: Mapping[str, Any]) -> Chart:
    """Read a chart from a Vega-Lite specification with inline data."""
    named = mapping_of(spec.get("datasets"))
    panels = list(_panels(spec, {}, _Data([], known=False), named))[:_MOST_PANELS]
    title = _title_text(spec.get("title"))
    if len(panels) == 1 and panels[0].title == title:
        panels = [Panel(panels[0].axes, panels[0].series, "", panels[0].note)]
    return Chart("altair", panels, title)


class _Data:
    """Data rows, and whether they are complete."""

    def __init__(
        self, rows: Rows, *, known: bool, note: str = "", total: int | None = None, is_part: bool = False
    ) -> None:
        self.rows = rows
        self.known = known
        self.note = note
        self.total = len(rows) if total is None else total  # number of rows if `rows` is a sample
        self.is_part = is_part  # True if they belong to one of several panels

    @property
    def weight(self) -> float:
        """Number of original rows that each row represents."""
        return self.total / len(self.rows) if self.rows else 1.0

    def part(self, rows: Rows) -> "_Data":
        """Return a subset of the rows, for one panel."""
        total = round(len(rows) * self.weight)
        return _Data(rows, known=self.known, note=self.note, total=total, is_part=True)


def _panels(
    spec: Mapping[str, Any], above: Mapping[str, Any], data: _Data, named: Mapping[str, Any]
) -> Iterator[Panel]:
    data = _data_of(spec, data, named)
    encoding = {**above, **mapping_of(spec.get("encoding"))}
    for key in ("hconcat", "vconcat", "concat"):
        if key in spec:
            for part in list_of(spec[key]):
                yield from _panels(mapping_of(part), encoding, data, named)
            return
    if "spec" in spec:
        inner = mapping_of(spec["spec"])
        facets = mapping_of(spec.get("facet"))
        channels = facets if "field" not in facets and "shorthand" not in facets else {"facet": facets}
        if "repeat" in spec:
            yield from _repeated(spec, inner, encoding, data, named)
        else:
            yield from _panels(inner, {**encoding, **channels}, data, named)
        return
    if facets := _facets(encoding, data):
        name, rows_by_value = facets
        inner = {key: part for key, part in spec.items() if key not in ("data", "transform", "title")}
        below = {key: part for key, part in encoding.items() if key != name}
        for value, rows in rows_by_value.items():
            for panel in _panels({**inner, "encoding": {}}, below, data.part(rows), named):
                yield Panel(panel.axes, panel.series, " ".join(filter(None, (panel.title, value))), panel.note)
        return
    layers = [mapping_of(layer) for layer in list_of(spec.get("layer"))] or [spec]
    drawn = [_drawn(layer, encoding if layer is not spec else above, data, named) for layer in layers]
    yield _merged(drawn, _title_text(spec.get("title")))


def _facets(encoding: Mapping[str, Any], data: _Data) -> tuple[str, dict[str, Rows]] | None:
    """Return the first channel that facets the chart, with the rows of each panel."""
    name = next((one for one in _FACETS if type(encoding.get(one)) is dict), None)
    field = _Field(mapping_of(encoding[name])) if name is not None else None
    if name is None or field is None or not field.field or field.bins or field.unit:
        return None
    found: dict[str, Rows] = {}
    for row in data.rows:
        found.setdefault(_group_text(field, row), []).append(row)
    return (name, found) if 1 < len(found) <= _MOST_PANELS else None


def _group_text(field: "_Field", row: Mapping[str, Any]) -> str:
    """Return the value that determines a row's group."""
    known = column_of([row.get(field.field)]).values
    return value_text(known[0] if known else None)


def _repeated(
    spec: Mapping[str, Any],
    inner: Mapping[str, Any],
    encoding: Mapping[str, Any],
    data: _Data,
    named: Mapping[str, Any],
) -> Iterator[Panel]:
    repeat = spec["repeat"]
    by_channel = mapping_of(repeat) or {"repeat": repeat}
    rows, columns = (list_of(by_channel.get(name)) or [None] for name in ("row", "column"))
    for field in list_of(by_channel.get("repeat") or by_channel.get("layer")) or [None]:
        for row in rows:
            for column in columns:
                chosen = {"repeat": field, "layer": field, "row": row, "column": column}
                yield from _panels(cast("Mapping[str, Any]", _chosen(inner, chosen)), encoding, data, named)


def _chosen(part: Any, chosen: Mapping[str, Any]) -> Any:
    """Substitute the repeated field for its references."""
    if type(part) is dict:
        mapping = cast("dict[str, Any]", part)
        if set(mapping) == {"repeat"} and type(mapping["repeat"]) is str:
            return chosen.get(mapping["repeat"])
        return {key: value if key in ("data", "datasets") else _chosen(value, chosen) for key, value in mapping.items()}
    return [_chosen(one, chosen) for one in cast("list[Any]", part)] if type(part) is list else part


def _data_of(spec: Mapping[str, Any], data: _Data, named: Mapping[str, Any]) -> _Data:
    source = mapping_of(spec.get("data"))
    if source:
        values = source.get("values", named.get(str(source.get("name"))))
        if type(values) is list:
            rows = [mapping_of(row) or {"data": row} for row in list_of(cast("object", values))[:_MOST_ROWS]]
            total = source.get("_total")
            data = _Data(rows, known=True, total=total if type(total) is int else len(list_of(cast("object", values))))
        else:
            address = source.get("url")
            data = _Data([], known=False, note=f"data from {address}" if type(address) is str else "data elsewhere")
    steps = [next(iter(mapping_of(step)), "") for step in list_of(spec.get("transform"))]
    if steps:
        note = f"after {', '.join(map(str, steps[:4]))}; ranges of the data before"
        return _Data(data.rows, known=False, note=note, total=data.total, is_part=data.is_part)
    return data


class _Field:
    """Definition of a channel, with its shorthand parsed."""

    def __init__(self, definition: Mapping[str, Any]) -> None:
        short = definition.get("shorthand")
        match = _SHORTHAND.fullmatch(short) if type(short) is str else None
        self.definition = definition
        self.aggregate = definition.get("aggregate") or (match and match["aggregate"])
        field = definition.get("field") or (match and (match["inner"] or match["field"]))
        self.field = field.replace("\\", "") if type(field) is str else ""
        self.bins = bool(definition.get("bin"))
        self.unit = definition.get("timeUnit") if type(definition.get("timeUnit")) is str else ""
        if self.aggregate and self.aggregate not in (*_FIGURES, "count", "distinct") and self.field:
            self.unit = self.unit or ""

    @property
    def label(self) -> str:
        """The axis title that the page shows."""
        for title in (self.definition.get("title"), mapping_of(self.definition.get("axis")).get("title")):
            if type(title) in (str, list):
                return _title_text(title)
        if self.aggregate == "count":
            return "Count of Records"
        if self.aggregate:
            return f"{str(self.aggregate).capitalize()} of {self.field}"
        return f"{self.field} (binned)" if self.bins else f"{self.field} ({self.unit})" if self.unit else self.field

    @property
    def note(self) -> str:
        scale = mapping_of(self.definition.get("scale"))
        return "log" if scale.get("type") == "log" else ""


def _drawn(layer: Mapping[str, Any], above: Mapping[str, Any], data: _Data, named: Mapping[str, Any]) -> Panel:
    data = _data_of(layer, data, named) if layer.get("data") or layer.get("transform") else data
    inner = [mapping_of(one) for one in list_of(layer.get("layer"))]
    encoding = {**above, **mapping_of(layer.get("encoding"))}
    if inner:
        return _merged([_drawn(one, encoding, data, named) for one in inner], _title_text(layer.get("title")))
    fields = {name: _Field(mapping_of(encoding[name])) for name in encoding if type(encoding[name]) is dict}
    kind = _kind_of(layer, fields)
    drawn = _aggregated(data, fields)
    axes = [_axis(name, fields[name], drawn.rows) for name in _CHANNELS if name in fields and _shows(fields[name])]
    return Panel(axes, _series_of(kind, fields, drawn), _title_text(layer.get("title")), drawn.note)


def _shows(field: _Field) -> bool:
    return bool(field.field or field.aggregate)


def _kind_of(layer: Mapping[str, Any], fields: Mapping[str, _Field]) -> str:
    mark = layer.get("mark")
    name = str(mapping_of(mark).get("type", mark))
    binned = any(field.bins for field in fields.values())
    counted = any(field.aggregate == "count" for field in fields.values())
    if name == "bar" and binned and counted:
        return "histogram"
    if name == "rect" and "color" in fields:
        return "heatmap"
    if name == "bar" and "x" in fields and (fields["x"].aggregate and "y" in fields and not fields["y"].aggregate):
        return "horizontal bar"
    shown = _MARKS.get(name, name)
    return f"{shown} with markers" if mapping_of(mark).get("point") else shown


def _axis(name: str, field: _Field, rows: Rows) -> Axis:
    column = _column(field, rows)
    domain = list_of(mapping_of(field.definition.get("scale")).get("domain"))
    limits = (
        f"shown {value_text(column_of(domain).low)} … {value_text(column_of(domain).high)}" if len(domain) == 2 else ""
    )
    if column_of(domain).kind == "text":
        limits = ""
    return Axis(name, field.label, column, ", ".join(filter(None, (field.note, limits))))


def _column(field: _Field, rows: Iterable[Mapping[str, Any]]) -> DataColumn:
    key = _key_of(field)
    return column_of([row.get(key) for row in rows])


def _key_of(field: _Field) -> str:
    """Return the key of the field in an aggregated row."""
    return f"{field.aggregate}({field.field})" if field.aggregate else field.field


def _aggregated(data: _Data, fields: Mapping[str, _Field]) -> _Data:
    """Aggregate the rows if a channel counts, sums or averages. Binned data stays as it is."""
    wanted = [field for field in fields.values() if field.aggregate]
    if not wanted:
        return data
    if any(field.bins or field.unit for field in fields.values()):
        return data
    keys = [field.field for field in fields.values() if field.field and not field.aggregate]
    groups: dict[tuple[object, ...], Rows] = {}
    for row in data.rows:
        groups.setdefault(tuple(_hashable(row.get(key)) for key in keys), []).append(row)
    rows: Rows = [
        {
            **dict(zip(keys, group, strict=True)),
            **{_key_of(field): _figure(field, members, data.weight) for field in wanted},
        }
        for group, members in groups.items()
    ]
    sampled = f"estimated from {len(data.rows)} of {data.total} rows" if data.weight != 1 else ""
    return _Data(rows, known=data.known, note=", ".join(filter(None, (data.note, sampled))))


def _hashable(value: object) -> object:
    return value if type(value) in (str, int, float, bool, type(None)) else str(type(value))


def _figure(field: _Field, rows: Rows, weight: float) -> float | None:
    """Compute a group's aggregate. Each row represents `weight` rows."""
    if field.aggregate == "count":
        return float(round(len(rows) * weight))
    values = [one for one in column_of([row.get(field.field) for row in rows]).known if type(one) is float]
    if field.aggregate == "distinct":
        return float(len(set(values)))
    figure = _FIGURES.get(str(field.aggregate))
    found = figure(values) if figure and values else None
    return found * weight if found is not None and field.aggregate == "sum" else found


def _series_of(kind: str, fields: Mapping[str, _Field], data: _Data) -> list[Series]:
    rows = data.rows
    across, up = (
        _first(fields, "x", "longitude", "color" if "theta" in fields else "x"),
        _first(fields, "y", "latitude", "theta"),
    )
    if kind == "heatmap":
        column = _column(fields["color"], rows)
        return [Series(kind, "", NOTHING, column)]
    if kind == "horizontal bar" and across is not None:
        across, up = up, across
    groups: dict[str, Rows] = {}
    channels = ("x", "y") if kind == "box" else _GROUPS  # a box per category
    field = next((fields[name] for name in channels if _is_group(fields.get(name), rows)), None)
    if kind == "box" and field is not None and field is fields.get("y"):
        kind, across, up = "horizontal box", up, across
    if field is None or kind == "pie":
        groups[""] = rows
    else:
        for row in rows:
            groups.setdefault(_group_text(field, row), []).append(row)
    is_estimate = data.is_part or len(groups) > 1

    def read(field: _Field | None, own: Rows) -> DataColumn:
        found = _column(field, own) if field else NOTHING
        total = round(len(own) * data.weight) if found.values and data.weight != 1 else None
        return found if total is None else replace(found, total=total, is_estimate=is_estimate)

    return [Series(kind, name, read(across, own), read(up, own)) for name, own in list(groups.items())[:_MOST_SERIES]]


def _first(fields: Mapping[str, _Field], *names: str) -> _Field | None:
    return next((fields[name] for name in names if name in fields and _shows(fields[name])), None)


def _is_group(field: _Field | None, rows: Rows) -> bool:
    """Return whether a channel separates series rather than showing a quantity."""
    if field is None or not field.field or field.aggregate or field.bins:
        return False
    wanted = str(field.definition.get("type") or "")
    shorthand = str(field.definition.get("shorthand") or "")
    if wanted in ("nominal", "ordinal") or shorthand.endswith((":N", ":O")):
        return True
    return not wanted and not shorthand.endswith((":Q", ":T")) and _column(field, rows).kind == "text"


def _merged(panels: Sequence[Panel], title: str) -> Panel:
    """Merge layers into one panel."""
    if len(panels) == 1:
        only = panels[0]
        return Panel(only.axes, only.series, only.title or title, only.note)
    axes: dict[str, Axis] = {}
    for axis in (axis for panel in panels for axis in panel.axes):
        known = axes.get(axis.name)
        axes[axis.name] = axis if known is None else _joined_axis(known, axis)
    series = [one for panel in panels for one in panel.series]
    notes = dict.fromkeys(panel.note for panel in panels if panel.note)
    return Panel(list(axes.values()), series, title, ", ".join(notes))


def _joined_axis(one: Axis, other: Axis) -> Axis:
    label = (
        one.label if one.label == other.label or not other.label else ", ".join(filter(None, (one.label, other.label)))
    )
    return Axis(one.name, label, joined_column((one.column, other.column)), one.note or other.note)


def _title_text(title: object) -> str:
    if type(title) is dict:
        title = cast("dict[str, object]", title).get("text")
    if type(title) is list:
        return " ".join(one for one in cast("list[object]", title) if type(one) is str)
    return title if type(title) is str else ""
