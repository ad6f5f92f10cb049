"""Chart objects of plotly, Altair, bokeh and holoviews, described without rendering them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from vibe_jupyter.charts import Axis, Chart, Panel, Series, series_by_category
from vibe_jupyter.charts.bokeh_charts import bokeh_chart
from vibe_jupyter.charts.columns import NOTHING, DataColumn, column_of, joined_column, list_of, mapping_of
from vibe_jupyter.charts.plotly_charts import plotly_chart
from vibe_jupyter.charts.text import chart_text
from vibe_jupyter.charts.vega_charts import vega_lite_chart
from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_mro,
    instance_dict,
    is_of_package,
    is_one_of,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.chart_data import (
    DEPTH,
    chosen_positions,
    frame_rows,
    list_items,
    plain_column,
    plain_tree,
    stored_values,
)
from vibe_jupyter.variables.plain_values import pairs_of, plain_cell_text

_FIELDS: Final = 4_000  # parts of a specification that are searched for column names
_MARKS: Final[Mapping[str, str]] = {
    **{"Curve": "line", "Points": "scatter", "Bars": "bar", "BoxWhisker": "box", "HeatMap": "heatmap"},
    **{"QuadMesh": "heatmap", "Distribution": "density", "Spread": "area", "Labels": "text"},
}
_GRIDS: Final = ("Image", "Raster", "QuadMesh", "RGB", "HeatMap")
_GIVEN_ROWS: Final = 5_000  # rows read of inline data in a specification
_MOST_ELEMENTS: Final = 60
_GRID_SIDES: Final = 2


def chart_adapter(kind: str, chart_of: Callable[[Any], Chart]) -> VariableAdapter:

    def line(value: Any) -> str:
        return f"{kind} {type_name(value).rpartition('.')[2]}"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        text = chart_text(chart_of(value))
        return VariableDescription(headline=line(value), body=text, summary=text.partition(";")[0])

    return VariableAdapter(line=line, describe=describe, fingerprint=id)


def plotly_adapter() -> VariableAdapter:
    return chart_adapter("plotly", _plotly_chart)


def _plotly_chart(value: Any) -> Chart:
    stored = instance_dict(value)
    return plotly_chart({"data": plain_tree(stored.get("_data")), "layout": plain_tree(stored.get("_layout"))})


def altair_adapter() -> VariableAdapter:
    """Return an adapter for Altair charts. Their validation and data transformers aren't run."""
    return chart_adapter("altair", _altair_chart)


def _altair_chart(value: Any) -> Chart:
    wanted = set(_field_names(value))
    return vega_lite_chart(mapping_of(_spec_of(value, wanted, DEPTH)))


def _schema_parts(value: Any) -> Mapping[str, object] | None:
    """Return the arguments an Altair object was created with, or None for other objects."""
    base = loaded_attribute("altair.utils.schemapi", "SchemaBase") or loaded_attribute("altair", "SchemaBase")
    if base not in class_mro(type_of(value)):
        return None
    stored = instance_dict(value)
    args, named = stored.get("_args"), stored.get("_kwds")
    if type(args) is tuple and args:
        return {"": cast("tuple[object, ...]", args)[0]}
    return mapping_of(named)


def _field_names(value: Any) -> Iterator[str]:
    """Yield every string in the specification that could name a column."""
    waiting: list[Any] = [value]
    for _ in range(_FIELDS):
        if not waiting:
            return
        one = waiting.pop()
        parts = _schema_parts(one) or mapping_of(one)
        if parts:
            waiting += [part for name, part in parts.items() if name not in ("data", "datasets")]
        elif is_one_of(type_of(one), (list, tuple)):
            waiting += list_of(one)[:200]
        elif type(one) is str and len(one) < 200:
            yield one
            yield one.partition(":")[0]
            yield one.partition("(")[2].partition(")")[0]


def _spec_of(value: Any, wanted: set[str], depth: int) -> Any:
    parts = _schema_parts(value)
    if parts is not None and depth:
        if "" in parts:
            return _spec_of(parts[""], wanted, depth - 1)
        undefined = loaded_attribute("altair.utils.schemapi", "Undefined") or loaded_attribute("altair", "Undefined")
        known = {name: part for name, part in parts.items() if part is not undefined}
        return {
            name: _data_of(part, wanted) if name == "data" else _spec_of(part, wanted, depth - 1)
            for name, part in known.items()
        }
    if mapping_of(value) and depth:
        return {name: _spec_of(part, wanted, depth - 1) for name, part in mapping_of(value).items()}
    if is_one_of(type_of(value), (list, tuple)) and depth:
        return [_spec_of(part, wanted, depth - 1) for part in list_of(cast("object", value))[:200]]
    return plain_tree(value, 2)


def _data_of(value: Any, wanted: set[str]) -> Any:
    if type(value) is str:
        return {"url": value}
    found = frame_rows(value, wanted)
    if found is not None:
        return {"values": found[0], "_total": found[1]}
    parts = _schema_parts(value) or {}
    rows = parts.get("values")
    if type(rows) is list:
        given = cast("list[object]", rows)
        return {"values": [plain_tree(row, 2) for row in given[:_GIVEN_ROWS]], "_total": len(given)}
    return {"url": parts["url"]} if type(parts.get("url")) is str else {"name": "elsewhere"}


def bokeh_adapter() -> VariableAdapter:
    """Return an adapter for bokeh plots and layouts."""
    return chart_adapter("bokeh", lambda value: bokeh_chart([value], _read_model))


def _read_model(value: object) -> tuple[str, Mapping[str, Any]] | None:
    stored = instance_dict(value).get("_property_values")
    if type(stored) is not dict or not _is_of_bokeh(value):
        return None
    later = instance_dict(value).get("_unstable_default_values")
    known = {**(cast("dict[str, Any]", later) if type(later) is dict else {}), **cast("dict[str, Any]", stored)}
    name = next((cls.__name__ for cls in class_mro(type_of(value)) if is_of_package(cls, "bokeh")), "")
    return name, {key: _model_part(part) for key, part in known.items()}


def _is_of_bokeh(value: object) -> bool:
    return loaded_attribute("bokeh.core.has_props", "HasProps") in class_mro(type_of(value))


def _model_part(part: Any) -> Any:
    """Convert one attribute to plain values, except models and lists of models."""
    cls = type_of(part)
    if _is_of_bokeh(part):
        return part
    if dict in class_mro(cls):
        return plain_tree({key: stored_list(one) for key, one in pairs_of(part) if type(key) is str}, 4)
    if list in class_mro(cls) or cls is tuple:
        items = list_items(part) if list in class_mro(cls) else list_of(part)
        return [one if _is_of_bokeh(one) or type(one) is tuple else plain_tree(one, 2) for one in items]
    for name in ("field", "value"):
        if is_of_package(cls, "bokeh") and name in instance_dict(part):
            return {name: plain_tree(instance_dict(part)[name], 1)}
    return plain_tree(part, 1)


def stored_list(value: Any) -> Any:
    """Convert a subclass of list to a plain list."""
    is_subclass = list in class_mro(type_of(value)) and type_of(value) is not list
    return list_items(value) if is_subclass else value


def holoviews_adapter() -> VariableAdapter:
    """Return an adapter for holoviews elements, overlays and layouts."""
    return chart_adapter("holoviews", _holoviews_chart)


def _holoviews_chart(value: Any) -> Chart:
    name = type_name(value).rpartition(".")[2]
    if name in ("Layout", "NdLayout", "GridSpace"):
        parts = [part for part in _members(value) if part is not None]
        return Chart("holoviews", [_element_panel(part) for part in parts[:12]], _parameter(value, "label"))
    return Chart("holoviews", [_element_panel(value)])


def _members(value: Any) -> list[Any]:
    data = instance_dict(value).get("data")
    return (
        [part for _, part in pairs_of(cast("dict[object, object]", data))] if dict in class_mro(type_of(data)) else []
    )


def _element_panel(value: Any) -> Panel:
    name = type_name(value).rpartition(".")[2]
    if name in ("HoloMap", "DynamicMap"):
        frames = _members(value)
        if not frames:
            return Panel(note="made when it is shown")
        first = _element_panel(frames[-1])
        return Panel(first.axes, first.series, first.title, f"one of {len(frames)} frames")
    if name in ("Overlay", "NdOverlay"):
        data: Any = instance_dict(value).get("data")
        named = list(pairs_of(data)) if dict in class_mro(type_of(data)) else []
        panels = [(_key_text(key), _element_panel(part)) for key, part in named[:_MOST_ELEMENTS]]
        return _laid_over(panels, name == "NdOverlay", _parameter(value, "label"))
    return _panel_of_element(value, name)


def _key_text(key: object) -> str:
    parts = cast("tuple[object, ...]", key) if type(key) is tuple else (key,)
    return " ".join(plain_cell_text(part) for part in parts)


def _laid_over(panels: list[tuple[str, Panel]], keyed: bool, title: str) -> Panel:
    axes: dict[str, Axis] = {}
    series: list[Series] = []
    for key, panel in panels:
        for axis in panel.axes:
            known = axes.get(axis.name)
            column = axis.column if known is None else joined_column((known.column, axis.column))
            axes[axis.name] = Axis(axis.name, known.label if known else axis.label, column)
        for one in panel.series:
            series.append(Series(one.kind, key if keyed else panel.title or one.name, one.x, one.y, one.note))
    return Panel(list(axes.values()), series, title)


def _panel_of_element(value: Any, name: str) -> Panel:
    kdims, vdims = _dimensions(value, "kdims"), _dimensions(value, "vdims")
    kind = _MARKS.get(name, name.lower())
    data = instance_dict(value).get("data")
    names = [one[0] for one in (*kdims, *vdims)]
    columns = {one: _column_of(data, one) for one in names}
    title = _parameter(value, "label")
    if name == "Histogram" and vdims:
        return _panel_of_histogram(kdims[0], vdims[0], columns, title)
    if name in _GRIDS:
        label = vdims[0][1] if vdims else ""
        values, sides, note = _grid_of(value, data)
        if not note:
            values = columns[vdims[0][0]] if vdims else NOTHING
            sides = [columns[dim[0]] for dim in kdims]
        axes = [Axis(axis, dim[1], side) for axis, dim, side in zip(("x", "y"), kdims, sides, strict=False)]
        return Panel([*axes, Axis("color", label, values)], [Series(kind, "", NOTHING, values, note)], title)
    dims = [*kdims, *vdims][:2] if len(kdims) < 2 or name in ("Bars", "BoxWhisker") else kdims[:2]
    if len(kdims) > 1 and name in ("Bars", "BoxWhisker"):
        dims = [kdims[0], *vdims[:1]]
    axes = [Axis(axis, dim[1], columns[dim[0]]) for axis, dim in zip(("x", "y"), dims, strict=False)]
    x, y = (columns[dims[place][0]] if len(dims) > place else NOTHING for place in (0, 1))
    if kind == "box" and x.kind == "text" and len(x.values) == len(y.values):
        return Panel(axes, series_by_category(kind, "", x, y), title)
    return Panel(axes, [Series(kind, title, x, y)], title)


def _grid_of(value: Any, data: Any) -> tuple[DataColumn, list[DataColumn], str]:
    """Return values, sides and size text of a grid stored as one array; the size is "" for other data."""
    if type_of(data) is not loaded_attribute("numpy", "ndarray") or data.ndim < _GRID_SIDES:
        return NOTHING, [], ""
    cells = data.reshape(-1)
    values = column_of(plain_column(cells, chosen_positions([cells])), len(cells))
    private: Any = instance_dict(value).get("_param__private")
    bounds: Any = mapping_of(getattr(private, "values", None)).get("bounds")
    sides = [NOTHING, NOTHING]
    if is_of_package(type_of(bounds), "holoviews"):
        left, bottom, right, top = map(float, bounds.lbrt())
        sides = [column_of([left, right]), column_of([bottom, top])]
    return values, sides, f"{' × '.join(map(str, data.shape))} cells"


def _panel_of_histogram(
    along: tuple[str, str], up: tuple[str, str], columns: Mapping[str, DataColumn], title: str
) -> Panel:
    edges, counts = columns[along[0]], columns[up[0]]
    known = [one for one in counts.known if type(one) is float]
    total = int(sum(known)) if all(one >= 0 and one == int(one) for one in known) else 0
    series = Series("histogram", title, edges, counts, f"in {len(known)} bins", total)
    return Panel([Axis("x", along[1], edges), Axis("y", up[1], counts)], [series], title)


def _parameter(value: Any, name: str) -> Any:
    """Return a parameter's stored value, or "" if it isn't set."""
    private: Any = instance_dict(value).get("_param__private")
    values: Any = getattr(private, "values", None) if is_of_package(type_of(private), "param") else None
    found = cast("dict[str, Any]", values).get(name, "") if type(values) is dict else ""
    return found if is_one_of(type_of(found), (str, list)) else ""


def _dimensions(value: Any, name: str) -> list[tuple[str, str]]:
    """Return each dimension's name and axis label, which includes the unit."""
    found = _parameter(value, name)
    known = cast("list[Any]", found) if type(found) is list else []
    out: list[tuple[str, str]] = []
    for one in known[:10]:
        own, label, unit = (_parameter(one, key) for key in ("name", "label", "unit"))
        text = str(label or own)
        out.append((str(own), f"{text} ({unit})" if unit else text))
    return out


def _column_of(data: Any, name: str) -> DataColumn:
    if is_one_of(type_of(data), (dict, OrderedDict)):
        values = stored_values(cast("dict[Any, Any]", data).get(name))
        return column_of(plain_tree(_flat(values), 2)) if values is not None else NOTHING
    found = frame_rows(data, {name})
    return column_of([row.get(name) for row in found[0]], found[1]) if found and found[0] else NOTHING


def _flat(values: Any) -> Any:
    return values.reshape(-1) if getattr(values, "ndim", 1) > 1 else values
