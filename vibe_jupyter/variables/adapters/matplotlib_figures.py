"""matplotlib figures and axes, including those drawn by pandas and seaborn, described from their artists' data."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, Final

from vibe_jupyter.charts import Axis, Chart, Panel, Series
from vibe_jupyter.charts.columns import NOTHING, DataColumn, column_of, joined_column, taken, value_text
from vibe_jupyter.charts.text import chart_text
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
from vibe_jupyter.variables.adapters.chart_data import chosen_positions, plain_column, stored_values
from vibe_jupyter.variables.adapters.facts import plural
from vibe_jupyter.variables.plain_values import pairs_of

# Packages whose axes are read; others are only named.
_PACKAGES: Final = ("matplotlib", "mpl_toolkits", "seaborn", "cartopy", "wcsaxes")
_BOX_POINTS: Final = (5, 11)  # points of a box's outline, without and with a notch
_MOST_PIECES: Final = 20  # pieces of one area
_AXES_READ: Final = 10  # axes described; more wouldn't fit into the text
_MOST_AXES: Final = 20
_MOST_ARTISTS: Final = 100
_GRIDS: Final = ("image", "heatmap")  # kinds that show values as colors


def matplotlib_adapter() -> VariableAdapter:
    """Return an adapter for figures, subfigures and axes. Only the name is shown for user-defined subclasses."""
    return VariableAdapter(line=_figure_line, describe=_describe_figure, fingerprint=id)


def seaborn_adapter() -> VariableAdapter:
    """Return an adapter for seaborn's grids of axes."""

    def line(value: Any) -> str:
        return f"seaborn {type_name(value).rpartition('.')[2]}"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        figure = instance_dict(value).get("_figure")
        body = _figure_text(figure) if is_of_package(type_of(figure), "matplotlib") else ""
        return VariableDescription(headline=line(value), body=body)

    return VariableAdapter(line=line, describe=describe, fingerprint=id)


def _figure_line(value: Any) -> str:
    if not _is_known(value):
        return f"{type_name(value)} (matplotlib {'Axes' if _is_axes(value) else 'Figure'})"
    if _is_axes(value):
        return f"matplotlib {type_of(value).__name__}"
    if not hasattr(value, "get_size_inches"):
        return f"matplotlib {type_of(value).__name__}"
    width, height = value.get_size_inches()
    return (
        f"matplotlib Figure {width:g} × {height:g} inches, {plural(len(value.axes), 'axis').replace('axiss', 'axes')}"
    )


def _describe_figure(value: Any, view: VariableView) -> VariableDescription:
    body = _figure_text(value) if _is_known(value) else ""
    return VariableDescription(headline=_figure_line(value), body=body, summary=_figure_line(value))


def _is_known(value: Any) -> bool:
    return any(is_of_package(type_of(value), package) for package in _PACKAGES)


def _is_axes(value: Any) -> bool:
    return loaded_attribute("matplotlib.axes", "Axes") in class_mro(type_of(value))


def _figure_text(value: Any) -> str:
    drawn = [value] if _is_axes(value) else [axes for axes in value.axes if _is_known(axes)]
    told = [axes for axes in drawn if axes.get_label() != "<colorbar>"][:_MOST_AXES]
    panels = [_panel_of(axes) if at < _AXES_READ else Panel(note="not read") for at, axes in enumerate(told)]
    shown = _with_twins(drawn, panels)
    title: Any = None if _is_axes(value) else getattr(value, "_suptitle", None)
    text = title.get_text() if is_of_package(type_of(title), "matplotlib") else ""
    return chart_text(Chart("matplotlib", [panel for panel in shown if panel.series or panel.axes or panel.note], text))


def _with_twins(drawn: Sequence[Any], panels: list[Panel]) -> list[Panel]:
    """Merge two axes at the same position (twinx) into one panel with a second y axis."""
    if len(drawn) != 2 or len(panels) != 2 or drawn[0].get_position().bounds != drawn[1].get_position().bounds:
        return panels
    first, second = panels
    other = [Axis("right y", axis.label, axis.column, axis.note) for axis in second.axes if axis.name == "y"]
    return [Panel([*first.axes, *other], [*first.series, *second.series], first.title or second.title)]


def _panel_of(axes: Any) -> Panel:
    if hasattr(axes, "get_zlabel"):
        labels = (("x", axes.get_xlabel()), ("y", axes.get_ylabel()), ("z", axes.get_zlabel()))
        named = [Axis(name, label, NOTHING) for name, label in labels if label]
        return Panel(named, [Series("3D chart", "", NOTHING, NOTHING, "data not read")], axes.get_title())
    ticks = _Ticks(axes)
    series = list(_series_of(axes, ticks))
    title = axes.get_title() or axes.get_title(loc="left") or axes.get_title(loc="right")
    if series and all(one.kind == "pie" for one in series):
        shares = Axis("values", "", joined_column(one.y for one in series), "in %")
        return Panel([Axis("labels", "", joined_column(one.x for one in series)), shares], series, title)
    flipped = bool(series) and all(one.kind.startswith("horizontal") for one in series)
    drawn = [one for one in series if one.kind not in _GRIDS]
    columns = [joined_column(one.x for one in drawn), joined_column(one.y for one in drawn)]
    x, y = reversed(columns) if flipped else columns
    if not drawn and series:
        x, y = _sides(axes, ticks)
    known = [
        Axis("x", axes.get_xlabel(), x, _limits(axes, "x", x) if drawn else ""),
        Axis("y", axes.get_ylabel(), y, _limits(axes, "y", y) if drawn else ""),
        Axis("color", _color_label(axes), joined_column(one.y for one in series if one.kind in _GRIDS)),
    ]
    return Panel([axis for axis in known if axis.label or axis.column.values], series, title)


def _sides(axes: Any, ticks: "_Ticks") -> tuple[DataColumn, DataColumn]:
    """Return both sides of a grid of cells: column and row names, or the centers of the outer cells."""
    width, height = next(
        (_cells(one.get_array()) for one in (*axes.images, *axes.collections) if one.get_array() is not None), (1, 1)
    )
    found: list[DataColumn] = []
    for name, cells, ends in (("x", width, axes.get_xlim()), ("y", height, axes.get_ylim())):
        low, high = sorted(map(float, ends))
        half = (high - low) / cells / 2
        names = ticks.names(name)
        found.append(column_of([low + half, high - half] if not names else list(names)))
    return found[0], found[1]


def _cells(array: Any) -> tuple[int, int]:
    """Return the number of columns and rows. A mesh may store its cells as a flat array."""
    rows, columns = array.shape[:2] if array.ndim > 1 else (1, array.size)
    return max(1, columns), max(1, rows)


def _color_label(axes: Any) -> str:
    """Return the label of the color bar."""
    drawn = [one for one in (*axes.images, *axes.collections) if is_of_package(type_of(one), "matplotlib")]
    bars = [getattr(one, "colorbar", None) for one in drawn]
    known = [bar for bar in bars if is_of_package(type_of(bar), "matplotlib")]
    beside: Any = instance_dict(known[0]).get("ax") if known else None
    return beside.get_ylabel() or beside.get_xlabel() if _is_axes(beside) and _is_known(beside) else ""


def _limits(axes: Any, name: str, column: DataColumn) -> str:
    """Return the scale if it isn't linear, and the limits if they were set explicitly."""
    scale = axes.get_xscale() if name == "x" else axes.get_yscale()
    notes = [scale] if scale not in ("linear", "category") else []
    is_set = not (axes.get_autoscalex_on() if name == "x" else axes.get_autoscaley_on())
    if is_set and column.kind == "number" and axes.axison:
        low, high = axes.get_xlim() if name == "x" else axes.get_ylim()
        notes.append(f"shown {value_text(float(low))} … {value_text(float(high))}")
    return ", ".join(notes)


class _Ticks:
    """Converter from positions along a panel's axes back to categories and dates."""

    def __init__(self, axes: Any) -> None:
        self._names = {"x": _tick_names(axes.xaxis), "y": _tick_names(axes.yaxis)}
        self._dates = {"x": _is_of_dates(axes.xaxis), "y": _is_of_dates(axes.yaxis)}

    def names(self, name: str) -> Sequence[str]:
        """Return the categories along an axis in order, or nothing for a numeric axis."""
        return [text for _, text in sorted(self._names[name].items())]

    def column(self, name: str, values: Any) -> DataColumn:
        """Return a column of the values drawn at these positions of an axis."""
        stored = stored_values(values)
        if stored is None:
            return NOTHING
        places = chosen_positions([stored])
        items = plain_column(stored, places)
        total = len(stored) if places is not None else None
        named = self._names[name]
        if named and all(type(one) in (int, float) for one in items):
            found = [named.get(round(one, 3), named.get(float(round(one)))) for one in items]
            if found and all(one is not None for one in found):
                return column_of(found, total)
        if self._dates[name] and items and all(type(one) in (int, float) for one in items):
            items = [_date_text(one) for one in items]
        return column_of(items, total)


def _tick_names(axis: Any) -> dict[float, str]:
    """Return category names by position: of drawn strings, or fixed tick labels."""
    mapping: Any = instance_dict(axis.units).get("_mapping") if axis.units is not None else None
    if dict in class_mro(type_of(mapping)):
        pairs = [(name, place) for name, place in pairs_of(mapping) if type(name) is str]
        return {float(place): name for name, place in pairs if type(place) is int}
    formatter = instance_dict(axis.get_major_formatter())
    named = _fixed_names(formatter.get("func")) or _listed_names(formatter.get("seq"), axis.get_major_locator())
    return named if any(text and not _is_figure(text) for text in named.values()) else {}


def _fixed_names(function: Any) -> dict[float, str]:
    """Return labels of fixed ticks, which matplotlib stores in the first argument of a `functools.partial`."""
    reader: Any = function.func if type_of(function) is functools.partial else None
    if type_of(reader) is not FunctionType or reader.__name__ != "_format_with_dict" or not function.args:
        return {}
    pairs: list[tuple[Any, object]] = [*pairs_of(function.args[0])]
    return {round(float(place), 3): text for place, text in pairs if type(text) is str and _is_number(place)}


def _listed_names(labels: Any, locator: Any) -> dict[float, str]:
    """Return labels given as a list parallel to a list of tick positions."""
    places: Any = instance_dict(locator).get("locs")
    if not is_one_of(type_of(labels), (list, tuple)) or places is None or len(labels) != len(places):
        return {}
    texts = [one.get_text() if is_of_package(type_of(one), "matplotlib") else one for one in labels]
    return {round(float(place), 3): text for place, text in zip(places, texts, strict=True) if type(text) is str}


def _is_number(value: object) -> bool:
    """Return whether this is a Python or NumPy number."""
    kinds = (int, float, *(loaded_attribute("numpy", name) for name in ("float64", "int64")))
    return is_one_of(type_of(value), kinds)


def _is_figure(text: str) -> bool:
    return text.replace("−", "").replace(".", "").replace(",", "").isdecimal()


def _is_of_dates(axis: Any) -> bool:
    # matplotlib before 3.10 has a plain attribute instead of the method.
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return "Date" in type_of(converter).__name__


def _date_text(days: float) -> str:
    return loaded_attribute("matplotlib.dates", "num2date")(days).replace(tzinfo=None).isoformat()


def _series_of(axes: Any, ticks: _Ticks) -> Iterator[Series]:
    names = _legend_names(axes)
    bars = [one for one in axes.containers if type_of(one).__name__ == "BarContainer"]
    drawn = {id(patch) for container in bars for patch in container.patches}
    errors = _errors_of_bars(axes, bars) if bars else []
    for container in bars[:_MOST_ARTISTS]:
        for one in _bars(container, ticks, names):
            yield replace(one, note="error bars") if any(map(_is_finite, errors)) else one
    if boxes := _boxes(axes, ticks):
        yield from boxes
    else:
        yield from _lines([line for line in axes.lines if not is_one_of(line, errors)], axes, ticks, names)
    for collection in axes.collections[:_MOST_ARTISTS]:
        yield from _collection(collection, ticks, names)
    loose = [patch for patch in axes.patches if id(patch) not in drawn and not boxes]
    yield from _loose_patches(loose[: _MOST_ARTISTS * 10], ticks, axes)
    for image in axes.images[:_MOST_ARTISTS]:
        array: Any = image.get_array()
        values = plain_column(array.data.reshape(-1), chosen_positions([array.data.reshape(-1)]))
        shape = " × ".join(map(str, array.shape))
        yield Series("image", _own_name(image), NOTHING, column_of(values, array.size), f"{shape} cells")


def _own_name(artist: Any) -> str:
    label: Any = artist.get_label()
    return label if type(label) is str and not label.startswith("_") else ""


def _legend_names(axes: Any) -> dict[object, str]:
    """Return legend texts by the color next to them, because seaborn doesn't label artists."""
    legend: Any = axes.get_legend()
    if legend is None:
        return {}
    handles: Any = getattr(legend, "legend_handles", ())
    pairs = zip(handles, legend.get_texts(), strict=False)
    return {color: text.get_text() for handle, text in pairs if (color := _color_of(handle)) is not None}


def _color_of(artist: Any) -> object:
    for name in ("get_facecolor", "get_color"):
        if hasattr(artist, name):
            try:
                return loaded_attribute("matplotlib.colors", "to_hex")(_first_color(getattr(artist, name)()))
            except (ValueError, TypeError, IndexError):
                continue
    return None


def _first_color(color: Any) -> Any:
    return color[0] if getattr(color, "ndim", 1) == 2 else color


def _name_of(artist: Any, names: dict[object, str]) -> str:
    return _own_name(artist) or (names.get(_color_of(artist), "") if names else "")


def _bars(container: Any, ticks: _Ticks, names: dict[object, str]) -> Iterator[Series]:
    patches = [
        patch for patch in container.patches[: 10 * _MOST_ARTISTS] if is_of_package(type_of(patch), "matplotlib")
    ]
    if not patches:
        return
    label: Any = container.get_label()
    name = label if type(label) is str and not label.startswith("_") else _name_of(patches[0], names)
    if container.orientation == "horizontal":
        places = ticks.column("y", [float(one.get_y() + one.get_height() / 2) for one in patches])
        yield Series("horizontal bar", name, places, column_of([float(one.get_width()) for one in patches]))
        return
    if _touches(patches):
        count = sum(float(one.get_height()) for one in patches)
        edges = [float(patches[0].get_x()), float(patches[-1].get_x() + patches[-1].get_width())]
        heights = column_of([float(one.get_height()) for one in patches])
        size = int(count) if count == int(count) and not any(one.get_height() < 0 for one in patches) else None
        yield Series("histogram", name, ticks.column("x", edges), heights, f"in {len(patches)} bins", size)
        return
    places = ticks.column("x", [float(one.get_x() + one.get_width() / 2) for one in patches])
    yield Series("bar", name, places, column_of([float(one.get_height()) for one in patches]))


def _touches(patches: Sequence[Any]) -> bool:
    """Return whether each bar begins where the previous one ends, as in a histogram."""
    ends = [(one.get_x(), one.get_x() + one.get_width()) for one in patches]
    width = abs(ends[0][1] - ends[0][0]) or 1.0
    return len(ends) > 2 and all(abs(one[1] - other[0]) < 1e-6 * width for one, other in itertools.pairwise(ends))


def _boxes(axes: Any, ticks: _Ticks) -> list[Series]:
    """Return the boxes of a box plot, reconstructed from their lines."""
    containers = [one for one in axes.containers if type_of(one).__name__ == "BoxPlotContainer"]
    found = [box for one in containers for box in _parts_of_boxes(one)]
    if not found:
        found = _boxes_of_lines(axes)
    return [one for lines in found[:_MOST_ARTISTS] if (one := _box(lines, ticks)).y.values]


def _boxes_of_lines(axes: Any) -> list[list[Any]]:
    """Group lines into boxes: box (unless it is a patch), two whiskers, two caps, median, outliers."""
    lines = [line for line in axes.lines if is_of_package(type_of(line), "matplotlib")]
    filled = sum(type_of(patch).__name__ == "PathPatch" for patch in axes.patches)
    points = [len(line.get_xdata(orig=True)) for line in lines]
    boxes = filled or sum(map(points.count, _BOX_POINTS))
    size, left = divmod(len(lines), boxes) if boxes else (0, 1)
    start = 0 if filled else 1
    if left or size < start + 5 or axes.collections:
        return []
    groups = [lines[at : at + size] for at in range(0, len(lines), size)]
    shapes = [points[at : at + start + 5] for at in range(0, len(lines), size)]
    if any(one[start:] != [2] * 5 or (start and one[0] not in _BOX_POINTS) for one in shapes):
        return []
    # The median may be followed by the mean, and that by the outliers.
    return [[group[start + 4], *group[start : start + 4], *group[start + 5 :][-1:]] for group in groups]


def _parts_of_boxes(container: Any) -> Iterator[list[Any]]:
    """Yield median, whiskers, caps and outliers of each box."""
    for at, median in enumerate(container.medians):
        pairs = [line for lines in (container.whiskers, container.caps) for line in lines[2 * at : 2 * at + 2]]
        yield [median, *pairs, *container.fliers[at : at + 1]]


def _box(lines: Sequence[Any], ticks: _Ticks) -> Series:
    """Summarize a box by its five figures: minimum, quartiles and maximum."""
    median = lines[0]
    ends = [float(value) for value in median.get_xdata(orig=True)]
    is_upright = ends[0] != ends[-1]
    along, up = ("x", "y") if is_upright else ("y", "x")

    def data(line: Any, name: str) -> list[Any]:
        return plain_column(stored_values(line.get_xdata(orig=True) if name == "x" else line.get_ydata(orig=True)))

    place = data(median, along)
    quarters = [data(line, up)[0] for line in lines[1:3]]
    whole = [value for line in lines for value in data(line, up) if value == value]
    figures = sorted([min(whole), *quarters, data(median, up)[0], max(whole)]) if whole else []
    named = ticks.column(along, [sum(place) / len(place)])
    name = str(named.values[0]) if named.kind == "text" and named.values else ""
    return Series("box" if is_upright else "horizontal box", name, named, column_of(figures), size=0)


def _errors_of_bars(axes: Any, bars: Sequence[Any]) -> list[Any]:
    """Return unlabeled lines along bars, which is how seaborn draws error bars."""
    across = 1 if bars[0].orientation == "horizontal" else 0
    known = [line for line in axes.lines if is_of_package(type_of(line), "matplotlib") and not _own_name(line)]
    sides = [(line, _sides_of(line)[across]) for line in known if not _is_reference(line, axes)]
    return [line for line, side in sides if len(side) == 2 and side[0] == side[1]]


def _sides_of(line: Any) -> list[list[Any]]:
    return [plain_column(stored_values(data)) for data in (line.get_xdata(orig=True), line.get_ydata(orig=True))]


def _is_finite(line: Any) -> bool:
    return all(value == value for side in _sides_of(line) for value in side)


def _lines(lines: Sequence[Any], axes: Any, ticks: _Ticks, names: dict[object, str]) -> Iterator[Series]:
    errors = {id(one.lines[0]): one for one in axes.containers if type_of(one).__name__ == "ErrorbarContainer"}
    for line in lines[:_MOST_ARTISTS]:
        if not is_of_package(type_of(line), "matplotlib"):
            continue
        x, y = ticks.column("x", line.get_xdata(orig=True)), ticks.column("y", line.get_ydata(orig=True))
        if x.count == 0 and y.count == 0:
            continue
        kind = "scatter" if line.get_linestyle() in ("None", "", " ") else "line"
        if x.count == 2 and kind == "line" and _is_reference(line, axes):
            kind = "reference line"
        bars = errors.get(id(line))
        name = _name_of(line, names) or (_own_name(bars) if bars is not None else "")
        yield Series(kind, name, x, y, "error bars" if bars is not None else "")


def _is_reference(line: Any, axes: Any) -> bool:
    """Return whether the line spans the axes, as drawn by `axhline` and `axvline`."""
    return line.get_transform() is not axes.transData and line.get_transform() != axes.transData


def _collection(collection: Any, ticks: _Ticks, names: dict[object, str]) -> Iterator[Series]:
    kind = type_of(collection).__name__
    if not is_of_package(type_of(collection), "matplotlib"):
        return
    if kind == "PathCollection":
        offsets: Any = collection.get_offsets()
        points: Any = offsets.data if hasattr(offsets, "mask") else offsets
        x, y = ticks.column("x", points[:, 0]), ticks.column("y", points[:, 1])
        yield from _by_color(collection, x, y, names)
    elif kind in ("QuadMesh", "PolyQuadMesh"):
        array: Any = collection.get_array()
        flat = array.data.reshape(-1) if hasattr(array, "mask") else array.reshape(-1)
        values = plain_column(flat, chosen_positions([flat]))
        shape = " × ".join(map(str, array.shape))
        yield Series("heatmap", "", NOTHING, column_of(values, flat.size), f"{shape} cells")
    elif "FillBetween" in kind or kind == "PolyCollection":
        yield from _filled(collection, ticks, names)


def _filled(collection: Any, ticks: _Ticks, names: dict[object, str]) -> Iterator[Series]:
    """Yield the area between two curves, or between a curve and a straight edge, from one or several pieces."""
    name = _name_of(collection, names)
    pieces = [_curves(path.vertices) for path in collection.get_paths()[:_MOST_PIECES]]
    if not pieces:
        return
    x, one, other = (
        joined_column(ticks.column(axis, piece[at]) for piece in pieces) for at, axis in enumerate(("x", "y", "y"))
    )
    for straight, curve in ((other, one), (one, other)):
        if len(straight.distinct) <= 1:
            yield Series("area", name, x, curve)
            return
    yield Series("area", name, x, joined_column((one, other)), "between two curves", size=x.count)


def _curves(outline: Any) -> tuple[Any, Any, Any]:
    """Return x and both curves: the outline follows one curve and returns along the other."""
    count = (len(outline) - 3) // 2
    if count < 1 or len(outline) != 2 * count + 3:
        return outline[:, 0], outline[:, 1], outline[:0, 1]
    return outline[1 : count + 1, 0], outline[1 : count + 1, 1], outline[count + 2 : 2 * count + 2, 1][::-1]


def _by_color(collection: Any, x: DataColumn, y: DataColumn, names: dict[object, str]) -> Iterator[Series]:
    """Split points by color: seaborn draws all groups as one collection, with a color per group."""
    colors: Any = collection.get_facecolor()
    if not names or len(colors) != len(x.values) or _own_name(collection):
        array: Any = collection.get_array()
        scale = column_of(plain_column(array.data)) if array is not None else NOTHING
        note = f"color {value_text(scale.low)} … {value_text(scale.high)}" if scale.kind == "number" else ""
        yield Series("scatter", _name_of(collection, names), x, y, note)
        return
    to_hex = loaded_attribute("matplotlib.colors", "to_hex")
    groups: dict[str, list[int]] = {}
    for place, color in enumerate(colors):
        groups.setdefault(names.get(to_hex(color), ""), []).append(place)
    for name, places in groups.items():
        yield Series("scatter", name, taken(x, places), taken(y, places))


def _loose_patches(patches: Sequence[Any], ticks: _Ticks, axes: Any) -> Iterator[Series]:
    wedges = [one for one in patches if type_of(one).__name__ == "Wedge"]
    if wedges:
        shares = [abs(float(one.theta2) - float(one.theta1)) / 3.6 for one in wedges]
        texts = [text.get_text() for text in axes.texts if text.get_text() and not text.get_text().endswith("%")]
        labels = [_own_name(one) for one in wedges]
        named = labels if all(labels) else texts[: len(wedges)]
        yield Series("pie", "", column_of(named), column_of([round(one, 4) for one in shares]))
    steps = [one for one in patches if type_of(one).__name__ == "Polygon"]
    for step in steps[:_MOST_ARTISTS]:
        points: Any = step.get_xy()
        yield Series(
            "step histogram", _own_name(step), ticks.column("x", points[:, 0]), ticks.column("y", points[:, 1])
        )
