"""Values of which only outer facts are shown: lazy frames, tensors, figures.

Asking a plan for its schema may open files, reach over the network or run the user's functions, so only a schema
that is already stored on the object is shown.
"""

from typing import Any, cast

from vibe_jupyter.variables.adapters import (
    SampleTable,
    VariableAdapter,
    VariableDescription,
    VariableView,
    instance_dict,
    is_of_package,
    line_adapter,
    loaded_attribute,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.frames import COLUMNS_LIMIT, LABEL_WIDTH
from vibe_jupyter.variables.adapters.pandas_frames import pandas_columns
from vibe_jupyter.variables.plain_values import plain_cell_text

_SCHEMA_HINTS = {
    "polars": "collect_schema()",
    "dask": "dtypes",
    "pyspark": "schema",
}


def lazy_adapter(package: str, kind: str) -> VariableAdapter:
    """For the lazy frames of one package."""

    def line(value: Any) -> str:
        columns = _known_columns(value, package)
        extent = f"{len(columns):,} columns" if columns else "columns not known yet"
        return f"{kind}, {extent}"

    def describe(value: Any, view: VariableView) -> VariableDescription:
        columns = _known_columns(value, package)[:COLUMNS_LIMIT]
        hint = f"Nothing was computed. run_code can ask for .{_SCHEMA_HINTS[package]}, which may read its sources."
        body = "\n".join(["column | type", *(f"{name} | {dtype}" for name, dtype in columns)]) if columns else hint
        table = SampleTable(("column", "type"), tuple(columns)) if columns else None
        return VariableDescription(headline=line(value), body=body, summary=line(value), table=table)

    return VariableAdapter(line=line, describe=describe, fingerprint=id)


def _known_columns(value: Any, package: str) -> list[tuple[str, str]]:
    stored = instance_dict(value)
    if package == "dask":
        return _columns_of_sample(stored)
    if package == "pyspark":
        return _columns_of_spark(stored.get("_schema"))
    return []


def _columns_of_sample(stored: Any) -> list[tuple[str, str]]:
    """Dask keeps an empty pandas frame as its schema, on the frame or on its expression."""
    sample = stored.get("_meta")
    if sample is None:
        sample = instance_dict(stored.get("_expr")).get("_meta")
    return pandas_columns(sample) if type(sample) is loaded_attribute("pandas", "DataFrame") else []


def _columns_of_spark(schema: Any) -> list[tuple[str, str]]:
    fields = instance_dict(schema).get("fields") if is_of_package(type_of(schema), "pyspark") else None
    if type(fields) is not list:
        return []
    known = [instance_dict(field) for field in cast("list[object]", fields)[:COLUMNS_LIMIT]]
    return [(plain_cell_text(field.get("name"), LABEL_WIDTH), type_name(field.get("dataType"))) for field in known]


def torch_adapter() -> VariableAdapter:
    """For tensors of torch itself: a subclass may take over every attribute, so it is only named."""
    return line_adapter(_torch_line)


def jax_adapter() -> VariableAdapter:
    """For arrays of jax."""
    return line_adapter(_jax_line)


def _torch_line(value: Any) -> str:
    if not is_of_package(type_of(value), "torch"):
        return f"{type_name(value)} (torch Tensor)"
    return f"torch {type(value).__name__} {_shape_text(value.shape)} {value.dtype} on {value.device}"


def _jax_line(value: Any) -> str:
    return f"jax array {_shape_text(value.shape)} {value.dtype}"


def _shape_text(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{side:,}" for side in shape) or "scalar"


def figure_adapter() -> VariableAdapter:
    """For `matplotlib.figure.Figure`; of subclasses only the name is shown."""
    return line_adapter(_figure_line)


def _figure_line(value: Any) -> str:
    if not is_of_package(type_of(value), "matplotlib"):
        return f"{type_name(value)} (matplotlib Figure)"
    width, height = value.get_size_inches()
    axes = len(value.axes)
    return f"matplotlib Figure {width:g} × {height:g} inches, {axes} {'axis' if axes == 1 else 'axes'}"
