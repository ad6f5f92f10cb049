"""Objects of libraries too large for `make test`, looked at by a Python that has them (tests/kernel/matrix.py).

    heavy_libraries.py FAMILY   prints a line of JSON: of each object what was told, what is missing, its time, what ran

What must not run notes itself in `ran`: functions in plans, reads of stores, methods of derived classes, jobs of Spark.
"""

import functools
import json
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from tests.charts.kinds import with_holoviews
from tests.charts.questions import LEAST_QUESTIONS, Answers, wrong_answers
from tests.variables.hostile import hostile_class, ran
from vibe_jupyter.variables.describe import describe_value, value_fingerprint, value_line

Entry = tuple[str, object, list[str] | Answers]
"""A name, the object, and words that only its content could give; of a chart, questions with their answers."""
FRAME = pd.DataFrame({"y": np.arange(30) * 2.0 + np.sin(np.arange(30)), "x": np.arange(30.0)})
LOOKS = 5
"""Looks of which the quickest counts; one before them imports what describes the object."""


def hostile_copy(value: Any) -> Any:
    """The same content in a class made from its own, whose every method says that it ran."""
    own = hostile_class(type(value))
    made = object.__new__(own)
    object.__getattribute__(made, "__dict__").update(vars(value))
    return made


def places() -> Iterator[Entry]:
    import geopandas
    import shapely

    shapes = [shapely.Point(0, 1), shapely.box(0, 0, 2, 3)]
    towns = geopandas.GeoDataFrame({"name": ["a", "b"], "geometry": shapes}, crs=4326)
    known = ["geometry: Point, Polygon", "CRS EPSG:4326", "bounds x 0 … 2, y 0 … 3"]
    yield "frame", towns, ["GeoDataFrame 2 × 2", "a, b", *known]
    yield "series", towns.geometry, ["GeoSeries 2", *known]
    yield "without system", geopandas.GeoSeries([None, shapely.Point(5, 7)]), ["missing, Point", "no CRS", "y 7 … 7"]
    yield "shape", shapes[1], ["shapely Polygon of 5 points, bounds 0, 0, 2, 3"]
    yield "derived", hostile_copy(towns), ["2 × 2"]


def stores() -> Iterator[Entry]:
    import zarr.storage

    class Counted(zarr.storage.WrapperStore[Any]):
        async def get(self, *args: Any, **more: Any) -> Any:
            ran.append("a read of the store")
            return await super().get(*args, **more)

    group = zarr.create_group(Counted(zarr.storage.MemoryStore()), attributes={"site": "north"})
    heat = group.create_array("heat", shape=(1000, 20), chunks=(100, 20), dtype="f4", attributes={"units": "K"})
    yield "array", heat, ["zarr Array heat 1,000 × 20 float32, chunks 100 × 20", "units='K'"]
    yield "group", group, ["zarr Group", "site='north'", "group.members()"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 of the format has no word for it yet
        whole = zarr.consolidate_metadata(group.store)
    yield "group that knows its members", whole, ["members: heat"]


def queries() -> Iterator[Entry]:
    import ibis

    connection = ibis.duckdb.connect()
    connection.con.execute("CREATE TABLE people AS SELECT 'a' AS name, 5::BIGINT AS age")
    people = connection.table("people")

    @ibis.udf.scalar.python
    def noted(value: int) -> int:
        ran.append("a function in a query")
        return value

    yield "table", people, ["ibis Table 2 columns", "name | String", "age | Int64"]
    yield "query", people.filter(noted(people.age) > 3).select("name"), ["ibis Table 1 column", "name | String"]
    yield "column", noted(people.age).name("twice"), ["IntegerColumn twice int64"]
    yield "number", people.age.mean(), ["FloatingScalar Mean(age) float64"]
    yield "connection", connection, ["ibis backend duckdb", "list_tables()"]


def statistics() -> Iterator[Entry]:
    import statsmodels.api as sm
    import statsmodels.formula.api as smf
    from statsmodels.tsa.arima.model import ARIMA

    model = smf.ols("y ~ x", FRAME)
    fitted = model.fit()
    yield "line", fitted, ["OLSResults of OLS, 30 observations", "formula: y ~ x", "x 1.996"]
    if list(fitted._results._cache):
        ran.append("a figure was computed")
    fitted.rsquared  # noqa: B018 - now it is known
    yield "line with a known figure", fitted, ["rsquared 0.998"]
    yield "model", model, ["statsmodels OLS of 30 observations", "variables: Intercept, x"]
    choice = sm.Logit((FRAME.y > 20) * 1.0, sm.add_constant(np.cos(FRAME.x))).fit(disp=0)
    yield "choice", choice, ["LogitResults of Logit, 30 observations", "const 0.5479, x 0.06728", "converged: True"]
    series = ARIMA(FRAME.y.to_numpy(), order=(1, 0, 0)).fit()
    yield "series", series, ["ARIMAResults of ARIMA, 30 observations", "ar.L1", "sigma2"]
    yield "derived", hostile_copy(fitted), ["30 observations"]


def boosters() -> Iterator[Entry]:
    import lightgbm

    options = {"n_estimators": 5, "min_child_samples": 2, "verbose": -1}
    model = lightgbm.LGBMClassifier(**options).fit(FRAME[["x"]], np.where(FRAME.y > 20, "high", "low"))
    words = ["LGBMClassifier (lightgbm), fitted", "n_estimators=5", "1 feature", "classes: 'high', 'low'"]
    yield "model", model, words
    yield "booster", model.booster_, ["booster of lightgbm, 5 trees, 1 feature", "features: x"]
    yield "fresh model", lightgbm.LGBMRegressor(num_leaves=7), ["LGBMRegressor (lightgbm), not fitted", "num_leaves=7"]
    yield "data", lightgbm.Dataset(FRAME[["x"]], FRAME.y), ["DataFrame 30 × 1, with labels"]
    yield "derived", hostile_copy(model), ["fitted"]


def cells() -> Iterator[Entry]:
    import anndata
    import scipy.sparse

    about = pd.DataFrame({"kind": list("aabb")}, index=list("1234"))
    genes = pd.DataFrame(index=["g1", "g2", "g3"])
    data = anndata.AnnData(scipy.sparse.csr_matrix(np.eye(4, 3)), about, genes)
    data.layers["raw"], data.obsm["X_pca"], data.uns["neighbors"] = data.X.copy(), np.zeros((4, 2)), {"k": 15}
    matrix = "scipy sparse csr_matrix 4 × 3 float64, 3 stored (25 %)"
    words = ["4 observations × 3 variables", f"X: {matrix}", "X_pca numpy array 4 × 2", "uns: neighbors", "kind"]
    yield "data", data, words
    yield "part", data[:2], ["2 observations × 3 variables, a view", f"X: a part of {matrix}"]
    yield "derived", hostile_copy(data), ["4 observations × 3 variables"]


def elements() -> Iterator[Entry]:
    import holoviews as hv

    volts = [(0, 1.0), (1, 3.0), (2, 2.5)]
    curve = hv.Curve(
        volts, hv.Dimension("time", unit="s"), hv.Dimension("v", label="Voltage", unit="mV"), label="Volts"
    )
    counts = hv.Histogram(np.histogram([1, 2, 3, 3], bins=2))
    drawn = ['line "Volts"', 'x "time (s)" 0 … 2', 'y "Voltage (mV)" 1 … 3', "n=3, min 1 at 0, max 3 at 1"]
    yield "curve", curve, drawn
    yield "laid over", curve * hv.Scatter(volts[:2]), ["line+scatter", "2 series, n=5"]
    yield "beside", curve + counts, ["2 panels", *drawn, "in 2 bins"]
    yield "histogram", counts, ["histogram", "1 … 3", "n=4", "in 2 bins"]
    yield "image", hv.Image(np.eye(4), bounds=(0, 0, 2, 3)), ["image", "4 × 4 cells", "0 … 2", "0 … 3", "n=16"]
    yield "heatmap", hv.HeatMap([(0, 0, 1.5), (0, 1, 2.5)]), ["heatmap", "1.5 … 2.5", "n=2"]
    yield "bars", hv.Bars([("a", 1), ("b", 4)], "kind", "n"), ['bar; x "kind" a, b; y "n" 1 … 4', "max 4 at b"]
    yield (
        "boxes",
        hv.BoxWhisker((list("aabb"), [1, 2, 3, 4]), "k", "v"),
        ["box", "a, b", "2 series, n=4: a n=2 1 … 2, median 1.5"],
    )
    yield "frames", hv.HoloMap({at: hv.Curve([at, 2]) for at in range(3)}, "at"), ["one of 3 frames"]

    for drawn in with_holoviews():
        yield f"asked: {drawn.name}", drawn.chart, drawn.asked

    def noted(at: int) -> Any:
        ran.append("a function of a DynamicMap")
        return hv.Curve([at])

    yield "made when it is shown", hv.DynamicMap(noted, kdims="at"), ["made when it is shown"]


def labelled() -> Iterator[Entry]:
    import dask
    import xarray as xr

    def noted(block: Any) -> Any:
        ran.append("a block of Dask")
        return block

    known = xr.Dataset({"t": (("day", "x"), np.ones((3, 4)), {"units": "K"})}, {"x": [1, 2, 3, 4]})
    later = known.chunk({"x": 2}).map_blocks(noted, template=known.chunk({"x": 2}))
    with dask.config.set(scheduler=lambda *given, **more: ran.append("Dask")):
        yield "plan", later, ["xarray Dataset x 4, day 3 (t)", "float64, not computed, K"]
        yield "groups of a plan", later.groupby("x"), ["DatasetGroupBy by x of xarray Dataset x 4, day 3 (t)"]
    yield "groups", known.t.groupby("x"), ["DataArrayGroupBy by x of xarray DataArray t day 3, x 4 float64, K"]
    yield "window", known.rolling(x=2), ["DatasetRolling(x=2) of xarray Dataset day 3, x 4 (t)"]
    yield "blocks", known.coarsen(x=2), ["DatasetCoarsen(x=2) of xarray Dataset day 3, x 4 (t)"]
    yield "tree", xr.DataTree.from_dict({"/": known, "/deep": known}), ["1 group", "groups: deep", "variables: t"]


def spark() -> Iterator[Entry]:
    import pyspark.sql
    import pyspark.sql.functions as F

    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
    builder = pyspark.sql.SparkSession.builder.master("local[1]").appName("looked at")
    session = functools.reduce(lambda made, pair: made.config(*pair), settings.items(), builder).getOrCreate()
    try:
        frame = session.createDataFrame([(1, "a"), (2, "b")], ["n", "s"])
        noted = F.udf(lambda value: ran.append("a function in a plan"), "int")
        yield "frame", frame, ["Spark DataFrame 2 columns", "n | Int64", "s | String"]
        yield "plan", frame.withColumn("m", noted("n")), ["Spark DataFrame 3 columns", "m | Int32"]
        yield "groups", frame.groupBy("s"), ["Spark GroupedData of Spark DataFrame 2 columns"]
        yield "schema", frame.schema, ["n | bigint", "s | string"]
        yield "like pandas", frame.pandas_api(), ["pandas-on-Spark DataFrame 2 columns", "n | bigint", "s | string"]
        yield "collection", session.sparkContext.parallelize([1, 2]), ["Spark RDD"]
        yield "session", session, ["Spark session looked at on local[1]"]
        jobs = session.sparkContext.statusTracker().getJobIdsForGroup()
        ran.extend(f"job {job} of Spark" for job in jobs)
    finally:
        session.stop()


def networks() -> Iterator[Entry]:
    import torch

    class Own(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Linear(3, 2)

        def __getattr__(self, name: str) -> Any:
            if name != "inner" or "inner" not in vars(self)["_modules"]:
                ran.append(f"the attribute {name}")
            return super().__getattr__(name)

        def forward(self, values: Any) -> Any:
            ran.append("a forward pass")
            return self.inner(values)

    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    net[0].weight.requires_grad = False
    net.register_forward_hook(lambda *given: ran.append("a hook"))
    yield "network", net, ["58 parameters, 32 frozen, float32 on cpu, in training mode", "Linear(in_features=8"]
    yield "own network", Own(), ["Own, 8 parameters, float32 on cpu", "inner: Linear(in_features=3, out_features=2"]
    yield "tensor", torch.tensor([1.0, 2.0, 4.0]), ["torch Tensor 3 torch.float32 on cpu", "values: 1 … 4"]
    yield "parameter", net[2].weight, ["Parameter 2 × 8 torch.float32 on cpu, requires gradient", "values: "]
    yield "nowhere", torch.empty(5, 5, device="meta"), ["5 × 5 torch.float32 on meta"]
    yield "optimizer", torch.optim.Adam(net[2].parameters(), lr=0.01), ["torch Adam of 2 tensors in 1 group", "lr=0.01"]
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(10, 4)), batch_size=4)
    yield "loader", loader, ["DataLoader of torch.utils.data.dataset.TensorDataset, batch_size=4"]


FAMILIES: dict[str, Callable[[], Iterator[Entry]]] = {
    one.__name__: one
    for one in (places, stores, queries, statistics, boosters, cells, elements, labelled, spark, networks)
}


class Heard(logging.Handler):
    """What our code logs of objects that it could not describe."""

    def emit(self, record: logging.LogRecord) -> None:
        ran.append(self.format(record))


def look(value: object) -> str:
    described = describe_value(value)
    value_fingerprint(value)
    return "\n".join((value_line(value), described.headline, described.body))


def _missing(value: object, said: str, words: list[str] | Answers) -> list[str]:
    """What was not told."""
    if isinstance(words, list):
        return [word for word in words if word not in said]
    few = [f"only {len(words)} questions"] if len(words) < LEAST_QUESTIONS else []
    return [*few, *map(str, wrong_answers(describe_value(value).body, words).items())]


def main() -> None:
    logging.getLogger("vibe_jupyter").addHandler(Heard())
    found: dict[str, Any] = {}
    family = FAMILIES[sys.argv[1]]()
    with os.fdopen(os.dup(1), "w") as answer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about each other
        os.dup2(2, 1)  # what a library prints is no answer
        for name, value, words in family:
            ran.clear()
            said = look(value)
            times: list[float] = []
            for _ in range(LOOKS):
                start = time.process_time()
                look(value)
                times.append(1000 * (time.process_time() - start))
            missing = _missing(value, said, words)
            found[name] = {"said": said, "missing": missing, "ms": min(times), "ran": list(ran)}
            ran.clear()
        if ran:
            found["afterwards"] = {"said": "", "missing": [], "ms": 0.0, "ran": list(ran)}
        json.dump(found, answer)


if __name__ == "__main__":
    main()
