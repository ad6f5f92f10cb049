"""Charts as text, for models without vision. Start reading at `vibe_jupyter.charts.outputs` and `chart_text`.

Charts of all libraries become the same few values: panels with axes and series, whose data are plain lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vibe_jupyter.charts.columns import NOTHING, DataColumn, column_of, taken, value_text

__all__ = ["CHART_LIMIT", "NOTHING", "Axis", "Chart", "DataColumn", "Panel", "Series", "series_by_category"]

CHART_LIMIT: Final = 400  # characters of one chart's text


@dataclass(frozen=True)
class Axis:
    """An axis, or another channel that shows data, such as color."""

    name: str  # ``x``, ``y``, ``z``, ``color`` or ``size``
    label: str = ""
    column: DataColumn = NOTHING  # all values along the axis
    note: str = ""  # such as ``log``


@dataclass(frozen=True)
class Series:
    """Data drawn together: a line, the points of one color, the bars of one group."""

    kind: str
    name: str = ""
    x: DataColumn = NOTHING
    y: DataColumn = NOTHING
    note: str = ""
    size: int | None = None  # number of data points if they aren't drawn individually, as in a histogram; 0 if unknown

    @property
    def count(self) -> int:
        """Number of data points."""
        return max(self.x.count, self.y.count) if self.size is None else self.size

    @property
    def is_estimate(self) -> bool:
        """True if the number of points is an estimate."""
        return self.size is None and (self.x.is_estimate or self.y.is_estimate)


@dataclass(frozen=True)
class Panel:
    """A pair of axes with the series drawn in it."""

    axes: Sequence[Axis] = ()
    series: Sequence[Series] = ()
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """All panels of one figure."""

    library: str
    panels: Sequence[Panel] = field(default_factory=tuple[Panel, ...])
    title: str = ""


def series_by_category(kind: str, name: str, x: DataColumn, y: DataColumn) -> list[Series]:
    """Split data that is drawn with a box per category into one series per category."""
    found: dict[str, list[int]] = {}
    for place, one in enumerate(x.values):
        found.setdefault(value_text(one), []).append(place)
    return [
        Series(kind, " ".join(filter(None, (name, category))), column_of([category]), taken(y, places))
        for category, places in found.items()
    ]
