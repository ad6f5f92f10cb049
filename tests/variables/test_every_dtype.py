"""Frames, series, indexes and arrays of every kind: every reader describes them, without an error or a warning."""

import logging
import time

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.on_use import OnUse
from tests.patience import patient
from vibe_jupyter.context.executions import ExecutionLog
from vibe_jupyter.context.situation import SituationReport, Surroundings
from vibe_jupyter.errors import ToolError
from vibe_jupyter.variables.adapters import VariableView
from vibe_jupyter.variables.describe import describe_value, value_fingerprint, value_line

pytestmark = pytest.mark.xdist_group("libraries")
np, pd, pl = map(OnUse, ("numpy", "pandas", "polars"))
every = OnUse("tests.variables.every_dtype")
SECONDS = patient(5.0)
"""Bound on one look at one value, on a busy machine; a look that grows with the value takes longer."""
UNDESCRIBED = "could not be described"


def undescribed(value: object) -> list[str]:
    """What the readers of a value fail to say."""
    told = [
        value_line(value),
        describe_value(value).headline,
        describe_value(value, VariableView(stats=False, rows=50)).headline,
    ]
    # A mark that differs from look to look would have every prompt say that the variable changed.
    unstable = ["not the same at a second look"] * (value_fingerprint(value) != value_fingerprint(value))
    return [text for text in told if UNDESCRIBED in text] + unstable


@pytest.mark.requirement("notebook.variables.inspect-frame")
@pytest.mark.parametrize("kinds", ["of_pandas", "two_levels", "labels_and_values", "of_polars", "of_numpy"])
def test_every_kind_of_frame_and_array_is_described(kinds: str) -> None:
    failed = {name: failures for name, value in getattr(every, kinds)() if (failures := undescribed(value))}

    assert failed == {}


async def test_all_of_them_are_listed_inspected_and_told_with_a_prompt(namespace, inspect, text_of) -> None:
    for kinds in (every.two_levels, every.labels_and_values, every.of_polars, every.of_numpy):
        for _, value in kinds():
            namespace[f"v{len(namespace)}"] = value
    report = SituationReport(ExecutionLog(InteractiveShell(), lambda: namespace))

    listed = text_of(await inspect(limit=500))
    inspected = [text_of(await inspect(name)) for name in namespace]
    changes = report.section(Surroundings("Compare v0 with the others", has_notebook=False))

    assert UNDESCRIBED not in "".join([listed, changes, *inspected])
    assert "\nv0: pandas DataFrame 2 × 2 (('v', 'mean') float64, ('v', 'max') float64)\n" in changes
    assert report.section(Surroundings("And now?", has_notebook=False)) == ""


@pytest.mark.parametrize(
    ("code", "columns"),
    [
        ("pd.DataFrame({'k': list('ab'), 'v': [1.0, 2]}).groupby('k').agg({'v': ['mean', 'max']})", ["mean", "max"]),
        ("pd.DataFrame({'k': list('ab'), 'm': list('xy'), 'v': [1, 2]}).pivot(index='k', columns='m')", ["x", "y"]),
    ],
)
async def test_columns_of_two_levels_are_named_as_the_frame_takes_them(namespace, inspect, text_of, code, columns):
    namespace["wide"] = frame = eval(code)
    labels = [f"('v', '{name}')" for name in columns]

    assert f"({labels[0]} float64, {labels[1]} float64)" in value_line(frame)
    assert [row.split(" | ")[0] for row in text_of(await inspect("wide", rows=0)).split("\n")[3:]] == labels
    assert text_of(await inspect("wide", columns=labels[1:], rows=0)).split("\n")[3:][0].startswith(labels[1])
    with pytest.raises(ToolError, match=r"No column 'v'\. The columns are \('v', "):
        await inspect("wide", columns=["v"])


@pytest.mark.parametrize(
    "columns",
    ["None", "[f'c{number}' for number in range(10**6)]", "pd.MultiIndex.from_product([range(1_000), range(1_000)])"],
)
def test_a_million_columns_are_described_in_little_time_and_text(columns: str) -> None:
    frame = pd.DataFrame(np.zeros((2, 10**6)), columns=eval(columns))
    started = time.perf_counter()

    told = [value_line(frame), describe_value(frame).body]
    mark = value_fingerprint(frame)

    assert time.perf_counter() - started < SECONDS
    assert "2 × 1,000,000" in told[0]
    assert "… 999,960 more columns" in told[1]
    assert max(map(len, told)) < 5_000
    assert mark == value_fingerprint(frame)


@pytest.mark.requirement("notebook.variables.safe")
@pytest.mark.parametrize("names", [("angle", "n"), ("n", "angle"), ("angle",)])
async def test_a_column_of_another_librarys_type_is_named_and_left_alone(namespace, inspect, text_of, names):
    namespace["frame"] = frame = every.with_angles(*names)
    namespace["series"] = frame["angle"]
    every.Angles.ran.clear()

    result = await inspect("frame", rows=1)
    told = text_of(result)
    series = text_of(await inspect("series", rows=1))
    shown = [value_line(frame), value_line(namespace["series"])]
    value_fingerprint(frame)
    value_fingerprint(namespace["series"])
    ran = [name for name in every.Angles.ran if name not in ("__class__", "__len__")]  # pandas itself asks for these

    assert f"<{every.__name__}.Angles>" in shown[0]
    assert f"<{every.__name__}.Angles>" in shown[1]
    assert f"angle | <{every.__name__}.Angles>" in told
    assert series == f"series: pandas Series 2 <{every.__name__}.Angles>"
    if "n" in names:
        assert f"angle | <{every.__name__}.Angles> | unknown | " in told
        assert "n | float64 | 1 | 1 … 1, mean 1" in told
        assert result.summary == f"2 × {len(names)}, nulls in 1 column"
    else:
        assert result.summary == "2 × 1"
    assert ran == []


def test_a_panic_of_a_library_in_rust_is_described_too(caplog: pytest.LogCaptureFixture) -> None:
    nested = pl.DataFrame({"a": pl.Series([2**30], dtype=pl.Int32).cast(pl.Date).implode()})
    caplog.set_level(logging.CRITICAL)

    assert (
        describe_value(nested).headline == "<polars.dataframe.frame.DataFrame> (could not be described: PanicException)"
    )


def test_warnings_that_are_errors_do_not_hide_a_value() -> None:
    with np.errstate(all="raise"):
        assert UNDESCRIBED not in describe_value(np.array([np.inf, -np.inf, 1e308, 1e308])).headline
