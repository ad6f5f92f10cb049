"""Tables and databases of other libraries, described by columns that are already known. No query reads any data.

Libraries supported by narwhals are read through it; it is imported for the first such table. polars lazy frames are
an exception: resolving their schema opens files, accesses the network and calls the user's functions.
"""

import functools
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.variables.adapters import (
    LABELS_COMPARED,
    VariableAdapter,
    VariableDescription,
    VariableView,
    instance_dict,
    is_of_package,
    module_of,
    type_name,
    type_of,
)
from vibe_jupyter.variables.adapters.facts import facts_adapter, named_line, names_text, plural, schema_adapter
from vibe_jupyter.variables.adapters.frames import (
    HEAD_COLUMNS,
    LABEL_WIDTH,
    LINE_COLUMNS,
    Column,
    Frame,
    choose_columns,
    describe_frame,
    number_text,
    one_line,
    spread_rows,
    unknown_columns,
    value_column,
)
from vibe_jupyter.variables.adapters.pandas_frames import values_of_chunks
from vibe_jupyter.variables.plain_values import plain_cell_text, plain_line, present_values

_NOT_COMPUTED: Final = "Nothing was computed."
_TYPE_WIDTH: Final = 60  # characters of a column's type; nested ones can be long
_TABLES_SHOWN: Final = 40
_COLUMNS_READ: Final = 2_000
_COLUMN_QUERY: Final = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns() "
    f"WHERE NOT internal AND database_name NOT IN ('system', 'temp') LIMIT {_COLUMNS_READ}"
)
_ATTACHED_QUERY: Final = "SELECT database_name, type FROM duckdb_databases() WHERE NOT internal AND type <> 'duckdb'"


def arrow_adapter() -> VariableAdapter:
    """Return an adapter for Arrow tables and record batches."""
    return VariableAdapter(
        line=_arrow_line,
        describe=_describe_arrow,
        fingerprint=id,
        labels=_arrow_labels,
    )


def arrow_array_adapter() -> VariableAdapter:
    return facts_adapter("pyarrow array", _arrow_array_text, _arrow_array_lines, packages=("pyarrow",))


def _arrow_labels(value: Any) -> Iterable[str]:
    return map(_label, value.schema.names[:LABELS_COMPARED])


def _arrow_line(value: Any) -> str:
    fields = [value.schema.field(place) for place in range(min(value.num_columns, LINE_COLUMNS))]
    columns = tuple(Column(_label(field.name), _arrow_type(field.type)) for field in fields)
    return one_line(Frame(_arrow_kind(value), value.num_rows, value.num_columns, columns))


def _describe_arrow(value: Any, view: VariableView) -> VariableDescription:
    places = spread_rows(value.num_rows)
    labels = [_label(name) for name in value.schema.names]
    chosen = choose_columns(labels, view.columns)
    looked_at = (value.num_rows if places is None else len(places)) if view.stats else 0
    return describe_frame(
        Frame(
            kind=_arrow_kind(value),
            rows=value.num_rows,
            width=value.num_columns,
            is_chosen=view.columns is not None,
            unknown=unknown_columns(labels, view.columns),
            columns=tuple(_arrow_column(value.column(place), labels[place], places, view) for place in chosen),
            looked_at=looked_at,
            head=tuple(zip(*(_arrow_head(value.column(at), view.rows) for at in chosen[:HEAD_COLUMNS]), strict=True)),
        )
    )


def _arrow_column(values: Any, label: str, places: tuple[int, ...] | None, view: VariableView) -> Column:
    dtype = _arrow_type(values.type)
    if not view.stats or not _is_plain_arrow(values.type):
        return Column(label, dtype)
    chunks = values.chunks if hasattr(values, "chunks") else [values]
    known = values.to_pylist() if places is None else values_of_chunks(chunks, places)
    if dtype.startswith(("timestamp", "date", "time")):
        present = present_values(known)
        shown = [plain_cell_text(value) for value in (min(present), max(present))] if present else []  # type: ignore[type-var]
        return Column(label, dtype, len(known) - len(present), " … ".join(dict.fromkeys(shown)))
    return value_column(label, dtype, known)


def _arrow_head(values: Any, rows: int) -> list[str]:
    if not _is_plain_arrow(values.type):
        return ["…"] * min(rows, len(values))
    return [number_text(value) for value in values[:rows].to_pylist()]


def _arrow_type(dtype: Any) -> str:
    if not is_of_package(type_of(dtype), "pyarrow"):
        return f"<{type_name(dtype)}>"
    text = str(dtype) if _is_plain_arrow(dtype) else f"<{type_name(dtype)}>"
    return text if len(text) <= _TYPE_WIDTH else text[:_TYPE_WIDTH] + "…"


def _is_plain_arrow(dtype: Any) -> bool:
    """Return whether the type contains no registered extension type, which converts values to user-defined objects."""
    if not is_of_package(type_of(dtype), "pyarrow") or hasattr(dtype, "extension_name"):
        return False
    parts = [dtype.field(place).type for place in range(dtype.num_fields)]
    parts += [dtype.value_type] if hasattr(dtype, "value_type") else []
    return all(map(_is_plain_arrow, parts))


def _arrow_kind(value: Any) -> str:
    name = "RecordBatch" if type_of(value).__name__ == "RecordBatch" else "Table"
    return f"pyarrow {name}" if is_of_package(type_of(value), "pyarrow") else f"{type_name(value)} (pyarrow {name})"


def _arrow_array_text(value: Any) -> str:
    return f"{len(value):,} {_arrow_type(value.type)}"


def _arrow_array_lines(value: Any) -> Iterator[str]:
    if _is_plain_arrow(value.type):
        yield "first: " + ", ".join(plain_line(item, depth=1) for item in value[:6].to_pylist())


def narwhals_adapter(kind: str, *packages: str) -> VariableAdapter:
    """Create an adapter for tables of a library that narwhals supports. User-defined subclasses are only named."""

    def columns_of(value: Any) -> list[tuple[object, str]] | None:
        if not any(is_of_package(type_of(value), package) for package in packages):
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warnings would appear in the user's cell
            schema = _narwhals().from_native(value).collect_schema()
        return [(name, _narwhals_type(dtype)) for name, dtype in schema.items()]

    return schema_adapter(kind, columns_of)


@functools.cache
def _narwhals() -> Any:
    with without_working_folder():
        import narwhals.stable.v2 as narwhals  # noqa: PLC0415 - most notebooks have no such table

    return narwhals


def _narwhals_type(dtype: Any) -> str:
    text = str(dtype).replace("time_unit='", "").replace("'", "").replace(", time_zone=None", "")
    return text if len(text) <= _TYPE_WIDTH else text[:_TYPE_WIDTH] + "…"


def plan_adapter(kind: str, ask: str) -> VariableAdapter:
    """Create an adapter for plans whose columns can't be listed without work. `ask` is code that would list them."""
    note = f"{_NOT_COMPUTED} run_code can ask for {ask}, which may open its sources and call functions in it."
    return schema_adapter(kind, lambda value: None, note)


def polars_plan_adapter() -> VariableAdapter:
    """Return an adapter for `polars.LazyFrame`."""
    return plan_adapter("polars LazyFrame", ".collect_schema()")


def spark_connect_adapter() -> VariableAdapter:
    """Return an adapter for Spark Connect frames, whose schema would be requested from the server."""
    return plan_adapter("Spark DataFrame", ".schema")


def dask_frame_adapter() -> VariableAdapter:
    """Return an adapter for Dask frames, which store an empty pandas frame as their schema."""
    return narwhals_adapter("Dask DataFrame", "dask", "dask_expr")


def spark_frame_adapter() -> VariableAdapter:
    """Return an adapter for local Spark frames, which know their columns from the start."""
    return narwhals_adapter("Spark DataFrame", "pyspark")


def ibis_table_adapter() -> VariableAdapter:
    return narwhals_adapter("ibis Table", "ibis")


def ibis_value_adapter() -> VariableAdapter:
    """Return an adapter for ibis columns and scalars."""
    return facts_adapter("ibis expression", _ibis_value_text, packages=("ibis",))


def _ibis_value_text(value: Any) -> str:
    return f"{type_of(value).__name__} {plain_cell_text(value.get_name())} {str(value.type())[:_TYPE_WIDTH]}"


def ibis_backend_adapter() -> VariableAdapter:
    """Return an adapter for ibis connections."""
    return facts_adapter("ibis backend", _backend_text, _backend_lines, packages=("ibis",))


def _backend_text(value: Any) -> str:
    return module_of(type_of(value)).removeprefix("ibis.backends.")


def _backend_lines(value: Any) -> Iterator[str]:
    yield "Its tables were not asked for, since that goes to the database."
    yield "run_code can ask for .list_tables()."


def modin_frame_adapter() -> VariableAdapter:
    return narwhals_adapter("modin DataFrame", "modin")


def cudf_frame_adapter() -> VariableAdapter:
    """Return an adapter for cuDF frames, which are in GPU memory."""
    return narwhals_adapter("cuDF DataFrame", "cudf")


def sqlframe_adapter() -> VariableAdapter:
    return narwhals_adapter("SQLFrame DataFrame", "sqlframe")


def ray_dataset_adapter() -> VariableAdapter:
    """Return an adapter for Ray data sets, which would read their sources to report a schema."""
    return plan_adapter("Ray Dataset", ".schema()")


def duckdb_relation_adapter() -> VariableAdapter:
    """Return an adapter for DuckDB relations, which know their columns from the start."""
    return schema_adapter("DuckDB relation", _relation_columns)


def _relation_columns(value: Any) -> list[tuple[object, str]] | None:
    if not is_of_package(type_of(value), "duckdb"):
        return None
    return [(name, str(dtype)[:_TYPE_WIDTH]) for name, dtype in zip(value.columns, value.types, strict=True)]


def duckdb_connection_adapter() -> VariableAdapter:
    """Return an adapter for DuckDB connections. The catalog is queried on a new cursor, so pending results survive."""
    return facts_adapter("DuckDB connection", lambda value: "", _connection_lines, packages=("duckdb", "_duckdb"))


def _connection_lines(value: Any) -> Iterator[str]:
    own = value.cursor()
    try:
        if attached := own.execute(_ATTACHED_QUERY).fetchall():
            # Listing their tables would make DuckDB query remote servers.
            yield named_line("attached", [f"{name} ({kind})" for name, kind in attached])
            yield "run_code can ask for SHOW ALL TABLES, which goes to those too."
            return
        rows = own.execute(_COLUMN_QUERY).fetchall()
    finally:
        own.close()
    found: dict[str, list[str]] = {}
    for name, column, dtype in rows:
        found.setdefault(name, []).append(f"{column} {dtype}")
    yield plural(len(found), "table") + (" and more" if len(rows) == _COLUMNS_READ else "")
    for name, columns in islice(found.items(), _TABLES_SHOWN):
        yield f"{plain_cell_text(name)} ({names_text(columns, LINE_COLUMNS)})"
    yield "Tables that only this connection sees (registered frames, TEMP) are not listed."


def engine_adapter() -> VariableAdapter:
    """Return an adapter for SQLAlchemy engines: their address, without password or query."""
    return facts_adapter("SQLAlchemy Engine", _engine_text, _engine_lines, packages=("sqlalchemy",))


def _engine_text(value: Any) -> str:
    return _address_text(instance_dict(value).get("url"))


def _engine_lines(value: Any) -> Iterator[str]:
    yield "Its schema was not asked for, since that goes to the database."
    yield "run_code can: sqlalchemy.inspect(engine).get_table_names()"


def async_engine_adapter() -> VariableAdapter:
    """Return an adapter for SQLAlchemy's `AsyncEngine`."""
    return facts_adapter(
        "SQLAlchemy AsyncEngine",
        lambda value: _address_text(value.sync_engine.url),
        _engine_lines,
        packages=("sqlalchemy",),
    )


def _address_text(url: Any) -> str:
    if not is_of_package(type_of(url), "sqlalchemy"):
        return ""
    place = f", host {plain_cell_text(url.host)}" if url.host else ""
    database = f", database {plain_cell_text(url.database)}" if url.database else ""
    user = f", user {plain_cell_text(url.username)}" if url.username else ""
    return f"{plain_cell_text(url.drivername)}{place}{database}{user}"


def connection_adapter() -> VariableAdapter:
    return facts_adapter("SQLAlchemy Connection", _sql_connection_text, _engine_lines, packages=("sqlalchemy",))


def _sql_connection_text(value: Any) -> str:
    return _engine_text(value.engine) + (", closed" if value.closed else "")


def sql_table_adapter() -> VariableAdapter:
    """Return an adapter for SQLAlchemy tables, as declared or reflected."""

    def columns_of(value: Any) -> Iterable[tuple[object, str]] | None:
        if not is_of_package(type_of(value), "sqlalchemy"):
            return None
        # SQLAlchemy's `quoted_name` is a subclass of str.
        columns = islice(value.columns, 1_000)
        return [(str.__getitem__(column.name, slice(None)), type_of(column.type).__name__) for column in columns]

    return schema_adapter("SQLAlchemy Table", columns_of, "Nothing was asked of the database.")


def sql_metadata_adapter() -> VariableAdapter:
    """Return an adapter for SQLAlchemy's `MetaData`, which lists its tables."""
    return facts_adapter(
        "SQLAlchemy MetaData",
        lambda value: plural(len(instance_dict(value).get("tables", ())), "table"),  # type: ignore[arg-type]
        lambda value: [named_line("tables", value.tables)],
        packages=("sqlalchemy",),
    )


def _label(name: object) -> str:
    return plain_cell_text(name, LABEL_WIDTH)
