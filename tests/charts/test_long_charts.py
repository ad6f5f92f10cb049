"""Charts of more points than are read: what is told of them is told of all, or said to be no more than an estimate."""

import re
from typing import Any, Final

import pytest

from tests.on_use import OnUse
from vibe_jupyter.variables.adapters.chart_data import MOST_LISTED
from vibe_jupyter.variables.describe import describe_value

pytestmark = pytest.mark.xdist_group("libraries")
np = OnUse("numpy")
pd = OnUse("pandas")
altair = OnUse("altair")
bokeh_plotting = OnUse("bokeh.plotting")
go = OnUse("plotly.graph_objects")

POINTS: Final = 3_000
LOWEST: Final = 1_234
"""Place of the least value."""


def wave() -> Any:
    y = np.sin(np.arange(POINTS) / 100)
    y[LOWEST] = -5
    return y


def in_bokeh(x: Any, y: Any) -> object:
    plot = bokeh_plotting.figure()
    plot.line(x, y)
    return plot


def in_altair(x: Any, y: Any) -> object:
    return altair.Chart(pd.DataFrame({"x": x, "y": y})).mark_line().encode(x="x:Q", y="y:Q")


DRAWN: Final = {"plotly": lambda x, y: go.Figure(go.Scatter(x=x, y=y)), "bokeh": in_bokeh, "altair": in_altair}


@pytest.mark.parametrize("library", DRAWN)
def test_all_points_of_a_long_chart_are_counted_and_its_extremes_are_exact(library: str) -> None:
    text = describe_value(DRAWN[library](np.arange(POINTS), wave())).body

    assert f"n={POINTS}" in text
    assert f"min -5 at {LOWEST}" in text
    assert "0 … 2999" in text


@pytest.mark.parametrize("library", ["plotly", "bokeh"])
def test_of_very_long_lists_the_extremes_are_said_to_be_about_right(library: str) -> None:
    x = list(range(2 * MOST_LISTED))
    y = np.sin(np.array(x) / 1_000).tolist()

    text = describe_value(DRAWN[library](x, y)).body

    assert f"n={2 * MOST_LISTED}" in text
    assert "about -1 … 1" in text
    assert "min about -1 at" in text


def groups() -> Any:
    kinds = np.repeat(["a", "b", "c"], [1_500, 1_000, 500])
    return pd.DataFrame({"kind": kinds, "value": np.tile([1.0, 2.0, 3.0, 4.0], POINTS // 4)})


def counts(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"n≈(\d+)", text)]


@pytest.mark.parametrize("library", ["plotly", "altair"])
def test_groups_of_a_long_chart_are_estimated_for_all_its_points(library: str) -> None:
    frame = groups()
    chart: object = go.Figure(go.Box(x=frame["kind"], y=frame["value"]))
    if library == "altair":
        chart = altair.Chart(frame).mark_point().encode(x="value:Q", y="value:Q", color="kind:N")

    whole, *parts = counts(describe_value(chart).body)

    assert whole == pytest.approx(POINTS, rel=0.01)
    assert parts == pytest.approx([1_500, 1_000, 500], rel=0.05)


def test_a_count_is_about_right_where_that_of_one_series_is() -> None:
    frame = groups()
    boxes = go.Box(x=frame["kind"], y=frame["value"])
    points = [go.Scatter(x=["a", "b"], y=[1, 2]), go.Scatter(x=["a"], y=[3])]
    assert "n=3" in describe_value(go.Figure(points)).body
    for traces in ([boxes, *points], [*points, boxes]):
        first, *_ = re.findall(r"n([=≈])(\d+)", describe_value(go.Figure(traces)).body)
        assert first[0] == "≈"
        assert int(first[1]) == pytest.approx(POINTS + 3, rel=0.01)


def test_what_a_long_chart_counts_and_sums_is_estimated_for_all_its_rows_and_said_to_be() -> None:
    chart = altair.Chart(groups()).mark_bar().encode(x="kind:N", y="count()")
    sums = altair.Chart(groups()).mark_bar().encode(x="kind:N", y="sum(value)")

    counted, summed = describe_value(chart).body, describe_value(sums).body

    for text, most in ((counted, 1_500), (summed, 3_750)):
        assert "estimated from 100" in text
        assert "of 3000 rows" in text
        assert float(re.findall(r"max (\d+)\S* at a", text)[0]) == pytest.approx(most, rel=0.05)
