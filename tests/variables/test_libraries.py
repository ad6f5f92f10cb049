"""Objects of other libraries: told by what is in them, with nothing computed and no code of a user's run."""

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.on_use import OnUse
from vibe_jupyter.variables.describe import describe_value, value_fingerprint, value_line

np = OnUse("numpy")
pd = OnUse("pandas")
pl = OnUse("polars")

pytestmark = pytest.mark.xdist_group("libraries")
CPU = 0.5
"""Seconds of CPU that one look may take on a busy machine; benchmarks tell what it takes on a quiet one."""


def years() -> Any:
    return pd.DataFrame({"year": range(12), "a": np.arange(12) * 1.5, "g": list("uvw") * 4})


def arrow() -> Mapping[str, tuple[object, list[str]]]:
    import pyarrow as pa

    table = pa.table({"n": [1, 2, None], "s": ["x", "y", "y"]})
    return {
        "table": (table, ["pyarrow Table 3 × 2", "n | int64 | 1 | 1 … 2", "s | string | 0 | x, y"]),
        "batch": (table.to_batches()[0], ["pyarrow RecordBatch 3 × 2"]),
        "array": (pa.array([1, None]), ["pyarrow array 2 int64", "first: 1, None"]),
    }


def databases() -> Mapping[str, tuple[object, list[str]]]:
    import duckdb
    import sqlalchemy as sa

    connection = duckdb.connect()
    connection.execute("CREATE TABLE people (name VARCHAR, age INTEGER)")
    engine = sa.create_engine("sqlite:///people.db")
    table = sa.Table("people", sa.MetaData(), sa.Column("id", sa.Integer), sa.Column("name", sa.String))
    return {
        "relation": (connection.sql("FROM people"), ["DuckDB relation 2 columns", "name | VARCHAR", "age | INTEGER"]),
        "connection": (connection, ["1 table", "people (name VARCHAR, age INTEGER)"]),
        "engine": (engine, ["SQLAlchemy Engine sqlite, database people.db", "get_table_names"]),
        "declared table": (table, ["SQLAlchemy Table 2 columns", "id | Integer", "name | String"]),
        "metadata": (table.metadata, ["SQLAlchemy MetaData 1 table", "tables: people"]),
    }


def lazy() -> Mapping[str, tuple[object, list[str]]]:
    import dask.array
    import dask.bag
    import dask.dataframe

    bag = dask.bag.from_sequence([1, 2], npartitions=2)
    return {
        "dask frame": (
            dask.dataframe.from_pandas(years(), npartitions=2),
            ["Dask DataFrame 3 columns", "a | Float64"],
        ),
        "dask array": (dask.array.ones((4, 6), chunks=(2, 3)), ["Dask Array 4 × 6 float64, 4 chunks of 2 × 3"]),
        "dask bag": (bag, ["Dask Bag 2 partitions"]),
        "delayed": (dask.delayed(sum)([1]), ["Dask Delayed sum-"]),
        "polars plan": (pl.LazyFrame({"a": [1]}), ["columns not known yet", "collect_schema()"]),
        "polars groups": (pl.DataFrame({"a": [1]}).group_by("a"), ["polars GroupBy by 'a'"]),
    }


def arrays() -> Mapping[str, tuple[object, list[str]]]:
    import scipy.sparse
    import xarray as xr

    days = pd.date_range("2024-01-01", periods=3)
    data = xr.Dataset({"t": (("day", "x"), np.ones((3, 4)), {"units": "K"})}, {"day": days, "x": [1, 2, 3, 4]})
    eye = scipy.sparse.csr_array(np.eye(4))
    return {
        "dataset": (data, ["xarray Dataset day 3, x 4 (t)", "variable t (day, x) float64, K", "2024-01-01", "1 … 4"]),
        "data array": (data.t, ["xarray DataArray t day 3, x 4 float64, K", "values: 1 … 1"]),
        "sparse": (eye, ["scipy sparse csr_array 4 × 4 float64, 4 stored (25 %)"]),
    }


def groups() -> Mapping[str, tuple[object, list[str]]]:
    wide = years().pivot_table(index=["year"], columns=["g"], values=["a"])
    return {
        "groups": (
            years().groupby("g"),
            ["pandas DataFrameGroupBy by 'g' of pandas DataFrame 12 × 3", "not computed"],
        ),
        "groups of a column": (
            years().groupby(["g", "year"])["a"],
            ["by ['g', 'year'] of pandas Series 12", "'a'"],
        ),
        "window": (years().rolling(3), ["pandas Rolling(window=3) of pandas DataFrame 12 × 3"]),
        "levels": (wide, ["columns: MultiIndex 3 (None 1, g 3)"]),
    }


def models() -> Mapping[str, tuple[object, list[str]]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fresh = LogisticRegression(C=2.0)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(
        years()[["year", "a"]], years()["g"]
    )
    return {
        "estimator": (fresh, ["estimator LogisticRegression (sklearn), not fitted", "parameters: C=2.0"]),
        "pipeline": (pipeline, ["of 2 steps (standardscaler, logisticregression), fitted", "max_iter=500"]),
        "fitted": (pipeline[0], ["StandardScaler (sklearn), fitted", "2 features: year, a"]),
        "classifier": (pipeline[1], ["classes: 'u', 'v', 'w'", "coef_ 3 × 2"]),
    }


def others() -> Mapping[str, tuple[object, list[str]]]:
    import networkx
    import requests
    from PIL import Image

    graph = networkx.Graph([(1, 2), (2, 2), (2, 3)], name="paths")
    graph.add_edge(1, 3, weight=5)
    response = requests.Response()
    response.status_code, response._content = 404, b"not here"  # what a request would have stored
    return {
        "graph": (graph, ["networkx Graph 3 nodes, 4 edges", "name='paths'", "edge attributes: weight"]),
        "directed": (networkx.MultiDiGraph([(1, 2), (1, 2)]), ["networkx MultiDiGraph 2 nodes, 2 edges"]),
        "image": (Image.new("L", (30, 20)), ["PIL Image 30 × 20 pixels, mode L"]),
        "response": (response, ["HTTP response 404, 8 bytes", "not here"]),
    }


def charts() -> Mapping[str, tuple[object, list[str]]]:
    from tests.charts.recipes import LIBRARIES, RECIPES

    drawn = {name: draw(RECIPES["life expectancy"]) for name, draw in LIBRARIES.items()}
    return {name: (chart, [f"{name} ", '"Life expectancy"', "2 series"]) for name, chart in drawn.items()}


FAMILIES: tuple[Callable[[], Mapping[str, tuple[object, list[str]]]], ...] = (
    *(arrow, databases, lazy, arrays, groups, models, others, charts),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_object_is_told_by_what_is_in_it(family: Any, caplog: pytest.LogCaptureFixture) -> None:
    for name, (value, words) in family().items():
        value_line(value)  # the first look imports what describes it
        start = time.process_time()
        described = describe_value(value)
        taken = time.process_time() - start

        said = f"{described.headline}\n{described.body}"
        assert [word for word in words if word not in said] == [], (name, said)
        assert value_line(value).startswith(described.headline.split(",")[0].split(" (")[0])
        assert value_fingerprint(value) == value_fingerprint(value)
        assert taken < CPU, name
    assert [one for one in caplog.records if one.name.startswith("vibe_jupyter")] == []


def test_no_plan_is_computed_and_no_function_in_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.dataframe
    import duckdb

    called: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        def function(value: Any) -> Any:
            called.append(name)
            return value

        return function

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # polars warns of functions in plans
        plan = pl.LazyFrame({"a": [1]}).map_batches(noted("batches"))
        plan = plan.with_columns(pl.col("a").map_elements(noted("elements")).alias("b"))
    frame = dask.dataframe.from_pandas(years(), npartitions=2).map_partitions(noted("partitions"), meta=years().head(0))
    connection = duckdb.connect()
    connection.create_function("noted", noted("rows"), [int], int)  # type: ignore[list-item]
    relation = connection.sql("SELECT noted(1) AS one")
    waiting = connection.execute("SELECT * FROM range(5)")
    called.clear()

    for value in (plan, frame, relation, connection):
        value_line(value)
        describe_value(value)
        value_fingerprint(value)

    assert called == []
    assert waiting.fetchone() == (0,)


def test_an_address_of_a_database_is_told_without_its_password() -> None:
    import sqlalchemy as sa

    address = sa.URL.create("sqlite", username="ada", password="hunter2", host="db.example", query={"key": "s3cret"})
    engine = sa.create_engine("sqlite://")
    engine.url = address  # an engine of a server needs its driver

    said = describe_value(engine)

    assert said.headline == "SQLAlchemy Engine sqlite, host db.example, user ada"
    assert "hunter2" not in said.body + value_line(engine)
    assert "s3cret" not in said.body + value_line(engine)


def test_no_code_of_a_derived_class_runs() -> None:
    import networkx
    from sklearn.base import BaseEstimator

    ran: list[str] = []

    class Own(BaseEstimator):
        def __init__(self, size: int = 3) -> None:
            self.size = size
            self.weights_ = [1]

        def __getattribute__(self, name: str) -> Any:
            ran.append(name)
            return super().__getattribute__(name)

        def __repr__(self) -> str:
            raise AssertionError("repr was asked")

    class Web(networkx.Graph):
        def number_of_nodes(self) -> int:
            raise AssertionError("a method was called")

        def __len__(self) -> int:
            raise AssertionError("the length was asked")

    own, web = Own(5), Web([(1, 2)])
    ran.clear()

    assert describe_value(own).headline == f"estimator Own ({__name__.partition('.')[0]}), fitted"
    assert "parameters: size=5" in describe_value(own).body
    assert describe_value(web).headline == "networkx Web 2 nodes, 1 edge"
    assert ran == []


def test_a_table_with_an_extension_type_calls_no_code_of_it() -> None:
    import pyarrow as pa

    class Scalar(pa.ExtensionScalar):
        def as_py(self, **options: Any) -> Any:
            raise AssertionError("a value was asked")

    class Kind(pa.ExtensionType):
        def __init__(self) -> None:
            super().__init__(pa.int64(), "kind")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        def __arrow_ext_scalar_class__(self) -> type:
            return Scalar

        def __str__(self) -> str:
            raise AssertionError("the type's name was asked")

    column = pa.ExtensionArray.from_storage(Kind(), pa.array([1, 2]))

    said = describe_value(pa.table({"own": column, "n": [1, 2]}))

    assert "n | int64 | 0 | 1 … 2" in said.body
    assert "own | <" in said.body


def test_large_charts_keep_their_extremes(caplog: pytest.LogCaptureFixture) -> None:
    import plotly.graph_objects as go

    y = np.sin(np.arange(300_000) / 1_000)
    y[[123_457, 200_001]] = 7.5, -9.25
    caplog.set_level(logging.WARNING)

    said = describe_value(go.Figure(go.Scatter(y=y)))

    assert "n=300000, min -9.25 at 200001, max 7.5 at 123457" in said.body
    assert [one for one in caplog.records if one.name.startswith("vibe_jupyter")] == []
