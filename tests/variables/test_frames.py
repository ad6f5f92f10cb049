"""Frames and arrays: shape, types, nulls, ranges and a sample, in constant time, by the libraries' own code alone."""

import datetime
import time
from collections.abc import Callable

import pytest

from tests.on_use import OnUse
from vibe_jupyter.errors import ToolError
from vibe_jupyter.protocol import TABLE_MIME, Table
from vibe_jupyter.variables.describe import summary_line, value_fingerprint

pytestmark = pytest.mark.xdist_group("libraries")
np = OnUse("numpy")
pd = OnUse("pandas")
pl = OnUse("polars")

SPECIES = ["Adelie", "Gentoo", "Chinstrap", None]
COLUMNS = {
    "species": SPECIES * 2,
    "bill": [32.1, 59.6, float("nan"), 40.0] * 2,
    "year": [2007, 2008, 2009, 2010] * 2,
    "tagged": [True, False] * 4,
}


def table_of(result) -> list[tuple[str, ...]]:
    table = Table.model_validate(result.display[TABLE_MIME])
    return [table.columns, *table.rows]


@pytest.mark.requirement("notebook.variables.inspect-frame")
async def test_a_pandas_frame_is_told_by_shape_types_nulls_and_a_sample(namespace, inspect, text_of):
    namespace["penguins"] = pd.DataFrame(COLUMNS)

    result = await inspect("penguins", rows=2)

    assert text_of(result) == (
        "penguins: pandas DataFrame 8 × 4\n"
        "column | type | nulls | values\n"
        "species | str | 2 | Adelie, Gentoo, Chinstrap\n"
        "bill | float64 | 2 | 32.1 … 59.6, mean 43.9\n"
        "year | int64 | 0 | 2007 … 2010, mean 2008.5\n"
        "tagged | bool | 0 | False, True\n"
        "first 2 rows:\n"
        "species | bill | year | tagged\n"
        "Adelie | 32.1 | 2007 | True\n"
        "Gentoo | 59.6 | 2008 | False"
    )
    assert result.summary == "8 × 4, nulls in 2 columns"
    assert table_of(result) == [
        ("column", "type", "nulls", "sample"),
        ("species", "str", "2", "Adelie, Gentoo, Chinstrap"),
        ("bill", "float64", "2", "32.1 … 59.6"),
        ("year", "int64", "0", "2007 … 2010"),
        ("tagged", "bool", "0", "False, True"),
    ]


async def test_blanks_around_a_columns_name_are_seen(namespace, inspect, text_of):
    namespace["readings"] = pd.DataFrame({" size": [1], "day ": [2], "": [3]})

    told = text_of(await inspect("readings", rows=1))

    assert "' size' | int64 | 0 | 1" in told
    assert told.endswith("' size' | 'day ' | ''\n1 | 2 | 3")


@pytest.mark.requirement("notebook.variables.inspect-frame")
async def test_a_polars_frame_is_told_by_shape_types_nulls_and_a_sample(namespace, inspect, text_of):
    namespace["penguins"] = pl.DataFrame(COLUMNS, strict=False)

    result = await inspect("penguins", rows=1)

    assert text_of(result) == (
        "penguins: polars DataFrame 8 × 4\n"
        "column | type | nulls | values\n"
        "species | String | 2 | Adelie, Gentoo, Chinstrap\n"
        "bill | Float64 | 0 | 32.1 … 59.6, mean 43.9, 2 NaN\n"
        "year | Int64 | 0 | 2007 … 2010, mean 2008.5\n"
        "tagged | Boolean | 0 | True, False\n"
        "first row:\n"
        "species | bill | year | tagged\n"
        "Adelie | 32.1 | 2007 | True"
    )
    assert result.summary == "8 × 4, nulls in 1 column"


@pytest.mark.requirement("notebook.variables.inspect-frame")
@pytest.mark.parametrize("library", [pd, pl])
async def test_columns_rows_and_stats_narrow_what_is_told(namespace, inspect, text_of, library):
    namespace["df"] = library.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]})

    narrowed = text_of(await inspect("df", columns=["c", "a"], rows=0))
    bare = await inspect("df", stats=False, rows=1)

    assert [line.split(" | ")[0] for line in narrowed.split("\n")[1:]] == ["column", "c", "a"]
    assert [line.count(" | ") for line in text_of(bare).split("\n")] == [0, 1, 1, 1, 1, 0, 2, 2]
    assert table_of(bare)[0] == ("column", "type")
    assert bare.summary == "2 × 3"
    with pytest.raises(ToolError, match=r"No column 'd'\. The columns are a, b, c\."):
        await inspect("df", columns=["d"])


@pytest.mark.parametrize("library", [pd, pl])
async def test_an_unknown_column_costs_only_itself_and_the_extent_stays_that_of_the_frame(
    namespace, inspect, text_of, library
):
    namespace["df"] = library.DataFrame({"price": [1, 2], "size": ["x", "y"], "kind": [0.5, 1.5]})

    lines = text_of(await inspect("df", columns=["size", "pric"], rows=0)).split("\n")

    assert lines[0].endswith(" DataFrame 2 × 3")
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        "column",
        "size",
        "No column 'pric'. Did you mean 'price'? The columns are price, size, kind.",
    ]


@pytest.mark.requirement("notebook.variables.inspect-frame")
@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("path", ["df['price']", 'd["frame"]["price"]', "df.price", "held[-1].price"])
async def test_a_path_to_a_column_tells_that_column(namespace, inspect, text_of, library, path):
    frame = library.DataFrame({"price": [1, 2], "size": ["x", "y"]})
    namespace |= {"df": frame, "d": {"frame": frame}, "held": [0, frame]}

    lines = text_of(await inspect(path, rows=1)).split("\n")

    assert lines[0] == f"{path}: {library.__name__} DataFrame 2 × 2"
    assert lines[2].startswith("price | int64 | 0 | 1 … 2" if library is pd else "price | Int64 | 0 | 1 … 2")
    assert lines[-2:] == ["price", "1"]


@pytest.mark.parametrize("library", [pd, pl])
async def test_a_long_frame_is_sampled_evenly_and_says_so(namespace, inspect, text_of, library):
    count = 100_001
    namespace["df"] = library.DataFrame({"n": list(range(count)), "half": [None, 1.0] * (count // 2) + [None]})

    text = text_of(await inspect("df", rows=1))

    assert "of 1,000 sampled rows" in text
    assert "0 … 100000, mean 49999.5" in text  # first and last rows are in the sample
    if library is pl:
        assert "half | Float64 | 50001 |" in text  # polars keeps the exact count
    else:
        nulls = int(text.split("half | float64 | ")[1].split(" ")[0])
        assert 400 < nulls < 600
        assert "nulls in sample" in text


@pytest.mark.parametrize("library", [pd, pl])
async def test_a_wide_frame_is_cut_at_forty_columns(namespace, inspect, text_of, library):
    namespace["df"] = library.DataFrame({f"c{number}": [number] for number in range(200)})

    result = await inspect("df")

    assert "… 160 more columns; name them in `columns` to see them" in text_of(result)
    assert len(table_of(result)) == 41
    assert "c199 | " in text_of(await inspect("df", columns=["c199"]))
    assert len(summary_line("df", namespace["df"])) < 250


async def test_columns_of_every_kind_are_told(namespace, inspect, text_of):
    days = pd.date_range("2024-01-01", periods=3)
    namespace["df"] = pd.DataFrame(
        {
            "day": days,
            "moment": days.tz_localize("UTC") + pd.Timedelta(hours=12, milliseconds=5),
            "span": pd.to_timedelta([1, 2, None], unit="h"),
            "kind": pd.Categorical(["a", "b", None]),
            "maybe": pd.array([1, None, 3], dtype="Int64"),
            "mixed": [1, "x", None],
            "things": [object(), datetime.date(2024, 1, 1), None],
            "month": pd.period_range("2024-01", periods=3, freq="M"),
            "void": [None, None, None],
        }
    )

    text = text_of(await inspect("df", rows=0))

    assert [line.split(" | ")[2:] for line in text.split("\n")[2:]] == [
        ["0", "2024-01-01 … 2024-01-03"],
        ["0", "2024-01-01 12:00:00.005 … 2024-01-03 12:00:00.005 UTC"],
        ["1", "1:00:00 … 2:00:00"],
        ["1", "a, b"],
        ["1", "1 … 3, mean 2"],
        ["1", "1, x"],
        ["1", "object, datetime.date"],
        ["0", "pandas.Period"],
        ["3", ""],
    ]


async def test_types_of_polars_are_told(namespace, inspect, text_of):
    moment = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    namespace["df"] = pl.DataFrame(
        {"t": [moment, None], "l": [[1], [2, 3]], "o": pl.Series([object(), None], dtype=pl.Object), "e": [None, None]}
    )

    text = text_of(await inspect("df", rows=1))

    assert "t | Datetime(us, UTC) | 1 | 2024-01-01 12:00:00+00:00 … 2024-01-01 12:00:00+00:00" in text
    assert "l | List(Int64) | 0 | list" in text
    assert "o | Object | 1 | object" in text
    assert text.endswith("2024-01-01 12:00:00+00:00 | [1] | <object> | None")


async def test_an_index_of_its_own_is_told(namespace, inspect, text_of):
    namespace["df"] = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    namespace["deep"] = pd.DataFrame({"a": [1]}, index=pd.MultiIndex.from_tuples([("x", 1)], names=["k", "n"]))

    assert "index: Index key 2 str, 'x' … 'y'" in text_of(await inspect("df"))
    assert "index: MultiIndex 1 (k 1, n 1)" in text_of(await inspect("deep"))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("pd.Series([1.5, None], name='s')", "pandas Series 2 float64"),
        ("pd.RangeIndex(3)", "pandas RangeIndex 3 int64, 0 … 2"),
        ("pl.Series('s', [1, 2])", "polars Series 2 Int64"),
        ("pd.DataFrame()", "pandas DataFrame 0 × 0 ()"),
        ("pl.DataFrame()", "polars DataFrame 0 × 0 ()"),
        ("np.zeros((3, 4))", "numpy array 3 × 4 float64"),
        ("np.array(3)", "numpy array scalar int64"),
        ("np.zeros(2, dtype=[('a', 'i4'), ('b', 'f8')])", "numpy array 2 [('a', '<i4'), ('b', '<f8')]"),
        ("np.ma.masked_array([1, 2], [True, False])", "numpy.ma.MaskedArray (numpy array) 2 int64"),
        ("np.float32(1.5)", "numpy.float32 1.5"),
        ("pd.Timestamp('2024-01-01')", "pandas.Timestamp 2024-01-01 00:00:00"),
        ("pl.LazyFrame({'a': [1]})", "polars LazyFrame, columns not known yet"),
    ],
)
async def test_one_line_says_kind_and_extent(namespace, inspect, text_of, code: str, line: str):
    namespace["v"] = value = eval(code)

    assert summary_line("v", value) == f"v: {line}"
    assert text_of(await inspect("v")).startswith(f"v: {line.split(' (')[0].split(', ')[0]}")


async def test_an_array_is_told_by_its_range_and_first_elements(namespace, inspect, text_of):
    namespace["a"] = np.arange(1_000_000, dtype="float64").reshape(1_000, 1_000)[:, ::2]
    namespace["b"] = np.array([1.0, np.nan])

    assert text_of(await inspect("a")) == (
        "a: numpy array 1,000 × 500 float64\n"
        "values: 0 … 999998, mean 499998 (of 1,000 sampled elements)\n"
        "first: 0.0, 2.0, 4.0, 6.0, 8.0, 10.0"
    )
    assert "values: 1 … 1, mean 1, 1 nan" in text_of(await inspect("b"))


async def test_what_a_masked_array_hides_is_none_of_its_values(namespace, inspect, text_of):
    namespace["depth"] = np.ma.masked_equal([[3.0, -9999.0], [5.0, -9999.0]], -9999.0)
    namespace["long"] = np.ma.masked_array(np.arange(5_000), np.arange(5_000) % 2)
    namespace["hidden"] = np.ma.masked_all(2)

    assert "values: 3 … 5, mean 4, 2 masked\nfirst: 3.0, masked, 5.0, masked" in text_of(await inspect("depth"))
    assert "0 … 4998, mean 2499, 500 masked (of 1,000 sampled elements)" in text_of(await inspect("long"))
    assert "values: 2 masked\nfirst: masked, masked" in text_of(await inspect("hidden"))


def test_an_element_that_is_masked_is_a_change_of_the_array():
    depth = np.ma.masked_array([3.0, 4.0], [False, False])
    before = value_fingerprint(depth)

    depth[0] = np.ma.masked

    assert value_fingerprint(depth) != before


async def test_the_range_of_long_doubles_is_told_in_numbers(namespace, inspect, text_of):
    namespace["a"] = np.array([1.5, 2.5], dtype="longdouble")

    assert "values: 1.5 … 2.5, mean 2" in text_of(await inspect("a"))


async def test_the_first_rows_have_the_labels_of_their_index(namespace, inspect, text_of):
    namespace["counts"] = pd.Series(["a", "b", "b"]).value_counts()
    namespace["deep"] = pd.DataFrame(
        {"n": [5, 6]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", None)], names=["k", "l"])
    )
    namespace["plain"] = pd.DataFrame({"n": [5]})

    assert text_of(await inspect("counts")).endswith("first 2 rows:\nindex | value\nb | 2\na | 1")
    assert text_of(await inspect("deep")).endswith("first 2 rows:\nindex | n\n('x', 1) | 5\n('y', None) | 6")
    assert text_of(await inspect("plain")).endswith("first row:\nn\n5")


async def test_a_lazy_frame_is_neither_collected_nor_asked_for_its_schema(namespace, inspect, text_of, tmp_path):
    ran: list[str] = []

    def compute(frame: pl.DataFrame) -> pl.DataFrame:
        ran.append("computed")
        return frame

    namespace["lazy"] = pl.LazyFrame({"a": [1]}).map_batches(compute)
    namespace["scan"] = pl.scan_csv(tmp_path / "missing.csv")

    for name in ("lazy", "scan"):
        text = text_of(await inspect(name))
        assert text.startswith(f"{name}: polars LazyFrame")
        assert "Nothing was computed" in text
        value_fingerprint(namespace[name])
    assert ran == []


@pytest.mark.parametrize("library", [pd, pl])
def test_a_fingerprint_changes_with_the_content_and_only_then(library):
    frame = library.DataFrame({"a": list(range(10)), "b": list("abcdefghij"), "c": [[1]] * 10})
    before = value_fingerprint(frame)
    assert value_fingerprint(frame) == before

    if library is pd:
        frame.loc[5, "b"] = "changed"
        assert value_fingerprint(frame) != before
        before = value_fingerprint(frame)
        frame["d"] = 1
        assert value_fingerprint(frame) != before
    else:
        frame[5, "a"] = 99
        assert value_fingerprint(frame) != before
        before = value_fingerprint(frame)
        frame.insert_column(0, pl.Series("d", [1] * 10))
        assert value_fingerprint(frame) != before


@pytest.mark.parametrize("kind", ["frame", "series"])
def test_other_labels_of_the_rows_are_a_change_of_what_has_them(kind):
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=["2024-01-01", "2024-01-02", "2024-01-03"])
    held = frame if kind == "frame" else frame["a"]
    before = value_fingerprint(held)
    held.index = pd.to_datetime(held.index)
    dated = value_fingerprint(held)
    held.index.name = "day"
    assert len({before, dated, value_fingerprint(held)}) == 3


@pytest.mark.parametrize(
    "code",
    [
        "pd.DataFrame({'a': [float('nan'), -1.0], 'b': ['x', None], 'c': pd.array([1, None], dtype='Int64')})",
        "pl.DataFrame({'a': [float('nan'), -1.0], 'b': ['x', None]})",
        "pd.Series([float('nan'), object()], dtype=object)",
        "np.array([float('nan')])",
        "[float('nan')]",
    ],
)
def test_missing_values_do_not_make_a_fingerprint_change(code: str):
    value: object = eval(code)
    assert value_fingerprint(value) == value_fingerprint(value)


def test_an_array_changed_in_place_has_another_fingerprint():
    array = np.zeros(5)
    before = value_fingerprint(array)

    array[3] = 1

    assert value_fingerprint(array) != before


@pytest.mark.parametrize("library", [pd, pl])
async def test_time_does_not_grow_with_the_rows(namespace, inspect, library):
    numbers = {f"n{number}": np.arange(1_000_000.0) for number in range(8)}
    namespace["large"] = library.DataFrame(numbers)
    namespace["small"] = library.DataFrame({name: column[:10_000] for name, column in numbers.items()})

    async def cpu(name: str) -> float:
        started = time.process_time()
        await inspect(name)
        return time.process_time() - started

    for name in ("small", "large"):
        await cpu(name)
    small, large = [min([await cpu(name) for _ in range(15)]) for name in ("small", "large")]

    # A look at every row takes a hundred times as long.
    assert large < 3 * small + 0.002


def tagged_class() -> type:
    """A subclass of pandas' frames that fails on everything one may call on it."""

    class Tagged(pd.DataFrame):
        def _fail(self, *args: object, **kwargs: object) -> None:
            raise AssertionError("a method of the subclass ran")

        __len__ = __repr__ = __getitem__ = to_string = isna = head = _fail  # type: ignore[assignment]
        shape = dtypes = columns = iloc = property(_fail)  # type: ignore[assignment]

    return Tagged


@pytest.fixture
def quiet_errors(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.mark.requirement("notebook.variables.safe")
async def test_a_subclass_of_a_frame_is_read_by_the_functions_of_its_base(namespace, inspect, text_of, quiet_errors):
    tagged = object.__new__(tagged_class())
    object.__setattr__(tagged, "_mgr", pd.DataFrame({"a": [1, 2]})._mgr)
    namespace["t"] = tagged

    text = text_of(await inspect("t"))

    assert "(pandas DataFrame) 2 × 1\ncolumn | type | nulls | values\na | int64 | 0 | 1 … 2, mean 1.5" in text
    value_fingerprint(tagged)
    summary_line("t", tagged)
    assert quiet_errors() == []
