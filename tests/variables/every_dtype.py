"""Frames, series, indexes and arrays of every kind, by library."""

import datetime
import decimal
import enum
import fractions
from collections.abc import Iterator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

DAY = datetime.datetime.fromisoformat("2024-01-01")
LETTERS, NUMBERS = list("abcabca"), [0, 1, 0, 1, 1, 0, 1]
PANDAS_TYPES: dict[str, list[object]] = {
    **dict.fromkeys(("int8", "uint64", "float32", "float64", "complex64", "complex128", "bool"), NUMBERS),
    **dict.fromkeys(("Int8", "UInt64", "Float32", "Float64", "boolean", "Sparse[int]", "Sparse[float]"), NUMBERS),
    **dict.fromkeys(("datetime64[s]", "datetime64[us, Europe/Paris]", "datetime64[ns, UTC]"), NUMBERS),
    **dict.fromkeys(("datetime64[ns]", "timedelta64[s]", "timedelta64[ns]"), NUMBERS),
    **dict.fromkeys(("string[python]", "string[pyarrow]", "category", "object", "large_string[pyarrow]"), LETTERS),
    **dict.fromkeys(("int64[pyarrow]", "double[pyarrow]", "bool[pyarrow]"), NUMBERS),
    "timestamp[us][pyarrow]": [DAY] * 7,
    "date32[day][pyarrow]": [DAY.date()] * 7,
    "duration[s][pyarrow]": [datetime.timedelta(hours=1)] * 7,
    "binary[pyarrow]": [b"x"] * 7,
}
ARROW_TYPES: dict[str, tuple[pa.DataType, list[object]]] = {
    "decimal": (pa.decimal128(5, 2), [decimal.Decimal("1.50"), None]),
    "struct": (pa.struct([("a", pa.int64())]), [{"a": 1}, None]),
    "list": (pa.list_(pa.int64()), [[1], None]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", None]),
}


def columns() -> Iterator[tuple[str, pd.api.extensions.ExtensionArray]]:
    """A column of each type of pandas."""
    for name, values in PANDAS_TYPES.items():
        yield name, pd.array(values, dtype=name)
    for name, (dtype, values) in ARROW_TYPES.items():
        yield f"{name}[pyarrow]", pd.array(values, dtype=pd.ArrowDtype(dtype))
    yield "period", pd.period_range("2024-01", periods=7, freq="M").array
    yield "interval", pd.interval_range(0, 7).array
    yield "float16", np.zeros(7, dtype="float16")


def in_every_place(values: pd.api.extensions.ExtensionArray) -> Iterator[tuple[str, object]]:
    """The same column as a series, in frames, as an index and as labels."""
    series = pd.Series(values)
    yield "series", series
    yield "frame", pd.DataFrame({"a": values, "b": values})
    yield "no rows", pd.DataFrame({"a": values[:0]})
    yield "nulls", series.reindex([0, 1, 99]).to_frame("a")
    yield "all null", series.reindex([98, 99]).to_frame("a")
    yield "sampled", pd.concat([pd.DataFrame({"a": values})] * 700, ignore_index=True)
    if not str(series.dtype).startswith(("float16", "struct", "list")):
        index = pd.Index(values)
        yield "index", index
        yield "with index", pd.DataFrame({"a": range(len(index))}, index=index)
        yield "labels", pd.DataFrame([range(len(index))], columns=index)
        yield "labels of two levels", pd.DataFrame([[0]], columns=pd.MultiIndex.from_arrays([index[:1], ["x"]]))


class Pairs(pd.MultiIndex):
    """A user's own class of index."""


class Count(pd.RangeIndex):
    """Another."""


def two_levels() -> Iterator[tuple[str, object]]:
    """What everyday pandas makes with more than one level of labels."""
    frame = pd.DataFrame({"k": list("aabb"), "m": list("xyxy"), "v": [1.0, 2, 3, 4]})
    pair = frame.set_index(["k", "m"])
    yield "groupby.agg", frame.groupby("k").agg({"v": ["mean", "max"]})
    yield "groupby.describe", frame.groupby("k").describe()
    yield "pivot_table", frame.pivot_table(index="k", columns="m", values=["v"])
    yield "unstack", pair.unstack()
    yield "crosstab", pd.crosstab(frame.k, [frame.m, frame.v], margins=True)
    yield "cut", frame.groupby(pd.cut(frame.v, 2), observed=True).agg({"v": ["mean"]}).T
    yield "both axes", pd.concat({"x": pair.unstack(), "y": pair.unstack()})
    yield "series", pair["v"]
    yield "itself", pd.MultiIndex.from_product([range(1_000), range(1_000)])
    odd = [("a", np.nan), (None, pd.Timestamp("2024-01-01"))]
    yield "missing parts", pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples(odd, names=["x", None]))
    yield "missing parts of an index", pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples(odd))
    yield "nine levels", pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([tuple(range(9))]))
    yield "twice the same", pd.DataFrame([[1, "a"]], columns=pd.MultiIndex.from_tuples([("a", 1)] * 2))
    yield "no rows", pd.DataFrame(columns=pd.MultiIndex.from_tuples([("a", "b")]))
    yield "no columns", pd.DataFrame(columns=pd.MultiIndex(levels=[[], []], codes=[[], []]))
    for cls, index in ((Pairs, pd.MultiIndex.from_tuples([("a", 1)])), (Count, pd.RangeIndex(1))):
        own = object.__new__(cls)
        own.__dict__.update(index.__dict__)
        frame = pd.DataFrame({"a": [1]})
        frame._mgr.axes[0] = frame._mgr.axes[1] = own
        yield f"a subclass of {index.__class__.__name__}", frame


def labels_and_values() -> Iterator[tuple[str, object]]:
    """Odd labels, and columns of anything."""
    odd = [0, 1.5, None, ("t", 1), pd.Timestamp("2024-01-01"), DAY.date(), enum.Enum("E", "A").A, float("nan"), b"x"]
    yield "labels that are no text", pd.DataFrame([range(len(odd))], columns=pd.Index(odd, dtype=object))
    yield "one label three times", pd.DataFrame([[1, "a", 2.0]], columns=["a", "a", "a"])
    yield "long labels", pd.DataFrame({"x" * 10**6: [1], "a\nb|</notebook>": [2], "\x1b[31m": [1]})
    yield "no columns", pd.DataFrame(index=range(5))
    yield "no rows", pd.DataFrame(columns=list("abc"))
    yield "nothing", pd.DataFrame()
    yield "an empty series", pd.Series(dtype=object)
    mix = [1, "a", None, [1], {"a": 1}, np.array([1, 2]), pd.NaT]
    numbers = [pd.NA, np.nan, None, 1 + 2j, decimal.Decimal(1), fractions.Fraction(1, 2), b"x"]
    yield "anything", pd.DataFrame({"a": mix, "b": numbers})
    yield "frames", pd.DataFrame({"a": [pd.DataFrame({"a": [1]})]})
    yield "huge numbers", pd.DataFrame({"a": [10**400, 1], "b": [10**400, 1.5], "c": [1e308, 1e308]})
    yield "infinities", pd.DataFrame({"a": [np.inf, -np.inf], "b": np.array([np.inf, np.nan], dtype="f2")})
    yield "infinite objects", pd.DataFrame({"a": np.array([float("inf"), float("-inf")], dtype=object)})
    far = np.array(["9999-01-01", "0001-01-01"], dtype="M8[s]")
    yield "far dates", pd.DataFrame({"a": far, "b": pd.array(far).tz_localize("UTC"), "c": far - far[::-1]})
    yield "fixed zone", pd.DataFrame({"a": [pd.Timestamp("2024-01-01", tz="+01:00")]})
    zones = [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01", tz="dateutil/Europe/Paris")]
    yield "mixed zones", pd.Series(zones).to_frame("a")
    yield "categories", pd.DataFrame({"a": pd.Categorical([1, None], [1, 2], ordered=True), "b": pd.cut([1, 2], 2)})
    yield "sparse objects", pd.DataFrame({"a": pd.arrays.SparseArray(["a", None], dtype="Sparse[object]")})


POLARS_TYPES: dict[str, tuple[object, object]] = {
    "Int8": (pl.Int8, 1),
    "UInt64": (pl.UInt64, 1),
    "Float32": (pl.Float32, float("nan")),
    "Boolean": (pl.Boolean, True),
    "String": (pl.String, "a"),
    "Categorical": (pl.Categorical, "a"),
    "Enum": (pl.Enum(["a", "b"]), "a"),
    "Date": (pl.Date, DAY.date()),
    "Time": (pl.Time, datetime.time(1)),
    "Datetime": (pl.Datetime, DAY),
    "Datetime with a zone": (pl.Datetime("us", "Europe/Paris"), DAY.astimezone(datetime.UTC)),
    "Duration": (pl.Duration, datetime.timedelta(1)),
    "Binary": (pl.Binary, b"a"),
    "Decimal": (pl.Decimal(10, 2), decimal.Decimal("1.5")),
    "Null": (pl.Null, None),
    "Object": (pl.Object, object()),
    "List": (pl.List(pl.Int64), [1]),
    "Array": (pl.Array(pl.Int64, 2), [1, 2]),
    "Struct": (pl.Struct({"x": pl.Int64}), {"x": 1}),
}


def of_polars() -> Iterator[tuple[str, object]]:
    for name, (dtype, value) in POLARS_TYPES.items():
        for form, values in (("", [value, None]), (", empty", []), (", sampled", [value, None] * 2_000)):
            series = pl.Series("s", values, dtype=dtype)  # type: ignore[arg-type]
            yield f"{name}{form}", series
            yield f"{name}{form}, frame", series.to_frame()
    yield "no columns", pl.DataFrame()
    yield "odd labels", pl.DataFrame({"": [1], "a\nb|": [2]})
    yield "infinities", pl.DataFrame({"a": [float("inf"), float("-inf")], "b": [1e308, 1e308]})
    yield "far moments", pl.DataFrame({"a": pl.Series([10**18, -(10**18)]).cast(pl.Datetime("ms"))})
    yield "far days", pl.DataFrame({"a": pl.Series([2**30, -(2**30)], dtype=pl.Int32).cast(pl.Date)})
    yield "long times", pl.DataFrame({"a": pl.Series([2**62, -(2**62)]).cast(pl.Duration("ms"))})
    yield "many chunks", pl.concat([pl.DataFrame({"a": [1, 2]})] * 2_000, rechunk=False)


def of_numpy() -> Iterator[tuple[str, object]]:
    for dtype in ("f2", "f8", "g", "F", "D", "G", "?", "i1", "u8", ">f8", "S3", "U3", "O", "V8"):
        for shape in ((), (0,), (3,), (0, 5), (50, 50)):
            yield f"{dtype} {shape}", np.zeros(shape, dtype=dtype)
    for unit in ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"]:
        yield f"moments in {unit}", np.array([1, 2, -(2**63)], dtype=f"M8[{unit}]")
        yield f"spans in {unit}", np.array([1, 2, -(2**63)], dtype=f"m8[{unit}]")
    yield "StringDType", np.array(["a", None], dtype=np.dtypes.StringDType(na_object=None))
    yield "records", np.rec.array([(1, "a")], dtype=[("a", "i4"), ("b", "U3")])
    yield "no fields", np.zeros(3, dtype=[])
    yield "fields of arrays", np.zeros(3, dtype=[("a", "f4", (2, 2))])
    yield "masked", np.ma.masked_all((3,))
    yield "a trillion elements", np.broadcast_to(np.float64(1), (10**6, 10**6))
    yield "huge objects", np.array([10**400], dtype=object)
    yield "infinities", np.array([np.inf, -np.inf, np.nan])
    yield "32 dimensions", np.zeros((1,) * 32)
    for name in ["float16", "longdouble", "complex64", "clongdouble", "bool_", "int8", "str_", "bytes_"]:
        yield f"scalar {name}", getattr(np, name)()
    yield "scalar timedelta64", np.timedelta64(0, "s")


def of_pandas() -> Iterator[tuple[str, object]]:
    for name, column in columns():
        for place, value in in_every_place(column):
            yield f"{name}, {place}", value


class Angles(pd.api.extensions.ExtensionArray):
    """A column as libraries define their own: GeoPandas, Pint, cyberpandas. Its code may do anything."""

    class Type(pd.api.extensions.ExtensionDtype):
        name = "angles"
        type = float

    ran: list[str] = []

    def __init__(self, degrees: list[float]) -> None:
        self._degrees = degrees

    def __getattribute__(self, name: str) -> object:
        if name != "_degrees":
            Angles.ran.append(name)
        return super().__getattribute__(name)

    @property
    def dtype(self) -> "Angles.Type":
        return Angles.Type()

    def __len__(self) -> int:
        return len(self._degrees)

    def __getitem__(self, item: object) -> object:
        Angles.ran.append("__getitem__")
        found = self._degrees[item]  # type: ignore[index]
        return Angles(found) if isinstance(found, list) else found

    def copy(self) -> "Angles":
        return Angles(list(self._degrees))


def with_angles(*names: str) -> pd.DataFrame:
    return pd.DataFrame({name: Angles([1.0, 2.0]) if name == "angle" else [1, None] for name in names})
