"""Frames that are plans, not tables: polars LazyFrame, Dask and Spark.

Asking a plan for its schema may open files, reach over the network or run the person's functions, so only a schema
that is already stored on the object is told.
"""

from typing import Any, cast

from vibe_jupyter.notebook.plain import plain_text
from vibe_jupyter.notebook.type_facts import instance_dict, is_of_package, loaded, type_name, type_of
from vibe_jupyter.notebook.variable_adapters.adapter import Adapter, Description, Rows, View
from vibe_jupyter.notebook.variable_adapters.frames import COLUMNS_LIMIT, LABEL_WIDTH
from vibe_jupyter.notebook.variable_adapters.pandas_frames import pandas_columns

_SCHEMA_HINTS = {
    "polars": "collect_schema()",
    "dask": "dtypes",
    "pyspark": "schema",
}


def lazy_adapter(package: str, kind: str) -> Adapter:
    """For the lazy frames of one package."""

    def line(value: Any) -> str:
        columns = _known_columns(value, package)
        extent = f"{len(columns):,} columns" if columns else "columns not known yet"
        return f"{kind}, {extent}"

    def describe(value: Any, view: View) -> Description:
        columns = _known_columns(value, package)[:COLUMNS_LIMIT]
        hint = f"Nothing was computed. run_code can ask for .{_SCHEMA_HINTS[package]}, which may read its sources."
        body = "\n".join(["column | type", *(f"{name} | {dtype}" for name, dtype in columns)]) if columns else hint
        table = Rows(("column", "type"), tuple(columns)) if columns else None
        return Description(headline=line(value), body=body, summary=line(value), table=table)

    return Adapter(line=line, describe=describe, fingerprint=id)


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
    return pandas_columns(sample) if type(sample) is loaded("pandas", "DataFrame") else []


def _columns_of_spark(schema: Any) -> list[tuple[str, str]]:
    fields = instance_dict(schema).get("fields") if is_of_package(type_of(schema), "pyspark") else None
    if type(fields) is not list:
        return []
    known = [instance_dict(field) for field in cast("list[object]", fields)[:COLUMNS_LIMIT]]
    return [(plain_text(field.get("name"), LABEL_WIDTH), type_name(field.get("dataType"))) for field in known]
