"""Charts that are no lines, points or bars, with what their texts must tell; most after their libraries' galleries.

What must be told is worked out from the data that are drawn, never from a description.
"""

from collections.abc import Iterator
from typing import Any

VALUES = [round(20 + 0.13 * (at * 37 % 101) - 0.02 * (at * at % 97), 3) for at in range(300)]
GROUPS = {"setosa": [1.0, 1.4, 1.9, 1.5, 1.3], "virginica": [4.5, 5.1, 6.9, 5.6, 6.1]}
SHARES = {"Frogs": 15, "Hogs": 30, "Dogs": 45, "Logs": 10}
GRID = [[round(row * 1.5 - column * 0.25, 3) for column in range(6)] for row in range(4)]
CELLS = [value for row in GRID for value in row]
YEARS = list(range(2000, 2011))
POPULATION = [round(2.5 * 1.6**at, 2) for at in range(11)]
SPEED = {"north": [12.5, 11.0, 9.5, 8.0, 4.25], "south": [3.0, 4.5, 6.0, 9.0, 14.75]}

Chart = tuple[str, object, list[str]]
"""A name, the chart, and words of its text."""


def number(value: float) -> str:
    """As the texts have it, to five figures."""
    return str(int(value)) if value == int(value) else f"{value:.5g}"


def ends(values: list[Any]) -> str:
    return f"{number(min(values))} … {number(max(values))}"


def with_matplotlib() -> Iterator[Chart]:
    from matplotlib.figure import Figure

    def axes(title: str, x: str = "", y: str = "", **more: Any) -> Any:
        found = Figure().add_subplot()
        found.set(title=title, xlabel=x, ylabel=y, **more)
        return found

    one = axes("Histogram", "speed (km/h)", "count")
    one.hist(VALUES, bins=12)
    yield "histogram", one.figure, ["histogram", '"speed (km/h)"', ends(VALUES), "n=300", "12 bins"]
    one = axes("Box plot", "species", "petal (cm)")
    one.boxplot(list(GROUPS.values()), tick_labels=list(GROUPS))
    yield "box", one.figure, ["box", "setosa, virginica", '"petal (cm)"', "1.4", "5.6"]
    one = axes("Pie")
    one.pie(list(SHARES.values()), labels=list(SHARES), autopct="%d%%")
    yield "pie", one.figure, ["pie", "Frogs, Hogs, Dogs, Logs", "10", "45", "n=4"]
    one = axes("Image", "column", "row")
    one.imshow(GRID)
    yield "heatmap", one.figure, ["image", "4 × 6 cells", number(min(CELLS)), number(max(CELLS))]
    one = axes("Filled", "year", "people (millions)")
    one.fill_between(YEARS, POPULATION)
    yield "area", one.figure, ["area", "2000 … 2010", number(max(POPULATION)), '"people (millions)"']
    one = axes("Error bars", "year", "people (millions)")
    one.errorbar(YEARS, POPULATION, yerr=0.5, label="census")
    yield "error bars", one.figure, ["census: n=11", "error bars", "2000 … 2010", number(max(POPULATION)), "rising"]
    one = axes("Log", "year", "people", yscale="log")
    one.plot(YEARS, POPULATION)
    yield "log axis", one.figure, ["line", "log", ends(POPULATION), "n=11"]
    figure = Figure()
    for place, (name, values) in zip(figure.subplots(1, 2), SPEED.items(), strict=True):
        place.plot(values)
        place.set_title(name)
    yield "facets", figure, ["2 panels", '"north"', '"south"', ends(SPEED["north"]), ends(SPEED["south"])]


def with_seaborn() -> Iterator[Chart]:
    import pandas as pd
    import seaborn

    long = pd.DataFrame([(name, value) for name, all_of in GROUPS.items() for value in all_of], columns=["kind", "cm"])
    grid = seaborn.relplot(long.assign(at=list(range(5)) * 2), x="at", y="cm", col="kind")
    yield "facets", grid, ["2 panels", "kind = setosa", "kind = virginica", "1 … 1.9", "4.5 … 6.9"]
    axes = seaborn.heatmap(pd.DataFrame(GRID), cbar=False)
    yield "heatmap", axes, ["heatmap", "4 × 6 cells", number(min(CELLS)), number(max(CELLS))]
    axes.figure.clear()
    axes = seaborn.histplot(pd.DataFrame({"speed": VALUES}), x="speed", bins=12, ax=axes.figure.add_subplot())
    yield "histogram", axes, ["histogram", '"speed"', ends(VALUES), "n=300", "12 bins"]


def with_plotly() -> Iterator[Chart]:
    import plotly.express as px
    import plotly.graph_objects as go

    figure = px.histogram(x=VALUES, labels={"x": "speed (km/h)"}, title="Histogram")
    yield "histogram", figure, ["histogram", '"speed (km/h)"', ends(VALUES), "n=300"]
    figure = go.Figure([go.Box(y=values, name=name) for name, values in GROUPS.items()])
    yield "box", figure, ["box", "setosa", "virginica", "1 … 1.9", "4.5 … 6.9", "median 1.4", "median 5.6"]
    figure = go.Figure(go.Pie(labels=list(SHARES), values=list(SHARES.values())))
    yield "pie", figure, ["pie", "Frogs", "10", "45", "n=4"]
    figure = go.Figure(go.Heatmap(z=GRID))
    yield "heatmap", figure, ["heatmap", "4 × 6 cells", number(min(CELLS)), number(max(CELLS))]
    figure = go.Figure(go.Scatter(x=YEARS, y=POPULATION, fill="tozeroy"), {"yaxis_title": "people (millions)"})
    yield "area", figure, ["area", "2000 … 2010", ends(POPULATION), '"people (millions)"', "rising"]
    figure = px.scatter(x=YEARS, y=POPULATION, error_y=[0.5] * 11)
    yield "error bars", figure, ["scatter", "error bars", "2000 … 2010", ends(POPULATION)]
    figure = px.line(x=YEARS, y=POPULATION, log_y=True, labels={"y": "people"})
    yield "log axis", figure, ["line", "log", ends(POPULATION), '"people"']
    rows = {"at": list(range(5)) * 2, "v": [*SPEED["north"], *SPEED["south"]], "side": ["north"] * 5 + ["south"] * 5}
    figure = px.line(rows, x="at", y="v", facet_col="side")
    yield "facets", figure, ["2 panels", ends(SPEED["north"]), ends(SPEED["south"])]


def with_altair() -> Iterator[Chart]:
    import altair as alt
    import pandas as pd

    speeds = alt.Chart(pd.DataFrame({"speed": VALUES}), title="Histogram")
    histogram = speeds.mark_bar().encode(alt.X("speed:Q", bin=True), y="count()")
    yield "histogram", histogram, ["histogram", "speed (binned)", ends(VALUES)]
    long = pd.DataFrame([(name, value) for name, all_of in GROUPS.items() for value in all_of], columns=["kind", "cm"])
    box = alt.Chart(long).mark_boxplot().encode(x="kind:N", y="cm:Q")
    yield "box", box, ["boxplot", "setosa, virginica", "1 … 6.9", "n=10"]
    shares = pd.DataFrame({"name": list(SHARES), "share": list(SHARES.values())})
    pie = alt.Chart(shares).mark_arc().encode(theta="share:Q", color="name:N")
    yield "pie", pie, ["pie", "Frogs", "10 … 45", "n=4"]
    found = [(row, column, value) for row, values in enumerate(GRID) for column, value in enumerate(values)]
    cells = pd.DataFrame(found, columns=list("rcv"))
    grid = alt.Chart(cells).mark_rect().encode(x="c:O", y="r:O", color="v:Q")
    yield "heatmap", grid, ["heatmap", number(min(CELLS)), number(max(CELLS)), "n=24"]
    years = pd.DataFrame({"year": YEARS, "people": POPULATION})
    area = alt.Chart(years).mark_area().encode(x="year:Q", y="people:Q")
    yield "area", area, ["area", "2000 … 2010", ends(POPULATION), "rising"]
    log = alt.Chart(years).mark_line().encode(x="year:Q", y=alt.Y("people:Q").scale(type="log"))
    yield "log axis", log, ["line", "log", ends(POPULATION), "n=11"]
    found = [(name, at, value) for name, values in SPEED.items() for at, value in enumerate(values)]
    sides = pd.DataFrame(found, columns=["side", "at", "v"])
    facets = alt.Chart(sides).mark_line().encode(x="at:Q", y="v:Q", column="side:N")
    yield "facets", facets, ["column", "north, south", "3 … 14.75"]


def with_bokeh() -> Iterator[Chart]:
    import numpy as np
    from bokeh.layouts import row
    from bokeh.plotting import figure

    counts, edges = np.histogram(VALUES, bins=12)
    plot = figure(title="Histogram", x_axis_label="speed (km/h)")
    plot.quad(top=counts, bottom=0, left=edges[:-1], right=edges[1:])
    yield "histogram", plot, ["histogram", '"speed (km/h)"', ends(VALUES), number(max(counts))]
    plot = figure(title="Area")
    plot.varea(x=YEARS, y1=[0] * 11, y2=POPULATION)
    yield "area", plot, ["area", "2000 … 2010", number(max(POPULATION))]
    plot = figure(title="Log", y_axis_type="log", y_axis_label="people")
    plot.line(YEARS, POPULATION)
    yield "log axis", plot, ["line", '"people"', "log", ends(POPULATION), "rising"]
    plots = [figure(title=name) for name in SPEED]
    for one, values in zip(plots, SPEED.values(), strict=True):
        one.line(range(5), values)
    yield "facets", row(*plots), ["2 panels", '"north"', '"south"', ends(SPEED["north"]), ends(SPEED["south"])]


LIBRARIES = {
    "matplotlib": with_matplotlib,
    "seaborn": with_seaborn,
    "plotly": with_plotly,
    "altair": with_altair,
    "bokeh": with_bokeh,
}
