"""Charts of lines, points and bars as their authors would write them down, drawn by four libraries.

A recipe is the data and the words of a chart. What is asked of its text later is worked out from the recipe alone.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Point = tuple[Any, float]


@dataclass(frozen=True)
class Recipe:
    """One chart."""

    kind: str  # line, scatter or bar
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[Point]]
    after: Mapping[str, str] = field(default_factory=dict[str, str])
    """Library to the example of its gallery that the chart is after."""


def _wave(count: int, phase: float, scale: float = 1.0, base: float = 0.0) -> list[Point]:
    return [(at / 2, round(base + scale * math.sin(at / 3 + phase), 4)) for at in range(count)]


def _cloud(count: int, seed: int, center: float) -> list[Point]:
    values = [(seed * 7919 * (at + 3) ** 2 % 1009) / 1009 for at in range(2 * count)]
    return [(round(center + values[at], 3), round(10 * values[count + at] + center, 3)) for at in range(count)]


def _after(*examples: str) -> dict[str, str]:
    """Examples of the galleries of matplotlib, plotly, Altair and bokeh."""
    return dict(zip(("matplotlib", "plotly", "altair", "bokeh"), examples, strict=True))


FRUITS = ("Apples", "Pears", "Nectarines", "Plums", "Grapes", "Strawberries")
YEARS = range(1952, 2008, 5)
MONTHS = [f"2024-{month:02}-01" for month in range(1, 13)]

RECIPES: Mapping[str, Recipe] = {
    "two sines": Recipe(
        "line",
        "Simple plot",
        "time (s)",
        "voltage (mV)",
        {"sin": _wave(60, 0), "cos": _wave(60, 1.57)},
        _after("lines_bars_and_markers/simple_plot", "line-charts", "simple_line_chart", "basic/annotations/legend"),
    ),
    "fruit counts": Recipe(
        "bar",
        "Fruit Counts",
        "fruit",
        "count",
        {"": list(zip(FRUITS, (5, 3, 4, 2, 7, 6), strict=True))},
        _after("lines_bars_and_markers/bar_colors", "bar-charts", "simple_bar_chart", "basic/bars/basic"),
    ),
    "life expectancy": Recipe(
        "line",
        "Life expectancy",
        "year",
        "life expectancy (years)",
        {
            "Australia": [(year, 69.1 + 0.22 * (year - 1952)) for year in YEARS],
            "New Zealand": [(year, 69.4 + 0.19 * (year - 1952)) for year in YEARS],
        },
        {"plotly": "line-charts"},
    ),
    "irises": Recipe(
        "scatter",
        "Iris",
        "sepal length (cm)",
        "sepal width (cm)",
        {"setosa": _cloud(50, 3, 4.3), "versicolor": _cloud(50, 5, 4.9), "virginica": _cloud(50, 11, 5.8)},
        _after(
            "lines_bars_and_markers/scatter_with_legend",
            "line-and-scatter",
            "scatter_tooltips",
            "basic/data/transform_markers",
        ),
    ),
    "stock price": Recipe(
        "line",
        "Google stock",
        "date",
        "price (USD)",
        {"": [(day, 95.0 + 7 * at) for at, day in enumerate(MONTHS)]},
        _after("text_labels_and_annotations/date", "time-series", "multi_series_line", "topics/timeseries/range_tool"),
    ),
    "one reading": Recipe("scatter", "A sensor", "height (m)", "pressure (hPa)", {"": _cloud(200, 13, 2.0)}),
    "losses": Recipe(
        "line",
        "Training",
        "epoch",
        "loss",
        {
            "train": [(at, round(2.5 / (at + 1), 4)) for at in range(30)],
            "valid": [(at, round(2.7 / (at + 1) + 0.1, 4)) for at in range(30)],
        },
    ),
    "cities": Recipe(
        "bar", "People", "city", "people (millions)", {"": [("Oslo", 0.7), ("Rome", 2.8), ("Cairo", 10.2)]}
    ),
    "negative": Recipe(
        "line", "Balance", "day", "balance (EUR)", {"a": _wave(25, 2, 900, -400), "b": _wave(25, 4, 80)}
    ),
    "four groups": Recipe(
        "scatter", "Groups", "x", "y", {name: _cloud(15, at + 2, at) for at, name in enumerate("pqrs")}
    ),
}


def rows_of(recipe: Recipe) -> dict[str, list[Any]]:
    """The data as one long table."""
    rows = [(x, y, name) for name, points in recipe.series.items() for x, y in points]
    return {"x": [row[0] for row in rows], "y": [row[1] for row in rows], "group": [row[2] for row in rows]}


def with_matplotlib(recipe: Recipe) -> object:
    import matplotlib.dates
    import matplotlib.figure
    import numpy as np

    figure = matplotlib.figure.Figure()
    axes = figure.add_subplot()
    for name, points in recipe.series.items():
        x, y = zip(*points, strict=True)
        x = np.array(x, "datetime64[D]") if x[0] in MONTHS else x
        draw = {"line": axes.plot, "scatter": axes.scatter, "bar": axes.bar}[recipe.kind]
        draw(x, y, **({"label": name} if name else {}))
    axes.set(title=recipe.title, xlabel=recipe.x, ylabel=recipe.y)
    return figure


def with_plotly(recipe: Recipe) -> object:
    import plotly.graph_objects as go

    figure = go.Figure()
    for name, points in recipe.series.items():
        x, y = (list(values) for values in zip(*points, strict=True))
        if recipe.kind == "bar":
            figure.add_trace(go.Bar(x=x, y=y, name=name))
        else:
            figure.add_trace(go.Scatter(x=x, y=y, name=name, mode="lines" if recipe.kind == "line" else "markers"))
    return figure.update_layout(title=recipe.title, xaxis_title=recipe.x, yaxis_title=recipe.y)


def with_altair(recipe: Recipe) -> object:
    import altair
    import pandas

    kinds = {"line": "mark_line", "scatter": "mark_point", "bar": "mark_bar"}
    first = next(iter(recipe.series.values()))[0][0]
    letter = "T" if first in MONTHS else "N" if isinstance(first, str) else "Q"
    channels = {"x": altair.X(f"x:{letter}", title=recipe.x), "y": altair.Y("y:Q", title=recipe.y)}
    if len(recipe.series) > 1:
        channels["color"] = altair.Color("group:N")
    chart = altair.Chart(pandas.DataFrame(rows_of(recipe)), title=recipe.title)
    return getattr(chart, kinds[recipe.kind])().encode(**channels)


def with_bokeh(recipe: Recipe) -> object:
    import numpy as np
    from bokeh.plotting import figure

    first = next(iter(recipe.series.values()))
    words: dict[str, Any] = {"title": recipe.title, "x_axis_label": recipe.x, "y_axis_label": recipe.y}
    if recipe.kind == "bar":
        words["x_range"] = [x for x, _ in first]
    plot = figure(**words)
    for name, points in recipe.series.items():
        x, y = (list(values) for values in zip(*points, strict=True))
        named = {"legend_label": name} if name else {}
        if recipe.kind == "bar":
            plot.vbar(x=x, top=y, width=0.8, **named)
        else:
            shown = np.array(x, "datetime64[D]") if x[0] in MONTHS else x
            getattr(plot, recipe.kind)(shown, y, **named)
    return plot


LIBRARIES: Mapping[str, Callable[[Recipe], object]] = {
    "matplotlib": with_matplotlib,
    "plotly": with_plotly,
    "altair": with_altair,
    "bokeh": with_bokeh,
}


def large_charts() -> dict[str, object]:
    """Charts of more than anybody looks at."""
    import numpy as np
    import pandas as pd
    import plotly.graph_objects as go
    import seaborn

    y = np.sin(np.arange(100_000) / 1_000)
    frame = pd.DataFrame({name: np.roll(y[:300], at) for at, name in enumerate("abcd")})
    return {
        "plotly, 100,000 points": go.Figure(go.Scatter(y=y)),
        "plotly, 100,000 points in a list": go.Figure(go.Scatter(x=list(range(100_000)), y=y.tolist())),
        "seaborn, 16 panels": seaborn.pairplot(frame),
    }
