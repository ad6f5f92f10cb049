"""Text of a chart: as much as fits, most important first."""

from collections.abc import Iterable, Sequence
from typing import Final

from vibe_jupyter.charts import CHART_LIMIT, Axis, Chart, Panel, Series
from vibe_jupyter.charts.columns import (
    DataColumn,
    extremes_of,
    joined_column,
    median_of,
    range_text,
    trend_of,
    value_text,
)

_LEVELS: Final = 5  # from all facts about each series, to only their names, to no series
_LEAST_PANEL: Final = 40  # characters; no panel text is shorter
_TITLE: Final = 60
_LABEL: Final = 40
_NAME: Final = 24
_DISTRIBUTIONS: Final = ("histogram", "box", "horizontal box", "violin", "strip", "density", "kde")
_MOST_SERIES: Final = 40


def chart_text(chart: Chart) -> str:
    """Describe a chart in at most `CHART_LIMIT` characters.

    Includes the kind, axes with labels and ranges, and series with n, extremes and trend.
    """
    title = f" {_quoted(chart.title, _TITLE)}" if chart.title else ""
    head = f"{chart.library}{title}"
    if not chart.panels:
        return f"{head} chart without data"[:CHART_LIMIT]
    if len(chart.panels) == 1:
        return _best_fit(f"{head} {_panel_text(chart.panels[0], level)}" for level in range(_LEVELS))
    head = f"{head} {len(chart.panels)} panels: "
    for level in range(_LEVELS if len(chart.panels) * _LEAST_PANEL <= CHART_LIMIT else 0):
        text = head + " | ".join(f"[{at}] {_panel_text(one, level)}" for at, one in enumerate(chart.panels, 1))
        if len(text) <= CHART_LIMIT:
            return text
    return _first_panels(head, chart.panels)


def _first_panels(head: str, panels: Sequence[Panel]) -> str:
    text = head
    for at, panel in enumerate(panels, 1):
        piece = f"[{at}] {_panel_text(panel, _LEVELS - 1)}"
        note = f" | … {len(panels) - at + 1} more"
        if len(text) + len(piece) + len(note) + 3 > CHART_LIMIT:
            return (text.removesuffix(" | ") + note)[:CHART_LIMIT]
        text += piece + " | "
    return text.removesuffix(" | ")


def _best_fit(texts: Iterable[str]) -> str:
    last = ""
    for last in texts:
        if len(last) <= CHART_LIMIT:
            return last
    return last[: CHART_LIMIT - 1] + "…"


def _panel_text(panel: Panel, level: int) -> str:
    kinds = dict.fromkeys(series.kind for series in panel.series)
    kind = "+".join(list(kinds)[:4]) or "empty chart"
    parts = [f"{kind} {_quoted(panel.title, _TITLE)}" if panel.title else kind]
    parts += filter(None, (_axis_text(axis, level) for axis in panel.axes))
    parts += filter(None, [_series_text(panel.series, level, one_kind=len(kinds) == 1), panel.note])
    return "; ".join(parts)


def _axis_text(axis: Axis, level: int) -> str:
    label = f" {_quoted(axis.label, _LABEL if level < _LEVELS - 1 else _NAME)}" if axis.label else ""
    extent = range_text(axis.column)
    note = f" ({axis.note})" if axis.note else ""
    return f"{axis.name}{label}{' ' if extent else ''}{extent}{note}" if label or extent else ""


def _series_text(series: Sequence[Series], level: int, *, one_kind: bool) -> str:
    count = _count_text(series)
    if len(series) == 1:
        name = f"{_cut_text(series[0].name, _NAME)}: " if series[0].name else ""
        facts = _facts(series[0], min(level, 2))
        return f"{name}{count}{_after(facts)}" if count else f"{name}{facts}"
    if not series:
        return ""
    head = f"{len(series)} series{_after(count)}"
    if level == _LEVELS - 1:
        return f"{head}: {_names_of(series, 3)}{_after(_overall_extremes(series))}"
    if level == _LEVELS - 2:
        return f"{head}: {_names_of(series, _MOST_SERIES)}{_after(_overall_extremes(series))}"
    return f"{head}: " + "; ".join(_one_of_many(one, level, one_kind=one_kind) for one in series)


def _count_text(series: Sequence[Series]) -> str:
    """Return ``n=150``, ``n≈1040`` for an estimate, or "" if unknown."""
    total = sum(one.count for one in series)
    return f"n{'≈' if any(one.is_estimate for one in series) else '='}{total}" if total else ""


def _after(text: str) -> str:
    return f", {text}" if text else ""


def _names_of(series: Sequence[Series], most: int) -> str:
    names = [_cut_text(one.name, _NAME) or one.kind for one in series]
    shown = ", ".join(names[:most])
    return f"{shown}, … {len(names) - most} more" if len(names) > most else shown


def _one_of_many(series: Series, level: int, *, one_kind: bool) -> str:
    name = _cut_text(series.name, _NAME)
    kind = "" if one_kind and name else series.kind
    count = _count_text([series]) if level == 0 else ""
    facts = _facts(series, level)
    return " ".join(filter(None, (name, f"({kind})" if name and kind else kind, count, facts)))


def _facts(series: Series, level: int) -> str:
    column, other = (series.y, series.x) if series.y.values else (series.x, DataColumn())
    if column.kind == "text" and other.kind != "text":
        column, other = other, column
    facts: list[str] = []
    if column.kind != "text" and column.low is not None:
        places = DataColumn() if series.kind in _DISTRIBUTIONS else other
        facts.append(_extremes_text(column, places, level))
    are_counts = series.kind == "histogram" and column is series.y
    middle = median_of(column) if series.kind in _DISTRIBUTIONS and not are_counts else None
    if middle is not None and level < 2:
        facts.append(f"median {value_text(middle)}")
    if other.kind != "text" or series.kind.startswith("line"):
        facts.append(trend_of(other, column) if other.values and series.kind not in _DISTRIBUTIONS else "")
    facts.append(series.note if level < 2 else "")
    return ", ".join(filter(None, facts))


def _extremes_text(column: DataColumn, other: DataColumn, level: int) -> str:
    low_at, high_at = extremes_of(other, column) if level < 2 else (None, None)
    if low_at is None or high_at is None:
        return range_text(column)
    about = "about " if column.is_glance else ""
    low, high = f"{about}{value_text(column.low)}", f"{about}{value_text(column.high)}"
    return f"min {low} at {value_text(low_at)}, max {high} at {value_text(high_at)}"


def _overall_extremes(series: Sequence[Series]) -> str:
    """Return which series has the minimum and which the maximum."""
    known = [one for one in series if one.y.kind == "number" and one.y.known]
    if len(known) < 2:
        return ""
    column = joined_column(one.y for one in known)
    least = next(one for one in known if one.y.low == column.low)
    most = next(one for one in known if one.y.high == column.high)
    low, high = value_text(column.low), value_text(column.high)
    return f"min {low} in {_cut_text(least.name, _NAME)}, max {high} in {_cut_text(most.name, _NAME)}"


def _quoted(text: str, width: int) -> str:
    return f'"{_cut_text(text, width)}"'


def _cut_text(text: str, width: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
