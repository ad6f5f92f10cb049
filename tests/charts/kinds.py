"""Charts of many kinds, each with the questions that its text must answer; most are after their libraries' galleries.

The data are ours. What is asked is made of them by `tests.charts.questions`.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.charts.questions import (
    Answers,
    Point,
    of_boxes,
    of_grid,
    of_histogram,
    of_panels,
    of_points,
    of_shares,
    of_values,
)

VALUES = [round(20 + 0.13 * (at * 37 % 101) - 0.02 * (at * at % 97), 3) for at in range(300)]
EDGES = [18 + 1.25 * at for at in range(13)]
GROUPS = {"setosa": [1.0, 1.4, 1.9, 1.5, 1.3], "virginica": [4.5, 5.1, 6.9, 5.6, 6.1]}
SHARES = {"Frogs": 15, "Hogs": 30, "Dogs": 45, "Logs": 10}
CROPS = ["cucumber", "tomato", "lettuce", "asparagus", "potato", "wheat"]
FARMERS = ["Joe", "Upland", "Smith", "Agrifun"]
GRID = [[round(row * 1.5 - column * 0.25, 3) for column in range(6)] for row in range(4)]
PEOPLE: list[Point] = [(2000 + at, round(2.5 * 1.6**at, 2)) for at in range(11)]
YEARS, POPULATION = [x for x, _ in PEOPLE], [y for _, y in PEOPLE]
SPEED = {"north": [12.5, 11.0, 9.5, 8.0, 4.25], "south": [3.0, 4.5, 6.0, 9.0, 14.75]}
SPEED_POINTS: dict[str, list[Point]] = {name: list(enumerate(values)) for name, values in SPEED.items()}
SCORES: list[Point] = [("Tom", 8.5), ("Dick", 6.25), ("Harry", 11.5), ("Slim", 3.75)]
SALES: dict[str, list[Point]] = {
    "men": [("G1", 20.0), ("G2", 34.0), ("G3", 30.0), ("G4", 35.5)],
    "women": [("G1", 25.0), ("G2", 32.0), ("G3", 33.5), ("G4", 20.5)],
}
DAYS: list[Point] = [(f"2024-03-{at:02}", 300.0 - at * (31 - at)) for at in range(1, 31)]
LONG = [(name, at, value) for name, values in SPEED.items() for at, value in enumerate(values)]
CENTIMETERS = [(name, value) for name, values in GROUPS.items() for value in values]


class Drawn(NamedTuple):
    """A chart."""

    name: str
    after: str
    """The example of its library's gallery that it is after; empty where it is after none."""
    chart: object
    asked: Answers


def with_matplotlib() -> Iterator[Drawn]:
    from matplotlib.figure import Figure

    def axes(title: str, x: str = "", y: str = "", **more: Any) -> Any:
        found = Figure().add_subplot()
        found.set(title=title, xlabel=x, ylabel=y, **more)
        return found

    yield from _figures_of_counts(axes)
    yield from _figures_of_points(axes)
    figure, panels = Figure(), {}
    for place, (name, points) in zip(figure.subplots(1, 2), SPEED_POINTS.items(), strict=True):
        place.plot([x for x, _ in points], [y for _, y in points])
        place.set(title=name, xlabel="time (h)", ylabel="speed (m/s)")
        panels[name] = of_points("line", name, ("time (h)", "speed (m/s)"), {"": points})
    yield Drawn("facets", "subplots_axes_and_figures/subplots_demo", figure, of_panels(panels))


def _figures_of_counts(axes: Any) -> Iterator[Drawn]:
    words = ("Histogram", "speed (km/h)", "count")
    one = axes(*words)
    one.hist(VALUES, bins=EDGES)
    asked = of_histogram(words[0], words[1:], VALUES, EDGES)
    yield Drawn("histogram", "statistics/histogram_features", one.figure, asked)
    words = ("Fruit weights", "species", "petal (cm)")
    one = axes(*words)
    one.boxplot(list(GROUPS.values()), tick_labels=list(GROUPS), patch_artist=True)
    yield Drawn("box", "statistics/boxplot_color", one.figure, of_boxes(words[0], words[1:], GROUPS))
    one = axes("Pie")
    one.pie(list(SHARES.values()), labels=list(SHARES), autopct="%d%%")
    yield Drawn("pie", "pie_and_polar_charts/pie_features", one.figure, of_shares("Pie", SHARES))
    words = ("Harvest (tons/year)", "crop", "farmer")
    one = axes(*words)
    one.imshow(GRID)
    one.set_xticks(range(6), labels=CROPS)
    one.set_yticks(range(4), labels=FARMERS)
    asked = of_grid("image", words[0], words[1:], (CROPS, FARMERS), GRID)
    yield Drawn(
        "heatmap", "images_contours_and_fields/image_annotated_heatmap", one.figure, {**asked, "cells": "4 × 6"}
    )
    words = ("A matrix", "column", "row")
    one = axes(*words)
    one.figure.colorbar(one.pcolormesh(GRID), label="heat (K)")
    asked = of_grid("heatmap", words[0], words[1:], ([0.5, 5.5], [0.5, 3.5]), GRID)
    asked = {**asked, "cells": "4 × 6", "color label": "heat (K)", "color unit": "K"}
    yield Drawn("mesh", "images_contours_and_fields/pcolormesh_levels", one.figure, asked)


def _figures_of_points(axes: Any) -> Iterator[Drawn]:
    words = ("World", "year", "people (millions)")
    one = axes(*words)
    one.fill_between(YEARS, POPULATION)
    asked = of_points("area", words[0], words[1:], {"": PEOPLE})
    yield Drawn("area", "lines_bars_and_markers/fill_between_demo", one.figure, asked)
    one = axes(*words)
    one.errorbar(YEARS, POPULATION, yerr=0.5, label="census")
    asked = {**of_points("line", words[0], words[1:], {"": PEOPLE}), "error bars": True, "rising": True}
    yield Drawn("error bars", "statistics/errorbar_features", one.figure, asked)
    one = axes(*words, yscale="log")
    one.plot(YEARS, POPULATION)
    asked = {**of_points("line", words[0], words[1:], {"": PEOPLE}), "y scale": "log", "rising": True}
    yield Drawn("log axis", "scales/log_demo", one.figure, asked)
    words = ("How fast do you want to go today?", "performance (s)", "person")
    one = axes(*words)
    one.barh([x for x, _ in SCORES], [y for _, y in SCORES])
    asked = of_points("horizontal bar", words[0], words[1:], {"": SCORES})
    yield Drawn("horizontal bars", "lines_bars_and_markers/barh", one.figure, asked)
    words = ("Scores by group", "group", "score (points)")
    one = axes(*words)
    for at, (name, points) in enumerate(SALES.items()):
        one.bar([place + 0.4 * at for place in range(4)], [y for _, y in points], 0.4, label=name)
    one.set_xticks(range(4), [x for x, _ in SALES["men"]])
    yield Drawn(
        "grouped bars", "lines_bars_and_markers/barchart", one.figure, of_points("bar", words[0], words[1:], SALES)
    )


def with_seaborn() -> Iterator[Drawn]:
    import pandas as pd
    import seaborn
    from matplotlib.figure import Figure

    long = pd.DataFrame([(name, at % 5, cm) for at, (name, cm) in enumerate(CENTIMETERS)], columns=["kind", "at", "cm"])
    grid = seaborn.relplot(long, x="at", y="cm", col="kind", facet_kws={"sharey": False})
    panels = {
        f"kind = {name}": of_points(
            "scatter", "", ("at", "cm" if name == "setosa" else ""), {"": list(enumerate(values))}
        )
        for name, values in GROUPS.items()
    }
    yield Drawn("facets", "faceted_lineplot", grid, of_panels(panels))

    axes = Figure().add_subplot(title="Flights", xlabel="crop", ylabel="farmer")
    seaborn.heatmap(pd.DataFrame(GRID, FARMERS, CROPS), ax=axes, cbar=False)
    axes.set(xlabel="crop", ylabel="farmer")
    asked = of_grid("heatmap", "Flights", ("crop", "farmer"), (CROPS, FARMERS), GRID)
    yield Drawn("heatmap", "spreadsheet_heatmap", axes, {**asked, "cells": "4 × 6"})

    axes = Figure().add_subplot(title="Speeds")
    seaborn.histplot(pd.DataFrame({"speed (km/h)": VALUES}), x="speed (km/h)", bins=EDGES, ax=axes)
    yield Drawn(
        "histogram", "histogram_stacked", axes, of_histogram("Speeds", ("speed (km/h)", "Count"), VALUES, EDGES)
    )

    axes = Figure().add_subplot(title="Petals")
    seaborn.boxplot(long, x="kind", y="cm", ax=axes)
    yield Drawn("box", "grouped_boxplot", axes, of_boxes("Petals", ("kind", "cm"), GROUPS))

    axes = Figure().add_subplot(title="Sides")
    seaborn.scatterplot(
        pd.DataFrame(LONG, columns=["side", "at (h)", "speed"]), x="at (h)", y="speed", hue="side", ax=axes
    )
    asked = of_points("scatter", "Sides", ("at (h)", "speed"), SPEED_POINTS)
    yield Drawn("groups", "different_scatter_variables", axes, asked)

    axes = Figure().add_subplot(title="Scores")
    seaborn.barplot(pd.DataFrame(SCORES, columns=["person", "points"]), x="person", y="points", ax=axes)
    yield Drawn("bars", "color_palettes", axes, of_points("bar", "Scores", ("person", "points"), {"": SCORES}))


def with_pandas() -> Iterator[Drawn]:
    import pandas as pd
    from matplotlib.figure import Figure

    def drawn(frame: Any, kind: str, words: tuple[str, str, str], **more: Any) -> Any:
        axes = Figure().add_subplot()
        frame.plot(kind=kind, ax=axes, title=words[0], **more)
        axes.set(xlabel=words[1], ylabel=words[2])
        return axes

    words = ("Sides", "time (h)", "speed (m/s)")
    chart = drawn(pd.DataFrame(SPEED), "line", words)
    yield Drawn("lines", "", chart, of_points("line", words[0], words[1:], SPEED_POINTS))
    words = ("Scores", "points", "person")
    series = pd.Series(dict(SCORES))
    asked = of_points("horizontal bar", words[0], words[1:], {"": SCORES})
    yield Drawn("horizontal bars", "", drawn(series, "barh", words), asked)
    words = ("Petals", "species", "petal (cm)")
    yield Drawn("box", "", drawn(pd.DataFrame(GROUPS), "box", words), of_boxes(words[0], words[1:], GROUPS))
    words = ("Speeds", "speed (km/h)", "cars")
    chart = drawn(pd.Series(VALUES), "hist", words, bins=EDGES)
    yield Drawn("histogram", "", chart, of_histogram(words[0], words[1:], VALUES, EDGES))
    words = ("World", "year", "people (millions)")
    chart = drawn(pd.DataFrame(PEOPLE, columns=["year", "people"]), "scatter", words, x="year", y="people")
    yield Drawn("points", "", chart, of_points("scatter", words[0], words[1:], {"": PEOPLE}))


def with_plotly() -> Iterator[Drawn]:
    import plotly.express as px
    import plotly.graph_objects as go

    words = {"title": "World", "labels": {"x": "year", "y": "people (millions)"}}
    labels = ("year", "people (millions)")

    figure = go.Figure(go.Histogram(x=VALUES, xbins={"start": 18, "size": 1.25}), {"title": "Speeds"})
    figure.update_layout(xaxis_title="speed (km/h)", yaxis_title="cars")
    asked = of_values("Speeds", ("speed (km/h)", "cars"), VALUES, **{"bin width": 1.25})
    yield Drawn("histogram", "histograms", figure, asked)
    figure = px.box(x=[name for name, _ in CENTIMETERS], y=[cm for _, cm in CENTIMETERS], title="Petals")
    figure.update_layout(xaxis_title="species", yaxis_title="petal (cm)")
    yield Drawn("box", "box-plots", figure, of_boxes("Petals", ("species", "petal (cm)"), GROUPS, points=10))
    figure = go.Figure(go.Pie(labels=list(SHARES), values=list(SHARES.values())), {"title": "Pets"})
    yield Drawn("pie", "pie-charts", figure, of_shares("Pets", SHARES))
    figure = px.imshow(GRID, x=CROPS, y=FARMERS, labels={"x": "crop", "y": "farmer", "color": "tons"}, title="Harvest")
    asked = of_grid("heatmap", "Harvest", ("crop", "farmer"), (CROPS, FARMERS), GRID)
    yield Drawn("heatmap", "heatmaps", figure, {**asked, "cells": "4 × 6"})
    figure = px.area(x=YEARS, y=POPULATION, **words)
    yield Drawn("area", "filled-area-plots", figure, of_points("area", "World", labels, {"": PEOPLE}))
    figure = px.scatter(x=YEARS, y=POPULATION, error_y=[0.5] * 11, **words)
    asked = {**of_points("scatter", "World", labels, {"": PEOPLE}), "error bars": True}
    yield Drawn("error bars", "error-bars", figure, asked)
    figure = px.line(x=YEARS, y=POPULATION, log_y=True, **words)
    asked = {**of_points("line", "World", labels, {"": PEOPLE}), "y scale": "log", "rising": True}
    yield Drawn("log axis", "log-plot", figure, asked)
    rows = {"at": [at for _, at, _ in LONG], "v": [v for _, _, v in LONG], "side": [side for side, _, _ in LONG]}
    figure = px.line(rows, x="at", y="v", facet_col="side")
    panels = {
        f"side={name}": of_points("line", "", ("at", "v" if name == "north" else ""), {"": points})
        for name, points in SPEED_POINTS.items()
    }
    yield Drawn("facets", "facet-plots", figure, of_panels(panels))
    figure = px.bar(x=[y for _, y in SCORES], y=[x for x, _ in SCORES], orientation="h", title="Scores")
    figure.update_layout(xaxis_title="points", yaxis_title="person")
    asked = of_points("horizontal bar", "Scores", ("points", "person"), {"": SCORES})
    yield Drawn("horizontal bars", "horizontal-bar-charts", figure, asked)
    figure = go.Figure(layout={"title": "Sales", "xaxis_title": "group", "yaxis_title": "sales (EUR)"})
    for name, points in SALES.items():
        figure.add_bar(x=[x for x, _ in points], y=[y for _, y in points], name=name)
    yield Drawn("grouped bars", "bar-charts", figure, of_points("bar", "Sales", ("group", "sales (EUR)"), SALES))
    figure = px.line(x=[day for day, _ in DAYS], y=[price for _, price in DAYS], title="Stock")
    figure.update_layout(xaxis_title="day", yaxis_title="price (USD)")
    yield Drawn("days", "time-series", figure, of_points("line", "Stock", ("day", "price (USD)"), {"": DAYS}))


def with_altair() -> Iterator[Drawn]:
    import altair as alt
    import pandas as pd

    speeds = alt.Chart(pd.DataFrame({"speed": VALUES}), title="Speeds")
    chart = speeds.mark_bar().encode(alt.X("speed:Q", bin=True, title="speed (km/h)"), y="count()")
    asked = of_values("Speeds", ("speed (km/h)", "Count of Records"), VALUES)
    yield Drawn("histogram", "simple_histogram", chart, asked)
    long = pd.DataFrame(CENTIMETERS, columns=["kind", "cm"])
    chart = alt.Chart(long, title="Petals").mark_boxplot().encode(x="kind:N", y="cm:Q")
    yield Drawn("box", "boxplot", chart, of_boxes("Petals", ("kind", "cm"), GROUPS, points=10))
    shares = pd.DataFrame({"name": list(SHARES), "share": list(SHARES.values())})
    chart = alt.Chart(shares, title="Pets").mark_arc().encode(theta="share:Q", color="name:N")
    yield Drawn("pie", "pie_chart", chart, of_shares("Pets", SHARES, ("color", "theta")))
    places = itertools.product(range(4), range(6))
    cells = pd.DataFrame(
        [(FARMERS[row], CROPS[at], GRID[row][at]) for row, at in places], columns=["farmer", "crop", "t"]
    )
    chart = alt.Chart(cells, title="Harvest").mark_rect().encode(x="crop:N", y="farmer:N", color="t:Q")
    asked = of_grid("heatmap", "Harvest", ("crop", "farmer"), (CROPS, FARMERS), GRID)
    yield Drawn("heatmap", "simple_heatmap", chart, asked)
    years = alt.Chart(pd.DataFrame(PEOPLE, columns=["year", "people"]), title="World")
    y = alt.Y("people:Q", title="people (millions)")
    asked = of_points("area", "World", ("year", "people (millions)"), {"": PEOPLE})
    yield Drawn("area", "area_chart_gradient", years.mark_area().encode(x="year:Q", y=y), {**asked, "rising": True})
    chart = years.mark_line().encode(x="year:Q", y=y.scale(type="log"))
    yield Drawn("log axis", "line_with_log_scale", chart, {**asked, "kind": "line", "y scale": "log"})
    sides = alt.Chart(pd.DataFrame(LONG, columns=["side", "at", "v"]), title="Sides")
    panels = {name: of_points("line", "", ("at", "v"), {"": points}) for name, points in SPEED_POINTS.items()}
    chart = sides.mark_line().encode(x="at:Q", y="v:Q", column="side:N")
    yield Drawn("facets", "trellis_area", chart, of_panels(panels))
    chart = sides.mark_line().encode(x="at:Q", y="v:Q", color="side:N")
    yield Drawn("lines", "multi_series_line", chart, of_points("line", "Sides", ("at", "v"), SPEED_POINTS))
    points = pd.DataFrame([("x", *one) for one in SCORES for _ in range(2)], columns=["of", "person", "points"])
    chart = alt.Chart(points, title="Scores").mark_bar().encode(x="person:N", y="mean(points):Q")
    asked = of_points("bar", "Scores", ("person", "Mean of points"), {"": SCORES})
    yield Drawn("means", "bar_chart_with_mean_line", chart, asked)


def with_bokeh() -> Iterator[Drawn]:
    import numpy as np
    from bokeh.layouts import row
    from bokeh.plotting import figure

    def plot(title: str, x: str, y: str, **more: Any) -> Any:
        return figure(title=title, x_axis_label=x, y_axis_label=y, **more)

    words = ("Speeds", "speed (km/h)", "cars")
    counts, _ = np.histogram(VALUES, bins=EDGES)
    chart = plot(*words)
    chart.quad(top=counts, bottom=0, left=EDGES[:-1], right=EDGES[1:])
    yield Drawn("histogram", "topics/stats/histogram", chart, of_histogram(words[0], words[1:], VALUES, EDGES))
    words = ("World", "year", "people (millions)")
    chart = plot(*words)
    chart.varea(x=YEARS, y1=[0] * 11, y2=POPULATION)
    yield Drawn("area", "basic/areas/vareas", chart, of_points("area", words[0], words[1:], {"": PEOPLE}))
    chart = plot(*words, y_axis_type="log")
    chart.line(YEARS, POPULATION)
    asked = {**of_points("line", words[0], words[1:], {"": PEOPLE}), "y scale": "log", "rising": True}
    yield Drawn("log axis", "basic/lines/logplot", chart, asked)
    panels, plots = {}, []
    for name, points in SPEED_POINTS.items():
        chart = plot(name, "time (h)", "speed (m/s)")
        chart.line([x for x, _ in points], [y for _, y in points])
        panels[name] = of_points("line", name, ("time (h)", "speed (m/s)"), {"": points})
        plots.append(chart)
    yield Drawn("facets", "basic/layouts/grid", row(*plots), of_panels(panels))
    words = ("Scores", "points", "person")
    chart = plot(*words, y_range=[x for x, _ in SCORES])
    chart.hbar(y=[x for x, _ in SCORES], right=[y for _, y in SCORES], height=0.4)
    asked = of_points("horizontal bar", words[0], words[1:], {"": SCORES})
    yield Drawn("horizontal bars", "basic/bars/hbar", chart, asked)
    words = ("Sides", "time (h)", "speed (m/s)")
    chart = plot(*words)
    for name, points in SPEED_POINTS.items():
        chart.scatter([x for x, _ in points], [y for _, y in points], legend_label=name)
    yield Drawn("groups", "basic/annotations/legend", chart, of_points("scatter", words[0], words[1:], SPEED_POINTS))


def with_holoviews() -> Iterator[Drawn]:
    """Drawn where holoviews is installed, beside the other large libraries (tests/variables/heavy_libraries.py)."""
    import holoviews as hv
    import numpy as np

    year, people = hv.Dimension("year"), hv.Dimension("people", unit="millions")
    labels = ("year", "people (millions)")
    for kind, element, example in (
        ("line", hv.Curve, "demos/bokeh/lorenz_attractor_example"),
        ("scatter", hv.Scatter, "demos/bokeh/scatter_economic"),
        ("area", hv.Area, "demos/bokeh/area_chart"),
    ):
        asked = of_points(kind, "World", labels, {"": PEOPLE})
        yield Drawn(kind, example, element(PEOPLE, year, people, label="World"), asked)
    chart = hv.Bars(SCORES, "person", hv.Dimension("points", unit="of 12"), label="Scores")
    asked = of_points("bar", "Scores", ("person", "points (of 12)"), {"": SCORES})
    yield Drawn("bars", "demos/bokeh/bar_chart", chart, asked)
    time, speed = hv.Dimension("time", unit="h"), hv.Dimension("speed", unit="m/s")
    curves = {name: hv.Curve(points, time, speed) for name, points in SPEED_POINTS.items()}
    asked = of_points("line", "", ("time (h)", "speed (m/s)"), SPEED_POINTS)
    yield Drawn("lines", "demos/bokeh/us_unemployment", hv.NdOverlay(curves, "side"), asked)
    panels = {
        name: of_points("line", name, ("time (h)", "speed (m/s)"), {"": points})
        for name, points in SPEED_POINTS.items()
    }
    both = [hv.Curve(points, time, speed, label=name) for name, points in SPEED_POINTS.items()]
    yield Drawn("beside", "", both[0] + both[1], of_panels(panels))
    chart = hv.Histogram(np.histogram(VALUES, bins=EDGES), kdims=hv.Dimension("speed", unit="km/h"), label="Speeds")
    asked = of_histogram("Speeds", ("speed (km/h)", "Frequency"), VALUES, EDGES)
    yield Drawn("histogram", "demos/bokeh/histogram_example", chart, asked)
    cells = [(CROPS[at], FARMERS[row], GRID[row][at]) for row in range(4) for at in range(6)]
    asked = of_grid("heatmap", "Harvest", ("crop", "farmer"), (CROPS, FARMERS), GRID)
    chart = hv.HeatMap(cells, ["crop", "farmer"], "tons", label="Harvest")
    yield Drawn("heatmap", "demos/bokeh/measles_example", chart, asked)
    chart = hv.BoxWhisker(CENTIMETERS, "species", hv.Dimension("petal", unit="cm"), label="Petals")
    yield Drawn("box", "demos/bokeh/boxplot_chart", chart, of_boxes("Petals", ("species", "petal (cm)"), GROUPS))


LIBRARIES = {
    "matplotlib": with_matplotlib,
    "seaborn": with_seaborn,
    "pandas": with_pandas,
    "plotly": with_plotly,
    "altair": with_altair,
    "bokeh": with_bokeh,
}
