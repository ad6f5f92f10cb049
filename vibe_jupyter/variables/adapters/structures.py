"""Composite values: groups and windows of frames, geometries, graphs, images, HTTP responses."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, cast

from vibe_jupyter.variables.adapters import (
    VariableAdapter,
    VariableDescription,
    VariableView,
    class_mro,
    instance_dict,
    is_of_package,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.facts import facts_adapter, named_line, pairs_text, plural
from vibe_jupyter.variables.adapters.frames import SAMPLE_ROWS, spread_rows
from vibe_jupyter.variables.adapters.pandas_frames import pandas_frame_adapter, pandas_series_adapter
from vibe_jupyter.variables.plain_values import plain_cell_text, plain_line

_COUNTED: Final = 20_000  # nodes up to which a graph's edges are counted
_LOOKED_AT: Final = 200  # nodes and edges whose attributes are collected
# Geometry type names, indexed by GEOS type id.
_SHAPES: Final = (
    *("Point", "LineString", "LinearRing", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
    "GeometryCollection",
)


def group_adapter() -> VariableAdapter:
    """Return an adapter for pandas' `groupby` objects. The groups aren't computed."""
    return facts_adapter("pandas", _group_text, _group_lines, packages=("pandas",))


def _group_text(value: Any) -> str:
    stored = instance_dict(value)
    return f"{type_of(value).__name__} by {_keys_text(stored)} of {_source_line(stored)}"


def _keys_text(stored: Mapping[str, object]) -> str:
    keys, level = stored.get("keys"), stored.get("level")
    if keys is None:
        return "its index" if level is None else f"level {plain_line(level)}"
    return plain_line(keys, depth=1)


def _source_line(stored: Mapping[str, object]) -> str:
    source = stored.get("obj")
    for name, adapter in (("DataFrame", pandas_frame_adapter), ("Series", pandas_series_adapter)):
        if loaded_attribute("pandas", name) in class_mro(type_of(source)):
            return adapter().line(source)
    return type_name(source)


def _group_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    if (chosen := stored.get("_selection")) is not None:
        yield f"selected: {plain_line(chosen, depth=1)}"
    options = [(name, stored[name]) for name in ("as_index", "sort", "dropna", "observed") if name in stored]
    yield pairs_text(options)
    yield "The groups were not computed."


def window_adapter() -> VariableAdapter:
    """Return an adapter for windows over pandas frames."""
    return facts_adapter("pandas", _window_text, packages=("pandas",))


def _window_text(value: Any) -> str:
    stored = instance_dict(value)
    names = ("window", "min_periods", "center", "win_type", "on", "com", "span", "halflife", "alpha")
    known = [(name, stored[name]) for name in names if stored.get(name) not in (None, False)]
    return f"{type_of(value).__name__}({pairs_text(known)}) of {_source_line(stored)}"


def styler_adapter() -> VariableAdapter:
    """Return an adapter for pandas' `Styler`."""
    return facts_adapter("pandas Styler", lambda value: f"of {_source_line({'obj': instance_dict(value).get('data')})}")


def polars_group_adapter() -> VariableAdapter:
    return facts_adapter("polars GroupBy", _polars_group_text, packages=("polars",))


def _polars_group_text(value: Any) -> str:
    stored = instance_dict(value)
    keys = cast("tuple[object, ...]", stored.get("by")) if type(stored.get("by")) is tuple else ()
    return "by " + ", ".join(plain_line(key, depth=1) for key in keys)


def geo_frame_adapter() -> VariableAdapter:
    """Return an adapter for `geopandas.GeoDataFrame`: the frame, and its geometries' type, CRS and bounds."""
    return _with_places(pandas_frame_adapter(), "pandas DataFrame", "geopandas GeoDataFrame")


def geo_series_adapter() -> VariableAdapter:
    """Return an adapter for `geopandas.GeoSeries`."""
    return _with_places(pandas_series_adapter(), "pandas Series", "geopandas GeoSeries")


def _with_places(adapter: VariableAdapter, kind: str, own: str) -> VariableAdapter:
    def renamed(value: Any, line: str) -> str:
        return line.replace(f"{type_name(value)} ({kind})", own, 1)

    def describe(value: Any, view: VariableView) -> VariableDescription:
        described = adapter.describe(value, view)
        lines = [described.body, *_place_lines(value)]
        return described._replace(headline=renamed(value, described.headline), body="\n".join(filter(None, lines)))

    def line(value: Any) -> str:
        crs = next((_crs_text(array) for _, array in _geometries(value)), "")
        return renamed(value, adapter.line(value)) + (f", {crs}" if crs else "")

    return adapter._replace(line=line, describe=describe)


def _geometries(value: Any) -> list[tuple[str, Any]]:
    """Return the geometry columns' storage, with labels."""
    memory: Any = instance_dict(value)["_mgr"]
    wanted = loaded_attribute("geopandas.array", "GeometryArray")
    own = [instance_dict(value).get("_name") or "geometry"]
    labels = memory.axes[0].tolist() if len(memory.axes) > 1 else own
    return [
        (plain_cell_text(labels[place]), block.values)
        for block in memory.blocks
        if type_of(block.values) is wanted
        for place in (block.mgr_locs.as_array.tolist() if len(memory.axes) > 1 else [0])
    ]


def _crs_text(array: Any) -> str:
    crs: Any = instance_dict(array).get("_crs")
    if not is_of_package(type_of(crs), "pyproj"):
        return "no CRS"
    text = crs.to_string()
    return f"CRS {text if len(text) < 40 else crs.name}"


def _place_lines(value: Any) -> Iterator[str]:
    type_ids, bounds = (loaded_attribute("shapely", name) for name in ("get_type_id", "total_bounds"))
    for label, array in _geometries(value):
        data: Any = instance_dict(array)["_data"]
        places = spread_rows(len(data))
        sample: Any = data if places is None else data[list(places)]
        ids: list[int] = type_ids(sample).tolist()
        kinds = dict.fromkeys(_SHAPES[one] if one >= 0 else "missing" for one in ids)
        scope = f" (of {SAMPLE_ROWS:,} sampled rows)" if places is not None else ""
        west, south, east, north = (f"{one:.6g}" for one in bounds(sample).tolist())
        extent = f"bounds x {west} … {east}, y {south} … {north}"
        yield f"geometry {label}: {', '.join(kinds)}; {_crs_text(array)}; {extent}{scope}"


def shape_adapter() -> VariableAdapter:
    """Return an adapter for shapely geometries."""
    return facts_adapter("shapely", _shape_text, packages=("shapely",))


def _shape_text(value: Any) -> str:
    counts = loaded_attribute("shapely", "get_num_coordinates")
    bounds = ", ".join(f"{one:.6g}" for one in loaded_attribute("shapely", "bounds")(value).tolist())
    return f"{type_of(value).__name__} of {plural(int(counts(value)), 'point')}, bounds {bounds}"


def graph_adapter() -> VariableAdapter:
    """Return an adapter for networkx graphs. Edges of large graphs aren't counted."""
    return facts_adapter("networkx", _graph_text, _graph_lines)


def _part(value: Any, name: str) -> dict[Any, Any]:
    found = instance_dict(value).get(name)
    return cast("dict[Any, Any]", found) if type(found) is dict else {}


def _graph_text(value: Any) -> str:
    nodes, around = _part(value, "_node"), _part(value, "_adj")
    name = type_name(value).rpartition(".")[2]
    if len(around) > _COUNTED:
        return f"{name} {plural(len(nodes), 'node')}, edges not counted"
    ends, loops = 0, 0
    several = loaded_attribute("networkx", "MultiGraph") in class_mro(type_of(value))
    for node, others in _pairs_in(around):
        for other, data in _pairs_in(others):
            count = len(_pairs_in(data)) if several else 1
            ends += count
            loops += count if other is node else 0
    edges = ends if _is_directed(value) else (ends + loops) // 2
    return f"{name} {plural(len(nodes), 'node')}, {plural(edges, 'edge')}"


def _pairs_in(value: object) -> list[tuple[object, Any]]:
    return list(cast("dict[object, Any]", value).items()) if type(value) is dict else []


def _is_directed(value: Any) -> bool:
    return loaded_attribute("networkx", "DiGraph") in class_mro(type_of(value))


def _graph_lines(value: Any) -> Iterator[str]:
    nodes, around = _part(value, "_node"), _part(value, "_adj")
    yield "directed" if _is_directed(value) else "undirected"
    if about := _part(value, "graph"):
        yield f"attributes: {pairs_text(about.items())}"
    yield "nodes: " + ", ".join(plain_line(node, depth=1) for node in islice(nodes, 8))
    yield named_line("node attributes", _attribute_names(nodes.values()))
    edges = [data for other in islice(around.values(), _LOOKED_AT) for _, data in _pairs_in(other)]
    if loaded_attribute("networkx", "MultiGraph") in class_mro(type_of(value)):
        edges = [data for keyed in edges[:_LOOKED_AT] for _, data in _pairs_in(keyed)]
    yield named_line("edge attributes", _attribute_names(edges))


def _attribute_names(found: Iterable[object]) -> list[object]:
    names: dict[str, None] = {}
    for data in islice(found, _LOOKED_AT):
        if type(data) is dict:
            names.update(dict.fromkeys(name for name in cast("dict[object, object]", data) if type(name) is str))
    return list(names)


def image_adapter() -> VariableAdapter:
    """Return an adapter for Pillow images, which reports size and mode."""
    return facts_adapter("PIL", _image_text)


def _image_text(value: Any) -> str:
    stored = instance_dict(value)
    size = stored.get("_size")
    width, height = cast("tuple[object, object]", size) if type(size) is tuple else ("?", "?")
    return (
        f"{type_name(value).rpartition('.')[2]} {width} × {height} pixels, mode {plain_cell_text(stored.get('_mode'))}"
    )


def response_adapter() -> VariableAdapter:
    """Return an adapter for requests and httpx responses, limited to content already received."""
    return facts_adapter("HTTP response", _response_text, _response_lines)


def _response_text(value: Any) -> str:
    stored = instance_dict(value)
    content = stored.get("_content")
    size = f", {len(content):,} bytes" if type(content) is bytes else ", content not read"
    return f"{plain_cell_text(stored.get('status_code'))}{size}"


def _response_lines(value: Any) -> Iterator[str]:
    stored = instance_dict(value)
    if type(address := stored.get("url")) is str:
        yield f"address: {address.partition('?')[0]}"
    if type(content := stored.get("_content")) is bytes:
        yield f"content: {plain_line(content, width=400)}"
