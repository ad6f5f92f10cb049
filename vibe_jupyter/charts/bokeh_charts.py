"""Charts of Bokeh, and of HoloViews with the Bokeh backend, from the models sent to the page.

A model is its class name and attributes, whether it is read from a page's JSON or an object in the kernel.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from vibe_jupyter.charts import Axis, Chart, Panel, Series
from vibe_jupyter.charts.columns import (
    NOTHING,
    DataColumn,
    column_of,
    joined_column,
    list_of,
    mapping_of,
    sampled_column,
    taken,
)

# Returns a model's class and attributes, or None for anything else.
ReadModel = Callable[[object], "tuple[str, Mapping[str, Any]] | None"]

_KINDS: Final[Mapping[str, str]] = {
    **{"VBar": "bar", "HBar": "horizontal bar", "Quad": "histogram", "VArea": "area", "HArea": "area"},
    **{"Wedge": "pie", "AnnularWedge": "pie", "Rect": "heatmap", "Image": "image", "MultiLine": "line"},
    **{"Scatter": "scatter", "Circle": "scatter", "Segment": "segments", "VStrip": "strip", "HStrip": "strip"},
    **{"Patches": "patches", "Patch": "area", "Line": "line", "Step": "step line", "Varea": "area"},
}
# Attributes with coordinates along x and y. Other glyphs have ``x`` and ``y``.
_SPATIAL: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "VBar": (("x",), ("top", "bottom")),
    "HBar": (("y",), ("right", "left")),
    "Quad": (("left", "right"), ("top",)),
    "VArea": (("x",), ("y1", "y2")),
    "HArea": (("y",), ("x1", "x2")),
    "Segment": (("x0", "x1"), ("y0", "y1")),
    "MultiLine": (("xs",), ("ys",)),
    "Patches": (("xs",), ("ys",)),
}
# Glyphs that extend to the data from a base line or from another glyph.
_FROM_A_LEVEL: Final = ("VBar", "HBar", "VArea", "HArea")
_MOST_MODELS: Final = 20_000
_MOST_RENDERERS: Final = 100
_MOST_DEPTH: Final = 8


def bokeh_document(document: Mapping[str, Any], library: str = "bokeh") -> Chart:
    """Read a chart from a document's JSON, as found in the page."""
    models: dict[str, Mapping[str, Any]] = {}
    for found in _objects(document):
        if len(models) < _MOST_MODELS:
            models[str(found["id"])] = found

    def read(value: object) -> tuple[str, Mapping[str, Any]] | None:
        known = mapping_of(value)
        full = known if "attributes" in known or "name" in known else models.get(str(known.get("id")), known)
        name = full.get("name")
        return (
            (name, mapping_of(full.get("attributes"))) if full.get("type") == "object" and type(name) is str else None
        )

    roots = [one for one in list_of(document.get("roots"))]
    return bokeh_chart(roots or list(models.values()), read, library)


def _objects(part: object) -> Iterator[Mapping[str, Any]]:
    waiting: list[object] = [part]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            mapping = cast("dict[str, Any]", one)
            if mapping.get("type") == "object" and "id" in mapping and ("name" in mapping):
                yield mapping
            waiting += mapping.values()
        elif type(one) is list and len(cast("list[object]", one)) < _MOST_MODELS:
            waiting += [inner for inner in cast("list[object]", one) if type(inner) in (dict, list)]


def bokeh_chart(roots: Sequence[object], read: ReadModel, library: str = "bokeh") -> Chart:
    """Read a chart from models, plots or layouts."""
    panels = [_panel(plot, read) for root in roots for plot in _plots(root, read, 0)]
    if len(panels) == 1:
        only = panels[0]
        return Chart(library, [Panel(only.axes, only.series)], only.title)
    return Chart(library, panels)


def _plots(value: object, read: ReadModel, depth: int) -> Iterator[Mapping[str, Any]]:
    model = read(value)
    if model is None or depth > _MOST_DEPTH:
        return
    name, attributes = model
    if "renderers" in attributes and ("x_range" in attributes or name in ("Figure", "figure", "Plot")):
        yield attributes
        return
    for key in ("children", "tabs", "child", "model", "objects"):
        children = attributes.get(key)
        for child in list_of(children) or ([children] if children is not None else []):
            inner = child[0] if type(child) in (list, tuple) and child else child
            yield from _plots(inner, read, depth + 1)


def _panel(plot: Mapping[str, Any], read: ReadModel) -> Panel:
    names = dict(_legend_names(plot, read))
    series: list[Series] = []
    for renderer in list_of(plot.get("renderers"))[:_MOST_RENDERERS]:
        model = read(renderer)
        if model is not None and "glyph" in model[1]:
            series += _series_of(model[1], read, names.get(_identity(renderer), ""))
    flipped = bool(series) and all(one.kind.startswith("horizontal") for one in series)
    x, y = joined_column(one.x for one in series), joined_column(one.y for one in series)
    columns = (y, x) if flipped else (x, y)
    axes = [
        _axis(name, sides, range_name, plot, read, column)
        for name, sides, range_name, column in (
            ("x", ("below", "above"), "x_range", columns[0]),
            ("y", ("left", "right"), "y_range", columns[1]),
        )
    ]
    return Panel(axes, series, _text_of(plot.get("title"), read))


def _axis(
    name: str, sides: Sequence[str], range_name: str, plot: Mapping[str, Any], read: ReadModel, column: DataColumn
) -> Axis:
    label, note = "", ""
    for side in sides:
        for model in filter(None, map(read, list_of(plot.get(side)))):
            if "Axis" in model[0] and not label:
                label = _plain_text(model[1].get("axis_label"))
                note = "log" if model[0].startswith("Log") else "time" if model[0].startswith("Datetime") else ""
    span = read(plot.get(range_name))
    if not column.values and span is not None and type(span[1].get("factors")) is list:
        column = column_of(span[1]["factors"])
    return Axis(name, label, column, note)


def _series_of(renderer: Mapping[str, Any], read: ReadModel, name: str) -> list[Series]:
    glyph, source = read(renderer.get("glyph")), read(renderer.get("data_source"))
    if glyph is None:
        return []
    kind, attributes = glyph
    data = _data_of(source[1].get("data") if source else None)
    along, up = _SPATIAL.get(kind, (("x",), ("y",)))
    shown = _KINDS.get(kind, kind.lower())
    if shown == "pie" and name == "":
        return [Series(shown, "", _first_texts(data), NOTHING)]
    x, y = (joined_column(_column(attributes.get(key), data) for key in keys) for keys in (along, up))
    if kind in _FROM_A_LEVEL:
        # The base of a bar is usually zero, and only interesting if it isn't.
        ends = [_column(attributes.get(key), data) for key in up]
        y = max(ends, key=lambda one: len(one.distinct)) if ends[0].values else y
        x = _column(attributes.get(along[0]), data)
    if kind == "Quad" and y.kind == "number":
        counts = [one for one in y.known if type(one) is float]
        total = sum(counts) if all(one >= 0 and one == int(one) for one in counts) else 0
        return [Series(shown, name.removeprefix("\0"), x, y, f"in {len(counts)} bins", int(total))]
    if name.startswith("\0") and name[1:] in data:
        return _by_group(shown, column_of(data[name[1:]]), x, y)
    return [Series(shown, name.removeprefix("\0"), x, y)]


def _by_group(kind: str, names: DataColumn, x: DataColumn, y: DataColumn) -> list[Series]:
    """Split a renderer's points into series by the column that provides the legend's texts."""
    groups: dict[str, list[int]] = {}
    for place, one in enumerate(names.values):
        groups.setdefault(str(one), []).append(place)
    return [Series(kind, name, taken(x, places), taken(y, places)) for name, places in groups.items()]


def _first_texts(data: Mapping[str, Any]) -> DataColumn:
    return next(
        (column for column in map(column_of, data.values()) if column.kind == "text" and column.values), NOTHING
    )


def _data_of(data: object) -> Mapping[str, Any]:
    """Return columns by name. Bokeh serializes mappings in two ways."""
    known = mapping_of(data)
    if known.get("type") == "map":
        pairs = map(list_of, list_of(known.get("entries")))
        return {str(pair[0]): pair[1] for pair in pairs if len(pair) == 2}
    return known


def _column(spec: object, data: Mapping[str, Any]) -> DataColumn:
    known = mapping_of(spec)
    if "field" in known:
        spec = known["field"]
    elif "value" in known:
        return column_of([known["value"]]) if type(known["value"]) in (int, float) else NOTHING
    if type(spec) is str:
        values = data.get(spec)
        nested = list_of(values)
        if nested and type(nested[0]) in (list, dict):
            return joined_column(column_of(one) for one in nested[:_MOST_RENDERERS])
        return sampled_column(data, spec)
    return NOTHING


def _legend_names(plot: Mapping[str, Any], read: ReadModel) -> Iterator[tuple[str, str]]:
    """Yield each renderer's id with its legend text, or with NUL and the name of the column that has the texts."""
    for place in ("center", "right", "left", "above", "below"):
        for model in filter(None, map(read, list_of(plot.get(place)))):
            if model[0] != "Legend":
                continue
            for item in filter(None, map(read, list_of(model[1].get("items")))):
                label = item[1].get("label")
                known = mapping_of(label)
                by_column = "field" in known
                text = str(known.get("field") or known.get("value") or (label if type(label) is str else ""))
                for renderer in list_of(item[1].get("renderers")):
                    yield _identity(renderer), f"\0{text}" if by_column else text


def _identity(value: object) -> str:
    known = mapping_of(value)
    return str(known["id"]) if "id" in known else str(id(value))


def _text_of(value: object, read: ReadModel) -> str:
    model = read(value)
    return _plain_text(model[1].get("text")) if model is not None else _plain_text(value)


def _plain_text(value: object) -> str:
    return value if type(value) is str else ""
