"""Spark objects other than frames, described from Python-side state: no JVM call, no Spark job."""

from collections.abc import Iterable
from typing import Any, cast

from vibe_jupyter.variables.adapters import VariableAdapter, instance_dict, is_of_package, type_of
from vibe_jupyter.variables.adapters.facts import facts_adapter, schema_adapter
from vibe_jupyter.variables.adapters.tables import spark_frame_adapter
from vibe_jupyter.variables.plain_values import plain_cell_text

Columns = Iterable[tuple[object, str]]


def group_adapter() -> VariableAdapter:
    """Return an adapter for grouped Spark frames. Only the JVM knows their keys."""
    return facts_adapter(
        "Spark GroupedData", _group_text, lambda value: ["Nothing was computed."], packages=("pyspark",)
    )


def _group_text(value: Any) -> str:
    frame = instance_dict(value).get("_df")
    return f"of {spark_frame_adapter().line(frame)}" if is_of_package(type_of(frame), "pyspark") else ""


def pandas_frame_adapter() -> VariableAdapter:
    """Return an adapter for pandas-on-Spark frames."""
    return schema_adapter("pandas-on-Spark DataFrame", _pandas_columns)


def _pandas_columns(value: Any) -> Columns | None:
    internal = instance_dict(instance_dict(value).get("_internal_frame"))
    labels, fields = internal.get("_column_labels"), internal.get("_data_fields")
    if type(labels) is not list or type(fields) is not list:
        return None
    names = [_label(one) for one in cast("list[object]", labels)]
    return [(name, _type_text(field)) for name, field in zip(names, cast("list[object]", fields), strict=False)]


def _label(parts: object) -> str:
    known = cast("tuple[object, ...]", parts) if type(parts) is tuple else (parts,)
    return " ".join(map(plain_cell_text, known))


def _type_text(field: object) -> str:
    """Return the type of a pandas-on-Spark field, which wraps one of Spark's."""
    own = instance_dict(field)
    inner = own.get("struct_field", own.get("_struct_field", field))
    dtype: Any = instance_dict(inner).get("dataType")
    # `simpleString` of a user-defined type would run the user's code.
    return dtype.simpleString() if is_of_package(type_of(dtype), "pyspark") else type_of(dtype).__name__


def schema_type_adapter() -> VariableAdapter:
    """Return an adapter for the schema of a frame."""

    def columns_of(value: Any) -> Columns | None:
        fields = instance_dict(value).get("fields")
        known = cast("list[object]", fields) if type(fields) is list else []
        return [(instance_dict(field).get("name"), _type_text(field)) for field in known]

    return schema_adapter("Spark StructType", columns_of, "")


def session_adapter() -> VariableAdapter:
    """Return an adapter for Spark sessions: application name and master."""
    return facts_adapter("Spark session", _session_text, packages=("pyspark",))


def _session_text(value: Any) -> str:
    context = instance_dict(instance_dict(value).get("_sc"))
    return f"{plain_cell_text(context.get('appName'))} on {plain_cell_text(context.get('master'))}" if context else ""
