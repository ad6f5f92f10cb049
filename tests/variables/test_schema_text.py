"""Variables without their values: of each kind no value is said, and of frames the columns with their types."""

import ast
import csv
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.planted_values import LABELS, PlantedValues, plant
from tests.on_use import OnUse
from vibe_jupyter.errors import ToolError
from vibe_jupyter.variables.schema_text import schema_labels, schema_line, schema_text, schema_types

pytestmark = pytest.mark.xdist_group("libraries")
pandas = OnUse("pandas")

TABLES = {
    "polars": "polars.read_csv(path)",
    "polars, dummies": "polars.read_csv(path).select('city').to_dummies()",
    "polars, an enumeration": "polars.read_csv(path).with_columns(polars.col('city').cast(polars.Enum(rows['city'])))",
    "a plan": "polars.scan_csv(path)",
    "a plan that filters": "polars.read_csv(path).lazy().filter(polars.col('city') == rows['city'][0])",
    "arrow": "pyarrow.Table.from_pandas(frame)",
    "arrow, a dictionary": "pyarrow.table({'city': pyarrow.array(rows['city']).dictionary_encode()})",
    "an arrow array": "pyarrow.array(rows['city'])",
    "duckdb": "duckdb.sql(f\"select * from read_csv('{path}') where city != '{rows['city'][0]}'\")",
    "dask": "dask.dataframe.from_pandas(frame, npartitions=2)",
    "xarray": "frame.set_index('owner').to_xarray()",
    "a data array": "frame.set_index('owner')['sales'].to_xarray()",
    "a graph": "networkx.from_pandas_edgelist(frame, 'city', 'owner', edge_attr='sales')",
    "sparse": "scipy.sparse.csr_array(frame[['sales', 'weight']].to_numpy())",
    "an encoder": "sklearn.preprocessing.OneHotEncoder().fit(frame[['city']])",
    "labels": "sklearn.preprocessing.LabelEncoder().fit(frame['city'])",
    "a chart": "altair.Chart(frame).mark_bar().encode(x='city', y='sales')",
    "a figure": "plotly.graph_objects.Figure(plotly.graph_objects.Bar(x=rows['city'], y=rows['sales']))",
    "columns of two levels": "frame.pivot(index='owner', columns=['city', 'day'], values=['sales', 'weight'])",
    "an interval index": "pandas.cut(frame['sales'], 3)",
    "a styler": "frame.style.highlight_max()",
    "a window": "frame[['sales']].rolling(2)",
    "strings of numpy": "frame['city'].to_numpy(dtype='U20')",
    "a structured array": "frame[['sales', 'weight']].to_records()",
    "a scalar": "frame['sales'].to_numpy()[0]",
    "a category": "frame['city'].astype('category')",
    "an ordered frame": "frame.assign(city=pandas.Categorical(frame['city'], categories=sorted(rows['city'])))",
    "a frame with attributes": "with_attributes(frame)",
}


@pytest.fixture(scope="module")
def data() -> PlantedValues:
    return plant(random.Random(7))


@pytest.fixture
def make(data: PlantedValues, tmp_path: Path) -> Callable[[str], Any]:
    """What such code gives."""
    data.write(tmp_path)
    path = tmp_path / "data.csv"
    with path.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    rows = {label: [row[label] for row in found] for label in LABELS}

    def with_attributes(frame: Any) -> Any:
        frame.attrs["source"] = rows["owner"][0]
        return frame

    def made(code: str) -> Any:
        modules = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
        known: dict[str, Any] = {"path": path, "rows": rows, "with_attributes": with_attributes, "pandas": pandas}
        known["frame"] = pandas.read_csv(path, parse_dates=["day"])
        needed = {"dask": "dask.dataframe", "plotly": "plotly.graph_objects", "sklearn": "sklearn.preprocessing"}
        for name in sorted(modules - known.keys() - {"sorted"}):
            pytest.importorskip({**needed, "scipy": "scipy.sparse"}.get(name, name))
            known[name] = __import__(name)
        return eval(code, known)

    return made


@pytest.mark.parametrize("kind", TABLES)
def test_nothing_that_is_said_of_a_value_is_a_value(make: Callable[[str], Any], data: PlantedValues, kind: str) -> None:
    value = make(TABLES[kind])
    labels = schema_labels(value)
    said = [schema_line(value), schema_text(value), *labels, *schema_types(value, labels).values()]
    for columns in (["city"], ["nowhere"], [data.texts[0]]):
        try:
            said.append(schema_text(value, columns))
        except ToolError as error:
            said.append(str(error))
    assert data.in_text("\n".join(said)) == []


@pytest.mark.parametrize("kind", ["polars", "arrow", "duckdb", "dask"])
def test_the_columns_of_a_frame_are_said_with_their_types(make: Callable[[str], Any], kind: str) -> None:
    line = schema_line(make(TABLES[kind]))
    assert all(label in line for label in LABELS)
    assert "int" in line.casefold()


@pytest.mark.parametrize(
    ("flags", "withheld"),
    [
        ("is_new", ""),
        ("is_new has_key", ""),
        ("is_new is_old", "is_new is_old"),
        ("town_Bern town_Basel is_new", "town_Bern town_Basel"),
        ("town_Bern town_Basel is_new is_old has_key", "town_Bern town_Basel is_new is_old"),
        ("active", ""),
        ("Bern Basel", "Bern Basel"),
        ("a_b_1 a_b_2 a_c_1", "a_b_1 a_b_2"),
    ],
)
def test_flags_that_are_like_each_other_may_be_values_and_are_withheld(flags: str, withheld: str) -> None:
    kept = [label for label in flags.split() if label not in withheld.split()]
    frame = pandas.DataFrame({**{label: [True, False] for label in flags.split()}, "is_count": [1, 2]})
    line = schema_line(frame)
    assert [label for label in (*flags.split(), "is_count") if f"{label} " in line] == [*kept, "is_count"]
    count = len(withheld.split())
    assert re.findall(r"(\d+) labels? withheld", line) == ([str(count)] if count else [])


def test_a_label_that_no_name_looks_like_is_withheld(make: Callable[[str], Any], data: PlantedValues) -> None:
    frame = make("frame").rename(columns={"city": data.texts[-1], "owner": "1967-03-12", "sales": "Sales (EUR)"})
    assert "2 labels withheld" in schema_line(frame)
    assert "Sales (EUR) int64" in schema_line(frame)
